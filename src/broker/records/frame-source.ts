/**
 * Reads frames by place, and verifies each as a whole before it is given out. One per thread; keeps files open, and what it read last.
 *
 *   windows   WINDOW_BYTES of a segment, at multiples of it: neighbouring small frames are read with one call, and verified each time
 *   frames    those that are longer, or lie across the end of a window, verified once
 *
 * W1  only frames below the readable end, where a frame ends, are read. So the bytes in a window never change, and it grows at its end only
 * W2  a frame that fails its checks is read once more, from a file opened anew, before it counts as damaged: a file may have been replaced
 *     under its name, or live on as the file of another segment
 * W3  nothing is kept beyond a generation of the log: in a cluster, written frames may be cut off, and other frames get their positions
 */
import { crc32 } from '../../../native-free-codecs/crc32.ts'
import {
  FRAME_HEADER_BYTES,
  decodeFrameHeader,
  emptyFrameHeader,
  frameBytes,
} from '../../../native-free-codecs/frame.ts'
import { errorCode } from '../../log/files.ts'
import type { Files, OpenFile } from '../../log/files.ts'
import { OpenSegments } from '../../log/open-segments.ts'
import { RECORDS_NAME, segmentName } from '../../log/segment-format.ts'

const WINDOW_BYTES = 64 * 1024
const WINDOWS_MAX = 64
/** Bytes of frames that are kept, as the records of a batch are often read one after the other. The last frame is kept even if it is larger. */
const FRAMES_BYTES_MAX = 32 * 1024 * 1024

/** The range of the log that can be read. */
export interface Readable {
  /** Base of the oldest segment. */
  readonly from: number
  /** Bytes below do not change in this generation: `written` or `committed` of the log (W1). */
  readonly end: number
  /** The generation of the log in which these bounds hold (W3). */
  readonly generation: number
}

/** Why a record cannot be given out. */
export interface Failure {
  /**
   * 'damaged': its bytes are not what was stored, a case for quarantine. 'dropped': its segment is gone. 'unavailable': the disk failed, or
   * the frame is not written yet. 'withheld': the answer would become too long.
   */
  readonly cause: 'damaged' | 'dropped' | 'unavailable' | 'withheld'
  readonly reason: string
  /** Length of a damaged frame, as far as it is known. */
  readonly frameBytes: number
  /** 'unavailable' because the disk failed. */
  readonly isReadError?: true
}

interface Window {
  /** Position of its first byte. */
  readonly position: number
  readonly bytes: Buffer
  /** Bytes that were read, from the window's start (W1). */
  have: number
}

interface Frame {
  readonly type: number
  readonly payload: Buffer
}

const NO_WINDOW: Window = { position: -1, bytes: Buffer.alloc(0), have: 0 }
const DROPPED: Failure = { cause: 'dropped', reason: 'dropped', frameBytes: 0 }
const NOT_WRITTEN: Failure = { cause: 'unavailable', reason: 'the frame is not written yet', frameBytes: 0 }

export const damaged = (reason: string, frameBytes: number): Failure => ({ cause: 'damaged', reason, frameBytes })

export class FrameSource {
  // Type and payload of the frame read last, valid until the next `read`.
  type = 0
  payload: Buffer = Buffer.alloc(0)

  readonly #files: Files
  readonly #directory: string
  readonly #logId: number
  readonly #header = emptyFrameHeader()
  #readable: Readable = { from: 0, end: 0, generation: 0 }
  readonly #open = new OpenSegments<OpenFile>()
  /** By position, in order of use, like `#frames`. */
  readonly #windows = new Map<number, Window>()
  /** The window used last. */
  #window = NO_WINDOW
  readonly #frames = new Map<number, Frame>()
  #framesBytes = 0

  /** @param directory of the log's segments */
  constructor(files: Files, directory: string, logId: number) {
    this.#files = files
    this.#directory = directory
    this.#logId = logId
  }

