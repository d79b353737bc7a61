/**
 * Claims: leases of records, given out with them. Source: specification "Queue delivery and lease".
 *
 * L1  a record has at most one active lease: a claim is decided on the state after all frames appended before it
 * L2  a record that turns out damaged when it is claimed is left out of the answer and never given out again
 * L3  records that one answer cannot hold are not leased for it, so that they keep their attempt
 * L4  a claim that repeats an id gets what is still leased of the claim before; if that is anything, it leases nothing (claim-ids.ts). It is
 *     decided after the claim before was answered, and never ends a lease, because the client may hold it by that answer
 */
import { LATER, replied } from '../../engine/decision.ts'
import type { Answer, Decision, NewFrame } from '../../engine/decision.ts'
import type { Turn } from '../../engine/engine.ts'
import { asError } from '../../errors.ts'
import { FRAME_CLAIM, claimBytes, encodeClaim } from '../frames.ts'
import type { Change } from '../frames/change.ts'
import {
  CLAIM_BYTES_MAX,
  CLAIM_MESSAGES_DEFAULT,
  CLAIM_WAIT_MS_MAX,
  LEASE_TIMEOUT_MS_DEFAULT,
  SLICE_ENTRIES,
} from '../limits.ts'
import type {
  AbandonedSignal,
  Caller,
  GroupPath,
  Pushed,
  PushedClaim,
  PushRequest,
  RenderedJson,
  StreamPin,
} from '../operations.ts'
import type { TenantQuotas } from '../quotas.ts'
import { PayloadBound } from '../records/payload-bound.ts'
import type { RenderedRecords, Unreadable } from '../records/rendered-records.ts'
import { refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import { planWithin } from '../state/claim-plan.ts'
import { activeDeliveriesOf } from '../state/claim-ids.ts'
import { GroupState } from '../state/group.ts'
import type { LeaseRun } from '../state/group.ts'
import type { ClaimBody } from '../wire/requests.ts'
import { JsonClaims, PushedClaims } from './claim-forms.ts'
import type { ClaimForm, Delivery, Lease } from './claim-forms.ts'
import { NOT_STORED } from '../engine/core.ts'
import type { Core } from '../engine/core.ts'
import type { DeliveryOutcomes } from './delivery-outcomes.ts'
import { beyondEndRefusal, groupOf, pinned } from './groups.ts'
import { notNow } from './reading.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { Group, StreamState } from '../state/state.ts'

const FAILURE = 'queue_state_persistence_failed'
/** How often the records of a repeated claim are read at most, as some may be moved meanwhile. */
const READ_ATTEMPTS_MAX = 3
const UNREADABLE = 'the records cannot be read at present: repeat the request'

interface ClaimRequest {
  readonly caller: Caller
  readonly path: GroupPath
  readonly startOffset: number
  readonly max: number
  readonly timeoutMs: number
  /** In broker time; null: it does not wait. */
  readonly waitsUntilMs: number | null
  readonly abandonedSignal: AbandonedSignal
  readonly pin: StreamPin
  readonly id: string | null
  /** Bytes of payload. */
  readonly bytesMax: number
}

export interface ClaimParts {
  readonly core: Core
  readonly quotas: TenantQuotas
  readonly outcomes: DeliveryOutcomes
  /** Applies the expired leases and due delays of the group. @returns how many offsets that changed */
  readonly expire: (group: Group) => number
}

/** A claim that is being decided. */
interface AskedClaim {
  readonly request: ClaimRequest
  readonly claimAnswer: RecordReading
  /** Resolves when the claim is answered; null: it has no id. */
  readonly answered: Promise<void> | null
  readonly again: () => Decision<Lease | null, Change>
}

export class Claims {
  readonly #parts: ClaimParts
  /** Claims with an id that are not answered yet; each resolves when it is (L4). */
  readonly #unanswered = new Map<string, Promise<void>>()

  constructor(parts: ClaimParts) {
    this.#parts = parts
  }

  claim(
    answer: Answer<RenderedJson>,
    caller: Caller,
    path: GroupPath,
    body: ClaimBody,
    abandonedSignal: AbandonedSignal,
  ): void {
    const request = {
      caller,
      path,
      startOffset: body.start_offset ?? 0,
      max: body.max_messages ?? CLAIM_MESSAGES_DEFAULT,
      timeoutMs: body.lease_timeout_millis ?? LEASE_TIMEOUT_MS_DEFAULT,
      waitsUntilMs: this.#untilMs(body.wait_millis ?? 0),
      abandonedSignal,
      pin: { number: null, createdAtMs: body.stream_created_at_ms ?? null },
      id: body.claim_id ?? null,
      bytesMax: CLAIM_BYTES_MAX,
    }
    this.#claim(request, answer, new JsonClaims(this.#parts.core, request))
  }

  /** A claim that waits, for the streaming connection. */
  push(
    answer: Answer<Pushed | null>,
    caller: Caller,
    path: GroupPath,
    { pin, startOffset, max, leaseMs: timeoutMs, bytesMax, form }: PushRequest,
    abandonedSignal: AbandonedSignal,
  ): void {
    const waitsUntilMs = this.#untilMs(CLAIM_WAIT_MS_MAX)
    const request = {
      caller,
      path,
      startOffset,
      max,
      timeoutMs,
      waitsUntilMs,
      abandonedSignal,
      pin,
      id: null,
      bytesMax,
    }
    this.#claim(request, answer, new PushedClaims(this.#parts.core, { path, pin }, form))
  }

  /** Ends leases that no client knows of, unless they have ended otherwise. Many are ended in slices. */
  releaseClaims(answer: Answer<null>, claims: readonly PushedClaim[]): void {
    release(this.#parts, claims).then(
      () => answer.answered(null),
      (error: unknown) => answer.refused(error),
    )
  }

  firstLeased({ groupNumber, claimNumber, deliveries }: PushedClaim, from: number): number {
    const { core } = this.#parts
    const nowMs = core.time.nowMs()
    for (let i = from; i < deliveries.length; i++) {
      if (leasedTo(core, { groupNumber, claimNumber, ...deliveries[i]! }, nowMs) !== null) return i
    }
    return -1
  }

  #claim<Reply>(request: ClaimRequest, given: Answer<Reply>, form: ClaimForm<Reply>): void {
    const { answer, answered } = request.id === null ? { answer: given, answered: null } : awaitable(given)
    const claimAnswer = new ClaimAnswer(this.#parts, answer, form)
    const decide = (turn: Turn): Decision<Lease | null, Change> => {
      const stream = this.#stream(request)
      if (stream instanceof Error) return stream
      return this.#decide(turn, stream, { request, claimAnswer, answered, again: () => decide('again') })
    }
    this.#parts.core.engine.run(decide, claimAnswer, NOT_STORED[FAILURE])
  }

  #stream({ caller, path, pin }: ClaimRequest): StreamState | BrokerError {
    if (path.stream === AUDIT_STREAM) {
      return refuse('write_not_allowed', `${AUDIT_STREAM} has no consumer groups: its events are read, not claimed`)
    }
    const stream = this.#parts.core.stream(caller, path.stream, 'missing_stream')
    return stream instanceof Error ? stream : pinned(pin, stream, 'missing_stream')
  }

  #decide(turn: Turn, stream: StreamState, asked: AskedClaim): Decision<Lease | null, Change> {
    const { core, expire } = this.#parts
    const { path, startOffset, waitsUntilMs, abandonedSignal, id } = asked.request
    const group = stream.groups.get(path.group)
    const repeated = group && id !== null ? this.#repeat(stream, group, id, asked) : null
    if (turn === 'first') {
      if (repeated === null && startOffset > stream.nextOffset) return beyondEndRefusal('start_offset', stream)
      if (!core.isReadable(stream)) return LATER
    }
    if (repeated !== null) return repeated
    if (turn === 'last') return replied(null)
    const place = { number: stream.number, queue: path.group }
    if (turn === 'first') core.engine.parked.catchUp(place)
    // Claims that came before are served first from what has just become available.
    if (group && expire(group) > 0) core.engine.parked.wake(place.number, place.queue)
    const mayServe = waitsUntilMs === null || turn === 'first' || core.log.state.kind !== 'restarting'
    const leasing = mayServe ? this.#lease(stream, asked) : null
    if (leasing !== null) return leasing
    const waitMs = waitsUntilMs === null ? 0 : waitsUntilMs - core.time.nowMs()
    if (waitMs <= 0) return replied(null)
    if (turn === 'first' && core.engine.parked.isFull) return refuse('quota_exceeded', 'too many claims are waiting')
    const onAbandoned = (listener: () => void): void => abandonedSignal.onAbandoned(listener)
    return { kind: 'wait', place, waitMs, takesAny: startOffset === 0, onAbandoned }
  }

  /** L4. Null: nothing of such a claim is leased. */
  #repeat(
    stream: StreamState,
    group: Group,
    id: string,
    { claimAnswer, again }: AskedClaim,
  ): Decision<Lease | null, Change> | null {
    const { core } = this.#parts
    const claim = group.claimIds.get(id)
    if (claim === undefined) return null
    const { number: groupNumber } = group
    const { claimNumber } = claim
    const before = this.#unanswered.get(nameOf(groupNumber, claimNumber))
    if (before !== undefined) return { kind: 'read', read: () => before.then(() => again) }
    const living = Array.from(activeDeliveriesOf(group.queue, claim, core.time.nowMs()))
    const [first] = living
    if (first === undefined) return null
    return {
      kind: 'read',
      read: async () => {
        await claimAnswer.readAgain(stream, living)
        return () => {
          const isCurrent = core.state.groups[groupNumber] === group
          const still = isCurrent ? Array.from(activeDeliveriesOf(group.queue, claim, core.time.nowMs())).length : 0
          if (still < living.length) return again()
          const { leasedAtMs, expiresAtMs } = first
          return replied({ groupNumber, claimNumber, leasedAtMs, expiresAtMs })
        }
      },
    }
  }

  /** L1, L3. Null: there is nothing to lease. */
  #lease(stream: StreamState, { request, claimAnswer, answered }: AskedClaim): Decision<Lease, Change> | null {
    const { core, quotas } = this.#parts
    const { caller, path, startOffset, max, timeoutMs, id, bytesMax, waitsUntilMs } = request
    if (core.reads.unread.isFull) return waitsUntilMs === null ? notNow() : null
    const queue = stream.groups.get(path.group)?.queue ?? GroupState.create()
    const available = queue.plan(Math.max(startOffset, stream.floor), stream.visibleNext, max, stream.holes)
    if (available.length === 0) return null
    const bound = new PayloadBound(stream.index, (segmentBase) => this.#segmentBytes(segmentBase))
    const fitting = Math.min(bytesMax, core.reads.unread.claimBytesMax)
    const runs = planWithin(available, fitting, (offset) => bound.add(offset)) // L3
    const leasedAtMs = core.time.nowMs()
    const tooMany = quotas.checkConsumers(caller.tenant, () => queue.activeClaims(leasedAtMs))
    if (tooMany !== null) return tooMany
    const { number: groupNumber, before } = groupOf(core, stream, path.group)
    const claimNumber = core.state.groups[groupNumber]?.nextClaimNumber ?? core.state.claimNumbersUsed
    const expiresAtMs = leasedAtMs + timeoutMs
    const claim = { groupNumber, claimNumber, atMs: leasedAtMs, expiresAtMs, runs, id: id ?? undefined }
    const frame: NewFrame<Change> = {
      type: FRAME_CLAIM,
      payloadBytes: claimBytes(claim),
      encode: (target, at) => void encodeClaim(target, at, claim),
      purpose: 'admit',
      durability: core.localDisk,
      onTaken: () => {
        claimAnswer.read(stream, runs)
        if (answered !== null) this.#noteUnanswered(nameOf(groupNumber, claimNumber), answered)
      },
    }
    const lease: Lease = { groupNumber, claimNumber, leasedAtMs, expiresAtMs }
    return { kind: 'change', before, frame, reply: () => lease }
  }

  /** L4 */
  #noteUnanswered(name: string, answered: Promise<void>): void {
    this.#unanswered.set(name, answered)
    void answered.then(() => this.#unanswered.delete(name))
  }

  /** Null: it does not wait. */
  #untilMs(waitMs: number): number | null {
    return waitMs === 0 ? null : this.#parts.core.time.nowMs() + waitMs
  }

  /** Length of a segment; if it is not sealed, how far it can have been written. */
  #segmentBytes(segmentBase: number): number {
    const { log, appender } = this.#parts.core
    const segment = log.segments.find(({ base }) => base === segmentBase)
    return (segment?.sealed ? segment.end : appender.position) - segmentBase
  }
}

