/**
 * Publishes and consumes over the streaming connection: many publishes under way at once, deliveries pushed within a credit, acknowledged one by one and
 * together, some refused, some left; and the connection is closed in the middle of it every so often, which gives back what is left.
 *
 * W1  what is pushed is held to what a claim is: attempts, leases and records (group-ledger.ts)
 * W2  never more than the credit is pushed
 */
import assert from 'node:assert/strict'
import type { Static } from 'typebox'
import type { RefusalCode } from '../../../src/broker/refusals.ts'
import type { AckReply, BatchAckReply, ClaimReply, NackReply } from '../../../src/broker/wire/queue-answers.ts'
import type { PublishReply } from '../../../src/broker/wire/record-answers.ts'
import { eventually } from '../../../test/support/waiting.ts'
import { Actor } from './actor.ts'
import type { Before, Effect, GroupLedger } from './group-ledger.ts'
import { Line } from './line.ts'
import type { LineAnswer } from './line.ts'
import { backlogOf } from './publisher.ts'
import type { Scene } from './scene.ts'

const CREDIT = 40
const LEASE_MS = 3000
const PUBLISHES_MAX = 25
const STALE: ReadonlySet<RefusalCode> = new Set(['lease_expired', 'lease_not_active', 'delivery_not_found'])

type Delivery = Static<typeof ClaimReply>['deliveries'][number]

export class Streamer extends Actor {
  readonly #group: GroupLedger
  #line: Line | null = null
  /** Id of the subscription of this line. */
  #subscription = 0
  /** W2 */
  #credit = 0
  #arrived: Delivery[] = []

  constructor(scene: Scene, group: GroupLedger, seed: number, pauseMs: number) {
    super(scene, seed, pauseMs)
    this.#group = group
    scene.watch(this)
  }

  /** Whether an operation is not answered. What is pushed meanwhile does not count. */
  get isBusy(): boolean {
    return this.#line?.isBusy ?? false
  }

  abandon(): void {
    void this.#line?.close()
  }

  /** As any actor; closing the connection at the end gives its leases back. */
  override async run(): Promise<void> {
    await super.run()
    await this.#line?.close()
  }

