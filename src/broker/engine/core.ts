/**
 * What the broker's operations share: the engine that they run on, streams and the listeners for their records, time, tokens.
 *
 * C1  code after an `await` looks its streams and groups up again, or checks by `isCurrent` that they are still the same: numbers and places
 *     that were lost with frames are given again
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import type { NewFrame } from '../../engine/decision.ts'
import { NotLeading } from '../../engine/engine.ts'
import type { Engine, NotStored } from '../../engine/engine.ts'
import type { Log } from '../../log/log.ts'
import { takesFrames } from '../../log/log-options.ts'
import type { Logger } from '../../observability/logger.ts'
import type { BrokerCounters } from '../counters.ts'
import { FRAME_CHANGE } from '../frames.ts'
import { encodeChange } from '../frames/change.ts'
import type { Change } from '../frames/change.ts'
import type { Caller } from '../operations.ts'
import type { RecordReads } from '../records/record-reads.ts'
import type { Unreadable } from '../records/rendered-records.ts'
import { notLeading, refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import { Tokens } from '../tokens.ts'
import type { Acknowledgement } from '../durability.ts'
import type { RecordDurability } from '../durability.ts'
import { FrameLost, FrameNotTaken } from '../../engine/appender.ts'
import type { Appender, NotTaken } from '../../engine/appender.ts'
import type { BrokerTime } from '../state/broker-time.ts'
import type { ReplicationPolicies } from './replication-policies.ts'
import { AUDIT_STREAM, DEFAULT_STREAM_CONFIG } from '../state/state.ts'
import type { BrokerState, StreamState } from '../state/state.ts'

export interface Timers {
  /** Calls `task` at this interval until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
}

export interface CoreParts {
  readonly engine: Engine<BrokerState, Change>
  readonly reads: RecordReads
  readonly time: BrokerTime
  readonly timers: Timers
  readonly counters: BrokerCounters
  readonly logger: Logger
  /** Resolves when other work had its turn on the main thread. */
  readonly turn: () => Promise<void>
  /** What `local-disk` means: 'sync', or 'append' with the flush policy append-only. */
  readonly localDisk: 'sync' | 'append'
  /** Directories that must have synced a frame; 1 without replicas. */
  readonly writeQuorum: number
  readonly hasReplicas: boolean
  /** Audit events that are older are removed. Null: all are kept. */
  readonly auditMaxAgeMs: number | null
  /** They decide which streams are shipped to other sites. */
  readonly policies: ReplicationPolicies
}

/** Fields of every change that is also an audit event. */
export interface EventOfChange {
  readonly tenant: string
  readonly principal: string
  readonly audit_offset: number
  readonly at_ms: number
}

export type PersistFailure =
  | 'internal_error'
  | 'queue_state_persistence_failed'
  | 'quarantine_storage_failed'
  | 'replica_apply_failed'

export class Core {
  readonly engine: Engine<BrokerState, Change>
  readonly log: Log
  readonly appender: Appender
  readonly reads: RecordReads
  readonly time: BrokerTime
  readonly timers: Timers
  readonly counters: BrokerCounters
  readonly logger: Logger
  readonly turn: () => Promise<void>
  readonly writeQuorum: number
  readonly hasReplicas: boolean
  readonly auditMaxAgeMs: number | null
  readonly policies: ReplicationPolicies
  /** What `local-disk` means: 'sync', or 'append' with the flush policy append-only. */
  readonly localDisk: 'sync' | 'append'
  readonly #visibleListeners: ((stream: StreamState) => void)[] = []
  #tokens: Tokens | null = null

  constructor(parts: CoreParts) {
    this.engine = parts.engine
    this.log = parts.engine.log
    this.appender = parts.engine.appender
    this.reads = parts.reads
    this.time = parts.time
    this.timers = parts.timers
    this.counters = parts.counters
    this.logger = parts.logger
    this.turn = parts.turn
    this.writeQuorum = parts.writeQuorum
    this.hasReplicas = parts.hasReplicas
    this.auditMaxAgeMs = parts.auditMaxAgeMs
    this.policies = parts.policies
    this.localDisk = parts.localDisk
    this.log.onStateChange((state) => {
      if (takesFrames(state)) this.#tellAllVisible() // records that could not be given out meanwhile
    })
  }

  get state(): BrokerState {
    return this.engine.state
  }

  /** Called after a loss. Waiting claims and replays decide again. */
  replaceState(state: BrokerState): void {
    this.engine.replaceState(state)
    this.#tellAllVisible()
  }