/** Name of a claim that is unique over all groups. */
const nameOf = (groupNumber: number, claimNumber: number): string => `${groupNumber}/${claimNumber}`

/** The same answer, with a promise that resolves when it was answered or refused. */
function awaitable<Reply>(given: Answer<Reply>): { answer: Answer<Reply>; answered: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const answer: Answer<Reply> = {
    answered(reply) {
      given.answered(reply)
      resolve()
    },
    refused(error) {
      given.refused(error)
      resolve()
    },
  }
  return { answer, answered: promise }
}

/** Reads the records of a lease. */
type RecordReading = Pick<ClaimAnswer<unknown>, 'read' | 'readAgain'>

/** Answers a claim with its lease. The records are read while the frame is on its way to the disk. */
class ClaimAnswer<Reply> implements Answer<Lease | null> {
  readonly #parts: ClaimParts
  readonly #answer: Answer<Reply>
  readonly #form: ClaimForm<Reply>
  #stream: StreamState | null = null
  #deliveries: readonly Delivery[] = []
  #records: RenderedRecords | Promise<RenderedRecords | Error> | null = null
  /** L4: the leases are those of the claim before. */
  #isRepeat = false

  constructor(parts: ClaimParts, answer: Answer<Reply>, form: ClaimForm<Reply>) {
    this.#parts = parts
    this.#answer = answer
    this.#form = form
  }

