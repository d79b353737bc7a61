/**
 * Reading frames of a segment, in any thread: one by position, or all in order.
 *
 * S1  a frame is given out only when its header CRC, log id, position and payload CRC hold
 * S2  invalid bytes are reported as a range, never skipped silently. The next frame behind them is found by looking, at
 *     every multiple of 8, for a header that names that very position and this very log
 * S3  from one frame to its neighbour the chain of header CRCs holds and the epoch does not fall. Across a damaged range neither
 *     can be checked
 */
import { crc32 } from '../../native-free-codecs/crc32.ts'
import {
  FRAME_HEADER_BYTES,
  FRAME_MAGIC,
  decodeFrameHeader,
  emptyFrameHeader,
  frameBytes,
} from '../../native-free-codecs/frame.ts'
import type { FrameHeader } from '../../native-free-codecs/frame.ts'
import type { Files, OpenFile } from './files.ts'
import { SEGMENT_HEADER_BYTES, decodeSegmentFooter, decodeSegmentHeader } from './segment-format.ts'
import type { SegmentFooter, SegmentHeader } from './segment-format.ts'

/** A frame while it is visited: the object and the bytes are reused for the next one. */
export interface FrameView extends FrameHeader {
  payload: Buffer
}

export type FrameRead =
  | { readonly kind: 'frame'; readonly frame: FrameView }
  /** Nothing that is, or was, a frame of this log stands there. */
  | { readonly kind: 'none' }
  /** `frameBytes`: its length, or that of a header, where no header tells it. */
  | { readonly kind: 'corrupt'; readonly reason: string; readonly frameBytes: number }

/**
 * The frame at an offset that was handed out by the log; its bytes lie in the memory that the caller gave.
 *
 * @param expectBytes bytes of the first read: the size of the frame when it is known, header included
 * @param memory      gives memory of this size; asked again when the frame is longer than the first read
 */
export function readFrame(
  file: Pick<OpenFile, 'read'>,
  logId: number,
  segmentBase: number,
  offset: number,
  expectBytes = 4096,
  memory: (bytes: number) => Buffer = (bytes) => Buffer.allocUnsafe(bytes),
): FrameRead {
  const first = memory(Math.max(expectBytes, FRAME_HEADER_BYTES))
  const have = file.read(first, offset)
  const frame: FrameView = { ...emptyFrameHeader(), payload: EMPTY }
  if (have < FRAME_HEADER_BYTES) return { kind: 'none' }
  if (!decodeFrameHeader(first, 0, frame)) return corrupt('no frame header', FRAME_HEADER_BYTES)
  if (frame.logId !== logId || frame.position !== segmentBase + offset)
    return corrupt('a frame of another place', FRAME_HEADER_BYTES)
  const wholeBytes = FRAME_HEADER_BYTES + frame.payloadBytes
  if (wholeBytes <= have) {
    frame.payload = first.subarray(FRAME_HEADER_BYTES, wholeBytes)
  } else {
    const whole = memory(wholeBytes)
    first.copy(whole, 0, 0, have)
    if (have < first.byteLength || file.read(whole.subarray(have), offset + have) < wholeBytes - have) {
      return corrupt(ENDS_INSIDE, frameBytes(frame.payloadBytes))
    }
    frame.payload = whole.subarray(FRAME_HEADER_BYTES)
  }
  if (crc32(frame.payload) !== frame.payloadCrc) return corrupt(PAYLOAD_CHECKSUM, frameBytes(frame.payloadBytes))
  return { kind: 'frame', frame }
}

const corrupt = (reason: string, bytes: number): FrameRead => ({ kind: 'corrupt', reason, frameBytes: bytes })

export interface ScanVisitor {
  /** In order; `view` and its payload are valid during the call. */
  frame(view: FrameView, offset: number): void
  /** No frames in [from, to). */
  bad(from: number, to: number, reason: string): void
  /** A valid header of a frame whose payload is invalid, or not all there; `bad` is called too. */
  damaged?(header: FrameHeader): void
}