  /** Sets what may be read from now on, and closes the files of segments that are gone. */
  begin(readable: Readable): void {
    if (readable.generation !== this.#readable.generation) this.close() // W3
    this.#readable = readable
    this.#open.begin(readable.from, readable.generation)
  }

  /** Sets `type` and `payload`, or says why not. */
  read(segmentBase: number, place: number): Failure | null {
    if (segmentBase < this.#readable.from) return DROPPED
    if (segmentBase + place + FRAME_HEADER_BYTES > this.#readable.end) return NOT_WRITTEN
    const position = segmentBase + place
    const kept = this.#frames.size > 0 ? this.#frames.get(position) : undefined
    if (kept !== undefined) {
      touch(this.#frames, position, kept)
      this.type = kept.type
      this.payload = kept.payload
      return null
    }
    try {
      if (this.#readFromWindow(segmentBase, place)) return null
      const failure = this.#readAlone(segmentBase, place)
      if (failure?.cause !== 'damaged') return failure
      this.#forget(segmentBase) // W2
      return this.#readAlone(segmentBase, place)
    } catch (error) {
      const code = errorCode(error)
      if (code === 'unknown') throw error
      this.#forget(segmentBase)
      if (code === 'ENOENT') return DROPPED
      return {
        cause: 'unavailable',
        reason: `segment ${segmentName(segmentBase)} cannot be read: ${code}`,
        frameBytes: 0,
        isReadError: true,
      }
    }
  }

  close(): void {
    this.#open.closeAll()
    this.#forgetWindows()
    this.#frames.clear()
    this.#framesBytes = 0
  }

  /** False when the frame is not whole in a window, or fails its checks: then it is read alone. */
  #readFromWindow(segmentBase: number, place: number): boolean {
    const at = place % WINDOW_BYTES
    if (at + FRAME_HEADER_BYTES > WINDOW_BYTES) return false
    const window = this.#windowAt(segmentBase, place - at, at + FRAME_HEADER_BYTES)
    if (window.have < at + FRAME_HEADER_BYTES || !this.#isHeader(window.bytes, at, segmentBase + place)) return false
    const payloadAt = at + FRAME_HEADER_BYTES
    const payloadEnd = payloadAt + this.#header.payloadBytes
    if (payloadEnd > WINDOW_BYTES) return false
    if (payloadEnd > window.have) this.#fill(window, segmentBase, place - at)
    if (payloadEnd > window.have) return false
    const payload = window.bytes.subarray(payloadAt, payloadEnd)
    if (crc32(payload) !== this.#header.payloadCrc) return false
    this.type = this.#header.type
    this.payload = payload
    return true
  }

  #readAlone(segmentBase: number, place: number): Failure | null {
    const file = this.#file(segmentBase)
    const header = Buffer.allocUnsafe(FRAME_HEADER_BYTES)
    const position = segmentBase + place
    if (file.read(header, place) < FRAME_HEADER_BYTES)
      return damaged('the file ends before the frame', FRAME_HEADER_BYTES)
    if (!this.#isHeader(header, 0, position)) return damaged('no frame header', FRAME_HEADER_BYTES)
    const { type, payloadBytes, payloadCrc } = this.#header
    const wholeBytes = frameBytes(payloadBytes)
    const payload = Buffer.allocUnsafe(payloadBytes)
    const have = file.read(payload, place + FRAME_HEADER_BYTES)
    if (have < payloadBytes) return damaged('the file ends inside the frame', wholeBytes)
    if (crc32(payload) !== payloadCrc) return damaged('payload checksum', wholeBytes)
    this.type = type
    this.payload = payload
    this.#keep(position, { type, payload })
    return null
  }

  #isHeader(bytes: Buffer, at: number, position: number): boolean {
    const header = this.#header
    return decodeFrameHeader(bytes, at, header) && header.logId === this.#logId && header.position === position
  }

  #windowAt(segmentBase: number, begin: number, need: number): Window {
    const position = segmentBase + begin
    let window = this.#window
    if (window.position !== position) {
      window = this.#windows.get(position) ?? { position, bytes: this.#freeWindow(), have: 0 }
      touch(this.#windows, position, window)
      this.#window = window
    }
    if (window.have < need) this.#fill(window, segmentBase, begin)
    return window
  }

  /** W1 */
  #fill(window: Window, segmentBase: number, begin: number): void {
    const limit = Math.min(WINDOW_BYTES, this.#readable.end - segmentBase - begin)
    if (limit <= window.have) return
    window.have += this.#file(segmentBase).read(window.bytes.subarray(window.have, limit), begin + window.have)
  }

  /** Memory for a window: that of the least recently used one when there are WINDOWS_MAX. */
  #freeWindow(): Buffer {
    if (this.#windows.size >= WINDOWS_MAX) {
      for (const [position, { bytes }] of this.#windows) {
        this.#windows.delete(position)
        return bytes
      }
    }
    return Buffer.allocUnsafeSlow(WINDOW_BYTES)
  }

  #keep(position: number, frame: Frame): void {
    this.#frames.set(position, frame)
    this.#framesBytes += frame.payload.byteLength
    for (const [oldest, { payload }] of this.#frames) {
      if (this.#framesBytes <= FRAMES_BYTES_MAX || oldest === position) break
      this.#frames.delete(oldest)
      this.#framesBytes -= payload.byteLength
    }
  }

  #file(segmentBase: number): OpenFile {
    const path = `${this.#directory}/${segmentName(segmentBase)}/${RECORDS_NAME}`
    return this.#open.get(segmentBase) ?? this.#open.add(segmentBase, this.#files.open(path, 'read'))
  }

  #forget(segmentBase: number): void {
    this.#open.close(segmentBase)
    this.#forgetWindows()
  }

  #forgetWindows(): void {
    this.#windows.clear()
    this.#window = NO_WINDOW
  }
}

/** A Map iterates in order of insertion, so an entry that is used is inserted again. */
function touch<Value>(map: Map<number, Value>, key: number, value: Value): void {
  map.delete(key)
  map.set(key, value)
}
