/**
 * Claims records of one group and does with them whatever can be done: acknowledges most, one by one and together, gives some back,
 * now or later, renews, dead-letters, lets leases run out, keeps some over a restart, and comes back to deliveries that are over. It repeats
 * claims that have an id, also those that had no answer.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from 'typebox'
import type { Static, TSchema } from 'typebox'
import type { RefusalCode } from '../../../src/broker/refusals.ts'
import {
  AckReply,
  BatchAckReply,
  ClaimReply,
  DeadLetterReply,
  NackReply,
  RenewReply,
  RetryReply,
} from '../../../src/broker/wire/queue-answers.ts'
import { StreamReply } from '../../../src/broker/wire/record-answers.ts'
import type { ClaimBody } from '../../../src/broker/wire/requests.ts'
import { Actor } from './actor.ts'
import type { Answer } from './client.ts'
import { CLOCK_SLACK_MS, NOTHING_ASKED } from './group-ledger.ts'
import type { Before, Effect, GroupLedger } from './group-ledger.ts'
import type { Scene } from './scene.ts'

const OVER_KEPT_MAX = 30
const HELD_MAX = 10
const STALE: readonly RefusalCode[] = ['lease_expired', 'lease_not_active', 'delivery_not_found']

type Claimed = Static<typeof ClaimReply>
type Delivery = Claimed['deliveries'][number]
type ClaimAsked = ClaimBody & { readonly lease_timeout_millis: number }

/** A delivery that has ended, and the refusal that it must get from then on. */
interface Over {
  readonly delivery: Delivery
  readonly code: 'lease_expired' | 'lease_not_active'
}

export class Worker extends Actor {
  readonly #group: GroupLedger
  /** Deliveries to be resolved later: perhaps by another process than gave them out. */
  #held: Delivery[] = []
  /** Deliveries of which a request had no answer. */
  #unsure: Delivery[] = []
  #over: Over[] = []
  #claimIds = 0

  constructor(scene: Scene, group: GroupLedger, seed: number, pauseMs: number) {
    super(scene, seed, pauseMs)
    this.#group = group
  }