  read(stream: StreamState, runs: readonly LeaseRun[]): void {
    const deliveries = runs.flatMap(({ offset: first, count, attempt }) =>
      Array.from({ length: count }, (_, i) => ({ offset: first + i, attempt })),
    )
    this.#read(stream, deliveries)
  }

  /** Leaves damaged records out. @throws when others cannot be read now */
  async readAgain(stream: StreamState, deliveries: readonly Delivery[]): Promise<void> {
    const { core } = this.#parts
    for (let attempt = 1; ; attempt += 1) {
      if (this.#records !== null && !(this.#records instanceof Promise)) this.#records.bytesDone() // of the attempt before
      await core.readable(stream)
      this.#read(stream, deliveries)
      const records = await this.#records!
      if (records instanceof Error) throw records
      this.#records = records
      core.reportUnreadable(stream, records.unreadable)
      this.#isRepeat = true
      if (records.unreadable.every(({ cause }) => cause === 'damaged')) return
      if (attempt === READ_ATTEMPTS_MAX) throw refuse(FAILURE, UNREADABLE, { retryable: true })
    }
  }

  #read(stream: StreamState, deliveries: readonly Delivery[]): void {
    this.#stream = stream
    this.#deliveries = deliveries
    this.#isRepeat = false
    const read = this.#form.read(
      stream,
      this.#deliveries.map(({ offset }) => offset),
    )
    const isRead = !(read instanceof Promise)
    this.#records = isRead ? read : read.catch(asError)
  }

  answered(lease: Lease | null): void {
    if (lease === null) return this.#giveNothing()
    const records = this.#records!
    if (records instanceof Promise) void this.#giveLater(lease, records)
    else if (records.unreadable.length > 0 && !this.#isRepeat) void this.#giveLater(lease, Promise.resolve(records))
    else this.#answer.answered(this.#replyOf(lease, records))
  }

  refused(error: unknown): void {
    this.#answer.refused(error)
  }

  #giveNothing(): void {
    this.#parts.core.counters.claimed(0)
    this.#answer.answered(this.#form.nothing())
  }

  async #giveLater(lease: Lease, reading: Promise<RenderedRecords | Error>): Promise<void> {
    try {
      const records = await reading
      if (records instanceof Error) {
        await this.#release(lease, this.#deliveries)
        throw records
      }
      if (records.unreadable.length > 0) await this.#releaseUnreadable(lease, records.unreadable)
      this.#answer.answered(this.#replyOf(lease, records))
    } catch (error) {
      this.#answer.refused(error)
    }
  }

  #replyOf(lease: Lease, records: RenderedRecords): Reply {
    const { core } = this.#parts
    const deliveries = this.#deliveries
    core.counters.claimed(deliveries.length - records.unreadable.length)
    const lastGiven = deliveries.findLast((_, i) => records.end(i) > records.start(i))
    const nextOffset = lastGiven ? lastGiven.offset + 1 : deliveries[0]!.offset
    const remainingMs = Math.max(0, lease.expiresAtMs - core.time.nowMs())
    const reply = this.#form.reply({ ...lease, remainingMs, deliveries, records, nextOffset })
    records.bytesDone()
    return reply
  }

  /**
   * L2. Ends the leases of records that could not be read. A record that is whole can be claimed again. A damaged one becomes a hole of the
   * stream, and its lease ends, too.
   */
  async #releaseUnreadable(lease: Lease, unreadable: readonly Unreadable[]): Promise<void> {
    this.#parts.core.reportUnreadable(this.#stream!, unreadable)
    const { holes } = this.#stream!
    const given = new Set(
      unreadable.filter(({ cause, offset }) => cause !== 'damaged' || holes.has(offset)).map(({ offset }) => offset),
    )
    await this.#release(
      lease,
      this.#deliveries.filter(({ offset }) => given.has(offset)),
    )
  }

  #release({ groupNumber, claimNumber }: Lease, deliveries: readonly Delivery[]): Promise<void> {
    return release(this.#parts, [{ groupNumber, claimNumber, deliveries }])
  }
}

