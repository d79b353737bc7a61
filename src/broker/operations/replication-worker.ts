/**
 * A worker ships one stream to the target of one policy, with several batches under way at once. What it knows beyond the state is lost at
 * a start, and found out again.
 *
 * W1  its progress is what the target said last. The state has it as soon as the log takes the frame; if that is lost, the target tells it again
 * W2  records that were removed before they were sent are reported once, as an audit event, even if nothing is left to send
 * W3  batches are sent in the order of their offsets, and may arrive in another: the target lets early ones wait for a time, and then refuses
 *     them. They are sent again when no batch is under way any more
 * W4  the wait of a publish for the target ends with the batch that brings its records, with the first failure, or when its records are removed
 *     before they are known to have arrived: the target then expects later ones, and may not have these
 * W5  a target is told that records are gone only when no power cut can bring them back: it would never take them again
 */
import { StoreError } from '../../errors.ts'
import type { NewFrame } from '../../engine/decision.ts'
import type { ReplicationPolicy } from '../../config/replication-binding.ts'
import type { Change } from '../frames/change.ts'
import { SYNCED } from '../engine/core.ts'
import type { Core } from '../engine/core.ts'
import { linkOf } from '../engine/replication-policies.ts'
import {
  REPLICATION_BACKOFF_MS_MAX,
  REPLICATION_BACKOFF_MS_MIN,
  REPLICATION_WAIT_MS,
  REPLICATION_WINDOW,
} from '../limits.ts'
import { refuse } from '../refusals.ts'
import type { Link } from '../state/replication-state.ts'
import type { StreamState } from '../state/state.ts'
import type { ReplicationReceipt } from '../wire/record-answers.ts'
import { planBatch, readBatch } from './replication-batch.ts'
import type { Batch, BatchLimits } from './replication-batch.ts'

/** What a target answered. */
export interface ApplyAnswer {
  readonly status: number
  /** A header that is a number; null: there is none. */
  readonly numberIn: (header: string) => number | null
  readonly text: string
}

/** Sends a batch to a target. Rejects when the outcome is unknown. */
export type ReplicationTransport = (
  policy: ReplicationPolicy,
  body: Uint8Array,
  signal: AbortSignal,
) => Promise<ApplyAnswer>

export interface WorkerParts {
  readonly core: Core
  readonly transport: ReplicationTransport
  /** Takes bytes of the tenant's egress. @returns seconds until they may be sent; 0: now */
  readonly takeEgress: (tenant: string, bytes: number) => number
  /** From 0 to below 1. */
  readonly random: () => number
  readonly batchRecordsMax: number
  /** Aborted when the broker closes: the worker gives up what is under way. */
  readonly closing: AbortSignal
  /** Called when a batch that was sent has arrived, or failed. */
  readonly onBatchEnded: (worker: ReplicationWorker) => void
}

/** Why the last batch did not arrive. */
export interface WorkerFailure {
  readonly code: string
  readonly message: string
  readonly atMs: number
}

interface WaitingPublish {
  readonly first: number
  readonly end: number
  readonly untilMs: number
  readonly arrived: (receipt: ReplicationReceipt) => void
  readonly failed: (error: Error) => void
}

/** `sent`: a batch is on its way, and `onBatchEnded` tells of its end. */
type Step = 'more' | 'done' | 'sent'

export class ReplicationWorker {
  policy: ReplicationPolicy
  readonly link: Link
  stream: StreamState
  /** True: nothing more is shipped, because the stream or the policy is gone. */
  isRetired = false
  /** When it goes on after a failure, or when its tenant may send again. Null: at once. */
  resumeAtMs: number | null = null
  /** True while it looks for a batch, or reads it. */
  isReading = false
  /** Batches under way. */
  batchesInFlight = 0
  failure: WorkerFailure | null = null
  isThrottled = false
  /** Failures since the last success. */
  attempts = 0
  shippedRecords = 0
  shippedBatches = 0
  lastShippedAtMs: number | null = null
  readonly #parts: WorkerParts
  /** W1; null: as the state says. */
  #next: number | null = null
  /** Records below were removed before they were known to have arrived (W2, W4). */
  #skippedBelow = 0
  /** Records below are gone, even after a power cut (W5). */
  #durableFloor = 0
  /** Records removed below are reported (W2); 0 after a start, as a purge may not be. */
  #toldBelow = 0
  /** Offset behind what was sent (W3); null: the same as `next`. */
  #sentTo: number | null = null
  /** Next offset of the stream at the target, as it said last. */
  #watermark = 0
  #recordsMax: number
  #waiting: WaitingPublish[] = []
  /** End of what was visible at some time, and that time; null: everything has arrived. */
  #mark: { readonly end: number; readonly atMs: number } | null = null

