/**
 * What all operations share: the state, the way into the log, the readers, time.
 *
 * An operation judges the state as it is after everything appended so far, appends a frame, applies it at once, and answers when it is
 * stored. So the next operation builds on it without waiting, and if the frame is lost, so is everything built on it.
 *
 * C1  a change is applied exactly when its frame was taken, by what applies it at a start: `applyFrame`
 * C2  no answer, refusals included, tells of state that is not stored: see `judged` and `confirmed`
 * C3  after frames were lost the state is what the log holds, in new objects. What goes on after an `await` looks its streams and groups up
 *     again, or sees by `state` that they are others now: numbers and places that were lost are given again
 */
import assert from 'node:assert/strict'
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { FRAME_HEADER_BYTES, frameBytes } from '../../../native-free-codecs/frame.ts'
import type { Log } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import type { BrokerCounters } from '../counters.ts'
import { FRAME_CHANGE } from '../frames.ts'
import { encodeChange } from '../frames/change.ts'
import type { Change } from '../frames/change.ts'
import type { Caller } from '../operations.ts'
import type { RecordReads, Unreadable } from '../records/record-reads.ts'
import { refuse } from '../refusals.ts'
import type { RefusalCode } from '../refusals.ts'
import { Tokens } from '../tokens.ts'
import type { Acknowledgement } from '../wire/answers.ts'
import type { RecordDurability } from '../wire/requests.ts'
import { FrameLost, FrameNotTaken } from '../../log/appender.ts'
import type { AppendDurability, Appender, NotTaken } from '../../log/appender.ts'
import { applyChange } from './apply-change.ts'
import { applyFrame } from './apply-frames.ts'
import type { BrokerTime } from './broker-time.ts'
import { AUDIT_STREAM, DEFAULT_STREAM_CONFIG } from './state.ts'
import type { BrokerState, StreamState } from './state.ts'

export interface Timers {
  /** Calls again and again until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
}

export interface CoreParts {
  readonly log: Log
  readonly appender: Appender
  readonly reads: RecordReads
  readonly time: BrokerTime
  readonly timers: Timers
  readonly counters: BrokerCounters
  readonly logger: Logger
  readonly random: (bytes: Uint8Array) => void
  /** Resolves when others had their turn of main. */
  readonly turn: () => Promise<void>
  /** What `local-disk` means: 'sync', or 'append' with the flush policy append-only. */
  readonly localDisk: 'sync' | 'append'
  /** Directories that must have synced a frame; 1 without replicas. */
  readonly writeQuorum: number
  readonly hasReplicas: boolean
}

/** A frame to append. */
export interface NewFrame {
  readonly type: number
  readonly payloadBytes: number
  readonly encode: (target: Buffer, at: number) => void
  readonly purpose: 'admit' | 'finish'
  readonly durability?: AppendDurability
  /** What the payload says, where it takes long to decode. */
  readonly change?: Change
  /** In frame order, before the promise resolves. */
  readonly onStored?: () => void
  /** What the caller is told when the log does not take or loses the frame. */
  readonly failure: PersistFailure
}

export type PersistFailure = 'internal_error' | 'queue_state_persistence_failed' | 'replica_apply_failed'

export class Core {
  readonly log: Log
  readonly appender: Appender
  readonly reads: RecordReads
  readonly time: BrokerTime
  readonly timers: Timers
  readonly counters: BrokerCounters
  readonly logger: Logger
  readonly random: (bytes: Uint8Array) => void
  readonly turn: () => Promise<void>
  readonly writeQuorum: number
  readonly hasReplicas: boolean
  readonly #localDisk: 'sync' | 'append'
  readonly #visibleListeners: ((stream: StreamState) => void)[] = []
  #state: BrokerState
  #tokens: Tokens | null = null

  constructor(parts: CoreParts, state: BrokerState) {
    this.log = parts.log
    this.appender = parts.appender
    this.reads = parts.reads
    this.time = parts.time
    this.timers = parts.timers
    this.counters = parts.counters
    this.logger = parts.logger
    this.random = parts.random
    this.turn = parts.turn
    this.writeQuorum = parts.writeQuorum
    this.hasReplicas = parts.hasReplicas
    this.#localDisk = parts.localDisk
    this.#state = state
    this.log.onStateChange(({ kind }) => {
      if (kind === 'ok') this.#tellAllVisible() // what could not be given out meanwhile
    })
  }