  protected async act(): Promise<void> {
    const unsure = this.#unsure.shift()
    if (unsure) await this.#resolve(unsure)
    if (this.#held.length > HELD_MAX || (this.#held.length > 0 && this.chance(20))) await this.#act(this.#held.shift()!)
    if (this.#over.length > 0 && this.chance(10)) await this.#comeBack()
    const deliveries = await this.#claim()
    if (deliveries.length > 1 && this.chance(70)) return this.#ackTogether(deliveries)
    for (const delivery of deliveries) await this.#act(delivery)
  }

  async #claim(): Promise<readonly Delivery[]> {
    const { stream } = this.#group
    const isShort = this.chance(50)
    const startOffset = this.chance(15) ? this.random.between(0, stream.storedEnd) : 0
    const body = {
      ...(startOffset > 0 && { start_offset: startOffset }),
      max_messages: this.random.pick([1, 1, 5, 20, 200]),
      lease_timeout_millis: isShort ? this.random.between(20, 400) : this.random.between(3000, 6000),
      ...(this.chance(30) && { wait_millis: this.random.between(0, 400) }),
      ...(this.chance(40) && { claim_id: `${this.random.between(0, 2 ** 31)}-${(this.#claimIds += 1)}` }),
    }
    const first = await this.#ask(body)
    if (first !== null) this.#given(first, body)
    if (body.claim_id === undefined || (first !== null && this.chance(60))) return first?.deliveries ?? []
    const again = await this.#ask(body)
    if (first === null) return this.#given(again, body)
    if (again === null) return first.deliveries
    return [...first.deliveries, ...(this.#isRepeat(again, first) ? [] : this.#given(again, body))]
  }

  async #ask(body: ClaimAsked): Promise<Claimed | null> {
    const answer = await this.client.request(ClaimReply, 'POST', `${this.#group.path}/claims`, { body })
    return answer?.kind === 'ok' ? answer.body : null
  }

  /** False: the claim before is over, and this is another one. */
  #isRepeat(again: Claimed, first: Claimed): boolean {
    const isRepeat = again.subscription_id === first.subscription_id
    const named = ({ offset, attempt, delivery_id, lease_expires_at_ms }: Delivery): string =>
      `${offset} ${attempt} ${delivery_id} ${lease_expires_at_ms}`
    const living = new Set(isRepeat ? again.deliveries.map(named) : [])
    for (const delivery of first.deliveries) {
      if (living.delete(named(delivery)) || this.#group.stream.plan.body.retention !== undefined) continue
      const where = `attempt ${delivery.attempt} at offset ${delivery.offset} of ${this.#group.path}`
      const isOver = delivery.lease_expires_at_ms <= Date.now() + CLOCK_SLACK_MS
      assert(isOver, `${where} still has its lease, but the repeated claim did not return it`)
    }
    assert.deepEqual([...living], [], 'a repeated claim returns the deliveries that it returned before')
    return isRepeat
  }

  /** @param claimed null: it is unknown */
  #given(claimed: Claimed | null, body: ClaimAsked): readonly Delivery[] {
    if (claimed === null) return []
    const { stream } = this.#group
    const startOffset = body.start_offset ?? 0
    const { deliveries, delivery_count, next_offset, subscription_id } = claimed
    assert.equal(delivery_count, deliveries.length)
    let before = startOffset - 1
    for (const delivery of deliveries) {
      const { offset, record, leased_at_ms, lease_expires_at_ms } = delivery
      assert(offset > before, `a claim from ${startOffset} on gave out ${offset} after ${before}`)
      assert.deepEqual([record.offset, delivery.subscription_id], [offset, subscription_id])
      assert.equal(lease_expires_at_ms - leased_at_ms, body.lease_timeout_millis)
      stream.stored(offset, stream.maker.check(record))
      this.#group.delivered(delivery)
      before = offset
    }
    if (deliveries.length > 0) assert.equal(next_offset, before + 1)
    return deliveries
  }

  async #act(delivery: Delivery): Promise<void> {
    const choice = this.random.between(1, 100)
    if (choice <= 82) return this.#resolve(delivery)
    if (choice <= 90) return this.#renew(delivery)
    if (choice <= 94 && leaseMs(delivery) < 1000) return this.#letExpire(delivery)
    this.#held.push(delivery)
  }