  constructor(stream: StreamState, policy: ReplicationPolicy, parts: WorkerParts) {
    this.stream = stream
    this.policy = policy
    this.link = linkOf(policy)
    this.#parts = parts
    this.#recordsMax = parts.batchRecordsMax
  }

  /** W1 */
  get next(): number {
    return this.#next ?? this.stream.replicated?.shipment(this.link).nextOffset ?? 0
  }

  get isPaused(): boolean {
    return (this.stream.replicated?.paused(this.link) ?? null) !== null
  }

  get lagRecords(): number {
    return this.#parts.core.policies.lagOf(this.stream, this.policy, this.next)
  }

  get isLagging(): boolean {
    return this.#parts.core.policies.isLagging(this.policy, this.lagRecords)
  }

  get isBehind(): boolean {
    const { stream, policy } = this
    return this.#parts.core.policies.firstUnsent(stream, policy, this.next) < stream.visibleNext
  }

  /** Milliseconds that the oldest unsent record has waited, about. */
  get lagMs(): number {
    return this.#mark === null ? 0 : Math.max(0, this.#parts.core.time.nowMs() - this.#mark.atMs)
  }

  /** True when a tick has to look at it: it is behind, failed, may have skipped records, or a publish waits for it. */
  get isActive(): boolean {
    const isUnderWay = this.#mark !== null || this.failure !== null || this.resumeAtMs !== null
    return isUnderWay || this.stream.floor > this.#toldBelow || this.#waiting.length > 0
  }

  /** Makes it continue at once. If nothing is left to send, as after a purge, its failure is over. */
  resume(): void {
    this.resumeAtMs = null
    this.isThrottled = false
    if (this.isBehind || this.batchesInFlight > 0) return
    this.failure = null
    this.attempts = 0
    this.#mark = null
  }

  /** Takes over the stream's object, which is another one after a loss. */
  adopt(stream: StreamState): void {
    if (stream === this.stream) return
    this.stream = stream
    this.#next = null
    this.#skippedBelow = 0
    this.#toldBelow = 0
    this.#durableFloor = 0
    this.#sentTo = null
  }

  /** @param policy replaces the policy of the same link; what failed before is tried again at once */
  follow(policy: ReplicationPolicy): void {
    if (policy === this.policy) return
    this.policy = policy
    this.resumeAtMs = null
    this.attempts = 0
  }

  retire(reason: string): void {
    this.isRetired = true
    this.giveUpWaiting(null, reason)
  }

  /** Called when there may be more to ship. */
  noteVisible(): void {
    if (this.#mark === null && this.isBehind) {
      this.#mark = { end: this.stream.visibleNext, atMs: this.#parts.core.time.nowMs() }
    }
  }

