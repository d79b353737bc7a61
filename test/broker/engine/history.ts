/**
 * One life after the other of a broker, step by step, beside the reference: what each operation is answered, whether it may be answered so,
 * and at every quiescent point whether the broker is what its frames say.
 *
 * H1  an operation is answered when everything that was on its way to the disk when it was asked is stored (volatile publishes and pages
 *     apart), or is refused because of a loss
 * H2  what was refused has left nothing behind; what was answered has, for ever, exactly what the answer says
 * H3  the same at once, whatever the order in which disks, readers and clients move
 */
import assert from 'node:assert/strict'
import type { ReplayRequest } from '../../../src/broker/operations.ts'
import type { PublishInput } from '../../../src/broker/publish-input.ts'
import { refuse } from '../../../src/broker/refusals.ts'
import type { ReplayDiagnostics } from '../../../src/broker/wire/record-answers.ts'
import type { CreateStreamBody } from '../../../src/broker/wire/requests.ts'
import { FRAME_CLAIM, FRAME_DEAD_LETTER, decodeClaim, decodeDeadLetter } from '../../../src/broker/frames.ts'
import { decodeChange } from '../../../src/broker/frames/change.ts'
import { answered, dumpOf, expectedDump, expectedPlan, replayAll } from './dump.ts'
import type { Dump } from './dump.ts'
import { AUDIT_STREAM, payloadBytesOf } from './reference.ts'
import type { RefClaim, RefGroup, RefRecord, RefStream, Reference } from './reference.ts'
import { Trace } from './trace.ts'
import type { Cause, TracedFrame } from './trace.ts'
import { BrokerWorld, CALLER, PATIENT, Pending, RESERVE_BYTES, jsonOf, turn } from '../../support/broker-world.ts'
import type { Outcome } from '../../support/broker-world.ts'

export const STEP_KINDS = [
  ['publish', 10],
  ['publishBatch', 8],
  ['fill', 5],
  ['createStream', 1],
  ['claim', 20],
  ['ack', 6],
  ['batchAck', 2],
  ['nack', 10],
  ['renew', 2],
  ['retry', 4],
  ['deadLetter', 4],
  ['commitCursor', 2],
  ['rewindCursor', 1],
  ['replay', 3],
  ['audit', 1],
  ['describe', 2],
  ['retentionPlan', 1],
  ['enforceRetention', 5],
  ['applyReplica', 2],
  ['acknowledgeIncident', 1],
  ['time', 8],
  ['wallClock', 1],
  ['step', 30],
  ['stepUnheard', 2],
  ['hold', 3],
  ['serve', 4],
  ['laneDies', 2],
  ['failSync', 1],
  ['fillDisk', 1],
  ['freeDisk', 1],
  ['reopen', 3],
  ['quiesce', 1],
] as const

export type StepKind = (typeof STEP_KINDS)[number][0]

/** `a`, `b` and `c` choose; what they mean is the kind's. */
export interface Step {
  readonly kind: StepKind
  readonly a: number
  readonly b: number
  readonly c: number
  readonly yes: boolean
}

export const STREAMS = ['orders', 'jobs', 'dead', 'bulk', 'passing'] as const
/** Most happens to few. */
const BUSY = ['orders', 'orders', 'orders', 'orders', 'jobs', 'dead', 'bulk', 'orders'] as const
export const GROUPS = ['g1', 'g2'] as const
const CURSORS = ['c1', 'c2'] as const
const LINKS = ['dr', 'backup'] as const
const HOUR_MS = 3_600_000

export const CONFIGS: readonly CreateStreamBody[] = [
  {},
  { failure_policy: { max_attempts: 2, dead_letter_stream: 'dead' } },
  { failure_policy: { max_attempts: 2, retry_delay_millis: 50, dead_letter_stream: 'dead', apply_on_expiry: true } },
  { failure_policy: { max_attempts: 1 } },
  { failure_policy: { max_attempts: 2, apply_on_expiry: true } },
  { retention: { max_bytes: 300 } },
  { retention: { max_age_millis: 500, min_cursor_name: 'c1' } },
  { default_durability: 'memory', retention: { max_age_millis: 200 } },
  { default_durability: 'local-quorum', failure_policy: { max_attempts: 2, dead_letter_stream: 'nowhere' } },
]

/** A delivery that a client was given. */
interface Held {
  readonly stream: string
  readonly group: string
  readonly subscriptionId: string
  readonly deliveryId: string
  readonly offset: number
  readonly attempt: number
}

type Expected = { readonly code: string } | 'effect' | 'either'

interface Operation<T> {
  readonly name: string
  /** What it is refused with when the log does not take or keep its frames. */
  readonly failure: 'internal_error' | 'queue_state_persistence_failed' | 'replica_apply_failed'
  readonly run: () => Promise<T>
  /** Known when it is asked; 'either': only when records have been read, or others were served. */
  readonly expected: Expected
  /** Of an answer, given while nothing has been lost since it was asked. */
  readonly check?: (value: T, frames: readonly TracedFrame[]) => void
  /** Of a refusal, whenever it is given. */
  readonly checkRefused?: () => void
  /** Answers when it is taken, not when it is stored. */
  readonly unconfirmed?: boolean
  readonly cause?: Partial<Omit<Cause, 'frames'>>
}

interface ReplayPage {
  readonly records: RefRecord[]
  readonly next_offset: number
  readonly end_of_stream: boolean
  readonly diagnostics: ReplayDiagnostics
}

interface ClaimAnswer {
  readonly subscription_id: string
  readonly deliveries: readonly {
    readonly delivery_id: string
    readonly offset: number
    readonly attempt: number
    readonly record: RefRecord
  }[]
  readonly next_offset: number
  readonly delivery_count: number
}