interface Leased extends Delivery {
  readonly groupNumber: number
  readonly claimNumber: number
}

/** The group, if the lease is active; null: it is over. */
function leasedTo(core: Core, { groupNumber, claimNumber, offset, attempt }: Leased, nowMs: number): Group | null {
  const group = core.state.groups[groupNumber]
  const found = group?.queue.find(offset, attempt, nowMs)
  return group !== undefined && found?.kind === 'active' && found.claimNumber === claimNumber ? group : null
}

/**
 * Ends leases that no client knows of, SLICE_ENTRIES of them with one frame and in one turn of the main thread.
 *
 * @throws the refusal of the first frame that was not stored
 */
async function release(parts: ClaimParts, claims: readonly PushedClaim[]): Promise<void> {
  const stored: Promise<Error | null>[] = []
  let slice: Leased[] = []
  for (const { groupNumber, claimNumber, deliveries } of claims) {
    for (const { offset, attempt } of deliveries) {
      if (slice.length === SLICE_ENTRIES) {
        stored.push(releaseSlice(parts, slice))
        slice = []
        await parts.core.turn()
      }
      slice.push({ groupNumber, claimNumber, offset, attempt })
    }
  }
  stored.push(releaseSlice(parts, slice))
  for (const failure of await Promise.all(stored)) if (failure !== null) throw failure
}

/** Ends the leases that have not ended otherwise meanwhile. @returns why the frame was not stored */
async function releaseSlice({ core, outcomes }: ClaimParts, slice: readonly Leased[]): Promise<Error | null> {
  const atMs = core.time.nowMs()
  const released = slice.flatMap((leased) => {
    const { offset, attempt } = leased
    const group = leasedTo(core, leased, atMs)
    return group === null ? [] : [{ group, verb: 'release' as const, offset, attempt, atMs, valueMs: 0 }]
  })
  if (released.length === 0) return null
  try {
    await core.store(outcomes.resolution(released), FAILURE)
  } catch (error) {
    return asError(error)
  }
  const groups = new Set(released.map(({ group }) => group))
  for (const { stream, name } of groups) core.engine.parked.wake(stream.number, name)
  return null
}
