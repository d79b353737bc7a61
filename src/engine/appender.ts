/**
 * Main's way into the log: it appends frames, and reports their fate in the order in which they were appended.
 *
 * A1  waiters are told in the order of the frames, so no client learns of a change before the changes it was judged on are stored. A waiter without
 *     a frame of its own stands in the same queue, behind all frames appended before it
 * A2  a frame is stored when its class says so: 'sync' when it is committed, 'append' and 'volatile' when it is written and all before it
 *     are stored. In a cluster only what is committed is stored: what was only written is lost with the machine
 * A3  if frames are lost, they are always the last ones. `onLost` restores the state to the last stored frame before any waiter learns of the
 *     loss, or of frames stored before it. So nothing builds on a lost frame. If `onLost` fails, the log is read-only, and all waiters
 *     are told of a loss
 * A4  the journals are woken once for the frames of a turn of the event loop, which then are one group. Only when WAKE_BYTES have come they are
 *     woken earlier, so that the disk starts before the turn ends
 * A5  waiters are told in slices (slices.ts). Those that are left are told in later turns what has become of their frames until
 *     then. When frames are lost, or the log takes none, all are told at once
 */
import assert from 'node:assert/strict'
import { crc32 } from '../../native-free-codecs/crc32.ts'
import { FRAME_HEADER_BYTES, decodeFrameHeader, emptyFrameHeader, frameBytes } from '../../native-free-codecs/frame.ts'
import type { Log } from '../log/log.ts'
import { takesFrames } from '../log/log-options.ts'
import { LogWriter } from '../log/log-writer.ts'
import type { Position } from '../log/log-writer.ts'
import { BareError } from '../errors.ts'
import { Queue } from '../queue.ts'
import { RecentFrames } from './recent-frames.ts'
import { Slices } from './slices.ts'

/** Why a frame was not taken. Nothing has changed then. */
export type NotTaken = 'full' | 'read-only' | 'no-space'

export class FrameNotTaken extends BareError {
  readonly reason: NotTaken

  constructor(reason: NotTaken) {
    super(`the log took no frame: ${reason}`)
    this.reason = reason
  }
}

/** The frame was taken and then lost: its change did not happen. */
export class FrameLost extends Error {
  constructor() {
    super('the log lost the frame')
  }
}

export interface AppenderListener {
  /** The next frame opens a segment; everything appended before ends at `end`, in older ones. May be called again for the same end. */
  segmentEnding(end: Position): void
  /** A3. @throws when it cannot restore that state */
  onLost(): void
  /** Calls once, after what is under way in this turn of the event loop. */
  defer(run: () => void): void
  /** Monotonic. */
  nowMs(): number
}

export interface FrameToAppend {
  readonly type: number
  /** Bytes of the payload without its external part. */
  readonly payloadBytes: number
  /** Writes exactly `payloadBytes` bytes into `target` from `at` on. */
  encode(target: Buffer, at: number): void
  readonly external?: ExternalPart
  readonly durability: AppendDurability
  /** 'admit' for what is new, 'finish' for what ends or frees something: see the log's reserve. */
  readonly purpose: 'admit' | 'finish'
}

/** A part of the payload that stands in the log's arena, behind the inline part; `Log.released` says when its space is free again. */
interface ExternalPart {
  readonly offset: number
  readonly bytes: number
  /** CRC-32 of the whole payload, inline part included. */
  readonly payloadCrc: number
}

/** `volatile`: no waiter waits for the frame; it is written soon, and counts as stored then. */
export type AppendDurability = 'volatile' | 'append' | 'sync'

/** Is told once what became of a frame, or of everything appended before (A1, A2). Must not throw. */
export interface Waiter {
  settled(stored: boolean): void
}

interface Waiting {
  readonly end: Position
  readonly generation: number
  readonly durability: AppendDurability
  readonly waiter: Waiter
}