  async #resolve(delivery: Delivery): Promise<void> {
    const choice = this.random.between(1, 100)
    if (choice <= 66) return this.#ack(delivery)
    if (choice <= 76) return this.#nack(delivery, true)
    if (choice <= 82) return this.#nack(delivery, false)
    if (choice <= 89) return this.#retry(delivery, 0)
    if (choice <= 95) return this.#retry(delivery, this.random.between(1, 500))
    return this.#deadLetter(delivery)
  }

  // Verbs

  async #ack(delivery: Delivery): Promise<void> {
    const answer = await this.#post(AckReply, delivery, 'ack', null, ['acked'])
    if (answer?.kind !== 'ok') return
    const { acknowledged_at_ms: atMs, acknowledgement } = answer.body
    assert.deepEqual(acknowledgement, { durability: 'local-sync', durable: true, replicas: 1 })
    assert(atMs >= delivery.leased_at_ms)
    this.#finished(delivery, 'acked')
  }

  async #ackTogether(deliveries: readonly Delivery[]): Promise<void> {
    const chosen = deliveries.filter(() => this.chance(90))
    const rest = deliveries.filter((delivery) => !chosen.includes(delivery))
    for (const ofClaim of Map.groupBy(chosen, (each) => each.subscription_id).values()) await this.#batchAck(ofClaim)
    for (const delivery of rest) await this.#act(delivery)
  }

  /** @param deliveries of one claim */
  async #batchAck(deliveries: readonly Delivery[]): Promise<void> {
    const { stream } = this.#group
    const path = `/v1/streams/${stream.name}/subscriptions/${deliveries[0]!.subscription_id}/deliveries/batch-ack`
    const body = { delivery_ids: deliveries.map(({ delivery_id }) => delivery_id) }
    let before: Before[] = []
    const onSend = (): void => {
      before = deliveries.map(({ offset, attempt }) => this.#group.asked(offset, attempt, ['acked']))
    }
    const onUndone = (): void => {
      for (const [i, { offset, attempt }] of deliveries.entries()) this.#group.undone(offset, attempt, before[i]!)
    }
    const answer = await this.client.request(BatchAckReply, 'POST', path, { body, onSend, onUndone })
    if (answer?.kind !== 'ok') return void this.#unsure.push(...deliveries)
    const { results, acknowledged_count } = answer.body
    assert.equal(results.length, deliveries.length)
    assert.equal(results.filter(({ error }) => error === undefined).length, acknowledged_count)
    for (const [i, { error, offset, attempt }] of results.entries()) {
      const delivery = deliveries[i]!
      if (error === undefined) {
        assert.deepEqual([offset, attempt], [delivery.offset, delivery.attempt])
        this.#finished(delivery, 'acked')
      } else {
        assert(STALE.includes(error.code as RefusalCode), JSON.stringify(error))
        await this.#refused(delivery, error.code as RefusalCode, before[i]!) // just looked up
      }
    }
  }

  async #nack(delivery: Delivery, requeue: boolean): Promise<void> {
    const policy = this.#group.stream.plan.body.failure_policy
    const effects: Effect[] = requeue ? (policy ? ['released', 'dead_lettered', 'stopped'] : ['released']) : ['nacked']
    const answer = await this.#post(NackReply, delivery, 'nack', { reason: 'failed', requeue }, effects)
    if (answer?.kind !== 'ok') return
    const { policy_action: action, will_redeliver, available_at_ms } = answer.body
    assert.equal(will_redeliver, action === 'redeliver_now' || action === 'scheduled_retry')
    const isLast = policy ? delivery.attempt >= policy.max_attempts : false
    if (!requeue) {
      assert.equal(action, 'none')
      return this.#finished(delivery, 'nacked')
    }
    if (will_redeliver) {
      assert(!isLast, `attempt ${delivery.attempt} is redelivered`)
      return this.#released(delivery, available_at_ms!)
    }
    assert(isLast, `attempt ${delivery.attempt} is ${action}`)
    assert.equal(action, policy?.dead_letter_stream === 'nowhere' ? 'stopped' : 'dead_lettered')
    this.#finished(delivery, action === 'stopped' ? 'stopped' : 'dead_lettered')
  }

  async #renew(delivery: Delivery): Promise<void> {
    const extendMs = this.random.between(10, 1000)
    const { offset, attempt } = delivery
    const expiresAt = delivery.lease_expires_at_ms + extendMs
    const body = { extend_by_millis: extendMs }
    const answer = await this.#post(RenewReply, delivery, 'renew', body, [], expiresAt)
    if (answer?.kind !== 'ok') return
    const { lease } = answer.body
    assert.deepEqual(
      [lease.offset, lease.attempt, lease.state, lease.leased_at_ms, lease.lease_expires_at_ms],
      [offset, attempt, 'active', delivery.leased_at_ms, expiresAt],
    )
    this.#group.renewed(offset, attempt, expiresAt)
    await this.#act({ ...delivery, lease_expires_at_ms: expiresAt })
  }

  async #retry(delivery: Delivery, delayMs: number): Promise<void> {
    const body = { reason: 'later', delay_millis: delayMs }
    const answer = await this.#post(RetryReply, delivery, 'retry', body, ['released'])
    if (answer?.kind === 'ok') this.#released(delivery, answer.body.available_at_ms)
  }

  async #deadLetter(delivery: Delivery): Promise<void> {
    const body = { dead_letter_stream: this.#group.stream.plan.deadLetters, reason: 'poison' }
    const answer = await this.#post(DeadLetterReply, delivery, 'dead-letter', body, ['dead_lettered'])
    if (answer?.kind !== 'ok') return
    assert.equal(answer.body.source_offset, delivery.offset)
    this.#finished(delivery, 'dead_lettered')
  }

  async #letExpire(delivery: Delivery): Promise<void> {
    await sleep(Math.max(0, delivery.lease_expires_at_ms - Date.now()) + this.random.between(0, 50))
    this.#isOver(delivery, 'lease_expired')
  }

  /** A delivery that is over is refused, always in the same way. */
  async #comeBack(): Promise<void> {
    const { delivery, code } = this.#over.splice(this.random.between(0, this.#over.length - 1), 1)[0]!
    const verb = this.random.pick(['ack', 'nack', 'renew', 'retry'])
    const body = {
      ack: null,
      nack: { reason: 'late', requeue: true },
      renew: { extend_by_millis: 1000 },
      retry: { reason: 'late', delay_millis: 0 },
    }[verb]
    if (code === 'lease_expired' && Date.now() < delivery.lease_expires_at_ms + 500) return
    const answer = await this.client.request(Type.Unknown(), 'POST', this.#pathOf(delivery, verb), {
      ...(body && { body }),
      expected: STALE,
    })
    if (answer === null) return
    const where = `${verb} of attempt ${delivery.attempt} at offset ${delivery.offset} of ${this.#group.path}`
    assert(answer.kind === 'refused', `${where} was ${code} before and succeeds now`)
    if (answer.code === 'delivery_not_found') return this.#assertRemoved(delivery)
    assert.equal(answer.code, code, where)
  }

  // What comes of it

  async #post<Schema extends TSchema>(
    schema: Schema,
    delivery: Delivery,
    verb: string,
    body: object | null,
    effects: readonly Effect[],
    renewedTo = 0,
  ): Promise<Answer<Static<Schema>> | null> {
    const { offset, attempt } = delivery
    let before: Before = NOTHING_ASKED
    const answer = await this.client.request(schema, 'POST', this.#pathOf(delivery, verb), {
      ...(body && { body }),
      expected: STALE,
      onSend: () => void (before = this.#group.asked(offset, attempt, effects, renewedTo)),
      onUndone: () => this.#group.undone(offset, attempt, before),
    })
    if (answer === null) this.#unsure.push(delivery)
    else if (answer.kind === 'refused') await this.#refused(delivery, answer.code, before)
    else assert.deepEqual(identityOf(answer.body), [offset, attempt])
    return answer
  }

  async #refused(delivery: Delivery, code: RefusalCode, before: Before): Promise<void> {
    const { offset, attempt } = delivery
    if (code === 'delivery_not_found') return this.#assertRemoved(delivery)
    if (code === 'lease_expired') {
      this.#group.expired(offset, attempt, this.scene.failures !== 'unknown')
      this.#isOver(delivery, 'lease_expired')
    } else {
      this.#group.notActive(offset, attempt, before)
      this.#isOver(delivery, 'lease_not_active')
    }
  }

  /** Only a delivery whose record retention has removed may be unknown. */
  async #assertRemoved({ offset }: Delivery): Promise<void> {
    const { stream } = this.#group
    const { first_offset: floor } = await this.client.get(StreamReply, `/v1/streams/${stream.name}`)
    stream.floorShown(floor)
    assert(offset < floor, `a delivery at offset ${offset} of ${this.#group.path} is not found`)
  }

  #finished(delivery: Delivery, outcome: 'acked' | 'nacked' | 'dead_lettered' | 'stopped'): void {
    this.#group.finished(delivery.offset, delivery.attempt, outcome)
    this.#isOver(delivery, 'lease_not_active')
  }

  #released(delivery: Delivery, availableAtMs: number): void {
    assert(availableAtMs >= delivery.leased_at_ms)
    this.#group.released(delivery.offset, delivery.attempt, availableAtMs)
    this.#isOver(delivery, 'lease_not_active')
  }

  #isOver(delivery: Delivery, code: Over['code']): void {
    if (this.scene.failures === 'unknown') return
    if (this.#over.length >= OVER_KEPT_MAX) this.#over.splice(this.random.between(0, OVER_KEPT_MAX - 1), 1)
    this.#over.push({ delivery, code })
  }

  #pathOf({ subscription_id, delivery_id }: Delivery, verb: string): string {
    return `/v1/streams/${this.#group.stream.name}/subscriptions/${subscription_id}/deliveries/${delivery_id}/${verb}`
  }
}

const leaseMs = ({ leased_at_ms, lease_expires_at_ms }: Delivery): number => lease_expires_at_ms - leased_at_ms

/** Offset and attempt, wherever an answer has them. */
function identityOf(body: unknown): [offset: number, attempt: number] {
  const { offset, source_offset, attempt, lease } = body as Partial<AckReply & DeadLetterReply & RenewReply> // one of them
  return [offset ?? source_offset ?? lease!.offset, attempt ?? lease!.attempt]
}