export class History {
  readonly world: BrokerWorld
  readonly trace: Trace
  readonly deliveries: Held[] = []
  readonly #failures: unknown[] = []
  readonly #pending = new Set<{ readonly name: string }>()
  readonly #claims = new Map<number, { readonly asked: RefClaim; readonly stream: string; readonly group: string }>()
  readonly #waitingClaims = new Map<
    number,
    { readonly asked: RefClaim; readonly stream: string; readonly group: string }
  >()
  #operations = 0
  #payloads = 0
  #holds = 0
  /** The disk was made to fail since the start: what was written may be lost. */
  #failing = false

  constructor(seed: number) {
    this.world = new BrokerWorld({
      seed,
      segmentBytes: 2048,
      localDisk: seed % 4 === 0 ? 'append' : 'sync',
      readsRecent: seed % 2 === 0,
    })
    this.trace = new Trace(this.world)
    this.trace.claimsAsked = (timeoutMs) => this.#claims.get(timeoutMs)?.asked
  }

  get #reference(): Reference {
    return this.trace.reference
  }

  async begin(firstConfig: number): Promise<void> {
    await this.world.open()
    this.trace.attach()
    this.#createStream('orders', firstConfig)
    this.#createStream('dead', 0)
    this.#ask({
      name: 'create passing',
      failure: 'internal_error',
      run: () => this.world.broker.createStream(CALLER, 'passing', { retention: { max_bytes: 400 } }),
      expected: 'effect',
    })
    await this.world.flush()
  }

  async run(step: Step): Promise<void> {
    try {
      await this.#run(step)
      await turn()
      this.check()
    } catch (error) {
      if (error instanceof Error) error.message = `in step ${JSON.stringify(step)}: ${error.message}`
      throw error
    }
  }

  /** Of the state as it is, with frames on their way. */
  check(): void {
    this.trace.check()
    if (this.#failures.length > 0) throw this.#failures[0]
    const { core } = this.world
    for (const stream of this.#reference.streams) {
      const { nextOffset, visibleNext, floor } = core.state.streams[stream.number]!
      const expected = [stream.nextOffset, stream.visibleNext, stream.floor]
      assert.deepEqual([nextOffset, visibleNext, floor], expected, `of ${stream.name}: next, visible, floor`)
    }
    const nowMs = core.time.nowMs()
    for (const { number, queue } of this.#reference.groups) {
      const leases = core.state.groups[number]!.queue.leases(nowMs, true, Infinity).entries
      assert.deepEqual(leases, queue.leases(nowMs, true))
    }
  }

  /** Everything that is under way comes to its end, and then the broker is what the reference says. */
  async quiesce(): Promise<Dump> {
    const { world } = this
    this.#serveAll()
    for (let before = ''; before !== `${this.trace.frames.length} ${this.trace.losses}`;) {
      before = `${this.trace.frames.length} ${this.trace.losses}`
      await world.flush()
      await world.advance(25) // what is due comes about, policies included
      await world.flush()
      this.check()
    }
    const stuck = [...this.#pending].filter(({ name }) => !name.startsWith('waiting'))
    assert.deepEqual(stuck, [], 'every operation is answered')
    for (const { asked, stream, group } of this.#waitingClaims.values()) {
      const found = this.#group(stream, group)?.plan(asked) ?? this.#fresh(stream, asked)
      if (this.#isWritable()) assert.deepEqual(found, [], 'nobody waits for what is there')
    }
    const nowMs = world.nowMs
    for (const group of this.#reference.groups) group.meet(nowMs)
    const dump = await dumpOf(world, GROUPS)
    assert.deepEqual(dump, expectedDump(this.#reference, nowMs, GROUPS))
    await this.#checkTimes(dump)
    await this.#checkIncidents()
    return dump
  }

  /** In the end: everything that is not finished can still be had, once each, at a later attempt. */
  async drain(): Promise<void> {
    await this.reopen('kill')
    await this.world.advance(HOUR_MS)
    await this.quiesce()
    await this.world.advance(HOUR_MS)
    await this.quiesce()
    for (const group of this.#reference.groups.slice()) {
      const path = { stream: group.stream.name, group: group.name }
      const caller = { ...CALLER, tenant: group.stream.tenant }
      const { queue, stream } = group
      const left = queue.plan(stream.floor, stream.nextOffset, Infinity, new Set())
      const count = left.reduce((sum, run) => sum + run.count, 0)
      assert.equal(count + queue.finishedBetween(stream.floor, stream.nextOffset), stream.nextOffset - stream.floor)
      const claim = new Pending(this.world.broker.claim(caller, path, { max_messages: 1000 }, PATIENT))
      await this.world.flush()
      const { deliveries } = jsonOf<ClaimAnswer>(claim.value)
      assert.equal(deliveries.length, count)
      const ids = deliveries.map(({ delivery_id }) => delivery_id)
      if (count === 0) continue
      const { subscription_id } = jsonOf<ClaimAnswer>(claim.value)
      const acked = new Pending(this.world.broker.batchAck(caller, path.stream, subscription_id, { delivery_ids: ids }))
      await this.world.flush()
      assert.equal(acked.value.acknowledged_count, count)
    }
    this.check()
    await this.quiesce()
    for (const { stream, queue } of this.#reference.groups) assert.equal(queue.progressOffset(), stream.nextOffset)
  }

  async reopen(how: 'close' | 'kill' | 'crash'): Promise<void> {
    const { world } = this
    if (how === 'close') await world.close()
    const { committed, written } = world.log
    const atLeast = how === 'crash' || this.#failing ? committed : written
    if (how !== 'close') world.end(how)
    if (how === 'crash' && world.options.localDisk === 'append') this.deliveries.length = 0 // their claims may be gone
    world.files.faults = {}
    world.files.capacityBytes = 2 ** 40
    this.#pending.clear()
    this.#waitingClaims.clear()
    this.#failing = false
    await world.open()
    this.trace.attach({ atLeast })
    this.check()
  }

  async #run({ kind, a, b, c, yes }: Step): Promise<void> {
    const { world } = this
    switch (kind) {
      case 'createStream':
        return this.#createStream(pick(STREAMS, a), b, yes)
      case 'publish':
        return this.#publish(pick([...BUSY, ...BUSY, 'nowhere', AUDIT_STREAM], a), b, c)
      case 'publishBatch':
        return this.#publishBatch(pick(BUSY, a), b, c)
      case 'fill':
        for (let i = 0; i < 1 + (a % 5); i += 1) this.#publish('passing', 3, 1)
        return world.step()
      case 'replay':
        return this.#replay(pick(BUSY, a), b, c, yes)
      case 'claim':
        return this.#claim(pick(BUSY, a), pick(['g1', 'g1', 'g1', 'g2'], b), c, yes && c % 3 === 0)
      case 'ack':
      case 'nack':
      case 'renew':
      case 'retry':
      case 'deadLetter':
        return this.#resolve(kind, a, b, yes)
      case 'batchAck':
        return this.#batchAck(a, b)
      case 'commitCursor':
      case 'rewindCursor':
        return this.#setCursor(kind, pick(STREAMS, a), pick(GROUPS, b), pick(CURSORS, b >> 1), c)
      case 'audit':
        return this.#audit(a, yes)
      case 'describe':
        return this.#describe(pick(STREAMS, a), pick(GROUPS, b), c)
      case 'retentionPlan':
        return this.#retentionPlan(pick(STREAMS, a), b, c)
      case 'enforceRetention':
        return this.#enforceRetention()
      case 'applyReplica':
        return this.#applyReplica(pick(STREAMS, a), pick(LINKS, b), b >> 1, c)
      case 'acknowledgeIncident':
        return this.#acknowledgeIncident(a, yes)
      case 'time':
        return world.advance(pick([1, 10, 25, 60, 200, 1000, 11_000, 25, 60], a))
      case 'wallClock':
        world.wallSkewMs += pick([HOUR_MS, -HOUR_MS, 1000, -1000], a)
        return
      case 'step':
        return world.step()
      case 'stepUnheard':
        return world.stepUnheard()
      case 'hold':
        this.#holds += 1
        if (yes) world.holdsReads = true
        else world.holdsWrites = true
        return
      case 'serve':
        return this.#serveAll()
      case 'laneDies':
        return this.#laneDies(yes)
      case 'failSync':
        if (world.options.localDisk === 'append') return // what was only written is gone then, the audit stream too
        this.#failing = true
        world.files.faults = { sync: (path) => (path.endsWith('.log') ? 'EIO' : null) }
        return
      case 'fillDisk':
        world.files.capacityBytes += a * 20 + RESERVE_BYTES - world.files.freeBytes('/')
        await world.advance(250)
        world.world.lanes[0]!.idle()
        return
      case 'freeDisk':
        world.files.capacityBytes = 2 ** 40
        await world.advance(250)
        world.world.lanes[0]!.idle()
        return
      case 'reopen':
        return this.reopen(pick(['close', 'kill', 'crash', 'crash'], a))
      case 'quiesce':
        await this.quiesce()
    }
  }

  // Operations

  #createStream(name: string, config: number, elsewhere = false): void {
    const caller = elsewhere ? { ...CALLER, tenant: 'acme' } : CALLER
    const exists = this.#reference.stream(caller.tenant, name) !== undefined
    const body = pick(CONFIGS, config)
    const isOwnTarget = body.failure_policy?.dead_letter_stream === name
    this.#ask({
      name: `create ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.createStream(caller, name, body),
      expected: exists ? { code: 'stream_already_exists' } : isOwnTarget ? { code: 'invalid_request' } : 'effect',
      check: (reply, frames) => {
        assert.equal(reply.created, true)
        assert.equal(this.#auditedBy(frames), 1)
      },
    })
  }

  #publish(name: string, b: number, c: number): void {
    const stream = this.#reference.stream(CALLER.tenant, name)
    const input = this.#input(b, c)
    const isVolatile = (input.durability ?? stream?.config.default_durability) === 'volatile'
    const isMemory = input.durability === null && stream?.config.default_durability === 'memory'
    const offset = stream?.nextOffset ?? 0
    this.#ask({
      name: `publish ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.publish(CALLER, name, input),
      expected: this.#publishable(name, [input]),
      unconfirmed: isVolatile || isMemory,
      check: (reply, frames) => {
        assert.deepEqual([reply.offset, reply.next_offset, reply.message_id], [offset, offset + 1, input.messageId])
        if (frames.some(({ state }) => state === 'lost')) return // volatile
        this.#checkRecord(name, offset, input, reply.ingest_time_ms)
      },
    })
  }

  #publishBatch(name: string, b: number, c: number): void {
    const stream = this.#reference.stream(CALLER.tenant, name)
    const inputs = Array.from({ length: 1 + (b % 5) }, (_, i) => this.#input(b + i, c + i))
    const bad = refuse('invalid_payload', 'bad')
    const isMemory = stream?.config.default_durability === 'memory'
    const good = inputs.filter((input) => {
      const expected = this.#publishable(name, [input])
      return typeof expected === 'string' || expected.code !== 'replication_unavailable'
    })
    const waits = good.some(({ durability }) => durability !== 'volatile' && !(isMemory && durability === null))
    const first = stream?.nextOffset ?? 0
    this.#ask({
      name: `publish batch ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.publishBatch(CALLER, name, [inputs[0]!, bad, ...inputs.slice(1)]),
      expected: good.length === 0 ? 'either' : this.#publishable(name, good),
      unconfirmed: !waits,
      check: (reply, frames) => {
        assert.equal(reply.published_count, good.length)
        let next = first
        const results = inputs.map((input) => (good.includes(input) ? next++ : 'replication_unavailable'))
        assert.deepEqual(
          reply.results.map(({ offset, error }) => error?.code ?? offset),
          [results[0], 'invalid_payload', ...results.slice(1)],
        )
        if (frames.some(({ state }) => state === 'lost')) return
        for (const [i, input] of good.entries()) this.#checkRecord(name, first + i, input, reply.ingest_time_ms)
      },
    })
  }

  #replay(name: string, b: number, c: number, observed: boolean): void {
    const stream = this.#reference.stream(CALLER.tenant, name)
    const by = pick(['offset', 'offset', 'event_time', 'ingest_time'] as const, b)
    const times = [...(stream?.records.values() ?? [])].map((record) =>
      by === 'event_time' ? record.event_time_ms : record.ingest_time_ms,
    )
    const start: ReplayRequest['start'] =
      by === 'offset'
        ? { by, offset: c % ((stream?.nextOffset ?? 0) + 2) }
        : { by, timeMs: times.length > 0 ? pick(times, c) + (c % 3) - 1 : c }
    const maxRecords = 1 + (b % 6)
    const maxPayloadBytes = b % 3 === 0 ? 1 + (c % 120) : null
    const consumer = observed ? { group: pick(GROUPS, c), id: `reader-${c % 3}` } : null
    const request = { start, maxRecords, maxPayloadBytes, consumer, legacy: b % 2 === 0 }
    const visible = stream?.visibleNext ?? 0
    this.#ask({
      name: `replay ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.replay(CALLER, name, request),
      expected: stream ? 'either' : { code: 'stream_not_found' },
      unconfirmed: stream !== undefined,
      check: (reply) => {
        this.#checkTold(stream!, jsonOf<ReplayPage>(reply).diagnostics.first_offset)
        this.#checkPage(jsonOf<ReplayPage>(reply), name, request, visible)
      },
    })
  }

  /** A page tells of nothing that is not stored: that the stream is there, and where it begins. */
  #checkTold({ number, tenant, name }: RefStream, firstOffset: number): void {
    for (const { payload, end } of this.trace.waiting) {
      const change = decodeChange(payload)
      if (end <= this.world.log.committed || change === null) continue
      if (change.kind === 'stream_created') assert.ok(change.tenant !== tenant || change.stream !== name)
      if (change.kind === 'retained' && change.stream_number === number) assert.ok(change.floor > firstOffset)
    }
  }

  #checkPage(page: ReplayPage, name: string, request: Omit<ReplayRequest, 'legacy'>, visible: number): void {
    const stream = this.#reference.stream(CALLER.tenant, name)!
    const { start, maxRecords, maxPayloadBytes } = request
    const { records, next_offset: next, end_of_stream: isEnd, diagnostics } = page
    for (const record of records) assert.deepEqual(record, stream.records.get(record.offset))
    const first = records[0]?.offset
    if (first !== undefined) {
      assert.deepEqual(
        records.map(({ offset }) => offset),
        records.map((_, i) => first + i),
        'a page has no gaps',
      )
      assert.equal(next, first + records.length)
    }
    assert.ok(records.length <= maxRecords && diagnostics.returned_records === records.length)
    assert.ok(isEnd ? next >= visible : next < stream.visibleNext)
    const bytes = records.reduce((sum, record) => sum + payloadBytesOf(record), 0)
    assert.equal(diagnostics.returned_payload_bytes, bytes)
    const cap = maxPayloadBytes ?? Infinity
    if (records.length > 1) assert.ok(bytes <= cap)
    assert.equal(diagnostics.first_record_exceeds_cap, payloadBytesOf(records[0]) > cap)
    if (records.length < maxRecords && !isEnd) assert.ok(diagnostics.payload_cap_reached)
    if (first === undefined) return
    if (start.by === 'offset') assert.ok(first === start.offset || (first >= start.offset && first <= stream.floor))
    else {
      const column = start.by === 'event_time' ? 'event_time_ms' : 'ingest_time_ms'
      assert.ok(records[0]![column] >= start.timeMs || first <= stream.floor)
    }
  }

  #claim(name: string, groupName: string, c: number, fromOffset: boolean): void {
    const stream = this.#reference.stream(CALLER.tenant, name)
    const next = stream?.nextOffset ?? 0
    const startOffset = fromOffset ? c % (next + 2) : 0
    const max = 1 + (c % 3)
    const waitMs = c % 5 === 0 ? 40 : 0
    const timeoutMs = pick([0, 0, 10_000], c) + this.#operations + 1 // different for each claim
    const asked = { startOffset, max }
    const claim = { asked, stream: name, group: groupName }
    this.#claims.set(timeoutMs, claim)
    const number = this.#operations
    if (waitMs > 0) this.#waitingClaims.set(number, claim)
    const body = { start_offset: startOffset, max_messages: max, lease_timeout_millis: timeoutMs, wait_millis: waitMs }
    this.#ask({
      name: `${waitMs > 0 ? 'waiting ' : ''}claim ${name}`,
      failure: 'queue_state_persistence_failed',
      run: () =>
        this.world.broker
          .claim(CALLER, { stream: name, group: groupName }, body, PATIENT)
          .finally(() => this.#waitingClaims.delete(number)),
      expected:
        stream === undefined ? { code: 'missing_stream' } : startOffset > next ? { code: 'invalid_request' } : 'either',
      check: (reply) => this.#checkClaim(jsonOf<ClaimAnswer>(reply), claim, timeoutMs),
      checkRefused: () => assert.equal(this.#claimFrame(timeoutMs), undefined, 'a refused claim leaves no lease'),
    })
  }

  #checkClaim(answer: ClaimAnswer, { stream, group }: { stream: string; group: string }, timeoutMs: number): void {
    assert.equal(answer.delivery_count, answer.deliveries.length)
    const frame = this.#claimFrame(timeoutMs)
    if (frame === undefined) return assert.equal(answer.delivery_count, 0)
    assert.equal(frame.state, 'stored')
    const claim = decodeClaim(frame.payload)!
    const given = claim.runs.flatMap(({ offset, count, attempt }) =>
      Array.from({ length: count }, (_, i) => ({ offset: offset + i, attempt })),
    )
    const { tokens } = this.#reference
    assert.equal(answer.subscription_id, tokens.subscription(claim.groupNumber, claim.claimNumber))
    const records = this.#reference.groups[claim.groupNumber]!.stream.records
    assert.deepEqual(
      answer.deliveries.map(({ delivery_id, offset, attempt, record }) => ({ delivery_id, offset, attempt, record })),
      given.map(({ offset, attempt }) => ({
        delivery_id: tokens.delivery(claim.groupNumber, offset, attempt),
        offset,
        attempt,
        record: records.get(offset),
      })),
    )
    for (const { delivery_id, offset, attempt } of answer.deliveries) {
      const held = { stream, group, subscriptionId: answer.subscription_id, deliveryId: delivery_id, offset, attempt }
      this.deliveries.push(held)
    }
  }

  #claimFrame(timeoutMs: number): TracedFrame | undefined {
    return this.trace.frames.find(({ type, payload }) => {
      const claim = type === FRAME_CLAIM ? decodeClaim(payload) : null
      return claim !== null && claim.expiresAtMs - claim.atMs === timeoutMs
    })
  }

  /** What the broker is to say to a client that names a delivery. */
  #standing({ stream, group, offset, attempt }: Held): Expected {
    const found = this.#group(stream, group)?.queue.find(offset, attempt, this.world.nowMs)
    switch (found?.kind) {
      case 'active':
        return 'effect'
      case 'expired':
        return { code: 'lease_expired' }
      case 'resolved':
        return { code: 'lease_not_active' }
      default:
        return { code: 'delivery_not_found' }
    }
  }

  #resolve(verb: 'ack' | 'nack' | 'renew' | 'retry' | 'deadLetter', a: number, b: number, yes: boolean): void {
    if (this.deliveries.length === 0) return
    const held = this.deliveries[Math.max(0, this.deliveries.length - 1 - (a % 12))]!
    const { broker } = this.world
    const elsewhere = a % 17 === 0 // another stream than the delivery's
    const path = { stream: held.stream, subscriptionId: held.subscriptionId, deliveryId: held.deliveryId }
    if (elsewhere) path.stream = held.stream === 'dead' ? 'orders' : 'dead'
    const standing: Expected = elsewhere ? { code: 'delivery_not_found' } : this.#standing(held)
    const reason = `reason ${this.#operations}`
    const common = { name: `${verb} ${held.offset}`, failure: 'queue_state_persistence_failed' } as const
    const sameDelivery = (reply: { offset: number; attempt: number }): void =>
      assert.deepEqual([reply.offset, reply.attempt], [held.offset, held.attempt])
    switch (verb) {
      case 'ack':
        return this.#ask({ ...common, run: () => broker.ack(CALLER, path), expected: standing, check: sameDelivery })
      case 'renew': {
        const extend_by_millis = 1 + b
        return this.#ask({
          ...common,
          run: () => broker.renew(CALLER, path, { extend_by_millis }),
          expected: standing,
          check: ({ lease }) => sameDelivery(lease),
        })
      }
      case 'retry': {
        const delay_millis = yes ? 0 : 1 + (b % 100)
        return this.#ask({
          ...common,
          cause: { retryDelayMs: delay_millis },
          run: () => broker.retry(CALLER, path, { reason, delay_millis }),
          expected: standing,
          check: sameDelivery,
        })
      }
      case 'nack':
        return this.#nack(held, path, standing, reason, b % 4 !== 0)
      case 'deadLetter': {
        const target = pick(['dead', 'dead', 'jobs', 'nowhere', AUDIT_STREAM], b)
        const exists = this.#reference.stream(CALLER.tenant, target) !== undefined
        const isOwn = target === path.stream
        const ofTarget = !exists ? 'missing_stream' : isOwn ? 'invalid_request' : null
        const refusal = target === AUDIT_STREAM ? 'write_not_allowed' : ofTarget
        return this.#ask({
          ...common,
          run: () => broker.deadLetter(CALLER, path, { dead_letter_stream: target, reason }),
          expected: standing !== 'effect' ? standing : refusal ? { code: refusal } : 'either',
          check: (reply, frames) => {
            sameDelivery({ offset: reply.source_offset, attempt: reply.attempt })
            this.#checkDeadLetter(frames, reply.dead_letter_stream, reply.dead_letter_offset, reason)
          },
        })
      }
    }
  }

  #nack(
    held: Held,
    path: Parameters<BrokerWorld['broker']['nack']>[1],
    standing: Expected,
    reason: string,
    requeue: boolean,
  ): void {
    const stream = this.#reference.stream(CALLER.tenant, held.stream)!
    const policy = stream.config.failure_policy
    const isLast = requeue && policy !== null && held.attempt >= policy.max_attempts
    const target = policy?.dead_letter_stream ?? null
    const copies = isLast && target !== null && this.#reference.stream(CALLER.tenant, target) !== undefined
    const action = !requeue
      ? 'none'
      : copies
        ? 'dead_lettered'
        : isLast
          ? 'stopped'
          : policy?.retry_delay_millis
            ? 'scheduled_retry'
            : 'redeliver_now'
    this.#ask({
      name: `nack ${held.offset}`,
      failure: 'queue_state_persistence_failed',
      run: () => this.world.broker.nack(CALLER, path, { reason, requeue }),
      expected: standing === 'effect' && copies ? 'either' : standing,
      check: (reply, frames) => {
        assert.deepEqual([reply.offset, reply.attempt, reply.policy_action], [held.offset, held.attempt, action])
        assert.equal(reply.will_redeliver, action === 'redeliver_now' || action === 'scheduled_retry')
        assert.equal(this.#auditedBy(frames), action === 'stopped' || action === 'dead_lettered' ? 1 : 0)
        if (action === 'dead_lettered') this.#checkDeadLetter(frames, target!, reply.dead_letter_offset, reason)
      },
    })
  }

  #checkDeadLetter(frames: readonly TracedFrame[], target: string, offset: number | undefined, reason: string): void {
    const copies = frames.filter(({ type }) => type === FRAME_DEAD_LETTER)
    assert.equal(copies.length, 1, 'one copy')
    const { targetStream, targetOffset, reason: written } = decodeDeadLetter(copies[0]!.payload)!
    assert.deepEqual([targetStream, targetOffset, written], [target, offset, reason])
  }

  #batchAck(a: number, b: number): void {
    const last = this.deliveries.at(-1 - (a % 12))
    if (last === undefined) return
    const ofSubscription = this.deliveries.filter(({ subscriptionId }) => subscriptionId === last.subscriptionId)
    const other = pick(this.deliveries, b)
    const named = [...ofSubscription, ofSubscription[0]!, other]
    const seen = new Set<string>()
    const standings = named.map((held): Expected => {
      const { deliveryId } = held
      if (seen.has(deliveryId)) return { code: 'lease_not_active' }
      seen.add(deliveryId)
      if (held.stream !== last.stream || held.group !== last.group) return { code: 'delivery_not_found' }
      const standing = this.#standing(held)
      // The subscription is looked at last: what is over is said to be over whoever asks.
      if (standing === 'effect' && held.subscriptionId !== last.subscriptionId) return { code: 'delivery_not_found' }
      return standing
    })
    const good = standings.filter((standing) => standing === 'effect').length
    this.#ask({
      name: 'batch-ack',
      failure: 'queue_state_persistence_failed',
      run: () =>
        this.world.broker.batchAck(CALLER, last.stream, last.subscriptionId, {
          delivery_ids: named.map(({ deliveryId }) => deliveryId),
        }),
      expected: good > 0 ? 'effect' : 'either',
      check: (reply) => {
        assert.equal(reply.acknowledged_count, good)
        const codes = reply.results.map(({ error }) => (error ? { code: error.code } : 'effect'))
        assert.deepEqual(codes, standings)
      },
    })
  }

  #setCursor(kind: 'commitCursor' | 'rewindCursor', name: string, group: string, cursor: string, c: number): void {
    const stream = this.#reference.stream(CALLER.tenant, name)
    const offset = c % ((stream?.nextOffset ?? 0) + 2)
    const present = stream?.groups.get(group)?.cursors.get(cursor)?.offset
    const path = { stream: name, group }
    const code = ((): string | null => {
      if (stream === undefined) return 'stream_not_found'
      if (offset > stream.nextOffset) return 'invalid_request'
      if (offset < stream.floor) return 'write_not_allowed'
      if (kind === 'commitCursor' && present !== undefined && offset < present) return 'write_not_allowed'
      return null
    })()
    const expected = code === null ? 'effect' : { code }
    const { broker } = this.world
    if (kind === 'commitCursor') {
      this.#ask({
        name: `commit ${cursor}`,
        failure: 'internal_error',
        run: () => broker.commitCursor(CALLER, path, cursor, offset),
        expected,
        check: (reply, frames) => {
          assert.equal(reply.offset, offset)
          assert.equal(this.#auditedBy(frames), 0)
        },
      })
    } else {
      this.#ask({
        name: `rewind ${cursor}`,
        failure: 'internal_error',
        run: () => broker.rewindCursor(CALLER, path, cursor, { offset, reason: 'again' }),
        expected,
        check: (reply, frames) => {
          assert.deepEqual([reply.offset, reply.previous_offset], [offset, present ?? null])
          assert.equal(this.#auditedBy(frames), 1)
        },
      })
    }
  }

  #audit(a: number, asLines: boolean): void {
    const audit = this.#reference.stream(CALLER.tenant, AUDIT_STREAM)!
    const startOffset = a % (audit.nextOffset + 2)
    const maxRecords = 1 + (a % 5)
    const visible = audit.visibleNext
    const request = { startOffset, maxRecords, format: asLines ? 'ndjson' : 'json' } as const
    this.#ask({
      name: 'audit',
      failure: 'internal_error',
      run: () => this.world.broker.audit(CALLER, request),
      expected: 'either',
      unconfirmed: true,
      check: (reply) => {
        const { events } = this.#reference.stream(CALLER.tenant, AUDIT_STREAM)!
        const expected = [...events.values()].filter(({ offset }) => offset >= startOffset && offset < visible)
        const lines = Buffer.from(reply).toString().split('\n')
        const found: { offset: number }[] = asLines
          ? lines.filter((line) => line !== '').map((line) => JSON.parse(line) as { offset: number })
          : jsonOf<{ events: { offset: number }[] }>(reply).events
        assert.deepEqual(found, expected.slice(0, maxRecords))
      },
    })
  }

  #describe(name: string, group: string, c: number): void {
    const { broker } = this.world
    const stream = this.#reference.stream(CALLER.tenant, name)
    const expected = stream ? 'either' : ({ code: 'stream_not_found' } as const)
    const failure = 'internal_error'
    const path = { stream: name, group }
    const next = stream?.nextOffset
    const floor = stream?.floor
    const questions = [
      () =>
        this.#ask({
          name: `describe ${name}`,
          failure,
          run: () => broker.describeStream(CALLER, name),
          expected,
          check: (reply) => assert.deepEqual([reply.next_offset, reply.first_offset], [next, floor]),
        }),
      () =>
        this.#ask({
          name: `describe group ${name}`,
          failure,
          run: () => broker.describeGroup(CALLER, path),
          expected,
          check: (reply) => assert.equal(reply.highest_next_offset, next),
        }),
      () =>
        this.#ask({
          name: `leases ${name}`,
          failure,
          run: () => broker.leases(CALLER, path, true),
          expected,
        }),
      () =>
        this.#ask({
          name: `cursors ${name}`,
          failure,
          run: () => broker.cursors(CALLER, path),
          expected,
        }),
    ]
    pick(questions, c)()
  }

  #retentionPlan(name: string, b: number, c: number): void {
    const stream = this.#reference.stream(CALLER.tenant, name)
    const limits = { maxBytes: b % 2 === 0 ? c : null, maxAgeMs: b % 3 === 0 ? c : null }
    const plan = stream && expectedPlan(this.#reference, stream, this.world.wallMs, limits)
    const isQuiet = !this.world.holdsReads && this.trace.waiting.length === 0
    this.#ask({
      name: `retention plan ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.retentionPlan(CALLER, name, limits),
      expected: stream ? 'either' : { code: 'missing_stream' },
      check: (reply) => {
        if (!isQuiet) return // something else may have come between
        const { planned_first_offset, removable_bytes, retained_bytes, removable_records } = reply
        assert.deepEqual({ planned_first_offset, removable_bytes, retained_bytes, removable_records }, plan)
      },
    })
  }

  #enforceRetention(): void {
    const { world } = this
    const holds = world.holdsReads ? -1 : this.#holds
    const isHeld = (): boolean => this.#holds !== holds
    const cause = {
      frames: [],
      get retainedAtWallMs() {
        return isHeld() ? undefined : world.wallMs // no time goes by between plan and frame, unless it waits for readers
      },
    }
    void this.trace.causedBy(cause, () => world.retainer.enforce())
  }

  #applyReplica(name: string, link: string, b: number, c: number): void {
    const stream = this.#reference.stream(CALLER.tenant, name)
    const key = JSON.stringify([stream?.number, 'a', 'b', link])
    const next = this.#reference.links.get(key)?.next ?? 0
    const first = Math.max(0, next + (b % 4) - 2)
    const count = 1 + (c % 4)
    const records = Array.from({ length: count }, (_, i) => ({
      origin_offset: first + i,
      message_id: `origin-${link}-${first + i}`,
      payload_hex: Buffer.from(`of ${link} ${first + i}`).toString('hex'),
      event_time_ms: 5000 + first + i,
      ingest_time_ms: 6000 + first + i,
    }))
    const fresh = Math.max(0, first + count - next)
    this.#ask({
      name: `apply to ${name}`,
      failure: 'replica_apply_failed',
      run: () =>
        this.world.broker.applyReplica(CALLER, {
          source_site: 'a',
          target_site: 'b',
          policy: link,
          stream: name,
          records,
        }),
      expected: first > next ? { code: 'replica_apply_gap' } : fresh > 0 ? 'effect' : 'either',
      check: (reply) => {
        assert.deepEqual([reply.applied, reply.skipped], [Math.min(count, fresh), count - Math.min(count, fresh)])
        assert.equal(reply.next_expected_offset, Math.max(next, first + count))
        assert.ok(reply.target_watermark <= this.#reference.stream(CALLER.tenant, name)!.visibleNext)
      },
    })
  }

  /** Damage where no record is: the header of a segment that is not needed any more. */
  #acknowledgeIncident(a: number, isNew: boolean): void {
    const { log, broker } = this.world
    const sealed = log.segments.filter((segment) => segment.sealed)
    if (isNew && sealed.length > 0) {
      const segment = pick(sealed, a)
      log.reportDamage(segment, { from: segment.base, to: segment.base + 64, reason: 'the segment header is damaged' })
    }
    const incident = log.incidents.at(a % (log.incidents.length + 1))
    const id = incident ? `inc-${incident.from.toString(16).padStart(12, '0')}` : 'inc-none'
    const refusal = !incident
      ? 'quarantine_not_found'
      : this.#reference.acknowledgedIncidents.has(id)
        ? 'write_not_allowed'
        : null
    this.#ask({
      name: `acknowledge ${id}`,
      failure: 'internal_error',
      run: () => broker.acknowledgeQuarantine(CALLER, AUDIT_STREAM, id, { note: 'seen' }),
      expected: refusal === null ? 'effect' : { code: refusal },
      check: (reply, frames) => {
        assert.deepEqual([reply.incident_id, reply.state, reply.note], [id, 'acknowledged', 'seen'])
        assert.equal(this.#auditedBy(frames), 1)
      },
    })
  }

  // How they are asked

  /** H1, H2 */
  #ask<T>({ name, failure, run, expected, check, checkRefused, unconfirmed = false, cause = {} }: Operation<T>): void {
    this.#operations += 1
    const frames: TracedFrame[] = []
    const before = this.trace.waiting
    const { losses } = this.trace
    const wasWritable = this.#isWritable()
    const token = { name }
    this.#pending.add(token)
    const pending = this.trace.causedBy({ ...cause, frames }, () => new Pending(run()))
    const effect = frames.length > 0
    pending.onSettled(() => {
      if (!this.#pending.delete(token)) return // of an earlier life
      try {
        const isLost = before.some(({ state }) => state === 'lost')
        const isSettled = before.every(({ wasStored }) => wasStored)
        const { outcome } = pending
        if (outcome.kind === 'answered') {
          assert.ok(expected === 'either' || expected === 'effect', `${name} was not refused`)
          if (!unconfirmed) {
            assert.ok(isSettled || isLost, `${name} was answered before the disk was`)
            const unstored = frames.filter((frame) => !frame.wasStored && !isAside(frame))
            assert.deepEqual(unstored.map(nameOf), [], `${name} was answered and its frames are not stored`)
          }
          if (losses === this.trace.losses) check?.(outcome.value, frames)
          return
        }
        checkRefused?.()
        const { code } = pending
        const left = frames.filter((frame) => frame.state !== 'lost' && !isAside(frame))
        assert.deepEqual(left.map(nameOf), [], `${name} was refused (${String(code)}) and left something behind`)
        if (expected !== 'either' && expected !== 'effect' && code === expected.code) {
          assert.ok(isSettled || isLost, `${name} was refused for what is not stored`) // decided again after a loss
          return
        }
        if (expected === 'either' && MAY_TURN_OUT.has(String(code))) return
        assert.equal(code, failure, `${name}: ${describeError(outcome)}`)
        const excused = !wasWritable || losses < this.trace.losses || !effect
        assert.ok(excused, `${name} failed for no reason: ${describeError(outcome)}`)
      } catch (error) {
        this.#failures.push(error)
      }
    })
  }

  async #laneDies(unheard: boolean): Promise<void> {
    const { world } = this
    if (world.log.state.kind === 'read-only') return
    world.files.faults = {}
    world.files.capacityBytes = 2 ** 40
    await world.laneDies(unheard ? 'unheard' : 'heard')
  }

  #serveAll(): void {
    const { world } = this
    world.holdsReads = false
    world.holdsWrites = false
    world.serveReads()
    world.serveWrites()
  }

  // What the reference says

  #group(stream: string, group: string): RefGroup | undefined {
    return this.#reference.stream(CALLER.tenant, stream)?.groups.get(group)
  }

  /** What a group that nobody used yet would be given. */
  #fresh(name: string, { startOffset }: RefClaim): unknown[] {
    const stream = this.#reference.stream(CALLER.tenant, name)
    return stream && stream.visibleNext > Math.max(startOffset, stream.floor) ? ['a record'] : []
  }

  #isWritable(): boolean {
    return this.world.log.state.kind === 'ok'
  }

  #publishable(name: string, inputs: readonly PublishInput[]): Expected {
    if (name === AUDIT_STREAM) return { code: 'write_not_allowed' }
    const stream = this.#reference.stream(CALLER.tenant, name)
    if (stream === undefined) return { code: 'stream_not_found' }
    const byDefault = inputs.some(({ durability }) => durability === null)
    if (byDefault && stream.config.default_durability === 'local-quorum') return { code: 'replication_unavailable' }
    return 'effect'
  }

  #input(b: number, c: number): PublishInput {
    this.#payloads += 1
    const text = `${this.#payloads}:${'x'.repeat(pick([0, 20, 80, 600], b))}`
    return {
      messageId: c % 5 === 0 ? 'the same again' : `m-${this.#payloads}`,
      payload: { text, encoding: 'utf8' },
      key: c % 2 === 0 ? { text: '6b6579', encoding: 'hex' } : null,
      eventTimeMs: c % 3 === 0 ? 1000 + c : null,
      headers: c % 4 === 0 ? { trace: `t-${c}` } : {},
      durability: pick([null, null, 'volatile', 'local-append', 'local-sync'] as const, c),
    }
  }

  #checkRecord(stream: string, offset: number, input: PublishInput, ingestTimeMs: number): void {
    assert.deepEqual(this.#reference.stream(CALLER.tenant, stream)!.records.get(offset), {
      offset,
      message_id: input.messageId,
      payload_hex: contentBytes(input.payload).toString('hex'),
      key_hex: input.key && contentBytes(input.key).toString('hex'),
      headers: input.headers,
      event_time_ms: input.eventTimeMs ?? ingestTimeMs,
      ingest_time_ms: ingestTimeMs,
    })
  }

  /** Events that an operation's frames are. */
  #auditedBy(frames: readonly TracedFrame[]): number {
    return frames.filter(({ type, payload }) => {
      if (type === FRAME_DEAD_LETTER) return true
      const change = decodeChange(payload)
      return change !== null && 'audit_offset' in change && change.audit_offset !== null
    }).length
  }

  async #checkIncidents(): Promise<void> {
    const { incidents } = await answered(this.world, this.world.broker.quarantine(CALLER, AUDIT_STREAM))
    for (const { incident_id, state } of incidents) {
      const isAcknowledged = this.#reference.acknowledgedIncidents.has(incident_id)
      assert.equal(state, isAcknowledged ? 'acknowledged' : 'open')
    }
    assert.equal(incidents.length, this.world.log.incidents.length)
  }

  /** H3: by event time and by ingest time the same records are found as by offset. */
  async #checkTimes({ streams }: Dump): Promise<void> {
    for (const stream of this.#reference.streams) {
      if (stream.name === AUDIT_STREAM || stream.tenant !== CALLER.tenant) continue
      const records = streams[`${stream.tenant}/${stream.name}`]!.records
      const middle = records[Math.floor(records.length / 2)]
      if (middle === undefined) continue
      for (const [by, column] of TIME_COLUMNS) {
        const timeMs = middle[column]
        const found = await replayAll(this.world, stream.tenant, stream.name, { by, timeMs })
        const first = stream.firstAtOrAbove(column, timeMs, stream.nextOffset)
        assert.deepEqual(found, records.slice(first - stream.floor))
      }
    }
  }
}