  /** W4. Resolves when the target has the records [first, end). */
  acknowledged(first: number, end: number, untilMs: number): Promise<ReplicationReceipt> {
    if (this.#isPassedOver(first, end)) return Promise.reject(notAcknowledged(REMOVED))
    if (this.next >= end) return Promise.resolve(this.#receipt())
    if (this.#parts.closing.aborted) return Promise.reject(notAcknowledged('the node stops'))
    if (this.failure) return Promise.reject(notAcknowledged(this.failure.message))
    return new Promise((arrived, failed) => this.#waiting.push({ first, end, untilMs, arrived, failed }))
  }

  /** W4. Ends the waits whose time is over. @param nowMs null: ends all of them */
  giveUpWaiting(nowMs: number | null, reason: string): void {
    this.#giveUp(({ untilMs }) => nowMs === null || untilMs <= nowMs, reason)
  }

  #giveUp(isOver: (waiting: WaitingPublish) => boolean, reason: string): void {
    if (!this.#waiting.some(isOver)) return
    const over = this.#waiting.filter(isOver)
    this.#waiting = this.#waiting.filter((each) => !isOver(each))
    for (const { failed } of over) failed(notAcknowledged(reason))
  }

  /** Sends a batch, if there is one. Never rejects. */
  async ship(): Promise<Step> {
    try {
      return await this.#ship()
    } catch (error) {
      const code = error instanceof StoreError ? error.code : 'unreachable'
      return this.#fail(code, error instanceof Error ? error.message : String(error), 0)
    }
  }

  async #ship(): Promise<Step> {
    const { core, takeEgress } = this.#parts
    const { stream, policy } = this
    if (!this.#mayGoOn(stream) || this.batchesInFlight >= REPLICATION_WINDOW) return 'done'
    this.noteSkipped()
    await core.readable(stream)
    if (!this.#mayGoOn(stream)) return 'done'
    const planned = planBatch(core, stream, policy, this.#sentTo ?? this.next, this.#recordsMax)
    if (planned === null) {
      if (this.batchesInFlight === 0) this.#mark = null
      return 'done'
    }
    if (this.batchesInFlight > 0 && planned.end - planned.first < this.#recordsMax / 2) return 'done' // a later batch will have more records
    const { floor } = stream
    const passesRemoved = planned.next < floor && this.#durableFloor < floor
    if (planned.end <= planned.first || passesRemoved) {
      await core.store(this.#shippedFrame(this.next), 'internal_error') // then the disk has all frames before it, too
      if (core.isCurrent(stream)) this.#durableFloor = floor
      return 'more'
    }
    const waitMs = this.batchesInFlight > 0 ? REPLICATION_WAIT_MS : 0 // it may arrive before those
    const batch = await readBatch(core, stream, policy, planned, this.#limits(waitMs))
    if (!this.#mayGoOn(stream)) return 'done'
    if (batch === null) return 'more'
    const seconds = takeEgress(stream.tenant, batch.body.byteLength)
    this.isThrottled = seconds > 0
    if (this.isThrottled) {
      this.resumeAtMs = core.time.nowMs() + 1000 * seconds
      return 'done'
    }
    this.#sentTo = batch.end
    this.batchesInFlight += 1
    void this.#send(batch, planned.next)
    return 'sent'
  }

  async #send(batch: Batch, from: number): Promise<void> {
    const { core, transport, closing, onBatchEnded } = this.#parts
    const { stream, policy, next } = this
    try {
      const answer = await transport(policy, batch.body, closing)
      if (closing.aborted || !core.isCurrent(stream)) return
      if (answer.status === 200) this.#arrived(answer, batch, from)
      else this.#refused(answer, batch.records, from, next)
    } catch (error) {
      this.#fail('unreachable', error instanceof Error ? error.message : String(error), 0)
    } finally {
      this.batchesInFlight -= 1
      if (this.batchesInFlight === 0) this.#sentTo = null // W3
      onBatchEnded(this)
    }
  }

  #limits(waitMs: number): BatchLimits {
    return { recordsMax: this.#recordsMax, floor: this.#durableFloor, waitMs }
  }

  #mayGoOn(stream: StreamState): boolean {
    const { core, closing } = this.#parts
    return !closing.aborted && core.isCurrent(stream) && !this.isPaused && !this.isRetired
  }

  #arrived(answer: ApplyAnswer, { records, body }: Batch, from: number): void {
    const { core } = this.#parts
    const reply = jsonOf(answer.text)
    const next = reply['next_expected_offset']
    const watermark = reply['target_watermark']
    if (typeof next !== 'number' || !Number.isSafeInteger(next) || next <= from) {
      return void this.#fail(
        'bad_answer',
        'the answer of the target is not that of a target apply: check target_url',
        0,
      )
    }
    if (next > this.stream.nextOffset) {
      const message = `the target expects offset ${next}, which this site has not assigned yet: this site lost records that it had sent`
      return void this.#fail('target_ahead', message, REPLICATION_BACKOFF_MS_MAX / 1000)
    }
    core.counters.shipped(records, body.byteLength)
    this.shippedRecords += records
    this.shippedBatches += 1
    this.lastShippedAtMs = core.time.wallMs()
    this.#succeed()
    this.#recordsMax = Math.min(this.#parts.batchRecordsMax, 2 * this.#recordsMax)
    this.#moveTo(Math.max(next, this.next))
    if (typeof watermark === 'number') this.#watermark = watermark
    this.#tellArrived(next)
    if (this.#mark !== null && next >= this.#mark.end) {
      this.#mark = null
      this.noteVisible()
    }
  }

  #succeed(): void {
    this.attempts = 0
    this.failure = null
    this.resumeAtMs = null
  }

  /** W1 */
  #moveTo(next: number): void {
    this.#next = next
    this.#append(this.#shippedFrame(next))
  }

  /** @param from where the batch begins @param next what the target was known to expect when the batch was sent */
  #refused(answer: ApplyAnswer, records: number, from: number, next: number): void {
    const { status } = answer
    const error = jsonOf(jsonOf(answer.text)['error'])
    const code = typeof error['code'] === 'string' ? error['code'] : `http_${status}`
    const message = typeof error['message'] === 'string' ? error['message'] : `the target answered ${status}`
    const expected = answer.numberIn('x-mq-next-expected-offset') ?? error['next_expected_offset']
    if (code === 'replica_apply_gap' && typeof expected === 'number') {
      if (expected < next) this.#moveTo(expected) // the target has lost records
      if (expected < next || from > next) return // W3
    }
    if (status === 413 && records > 1) {
      this.#recordsMax = Math.max(1, Math.floor(records / 2))
      this.#sentTo = null
      return
    }
    const waits = status === 429 || status === 503
    this.#fail(code, message, waits ? (answer.numberIn('retry-after') ?? 0) : 0)
  }

  /** @param seconds the worker waits at least so long */
  #fail(code: string, message: string, seconds: number): 'done' {
    const { core, random, closing } = this.#parts
    if (closing.aborted) return 'done'
    const nowMs = core.time.nowMs()
    const doubled = Math.min(REPLICATION_BACKOFF_MS_MAX, REPLICATION_BACKOFF_MS_MIN * 2 ** this.attempts)
    if (this.resumeAtMs === null || this.resumeAtMs <= nowMs) this.attempts += 1 // once for all batches under way that fail together
    this.#sentTo = null
    this.resumeAtMs = nowMs + Math.max(1000 * Math.min(seconds, 3600), doubled * (0.5 + random() / 2))
    core.counters.shipFailed()
    if (this.failure === null) {
      const { stream, policy } = this
      core.logger.warn(
        { stream: stream.name, policy: policy.name, code, reason: message },
        'replication failed and is tried again',
      )
    }
    this.failure = { code, message, atMs: core.time.wallMs() }
    this.giveUpWaiting(null, message)
    return 'done'
  }

  /** W4. True when the target may expect later records, and not have all of these. */
  #isPassedOver(first: number, end: number): boolean {
    return first < this.#skippedBelow || this.stream.holes.coveredBetween(first, end) > 0
  }

  #tellArrived(next: number): void {
    this.#giveUp(({ first, end }) => this.#isPassedOver(first, end), REMOVED)
    const arrived = this.#waiting.filter(({ end }) => end <= next)
    if (arrived.length === 0) return
    this.#waiting = this.#waiting.filter(({ end }) => end > next)
    const receipt = this.#receipt()
    for (const each of arrived) each.arrived(receipt)
  }