  get tokens(): Tokens {
    this.#tokens ??= new Tokens(this.state.secret)
    return this.#tokens
  }

  // Streams

  /** @param missing the route's code for a stream that does not exist for the caller */
  stream(caller: Caller, name: string, missing: 'stream_not_found' | 'missing_stream'): StreamState | BrokerError {
    return this.state.stream(caller.tenant, name) ?? refuse(missing, 'there is no stream of this name')
  }

  /** The same, or the audit stream, which always exists. */
  anyStream(
    caller: Caller,
    name: string,
    missing: 'stream_not_found' | 'missing_stream' = 'stream_not_found',
  ): StreamState | Error {
    return name === AUDIT_STREAM ? this.auditStream(caller.tenant) : this.stream(caller, name, missing)
  }

  /** C1 */
  isCurrent(stream: StreamState): boolean {
    return this.state.streams[stream.number] === stream
  }

  /** Created at the first call. */
  auditStream(tenant: string): StreamState | FrameNotTaken {
    const { before } = this.auditOf(tenant)
    return this.engine.appendSilently(before) ?? this.state.stream(tenant, AUDIT_STREAM)!
  }

  /** Where the next event of a tenant goes, and the frame that has to come before it when the tenant has no audit stream yet. */
  auditOf(tenant: string): { readonly nextOffset: number; readonly before: readonly NewFrame<Change>[] } {
    const { state } = this
    const existing = state.stream(tenant, AUDIT_STREAM)
    if (existing) return { nextOffset: existing.nextOffset, before: NONE }
    const created = {
      kind: 'stream_created',
      stream_number: state.streams.length,
      tenant,
      stream: AUDIT_STREAM,
      ...DEFAULT_STREAM_CONFIG,
      at_ms: this.time.wallMs(),
      principal: 'broker',
      audit_offset: null,
    } as const
    return { nextOffset: state.eventsLost, before: [this.changeFrame(created, 'admit')] }
  }

  /**
   * A change that is also an audit event.
   *
   * @param change makes the change from its fields as an event, and from how many frames come before it
   * @returns its frame, the frames that must come before it, and the time of the change
   */
  audited(
    { tenant, principal }: Caller,
    purpose: NewFrame<Change>['purpose'],
    change: (event: EventOfChange, before: number) => Change,
    onStored?: () => void,
  ): { readonly before: readonly NewFrame<Change>[]; readonly frame: NewFrame<Change>; readonly atMs: number } {
    const { nextOffset, before } = this.auditOf(tenant)
    const atMs = this.time.wallMs()
    const event = { tenant, principal, audit_offset: nextOffset, at_ms: atMs }
    return { before, frame: this.changeFrame(change(event, before.length), purpose, onStored), atMs }
  }

  onVisible(listener: (stream: StreamState) => void): void {
    this.#visibleListeners.push(listener)
  }

  /** Records below `nextOffset` can be read from now on. */
  makeVisible(stream: StreamState, nextOffset: number): void {
    stream.visibleNext = Math.max(stream.visibleNext, nextOffset)
    this.#tellVisible(stream)
  }