  protected async act(): Promise<void> {
    await this.scene.gate.pass()
    if (this.#line?.isOpen !== true) return this.#open()
    if (this.chance(4)) return this.#line.close()
    const line = this.#line
    const arrived = this.#arrived.splice(0)
    const publishes = backlogOf(this.scene, this.#group.stream) < this.#group.stream.plan.backlogMax
    await Promise.all([
      ...(publishes ? this.#publishAll(line) : []),
      ...this.#settleAll(line, arrived),
      ...(arrived.length > 0 ? [this.#giveCredit(line, arrived.length)] : []),
    ])
    if (arrived.length === 0 && !publishes) await this.#untilArrived(line)
  }

  async #open(): Promise<void> {
    this.#arrived = []
    const line = await Line.open(this.scene.authority)
    if (line === null) return
    this.#line = line
    line.onDeliveries = (claim, subscription) => this.#pushed(claim as Static<typeof ClaimReply>, subscription)
    await this.scene.gate.pass()
    const { name, stream } = this.#group
    const fields = { stream: stream.name, consumer_group: name, credit: CREDIT, lease_timeout_millis: LEASE_MS }
    this.#credit = CREDIT
    const { id, answer } = line.askWithId('subscribe', fields)
    this.#subscription = id
    const said = await answer
    assert(said === null || said.kind === 'ok', JSON.stringify(said))
  }

  /** W1, W2 */
  #pushed({ deliveries, subscription_id, delivery_count }: Static<typeof ClaimReply>, subscription: number): void {
    const { stream } = this.#group
    assert.deepEqual([delivery_count, subscription], [deliveries.length, this.#subscription])
    this.#credit -= deliveries.length
    assert(this.#credit >= 0, `more is pushed to ${this.#group.path} than there is credit for`)
    for (const delivery of deliveries) {
      assert.equal(delivery.subscription_id, subscription_id)
      assert.equal(delivery.lease_expires_at_ms - delivery.leased_at_ms, LEASE_MS)
      stream.stored(delivery.offset, stream.maker.check(delivery.record))
      this.#group.delivered(delivery)
      // the connection may end at any time, and then it is given back
      this.#group.asked(delivery.offset, delivery.attempt, ['released'])
      this.#arrived.push(delivery)
    }
  }

  #publishAll(line: Line): Promise<void>[] {
    const { stream } = this.#group
    const count = this.random.between(0, PUBLISHES_MAX)
    const first = stream.takeNumbers(count)
    return Array.from({ length: count }, async (_, i) => {
      const body = stream.maker.body(first + i)
      const reply = this.#succeeded(await line.ask('publish', { stream: stream.name, body })) as PublishReply | null
      if (reply !== null) stream.stored(reply.offset, first + i)
    })
  }

  #settleAll(line: Line, deliveries: readonly Delivery[]): Promise<void>[] {
    const bySubscription = Map.groupBy(deliveries, ({ subscription_id }) => subscription_id)
    return [...bySubscription.values()].flatMap((claimed) => {
      if (claimed.length > 1 && this.chance(60)) return [this.#ackTogether(line, claimed)]
      return claimed.flatMap((delivery) => {
        const choice = this.random.between(1, 100)
        if (choice <= 80) return [this.#resolve(line, delivery, 'ack', 'acked')]
        if (choice <= 90) return [this.#resolve(line, delivery, 'nack', 'nacked', { reason: 'failed', requeue: false })]
        return []
      })
    })
  }

  async #resolve(
    line: Line,
    { offset, attempt, subscription_id, delivery_id }: Delivery,
    op: 'ack' | 'nack',
    effect: 'acked' | 'nacked',
    body: object | null = null,
  ): Promise<void> {
    const before = this.#group.asked(offset, attempt, [effect, 'released'] satisfies Effect[])
    const { name } = this.#group.stream
    const answer = await line.ask(op, { stream: name, subscription_id, delivery_id, ...(body && { body }) })
    if (answer?.kind === 'refused') return this.#refused(offset, attempt, answer.code, before)
    const reply = this.#succeeded(answer) as AckReply | NackReply | null
    if (reply === null) return
    assert.deepEqual([reply.offset, reply.attempt], [offset, attempt])
    this.#group.finished(offset, attempt, effect)
  }

  async #ackTogether(line: Line, deliveries: readonly Delivery[]): Promise<void> {
    const before = deliveries.map(({ offset, attempt }) => this.#group.asked(offset, attempt, ['acked', 'released']))
    const { subscription_id } = deliveries[0]!
    const body = { delivery_ids: deliveries.map(({ delivery_id }) => delivery_id) }
    const fields = { stream: this.#group.stream.name, subscription_id, body }
    const reply = this.#succeeded(await line.ask('batch_ack', fields)) as Static<typeof BatchAckReply> | null
    for (const [i, result] of reply?.results.entries() ?? []) {
      const { offset, attempt } = deliveries[i]!
      if (result.error) this.#refused(offset, attempt, result.error.code as RefusalCode, before[i]!)
      else this.#group.finished(offset, attempt, 'acked')
    }
  }

  async #giveCredit(line: Line, credit: number): Promise<void> {
    this.#credit += credit
    this.#succeeded(await line.ask('credit', { subscription: this.#subscription, credit }))
  }

  #refused(offset: number, attempt: number, code: RefusalCode, before: Before): void {
    assert(STALE.has(code), code)
    if (code === 'lease_expired') this.#group.expired(offset, attempt, true)
    if (code === 'lease_not_active') this.#group.notActive(offset, attempt, before)
  }

  /** The body that the operation answers, or null without an answer. */
  #succeeded(answer: LineAnswer | null): object | null {
    if (answer === null) return null
    assert(answer.kind === 'ok', JSON.stringify(answer))
    return answer.body
  }

  /** Resolves when deliveries have arrived, the connection is gone, or none came for 100 ms. */
  #untilArrived(line: Line): Promise<void> {
    const sinceMs = Date.now()
    return eventually(() => this.#arrived.length > 0 || !line.isOpen || Date.now() - sinceMs > 100)
  }
}