  #receipt(): ReplicationReceipt {
    const { sourceSite, targetSite, policy } = this.link
    return {
      policy,
      source_site: sourceSite,
      target_site: targetSite,
      next_expected_offset: this.next,
      target_watermark: this.#watermark,
      acknowledged_at_ms: this.lastShippedAtMs ?? this.#parts.core.time.wallMs(),
    }
  }

  /** W2 */
  noteSkipped(): void {
    const { core } = this.#parts
    const { stream, policy, link } = this
    const { floor, tenant } = stream
    if (floor === 0 || !core.isCurrent(stream)) return
    const from = Math.max(this.next, stream.replicated?.shipment(link).skippedBelow ?? 0)
    const records = core.policies.countBetween(stream, policy, from, floor)
    if (records === 0) {
      this.#toldBelow = floor
      return
    }
    this.#skippedBelow = floor
    this.#giveUp(({ first, end }) => this.#isPassedOver(first, end), REMOVED)
    const { before, frame } = core.audited({ tenant, principal: 'broker' }, 'finish', (event) => ({
      kind: 'replication_skipped',
      ...event,
      ...this.#named(),
      stream: stream.name,
      from_offset: from,
      to_offset: floor,
      skipped_records: records,
    }))
    if (!this.#append(...before, frame)) return
    this.#toldBelow = floor
    core.counters.unshipped(records)
    core.logger.warn(
      { stream: stream.name, policy: policy.name, records },
      'records were removed before they were replicated',
    )
  }

  #shippedFrame(next_offset: number): NewFrame<Change> {
    const { core } = this.#parts
    const shipped = { kind: 'replication_shipped', at_ms: core.time.wallMs(), ...this.#named(), next_offset } as const
    return { ...core.changeFrame(shipped, 'finish'), ...SYNCED }
  }

  #named() {
    const { sourceSite: source_site, targetSite: target_site, policy } = this.link
    return { stream_number: this.stream.number, source_site, target_site, policy }
  }

  /** @returns false when the log takes nothing now */
  #append(...frames: readonly NewFrame<Change>[]): boolean {
    return this.#parts.core.engine.appendSilently(frames) === null
  }
}

const REMOVED = 'they were removed here before the target confirmed them'

export const notAcknowledged = (reason: string): Error =>
  refuse(
    'replication_unavailable',
    `the records are stored here, but not yet at the target of their policy: ${reason}`,
    {
      action:
        'Do not publish again, or the records are stored twice: they are sent when the target can be reached. Inspect the replication status.',
    },
  )

const jsonOf = (value: unknown): Readonly<Record<string, unknown>> => {
  try {
    const parsed: unknown = typeof value === 'string' ? JSON.parse(value) : value
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {} // any object is one
  } catch {
    return {}
  }
}