  #tellAllVisible(): void {
    for (const stream of this.state.streams) if (stream) this.#tellVisible(stream)
  }

  #tellVisible(stream: StreamState): void {
    for (const listener of this.#visibleListeners) listener(stream)
  }

  // Frames

  /** Appends a step of a longer job. Resolves when the frame is stored. Rejects with a BrokerError when it is not taken, or lost. */
  store(frame: NewFrame<Change>, failure: PersistFailure): Promise<void> {
    return this.engine.store(frame, NOT_STORED[failure])
  }

  /** The frame of a rare change. If the change is an audit event, it can be read when it is stored. */
  changeFrame(change: Change, purpose: NewFrame<Change>['purpose'], onStored: () => void = () => {}): NewFrame<Change> {
    const payload = encodeChange(change)
    return {
      type: FRAME_CHANGE,
      payloadBytes: payload.byteLength,
      encode: (target, at) => void copyBytes(payload, target, at),
      purpose,
      durability: this.localDisk,
      change,
      onStored: () => {
        onStored()
        if ('audit_offset' in change && change.audit_offset !== null) this.showEvent(change.tenant, change.audit_offset)
      },
    }
  }

  /** Makes an event, and all before it, readable. */
  showEvent(tenant: string, auditOffset: number): void {
    const audit = this.state.stream(tenant, AUDIT_STREAM)
    if (audit) this.makeVisible(audit, auditOffset + 1)
  }

  /** Readers of the stream wait from now on until the frame appended last is in the file. */
  holdReadersUntilWritten(stream: StreamState): void {
    stream.readersWaitFor = this.appender.position + 1 // frames end behind their position
  }

  /** Answers about the stream wait from now on until the frame appended last is stored. */
  holdAnswersUntilStored(stream: StreamState): void {
    stream.answersWaitFor = this.appender.position + 1
  }

  /** True when all records of the stream's index can be read from the file, and those that publishers were told of are visible. */
  isReadable(stream: StreamState): boolean {
    return stream.readersWaitFor <= this.log.written && stream.acknowledgedNext <= stream.visibleNext
  }

  /** Resolves when the stream is readable. */
  async readable(stream: StreamState): Promise<void> {
    if (!this.isReadable(stream)) await this.appender.settled().catch(() => {}) // after a loss there is nothing to wait for
  }

  /** Resolves when the state of the stream that was just read is stored, or lost: after a loss readers begin anew (engine E3). */
  async answerable(stream: StreamState): Promise<void> {
    if (stream.answersWaitFor > this.log.committed) await this.appender.settled().catch(() => {})
  }

  // Durability

  /** How changes of queues and streams are acknowledged: local-disk. */
  get acknowledgement(): Acknowledgement {
    return this.acknowledgementOf(this.localDiskDurability)
  }

  acknowledgementOf(durability: RecordDurability | 'local-quorum'): Acknowledgement {
    if (durability === 'local-sync') return ACKNOWLEDGED_SYNCED
    if (durability === 'local-append') return WRITTEN
    if (durability === 'volatile') return VOLATILE
    return { durability: 'local-quorum', durable: true, replicas: this.writeQuorum }
  }

  get localDiskDurability(): 'local-sync' | 'local-append' {
    return this.localDisk === 'sync' ? 'local-sync' : 'local-append'
  }

  // Damage

  /** Quarantines damaged frames that a reader met. Their records are never given out again. */
  reportUnreadable(stream: StreamState, unreadable: readonly Unreadable[]): void {
    if (!this.isCurrent(stream)) return // its places may belong to other frames now
    for (const { segmentBase, place, cause, reason, frameBytes } of unreadable) {
      const segment = this.log.segments.find(({ base }) => base === segmentBase)
      if (cause !== 'damaged' || segment === undefined) continue
      const from = segmentBase + place
      const to = from + Math.max(frameBytes, FRAME_HEADER_BYTES)
      this.log.reportDamage(segment, { from, to, reason })
      this.state.applyDamage(segmentBase, from, to)
    }
  }
}

/** The durability of frames that release records, whatever the flush policy: after a power cut no frame may need a segment that was dropped. */
export const SYNCED = { durability: 'sync' } as const
const ACKNOWLEDGED_SYNCED: Acknowledgement = { durability: 'local-sync', durable: true, replicas: 1 }
const WRITTEN: Acknowledgement = { durability: 'local-append', durable: false, replicas: 1 }
export const VOLATILE: Acknowledgement = { durability: 'volatile', durable: false, replicas: 0 }

const NOT_TAKEN: Readonly<Record<NotTaken, string>> = {
  full: 'too many changes wait for the disk: repeat the request',
  'read-only': 'the log accepts no changes at present: see GET /health', // for good, or while it restarts in place
  'no-space': 'the disk is full: free space, then try again',
}

function notStored(code: PersistFailure, cause: Error): Error {
  if (cause instanceof NotLeading) return notLeading(cause.leader)
  if (cause instanceof FrameNotTaken) return refuse(code, NOT_TAKEN[cause.reason], { retryable: true })
  if (cause instanceof FrameLost) {
    return refuse(code, 'the change could not be stored: inspect the state before repeating it', { retryable: true })
  }
  return cause
}

/** What the callers of an operation are told when the log does not take or loses its frame. */
export const NOT_STORED: Readonly<Record<PersistFailure, NotStored>> = {
  internal_error: (cause) => notStored('internal_error', cause),
  queue_state_persistence_failed: (cause) => notStored('queue_state_persistence_failed', cause),
  quarantine_storage_failed: (cause) => notStored('quarantine_storage_failed', cause),
  replica_apply_failed: (cause) => notStored('replica_apply_failed', cause),
}

const NONE: readonly never[] = []