/** `scanInSteps`, at once. */
export function scanFrames(...scan: Parameters<typeof scanInSteps>): void {
  const steps = scanInSteps(...scan)
  while (steps.next().done !== true);
}

/**
 * Visits everything between two offsets of a segment file (S1, S2, S3). Reads each byte once, and yields before each read how many bytes it has visited.
 *
 * @param to where to stop: the end of the frames, or of the file when that is not known
 */
export function* scanInSteps(
  file: Pick<OpenFile, 'read'>,
  logId: number,
  base: number,
  from: number,
  to: number,
  visitor: ScanVisitor,
): Generator<number, void, undefined> {
  const window = new Window(file, from, to)
  const view: FrameView = { ...emptyFrameHeader(), payload: EMPTY }
  let offset = from
  let chain = -1
  let epoch = 0
  while (offset < to) {
    const reason = frameAt(window, logId, base, offset, view)
    if (reason === UNREAD) {
      yield offset - from
      window.readOn()
      continue
    }
    const follows = chain < 0 || (view.previousHeaderCrc === chain && view.epoch >= epoch)
    const wholeBytes = frameBytes(view.payloadBytes)
    if (reason === null && follows) {
      visitor.frame(view, offset)
      chain = view.headerCrc
      epoch = view.epoch
      offset += wholeBytes
    } else if (reason === PAYLOAD_CHECKSUM && follows) {
      visitor.damaged?.(view)
      chain = view.headerCrc
      epoch = view.epoch
      visitor.bad(offset, offset + wholeBytes, reason)
      offset += wholeBytes
    } else {
      if (reason === ENDS_INSIDE) visitor.damaged?.(view)
      const next = nextHeader(window, logId, base, offset + 8, to, view)
      visitor.bad(offset, next, reason ?? 'the chain of header checksums breaks')
      chain = -1
      epoch = 0
      offset = next
    }
  }
}

const PAYLOAD_CHECKSUM = 'payload checksum'
const ENDS_INSIDE = 'the file ends inside a frame'
const UNREAD = 'not in memory yet'

/** Fills `view`, or says what is wrong. UNREAD: the window has to read on. */
function frameAt(window: Window, logId: number, base: number, offset: number, view: FrameView): string | null {
  if (!window.has(offset, FRAME_HEADER_BYTES)) return window.wants ? UNREAD : 'the file ends inside a header'
  if (!decodeFrameHeader(window.bytes, window.at(offset), view)) return 'no frame header'
  if (view.logId !== logId || view.position !== base + offset) return 'a frame of another place'
  if (!window.has(offset, frameBytes(view.payloadBytes))) return window.wants ? UNREAD : ENDS_INSIDE
  const payloadAt = window.at(offset) + FRAME_HEADER_BYTES
  view.payload = window.bytes.subarray(payloadAt, payloadAt + view.payloadBytes)
  return crc32(view.payload) === view.payloadCrc ? null : PAYLOAD_CHECKSUM
}

/** Offset of the next header of this log at its own position, or `to`. */
function nextHeader(window: Window, logId: number, base: number, from: number, to: number, scratch: FrameView): number {
  for (let offset = from; offset + FRAME_HEADER_BYTES <= to; offset += 8) {
    if (!window.load(offset, FRAME_HEADER_BYTES)) return to
    const at = window.at(offset)
    if (window.bytes.readUInt32LE(at + 4) !== FRAME_MAGIC) continue
    if (!decodeFrameHeader(window.bytes, at, scratch)) continue
    if (scratch.logId !== logId || scratch.position !== base + offset) continue
    if (offset + frameBytes(scratch.payloadBytes) <= to) return offset
  }
  return to
}

const EMPTY = Buffer.alloc(0)
const WINDOW_BYTES = 1 << 20