  get state(): BrokerState {
    return this.#state
  }

  /** C3. What was lost may have kept records from those who wait for them. */
  replaceState(state: BrokerState): void {
    this.#state = state
    this.#tellAllVisible()
  }

  get tokens(): Tokens {
    this.#tokens ??= new Tokens(this.#state.secret)
    return this.#tokens
  }

  // Streams

  /** @throws BrokerError with the code the route has for a stream that is not there for the caller */
  stream(caller: Caller, name: string, missing: 'stream_not_found' | 'missing_stream'): StreamState {
    const stream = this.#state.stream(caller.tenant, name)
    if (stream === undefined) throw refuse(missing, 'there is no stream of this name')
    return stream
  }

  /** C3 */
  isCurrent(stream: StreamState): boolean {
    return this.#state.streams[stream.number] === stream
  }

  auditStream(tenant: string): StreamState {
    const existing = this.#state.stream(tenant, AUDIT_STREAM)
    if (existing) return existing
    this.change(
      {
        kind: 'stream_created',
        stream_number: this.#state.streams.length,
        tenant,
        stream: AUDIT_STREAM,
        ...DEFAULT_STREAM_CONFIG,
        at_ms: this.time.wallMs(),
        principal: 'broker',
        audit_offset: null,
      },
      { purpose: 'admit', failure: 'internal_error' },
    ).catch(() => {}) // what comes behind it is lost with it, and says so
    return this.#state.stream(tenant, AUDIT_STREAM)!
  }

  onVisible(listener: (stream: StreamState) => void): void {
    this.#visibleListeners.push(listener)
  }

  /** Records up to here can be read now. */
  makeVisible(stream: StreamState, nextOffset: number): void {
    stream.visibleNext = Math.max(stream.visibleNext, nextOffset)
    this.#tellVisible(stream)
  }

  #tellAllVisible(): void {
    for (const stream of this.#state.streams) if (stream) this.#tellVisible(stream)
  }

  #tellVisible(stream: StreamState): void {
    for (const listener of this.#visibleListeners) listener(stream)
  }

  // Frames

