/**
 * The producer's side of a log: gives frames their positions, builds their headers and hands them to the journal lanes.
 * Exactly one thread writes to a log: a decode lane, or main.
 *
 * Positions have no gaps: a frame begins where the one before ended, or 64 bytes behind the base of a new segment. After `tryBegin` said ok,
 * `publish` must follow before the next `tryBegin`. Otherwise the frame never existed.
 *
 * P2  a frame is built once; every journal lane gets the same bytes, so replica directories are equal
 * P3  all state is in the handle's shared words and is stored before the frame is published: if the thread dies, the next one
 *     attaches and continues. If it died while it published, `publishing` says so and the owner has the log recovered first
 * P5  in a cluster only the leader gives positions, and only the leader's frames go to the lane. A segment ends with the frame that opens the next
 *     one, never before: what is cut from its end must not leave it sealed on this node alone
 */
import assert from 'node:assert/strict'
import { FRAME_HEADER_BYTES, emptyFrameHeader, encodeFrameHeader, frameBytes } from '../../native-free-codecs/frame.ts'
import type { FrameHeader } from '../../native-free-codecs/frame.ts'
import { StoreError } from '../errors.ts'
import { SpscRing } from '../pipeline/spsc-ring.ts'
import {
  MESSAGE_HEAD_BYTES,
  MESSAGE_OPENS_SEGMENT,
  MESSAGE_REPORT_WRITTEN,
  MESSAGE_SEAL,
  MESSAGE_SYNC,
} from './journal-message.ts'
import { LogShared, PRODUCER_OK } from './log-shared.ts'
import type { ProducerState } from './log-shared.ts'
import { SEGMENT_BYTES_MAX, SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES } from './segment-format.ts'

/** Logical byte offset of a frame in the whole log: monotonic, a multiple of 8, opaque to services. */
export type Position = number

/**
 * When a frame counts as stored: at once; when it was written; when it was synced; when a write quorum of directories has
 * synced it. The log syncs the same for the last two: which of them `committed` means is a property of the log.
 */
export type Durability = 'volatile' | 'append' | 'sync' | 'quorum'

/** 'full': the ring has no room now, wait or shed. 'read-only': a directory failed or the log is restarting. 'no-space': see `purpose`. */
export type BeginResult = 'ok' | 'full' | 'read-only' | 'no-space'

/** What `LogWriter.attach` takes; can be sent to another thread. */
export interface LogWriterHandle {
  readonly shared: SharedArrayBuffer
  /** The rings of the journals, by directory. In a cluster the ring of its lane follows them. */
  readonly rings: readonly SharedArrayBuffer[]
  readonly segmentBytes: number
}

export class LogWriter {
  // These fields describe the frame that was begun last, until the next `tryBegin`.
  /** Where the frame begins. */
  position: Position = 0
  /** Where the frame ends: it is stored once `committed` reached this. */
  end: Position = 0
  segmentBase: Position = 0
  /** Where the header of the frame stands in the file of its segment. */
  segmentOffset = 0
  opensSegment = false
  /** The inline part is written to `bytes` from `inlineOffset` on. */
  inlineOffset = 0
  readonly bytes: Buffer
  /** Longest inline part that ever fits. */
  readonly inlineBytesMax: number

  readonly #shared: LogShared
  readonly #rings: readonly SpscRing[]
  readonly #words: readonly Uint32Array[]
  readonly #ringOffsets: number[]
  readonly #segmentBytes: number
  readonly #isClustered: boolean
  readonly #header = emptyFrameHeader()
  readonly #state: ProducerState = { tail: 0, base: 0, nextBase: 0, mustOpen: true, chain: 0, frameCount: 0 }
  #generation = -1
  #seenProgress = -1
  #seenSealRequests: number
  #committed = 0
  #admitLimit = 0
  #finishLimit = 0
  #begunBytes = 0
  #fullRing = 0

  static attach(handle: LogWriterHandle): LogWriter {
    return new LogWriter(handle)
  }