/** A part of the file in memory that moves forward, and grows for frames longer than itself. */
class Window {
  bytes: Buffer
  /** Whether the file may have what `has` was last asked for and did not find. */
  wants = false
  readonly #file: Pick<OpenFile, 'read'>
  readonly #to: number
  #start: number
  #end: number
  #isAtEnd = false
  #wanted = { offset: 0, length: 0 }

  constructor(file: Pick<OpenFile, 'read'>, from: number, to: number) {
    this.bytes = Buffer.allocUnsafeSlow(Math.max(0, Math.min(WINDOW_BYTES, to - from)))
    this.#file = file
    this.#start = from
    this.#end = from
    this.#to = to
  }

  at(offset: number): number {
    return offset - this.#start
  }

  /** @param offset never before that of an earlier question */
  has(offset: number, length: number): boolean {
    if (offset + length <= this.#end) return true
    this.wants = offset + length <= this.#to && !this.#isAtEnd
    this.#wanted.offset = offset
    this.#wanted.length = length
    return false
  }

  /** Drops the bytes before those that are wanted, and reads once behind those in memory. */
  readOn(): void {
    const { offset, length } = this.#wanted
    const kept = this.bytes.subarray(this.at(offset), this.at(this.#end))
    if (length > this.bytes.byteLength) this.bytes = Buffer.allocUnsafe(2 ** Math.ceil(Math.log2(length)))
    this.bytes.set(kept)
    const wanted = Math.min(this.bytes.byteLength, this.#to - offset)
    const count = this.#file.read(this.bytes.subarray(kept.byteLength, wanted), this.#end)
    this.#start = offset
    this.#end += count
    this.#isAtEnd = count === 0
  }

  /** Makes [offset, offset + length) present; false when it reaches beyond the end. */
  load(offset: number, length: number): boolean {
    while (!this.has(offset, length)) {
      if (!this.wants) return false
      this.readOn()
    }
    return true
  }
}

/** A damaged range, in positions. */
export interface DamagedRange {
  readonly from: number
  readonly to: number
  readonly reason: string
}

export interface ReplayOptions {
  readonly logId: number
  /** Positions; default: all frames. `to` is the segment's `end`, and for the segment being written the committed position. */
  readonly from?: number
  readonly to?: number
  onFrame(frame: FrameView): void
  onDamage(range: DamagedRange): void
}

/**
 * Visits the frames of one segment in order. `from` must be where a frame begins.
 *
 * @throws what the file system throws
 */
export function replaySegment(...replay: Parameters<typeof replayInSteps>): void {
  const steps = replayInSteps(...replay)
  while (steps.next().done !== true);
}

/** `replaySegment`, which yields now and then how many bytes it has visited. */
export function* replayInSteps(
  files: Files,
  segment: { readonly base: number; readonly recordsPath: string },
  options: ReplayOptions,
): Generator<number, void, undefined> {
  const file = files.open(segment.recordsPath, 'read')
  try {
    const { base } = segment
    const from = Math.max(SEGMENT_HEADER_BYTES, (options.from ?? base) - base)
    const to = (options.to ?? readFooter(file)?.end ?? base + file.size()) - base
    yield* scanInSteps(file, options.logId, base, from, to, {
      frame: (view) => options.onFrame(view),
      bad: (badFrom, badTo, reason) => options.onDamage({ from: base + badFrom, to: base + badTo, reason }),
    })
  } finally {
    file.close()
  }
}

export function readHeader(file: OpenFile): SegmentHeader | null {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES)
  return file.read(bytes, 0) === bytes.byteLength ? decodeSegmentHeader(bytes) : null
}

export function readFooter(file: OpenFile): SegmentFooter | null {
  const at = file.size() - SEGMENT_HEADER_BYTES
  if (at < SEGMENT_HEADER_BYTES) return null
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES)
  return file.read(bytes, at) === bytes.byteLength ? decodeSegmentFooter(bytes) : null
}