export class Appender {
  readonly #log: Log
  readonly #writer: LogWriter
  readonly #listener: AppenderListener
  /** Type of the frame that `appendCopy` took last. */
  readonly copied = { type: 0 }
  readonly #copiedHeader = emptyFrameHeader()
  readonly #waiting = new Queue<Waiting>()
  #payload: Buffer = Buffer.alloc(0)
  #isWakeDeferred = false
  #recent: RecentFrames | null = null
  /** Lost frames are forgotten, and their waiters are being told. */
  #isForgetting = false
  /** A5 */
  readonly #slices: Slices
  /** A loss could not be forgotten: the log is read-only, and nothing more is stored. */
  #isStale = false
  /** Bytes appended since the journals were woken last. */
  #unwokenBytes = 0

  constructor(log: Log, listener: AppenderListener) {
    this.#log = log
    this.#writer = LogWriter.attach(log.writer)
    this.#listener = listener
    this.#slices = new Slices({
      step: () => this.#tellNext(),
      runRest: () => this.#drain(),
      defer: (run) => listener.defer(run),
      nowMs: () => listener.nowMs(),
    })
    log.onProgress(() => this.#drain())
    log.onStateChange(() => this.#drain())
  }

  // About the frame appended last.

  get position(): Position {
    return this.#writer.position
  }

  /** Where the frame appended last ends. */
  get end(): Position {
    return this.#writer.end
  }

  /** Where everything appended so far ends, also before this process has appended anything. */
  get tail(): Position {
    return this.#writer.tail
  }

  get segmentBase(): Position {
    return this.#writer.segmentBase
  }

  /** Byte offset of the frame in its segment. */
  get place(): number {
    return this.#writer.segmentOffset
  }

  /** Its payload without the external part. It is in memory of the log, and valid until the caller gives up control. */
  get payload(): Buffer {
    return this.#payload
  }

  /** Longest payload that ever fits. */
  get payloadBytesMax(): number {
    return this.#writer.inlineBytesMax
  }

  /** Frames that are not stored yet. */
  get inFlight(): number {
    return this.#waiting.length
  }

  /** @returns why the frame was not taken, then the waiter is not called; null: it was */
  append(frame: FrameToAppend, waiter: Waiter): FrameNotTaken | null {
    const writer = this.#writer
    const { type, payloadBytes: inlineBytes, external, durability, purpose } = frame
    const begun = writer.tryBegin(type, inlineBytes, external?.offset ?? -1, external?.bytes ?? 0, durability, purpose)
    if (begun !== 'ok') return new FrameNotTaken(begun)
    if (writer.opensSegment) this.#listener.segmentEnding(writer.tail)
    const at = writer.inlineOffset
    frame.encode(writer.bytes, at)
    this.#payload = writer.bytes.subarray(at, at + inlineBytes)
    const payloadCrc = external?.payloadCrc ?? crc32(this.#payload)
    writer.publish(payloadCrc, false)
    this.#wakeFor(inlineBytes + (external?.bytes ?? 0))
    this.#recent?.note(writer.position, at - FRAME_HEADER_BYTES, writer.generation)
    this.#waiting.push({ end: writer.end, generation: writer.generation, durability, waiter })
    return null
  }

  /**
   * Appends a frame of the cluster's leader, byte for byte. Sets `copied`.
   *
   * @param bytes verified frames @param at where this one begins
   * @returns its length; 0: the log has no room for it now
   * @throws StoreError when the frame does not continue the log
   */
  appendCopy(bytes: Buffer, at: number): number {
    const header = this.#copiedHeader
    assert(decodeFrameHeader(bytes, at, header), 'frames of the leader are verified')
    const wholeBytes = frameBytes(header.payloadBytes)
    const writer = this.#writer
    const before = writer.tail
    if (writer.tryCopy(bytes.subarray(at, at + wholeBytes), header) !== 'ok') return 0
    if (writer.opensSegment) this.#listener.segmentEnding(before)
    const { position, end, generation } = writer
    this.copied.type = header.type
    this.#payload = bytes.subarray(at + FRAME_HEADER_BYTES, at + FRAME_HEADER_BYTES + header.payloadBytes)
    this.#wakeFor(wholeBytes)
    this.#recent?.note(position, writer.inlineOffset - FRAME_HEADER_BYTES, generation)
    this.#waiting.push({ end, generation, durability: 'sync', waiter: NO_WAITER })
    return wholeBytes
  }

  /** The log was cut below frames whose waiters were told already: they were told of frames that the cluster confirmed, and these come back. */
  readAgain(): void {
    this.#drain()
    this.#forgetLost()
  }

  /** Remembers from now on where frames stand, for reads that follow soon. */
  keepRecent(): RecentFrames {
    this.#recent ??= new RecentFrames(this.#writer.bytes, this.#log.id)
    return this.#recent
  }

  /** A4 */
  #wakeFor(bytes: number): void {
    this.#unwokenBytes += bytes
    if (this.#unwokenBytes >= WAKE_BYTES) this.#wake()
    if (this.#isWakeDeferred) return
    this.#isWakeDeferred = true
    this.#listener.defer(() => {
      this.#isWakeDeferred = false
      this.#wake()
    })
  }

  #wake(): void {
    this.#unwokenBytes = 0
    this.#writer.wakeJournals()
  }

  /** Tells the waiter when everything appended so far is stored, which may be at once, or lost (A1). */
  tellWhenStored(waiter: Waiter): void {
    const last = this.#waiting.newest
    if (last === undefined) return waiter.settled(!this.#isStale)
    const { end, generation, durability } = last
    // Lost frames are forgotten already: a waiter that comes now was not judged on them, and only waits for its turn.
    const isForgotten = this.#isForgetting && this.#outcome(last) === 'lost'
    if (isForgotten) this.#waiting.push({ end: 0, generation: this.#log.generation, durability, waiter })
    else this.#waiting.push({ end, generation, durability, waiter })
  }

  /** Resolves when everything appended so far is stored; rejects with FrameLost (A3). */
  settled(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.tellWhenStored({ settled: (stored) => (stored ? resolve() : reject(new FrameLost())) })
    })
  }

  /** Does what was asked of the log's producer meanwhile: see `LogWriter.poll`. */
  poll(): void {
    this.#writer.poll()
  }

  /** Seals the segment, unless nothing was appended since the last seal. Does nothing while the log takes no frames. */
  rotate(): void {
    if (this.#writer.readOnly) return
    this.#writer.rotate()
    this.#listener.segmentEnding(this.#writer.tail)
  }

  #drain(): void {
    const last = this.#waiting.newest
    const isLost = last !== undefined && this.#outcome(last) === 'lost'
    if (isLost && !this.#isForgetting) this.#forgetLost()
    this.#isForgetting ||= isLost && !this.#isStale
    if (isLost || !takesFrames(this.#log.state)) while (this.#tellNext());
    else if (!this.#slices.isDeferred) this.#slices.run()
    this.#isForgetting = false
  }

  /** False: no waiter can be told anything now. */
  #tellNext(): boolean {
    const waiting = this.#waiting.peek()
    if (waiting === undefined) return false
    const outcome = this.#outcome(waiting)
    if (outcome === 'waiting') return false
    this.#waiting.shift()
    waiting.waiter.settled(outcome === 'stored')
    return true
  }

  /** A3 */
  #forgetLost(): void {
    try {
      this.#listener.onLost()
    } catch (error) {
      this.#isStale = true
      this.#log.giveUp(error)
    }
  }

  #outcome({ end, generation, durability }: Waiting): 'stored' | 'waiting' | 'lost' {
    const log = this.#log
    const outcome = log.outcome(end, generation)
    const isOnlyCommitted = durability === 'sync' || log.cluster !== null
    if (outcome !== 'waiting' || isOnlyCommitted || generation !== log.generation) return outcome
    return end <= log.written ? 'stored' : 'waiting'
  }
}

const NO_WAITER: Waiter = { settled: () => {} }

/** A4: about what a disk writes in the time of a sync. */
const WAKE_BYTES = 256 << 10