  private constructor(handle: LogWriterHandle) {
    this.#shared = LogShared.attach(handle.shared)
    this.#rings = handle.rings.map((ring) => SpscRing.attach(ring))
    this.#words = this.#rings.map((ring) => wordsOf(ring.bytes))
    this.#ringOffsets = this.#rings.map(() => -1)
    this.#segmentBytes = handle.segmentBytes
    this.#isClustered = this.#shared.clusterAck !== null
    this.#seenSealRequests = this.#shared.sealRequests
    this.bytes = this.#rings[0]!.bytes
    this.inlineBytesMax = this.#rings[0]!.messageBytesMax - MESSAGE_HEAD_BYTES - FRAME_HEADER_BYTES
    this.#load()
    assert(!this.#shared.publishing, 'the thread before died while it published: Log.recoverProducer comes first')
  }

  /**
   * Begins a frame whose payload is an inline part, which the caller writes into `bytes` at `inlineOffset`, followed by an
   * external part that already stands in the log's arena and stays there until `Log.released` has reached `end`.
   *
   * @param externalOffset in the arena; -1: none
   * @param purpose 'admit' keeps the log's reserve free, 'finish' (a frame that ends or frees something accepted) may use it
   */
  tryBegin(
    type: number,
    inlineBytes: number,
    externalOffset: number,
    externalBytes: number,
    durability: Durability,
    purpose: 'admit' | 'finish',
    flags = 0,
  ): BeginResult {
    assert(inlineBytes <= this.inlineBytesMax, 'inline part longer than inlineBytesMax')
    if (this.readOnly) return 'read-only'
    if (this.#shared.generation !== this.#generation) this.#load()
    this.poll()
    if (this.#shared.progress !== this.#seenProgress) this.#refresh()

    const state = this.#state
    const wholeBytes = frameBytes(inlineBytes + externalBytes)
    assert(SEGMENT_HEADER_BYTES + wholeBytes + SEGMENT_FOOTER_BYTES <= SEGMENT_BYTES_MAX, 'frame longer than a segment')
    const opens = state.mustOpen || this.#isFull(wholeBytes)
    const base = opens ? (state.mustOpen ? state.nextBase : state.tail + SEGMENT_FOOTER_BYTES) : state.base
    const position = opens ? base + SEGMENT_HEADER_BYTES : state.tail
    if (position + wholeBytes > (purpose === 'admit' ? this.#admitLimit : this.#finishLimit)) return 'no-space'

    const hasExternal = externalOffset >= 0
    const messageBytes = MESSAGE_HEAD_BYTES + (hasExternal ? FRAME_HEADER_BYTES + inlineBytes : wholeBytes)
    if (!this.#reserve(messageBytes)) return 'full'

    let kind = opens ? MESSAGE_OPENS_SEGMENT : 0
    if (durability === 'sync' || durability === 'quorum' || this.#isClustered) kind |= MESSAGE_SYNC
    else if (durability === 'append') kind |= MESSAGE_REPORT_WRITTEN
    this.#writeHead(kind, hasExternal ? externalOffset : 0, hasExternal ? externalBytes : 0)

    const header = this.#header
    header.position = position
    header.payloadBytes = inlineBytes + externalBytes
    header.type = type
    header.flags = flags
    this.position = position
    this.end = position + wholeBytes
    this.segmentBase = base
    this.segmentOffset = position - base
    this.opensSegment = opens
    this.inlineOffset = this.#ringOffsets[0]! + MESSAGE_HEAD_BYTES + FRAME_HEADER_BYTES
    if (!hasExternal) {
      const messageEnd = this.#ringOffsets[0]! + messageBytes
      for (let at = this.inlineOffset + inlineBytes; at < messageEnd; at += 1) this.bytes[at] = 0 // padding, of less than 8 bytes
    }
    this.#begunBytes = messageBytes
    return 'ok'
  }

  /**
   * @param payloadCrc CRC-32 (zlib's) of the inline part, then the external part, without padding
   * @param wakes      false: the caller calls `wakeJournals` soon, after some more frames
   * @returns false when the frame is lost already because the log was recovered meanwhile; true says nothing about its fate,
   *          `Log.outcome(end, generation)` does
   */
  publish(payloadCrc: number, wakes = true): boolean {
    assert(this.#begunBytes > 0, 'publish without a frame begun')
    const header = this.#header
    const state = this.#state
    header.durableBefore = Math.min(this.#committed, this.position)
    header.epoch = this.#shared.frameEpoch
    header.logId = this.#shared.logId
    header.previousHeaderCrc = state.chain
    header.payloadCrc = payloadCrc
    const headerAt = this.#ringOffsets[0]! + MESSAGE_HEAD_BYTES
    state.chain = encodeFrameHeader(header, this.bytes, headerAt)
    this.#advance()
    for (let replica = 1; replica < this.#rings.length; replica += 1) {
      const at = this.#ringOffsets[replica]!
      if (at < 0) continue
      const end = this.#ringOffsets[0]! + this.#begunBytes
      this.bytes.copy(this.#rings[replica]!.bytes, at + MESSAGE_HEAD_BYTES, headerAt, end) // P2
    }
    this.#begunBytes = 0
    this.#publishAll(wakes)
    return this.#shared.generation === this.#generation
  }

  /**
   * Takes over a frame of the cluster's leader, byte for byte (P5).
   *
   * @param frame header, payload and padding
   * @throws StoreError cluster_log_differs when the frame does not continue the log
   */
  tryCopy(frame: Uint8Array, header: FrameHeader): BeginResult {
    if (this.#shared.producerState !== PRODUCER_OK) return 'read-only'
    if (this.#shared.generation !== this.#generation) this.#load()
    if (this.#shared.progress !== this.#seenProgress) this.#refresh()
    const state = this.#state
    const { position } = header
    const opens = state.mustOpen || position !== state.tail
    const next = state.mustOpen ? state.nextBase : state.tail + SEGMENT_FOOTER_BYTES
    const base = opens ? next : state.base
    if (position !== (opens ? base + SEGMENT_HEADER_BYTES : state.tail) || header.previousHeaderCrc !== state.chain)
      throw differs(position, state)
    if (position + frame.byteLength > this.#finishLimit) return 'no-space'
    if (!this.#reserve(MESSAGE_HEAD_BYTES + frame.byteLength)) return 'full'
    this.#writeHead(MESSAGE_SYNC | (opens ? MESSAGE_OPENS_SEGMENT : 0), 0, 0)
    for (let replica = 0; replica < this.#rings.length; replica += 1) {
      const at = this.#ringOffsets[replica]!
      if (at >= 0) this.#rings[replica]!.bytes.set(frame, at + MESSAGE_HEAD_BYTES)
    }
    this.position = position
    this.end = position + frame.byteLength
    this.segmentBase = base
    this.segmentOffset = position - base
    this.opensSegment = opens
    this.inlineOffset = this.#ringOffsets[0]! + MESSAGE_HEAD_BYTES + FRAME_HEADER_BYTES
    state.chain = header.headerCrc
    this.#advance()
    this.#publishAll(false)
    return 'ok'
  }

  /** Has the journals write everything that was published. */
  wakeJournals(): void {
    for (const ring of this.#rings) ring.wakeSleeping()
  }

  /** Seals the segment as soon as what is in it was written; the next frame opens a new one. Nothing when it has no frames. */
  rotate(): void {
    if (this.#shared.generation !== this.#generation) this.#load()
    const state = this.#state
    if (this.readOnly || state.mustOpen || state.frameCount === 0) return
    state.mustOpen = true
    state.nextBase = state.tail + SEGMENT_FOOTER_BYTES
    state.frameCount = 0
    if (!this.#isClustered && this.#reserve(MESSAGE_HEAD_BYTES)) {
      this.#writeHead(MESSAGE_SEAL, 0, 0)
      this.#publishAll()
    } else {
      this.#shared.storeProducer(state, this.#generation) // the frame that opens the next segment seals this one (P5)
    }
  }

  /** Seals the segment if `Log.seal` asked for it. `tryBegin` does that too: this is for a producer that is woken while it has nothing to write. */
  poll(): void {
    const requests = this.#shared.sealRequests
    if (requests === this.#seenSealRequests || this.readOnly) return
    this.#seenSealRequests = requests
    if (this.#shared.generation !== this.#generation) this.#load()
    this.rotate()
  }

  /** After 'full', on a worker thread: sleeps until a lane gave space back or the time is over. */
  waitForSpace(inlineBytes: number, timeoutMs: number): boolean {
    return this.#rings[this.#fullRing]!.waitForSpace(MESSAGE_HEAD_BYTES + frameBytes(inlineBytes), timeoutMs)
  }

  /** End of the last frame known to be stored in the class of the log. */
  get committed(): Position {
    if (this.#shared.progress !== this.#seenProgress) this.#refresh()
    return this.#committed
  }

  /** Where the next frame begins, unless it opens a segment. */
  get tail(): Position {
    if (this.#shared.generation !== this.#generation) this.#load()
    return this.#state.tail
  }

  /** Generation of the log to which the frame that was begun last belongs, see `Log.outcome`. */
  get generation(): number {
    return this.#generation
  }

  get readOnly(): boolean {
    return this.#shared.producerState !== PRODUCER_OK || (this.#isClustered && !this.#shared.leads)
  }

  /** Moves the tail behind the frame that was begun. */
  #advance(): void {
    const state = this.#state
    state.tail = this.end
    state.base = this.segmentBase
    state.mustOpen = false
    state.frameCount = this.opensSegment ? 1 : state.frameCount + 1
  }

  #isFull(wholeBytes: number): boolean {
    const offset = this.#state.tail - this.#state.base
    return this.#state.frameCount > 0 && offset + wholeBytes + SEGMENT_FOOTER_BYTES > this.#segmentBytes
  }

  /** Reserves room in the rings of all live replicas, or in none. The next reservation gives back what was not published. */
  #reserve(messageBytes: number): boolean {
    for (let replica = 0; replica < this.#rings.length; replica += 1) {
      this.#ringOffsets[replica] = -1
      const isTaken = replica < this.#shared.replicaCount ? this.#shared.isLive(replica) : this.#shared.leads
      if (!isTaken) continue
      const at = this.#rings[replica]!.tryReserve(messageBytes)
      if (at < 0) {
        this.#fullRing = replica
        return false
      }
      this.#ringOffsets[replica] = at
    }
    return this.#ringOffsets[0]! >= 0
  }

  #writeHead(kind: number, externalOffset: number, externalBytes: number): void {
    for (let replica = 0; replica < this.#rings.length; replica += 1) {
      if (this.#ringOffsets[replica]! < 0) continue
      const words = this.#words[replica]!
      const at = this.#ringOffsets[replica]! >>> 2
      words[at] = this.#generation
      words[at + 1] = kind
      words[at + 2] = externalOffset
      words[at + 3] = externalBytes
    }
  }

  #publishAll(wakes = true): void {
    this.#shared.publishing = true // P3
    this.#shared.storeProducer(this.#state, this.#generation)
    for (let replica = 0; replica < this.#rings.length; replica += 1) {
      if (this.#ringOffsets[replica]! >= 0) this.#rings[replica]!.publish(wakes)
    }
    this.#shared.publishing = false
  }

  #load(): void {
    this.#generation = this.#shared.loadProducer(this.#state)
    this.#seenProgress = -1
    this.#begunBytes = 0
    this.#refresh()
  }

  #refresh(): void {
    this.#seenProgress = this.#shared.progress
    this.#committed = Math.max(this.#committed, this.#shared.committed())
    this.#admitLimit = this.#shared.admitLimit()
    this.#finishLimit = this.#shared.finishLimit()
  }
}

const differs = (position: number, { tail, chain }: ProducerState): StoreError =>
  new StoreError(
    'corrupt',
    'cluster_log_differs',
    `the frame at position ${position} does not follow the end of the log at ${tail} (${chain.toString(16)})`,
  )

/** The data area as words: messages are 8-byte aligned. */
function wordsOf(bytes: Buffer): Uint32Array {
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >>> 2)
}
