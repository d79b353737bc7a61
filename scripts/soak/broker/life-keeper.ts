/**
 * Creates a stream, changes, purges and deletes it, and gives its name to another; seeks and deletes its group and its cursor; dead-letters records and
 * puts them back. Each act is one request, of which the keeper knows beforehand what it makes of the stream (life.ts).
 *
 * L1  after an answer the broker shows what the act makes; without one, that or what was there before, whole (V1)
 * L2  a delivery is of a record that is not finished, and the lowest of them when nothing else can be leased
 */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { Type } from 'typebox'
import type { Static, TSchema } from 'typebox'
import type { RefusalCode } from '../../../src/broker/refusals.ts'
import { GroupListReply, GroupReply } from '../../../src/broker/wire/group-answers.ts'
import { BatchAckReply, ClaimReply } from '../../../src/broker/wire/queue-answers.ts'
import { RedriveReply, ReplayReply, StreamReply } from '../../../src/broker/wire/record-answers.ts'
import { Actor } from './actor.ts'
import type { LifeKind } from './audit-ledger.ts'
import type { Client } from './client.ts'
import { NOTHING, unfinishedOf, viewOf } from './life.ts'
import type { Life, LifeView, LivingStream } from './life.ts'
import type { Scene } from './scene.ts'

const GROUP = 'g'
const CURSOR = 'c'
const LEASE_MS = 1500
/** How long records may be leased to no worker after a claim without an answer, also on a slow machine. */
const UNSURE_MS = 10_000
const IDS_MAX = 300
const LETTERS_MAX = 60

type Delivery = Static<typeof ClaimReply>['deliveries'][number]

interface Act<Schema extends TSchema = TSchema> {
  readonly method: string
  readonly path: string
  readonly body?: object
  readonly schema?: Schema
  /** The life after the act. */
  readonly next: Life
  /** The audit event of the act, and its stream. */
  readonly audit?: readonly [kind: LifeKind, stream: string]
  readonly expected?: readonly RefusalCode[]
}

export class LifeKeeper extends Actor {
  readonly name: string
  readonly #deadName: string
  #life: Life = NOTHING
  /** V1: an act that had no answer. */
  #asked: Act | null = null
  #published = 0
  #unsureUntilMs = 0

  /** @param name that no other keeper has, and streams of the plan have not */
  constructor(scene: Scene, name: string, seed: number, pauseMs: number) {
    super(scene, seed, pauseMs)
    this.name = name
    this.#deadName = `${name}.dead`
  }

  get path(): string {
    return `/v1/streams/${this.name}`
  }

  /** L1. Called by the checks while no actor works, or by the keeper before it goes on. */
  async check(client: Client): Promise<void> {
    const seen = await this.#look(client)
    const asked = this.#asked
    if (asked !== null) {
      const hasHappened = isDeepStrictEqual(seen, viewOf(asked.next))
      if (hasHappened) this.#life = asked.next
      this.#asked = null
      if (asked.audit && hasHappened) this.scene.audit.answered(...asked.audit)
      if (asked.audit && !hasHappened) this.scene.audit.refused(...asked.audit)
    }
    assert.deepEqual(
      seen,
      viewOf(this.#life),
      `${this.name}, after ${asked?.method ?? 'an answer'} ${asked?.path ?? ''}`,
    )
  }

  protected async act(): Promise<void> {
    if (this.#asked !== null) await this.check(this.client)
    else if (this.chance(20)) await this.check(this.client)
    const { stream, letters } = this.#life
    if (letters === null) return void (await this.#create(this.#deadName, { ...this.#life, letters: [] }))
    if (stream === null) return this.#createStream()
    if (letters.length >= LETTERS_MAX && letters.every(({ isRedriven }) => isRedriven)) return this.#deleteLetters()
    if (stream.ids.length >= IDS_MAX) return this.#deleteStream()
    const choice = this.random.between(1, 100)
    if (choice <= 30) return this.#publish(stream)
    if (choice <= 55) return this.#work(stream)
    if (choice <= 63) return this.#update(stream)
    if (choice <= 70) return this.#purge(stream)
    if (choice <= 78) return this.#seek(stream)
    if (choice <= 84) return this.#commit(stream)
    if (choice <= 87) return this.#deleteCursor(stream)
    if (choice <= 90) return this.#deleteGroup(stream)
    if (choice <= 97) return this.#redrive(stream)
    return this.#deleteStream()
  }

  // Streams

  async #createStream(): Promise<void> {
    const maxAttempts = this.random.between(1, 9)
    const stream = { maxAttempts, floor: 0, ids: [], finished: null, cursor: null }
    await this.#create(this.name, { ...this.#life, stream }, { failure_policy: { max_attempts: maxAttempts } })
  }

  #create(name: string, next: Life, body: object = {}): Promise<unknown> {
    const path = `/v1/streams/${name}`
    return this.#ask({ method: 'PUT', path, body, next, audit: ['stream_created', name] })
  }

  async #publish(stream: LivingStream): Promise<void> {
    const ids = Array.from({ length: this.random.between(1, 8) }, () => `${this.name}-${this.#published++}`)
    const records = ids.map((message_id) => ({ message_id, payload: message_id }))
    const next = this.#with(stream, { ids: [...stream.ids, ...ids] })
    await this.#ask({ method: 'POST', path: `${this.path}/records/batch`, body: { records }, next })
  }