const TIME_COLUMNS = [
  ['event_time', 'event_time_ms'],
  ['ingest_time', 'ingest_time_ms'],
] as const

/** What comes to light only when records were read, or meanwhile. */
const MAY_TURN_OUT: ReadonlySet<string> = new Set([
  'lease_expired',
  'lease_not_active',
  'delivery_not_found',
  'missing_stream',
  'stream_not_found',
])

/** For people. */
const nameOf = ({ type, payload, state }: TracedFrame): string =>
  `${decodeChange(payload)?.kind ?? `type ${type}`}, ${state}`

/** Frames that only make room for others: nobody sees what they bring. */
function isPreparation({ payload }: TracedFrame): boolean {
  const change = decodeChange(payload)
  return change?.kind === 'group_created' || (change?.kind === 'stream_created' && change.audit_offset === null)
}

/** Of no importance to the answer: what is noted beside it, and claims of others that were waiting for what it brought. */
const isAside = (frame: TracedFrame): boolean =>
  isPreparation(frame) || frame.type === FRAME_CLAIM || decodeChange(frame.payload)?.kind === 'observation'

const describeError = (outcome: Outcome<unknown>): string =>
  outcome.kind === 'refused' && outcome.error instanceof Error ? (outcome.error.stack ?? '') : JSON.stringify(outcome)

const pick = <T>(from: readonly T[], choice: number): T => from[choice % from.length]!

const contentBytes = (content: PublishInput['payload']): Buffer =>
  content instanceof Uint8Array ? Buffer.from(content) : Buffer.from(content.text, content.encoding)