  /**
   * C1. The promise resolves when the frame is stored.
   *
   * @throws BrokerError when the frame is not taken: at once, and nothing has changed
   */
  append(frame: NewFrame): Promise<void> {
    const { appender } = this
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const settle = (stored: boolean): void => {
      if (!stored) return reject(notStored(frame.failure, new FrameLost()))
      frame.onStored?.()
      resolve()
    }
    const options = { durability: frame.durability ?? this.#localDisk, purpose: frame.purpose }
    try {
      appender.append(frame.type, frame.payloadBytes, options, frame.encode, settle)
    } catch (error) {
      throw notStored(frame.failure, error)
    }
    const { segmentBase, place, payload } = appender
    const at = { segmentBase, place, frameBytes: frameBytes(frame.payloadBytes) }
    const isKnown = frame.change
      ? applyChange(this.#state, frame.change, at)
      : applyFrame(this.#state, { type: frame.type, payload }, at)
    assert(isKnown, 'a frame is about what is there')
    return promise
  }

  /** A rare change. The event that it is can be read when it is stored. */
  change(change: Change, frame: Pick<NewFrame, 'purpose' | 'durability' | 'failure'>): Promise<void> {
    const payload = encodeChange(change)
    const auditOffset = 'audit_offset' in change ? change.audit_offset : null
    const audit = 'tenant' in change ? this.#state.stream(change.tenant, AUDIT_STREAM) : undefined
    return this.append({
      ...frame,
      type: FRAME_CHANGE,
      payloadBytes: payload.byteLength,
      encode: (target, at) => void copyBytes(payload, target, at),
      change,
      onStored: () => {
        if (audit && auditOffset !== null) this.makeVisible(audit, auditOffset + 1)
      },
    })
  }

  /** C2: what a question finds in the state, given out when everything it was found in is stored. */
  judged<T>(judge: () => T | Promise<T>): Promise<T> {
    return this.#steadily(judge, () => this.appender.settled().catch(() => {}))
  }

  /** C3: what is found in the state with an `await` or more between; sought again when the state has become another one. */
  steady<T>(find: () => Promise<T>): Promise<T> {
    return this.#steadily(find, () => Promise.resolve())
  }

  async #steadily<T>(find: () => T | Promise<T>, confirm: () => Promise<void>): Promise<T> {
    for (;;) {
      const state = this.#state
      const found = await this.#attempt(find)
      await confirm()
      if (this.#state === state) return found()
    }
  }

  /** C2 for operations: a refusal is given out when everything it was judged on is stored. */
  async confirmed<T>(failure: PersistFailure, operation: () => Promise<T>): Promise<T> {
    try {
      return await operation()
    } catch (error) {
      await this.settled(failure)
      throw error
    }
  }

  /**
   * C2: resolves when everything appended so far is stored.
   *
   * @throws BrokerError when something of it is lost
   */
  async settled(failure: PersistFailure): Promise<void> {
    try {
      await this.appender.settled()
    } catch (lost) {
      throw notStored(failure, lost)
    }
  }

  async #attempt<T>(find: () => T | Promise<T>): Promise<() => T> {
    try {
      const value = await find()
      return () => value
    } catch (error) {
      return () => {
        throw error
      }
    }
  }

  /** Who reads the stream from now on waits until the frame appended last is in the file. */
  readLater(stream: StreamState): void {
    stream.readAfter = this.appender.position + 1 // frames end behind
  }

  /** Who tells of the stream from now on waits until the frame appended last is stored. */
  tellLater(stream: StreamState): void {
    stream.tellAfter = this.appender.position + 1
  }

  /** Resolves when everything that the stream's index says can be read from the file, and what was told of it is visible. */
  async readable(stream: StreamState): Promise<void> {
    if (stream.readAfter > this.log.written || stream.toldNext > stream.visibleNext) {
      await this.appender.settled().catch(() => {}) // what was lost is not there to be read
    }
  }

  /** Resolves when what was just found of the stream itself is stored, or lost: see `steady`. */
  async tellable(stream: StreamState): Promise<void> {
    if (stream.tellAfter > this.log.committed) await this.appender.settled().catch(() => {})
  }

  // Durability

  /** Of a queue or administrative change: local-disk. */
  get acknowledgement(): Acknowledgement {
    return this.acknowledgementOf(this.#localDisk === 'sync' ? 'local-sync' : 'local-append')
  }

  acknowledgementOf(durability: RecordDurability | 'local-quorum'): Acknowledgement {
    if (durability === 'local-sync') return SYNCED
    if (durability === 'local-append') return WRITTEN
    if (durability === 'volatile') return VOLATILE
    return { durability: 'local-quorum', durable: true, replicas: this.writeQuorum }
  }

  get localDiskDurability(): 'local-sync' | 'local-append' {
    return this.#localDisk === 'sync' ? 'local-sync' : 'local-append'
  }

  // Damage

  /** A reader met damaged frames: they are quarantined, and their records are never given out again. */
  reportUnreadable(stream: StreamState, unreadable: readonly Unreadable[]): void {
    if (!this.isCurrent(stream)) return // its places may be others' now
    for (const { segmentBase, place, cause, reason, frameBytes } of unreadable) {
      const segment = this.log.segments.find(({ base }) => base === segmentBase)
      if (cause !== 'damaged' || segment === undefined) continue
      const from = segmentBase + place
      const to = from + Math.max(frameBytes, FRAME_HEADER_BYTES)
      this.log.reportDamage(segment, { from, to, reason })
      this.#state.applyDamage(segmentBase, from, to)
    }
  }
}

const SYNCED: Acknowledgement = { durability: 'local-sync', durable: true, replicas: 1 }
const WRITTEN: Acknowledgement = { durability: 'local-append', durable: false, replicas: 1 }
export const VOLATILE: Acknowledgement = { durability: 'volatile', durable: false, replicas: 0 }

const NOT_TAKEN: Readonly<Record<NotTaken, string>> = {
  full: 'more is waiting for the disk than the broker takes; repeat the request',
  'read-only': 'the log takes nothing at present: health says why', // for good, or while it restarts in place
  'no-space': 'the disk is full: free space, then repeat the request',
}

function notStored(failure: PersistFailure, error: unknown): unknown {
  const code: RefusalCode = failure
  if (error instanceof FrameNotTaken) return refuse(code, NOT_TAKEN[error.reason], { retryable: true })
  if (error instanceof FrameLost) {
    return refuse(code, 'the change could not be stored: inspect the state before repeating it', { retryable: true })
  }
  return error
}