  async #update(stream: LivingStream): Promise<void> {
    const maxAttempts = 1 + (stream.maxAttempts % 9)
    const body = { failure_policy: { max_attempts: maxAttempts } }
    const next = this.#with(stream, { maxAttempts })
    await this.#ask({ method: 'PATCH', path: this.path, body, next, audit: ['stream_updated', this.name] })
  }

  async #purge(stream: LivingStream): Promise<void> {
    const { floor, ids, cursor } = stream
    if (floor === ids.length) return
    const offset = this.random.between(floor + 1, ids.length)
    const next = this.#with(stream, { floor: offset })
    const path = `${this.path}/purge${cursor === null ? '' : '?force=true'}`
    await this.#ask({ method: 'POST', path, body: { offset }, next, audit: ['stream_purged', this.name] })
  }

  async #deleteStream(): Promise<void> {
    const next = { ...this.#life, stream: null }
    const path = `${this.path}?force=true`
    await this.#ask({ method: 'DELETE', path, next, audit: ['stream_deleted', this.name] })
  }

  async #deleteLetters(): Promise<void> {
    const next = { ...this.#life, letters: null }
    const path = `/v1/streams/${this.#deadName}?force=true`
    await this.#ask({ method: 'DELETE', path, next, audit: ['stream_deleted', this.#deadName] })
  }

  // Groups and cursors

  async #seek(stream: LivingStream): Promise<void> {
    const { finished, floor } = stream
    const last = finished?.findLast((offset) => offset >= floor)
    if (finished === null || last === undefined) return
    const offset = this.random.between(floor, last)
    const next = this.#with(stream, { finished: finished.filter((each) => each < offset) })
    const path = `${this.#groupPath}/seek`
    const body = { offset, reason: 'again' }
    await this.#ask({ method: 'POST', path, body, next, audit: ['group_sought', this.name] })
  }

  async #commit(stream: LivingStream): Promise<void> {
    const from = Math.max(stream.cursor === null ? stream.floor : stream.cursor + 1, stream.floor)
    if (from > stream.ids.length) return
    const offset = this.random.between(from, stream.ids.length)
    const next = this.#with(stream, { cursor: offset, finished: stream.finished ?? [] })
    await this.#ask({ method: 'PUT', path: this.#cursorPath, body: { offset }, next })
  }

  async #deleteCursor(stream: LivingStream): Promise<void> {
    if (stream.cursor === null) return
    const next = this.#with(stream, { cursor: null })
    await this.#ask({ method: 'DELETE', path: this.#cursorPath, next, audit: ['cursor_deleted', this.name] })
  }

  async #deleteGroup(stream: LivingStream): Promise<void> {
    if (stream.finished === null) return
    const next = this.#with(stream, { finished: null, cursor: null })
    await this.#ask({ method: 'DELETE', path: this.#groupPath, next, audit: ['group_deleted', this.name] })
  }

  // Deliveries and dead letters

  async #work(stream: LivingStream): Promise<void> {
    const available = unfinishedOf(stream)
    if (available.length === 0) return
    const body = { max_messages: this.random.between(1, 10), lease_timeout_millis: LEASE_MS }
    const sentMs = Date.now()
    const next = this.#with(stream, { finished: stream.finished ?? [] })
    const isSure = sentMs >= this.#unsureUntilMs
    const path = `${this.#groupPath}/claims`
    const claim = await this.#ask({ method: 'POST', path, body, next, schema: ClaimReply })
    this.#unsureUntilMs = sentMs + UNSURE_MS // until all is settled
    if (claim === null) return
    const { deliveries } = claim
    const offsets = deliveries.map(({ offset }) => offset)
    const expected = isSure ? available.slice(0, body.max_messages) : available.filter((each) => offsets.includes(each))
    assert.deepEqual(offsets, expected, `deliveries of ${this.name}`)
    if (deliveries.length === 0) return
    const letter = this.chance(30) ? deliveries[0]! : null
    const isSettled = (await this.#ack(deliveries.filter((each) => each !== letter))) && (await this.#bury(letter))
    if (isSettled && isSure) this.#unsureUntilMs = 0
  }

  /** Whether all of them are finished, as the answer says. */
  async #ack(deliveries: readonly Delivery[]): Promise<boolean> {
    if (deliveries.length === 0) return true
    const offsets = deliveries.map(({ offset }) => offset)
    const before = this.#life.stream!
    const subscription = deliveries[0]!.subscription_id
    const reply = await this.#ask({
      method: 'POST',
      path: `${this.path}/subscriptions/${subscription}/deliveries/batch-ack`,
      body: { delivery_ids: deliveries.map(({ delivery_id }) => delivery_id) },
      next: this.#with(before, { finished: [...before.finished!, ...offsets] }),
      schema: BatchAckReply,
    })
    if (reply === null) return false
    const isLate = reply.results.some(({ error }) => error !== undefined)
    if (!isLate) return true
    for (const { error } of reply.results) assert.equal(error?.code ?? 'lease_expired', 'lease_expired')
    const acked = reply.results.flatMap(({ error, offset }) => (error === undefined ? [offset!] : []))
    this.#life = this.#with(before, { finished: [...before.finished!, ...acked] })
    return false
  }

  async #bury(delivery: Delivery | null): Promise<boolean> {
    if (delivery === null) return true
    const { subscription_id, delivery_id, offset, record } = delivery
    const { stream, letters } = this.#life
    const reply = await this.#ask({
      method: 'POST',
      path: `${this.path}/subscriptions/${subscription_id}/deliveries/${delivery_id}/dead-letter`,
      body: { dead_letter_stream: this.#deadName, reason: 'poison' },
      next: {
        ...this.#with(stream!, { finished: [...stream!.finished!, offset] }),
        letters: [...letters!, { id: record.message_id, isRedriven: false }],
      },
      audit: ['delivery_dead_lettered', this.name],
      expected: ['lease_expired'],
    })
    return reply !== null
  }

  async #redrive(stream: LivingStream): Promise<void> {
    const letters = this.#life.letters!
    const waiting = letters.filter(({ isRedriven }) => !isRedriven).map(({ id }) => id)
    if (waiting.length === 0) return
    const next = {
      stream: { ...stream, ids: [...stream.ids, ...waiting] },
      letters: letters.map(({ id }) => ({ id, isRedriven: true })),
    }
    const path = `/v1/streams/${this.#deadName}/dead-letters/redrive`
    const audit = ['dead_letters_redriven', this.#deadName] as const
    const reply = await this.#ask({ method: 'POST', path, body: {}, next, audit, schema: RedriveReply })
    if (reply !== null) assert.equal(reply.redriven_count, waiting.length)
  }

  // Asking and looking

  /** Null: there was no answer, or it is refused as expected. */
  async #ask<Schema extends TSchema>(act: Act<Schema>): Promise<Static<Schema> | null> {
    const { method, path, body, schema, audit, next, expected = [] } = act
    const options = {
      ...(body && { body }),
      expected,
      onSend: () => {
        this.#asked = act
        if (audit) this.scene.audit.asked(...audit)
      },
    }
    const answer = await this.client.request(schema ?? (Type.Unknown() as unknown as Schema), method, path, options)
    if (answer === null) return null
    this.#asked = null
    if (answer.kind === 'refused') {
      if (audit) this.scene.audit.refused(...audit)
      return null
    }
    this.#life = next
    if (audit) this.scene.audit.answered(...audit)
    return answer.body
  }

  async #look(client: Client): Promise<LifeView> {
    const described = await this.#find(client, StreamReply, this.path)
    const letters = await this.#idsOf(client, this.#deadName)
    if (described === null) return { stream: null, letters }
    const { first_offset: floor, failure_policy } = described
    const kept = (await this.#idsOf(client, this.name))!
    const { consumer_groups } = await client.get(GroupListReply, `${this.path}/consumer-groups`)
    const group = await client.get(GroupReply, this.#groupPath)
    const isThere = consumer_groups.some(({ consumer_group }) => consumer_group === GROUP)
    return {
      stream: {
        maxAttempts: failure_policy!.max_attempts,
        floor,
        kept,
        group: isThere ? { progress: group.progress_offset, lag: group.lag_messages } : null,
        cursor: group.cursors[0]?.offset ?? null,
      },
      letters,
    }
  }

  async #idsOf(client: Client, name: string): Promise<string[] | null> {
    const page = await this.#find(client, ReplayReply, `/v1/streams/${name}/records?max_records=1000`)
    return page && page.records.map(({ message_id }) => message_id)
  }

  async #find<Schema extends TSchema>(client: Client, schema: Schema, path: string): Promise<Static<Schema> | null> {
    for (;;) {
      const answer = await client.request(schema, 'GET', path, { expected: ['stream_not_found'] })
      if (answer !== null) return answer.kind === 'ok' ? answer.body : null
    }
  }

  #with(stream: LivingStream, changed: Partial<LivingStream>): Life {
    return { ...this.#life, stream: { ...stream, ...changed } }
  }

  get #groupPath(): string {
    return `${this.path}/consumer-groups/${GROUP}`
  }

  get #cursorPath(): string {
    return `${this.#groupPath}/cursors/${CURSOR}`
  }
}
