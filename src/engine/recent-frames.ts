/**
 * Recently appended frames that still stand in the ring from which the journal wrote them. For main, the log's producer.
 *
 * F1  each frame is verified like one that is read from the disk, because the ring may have been used again since
 * F2  positions rise. After a loss they are used again, and notes of earlier frames are forgotten
 */
import { crc32 } from '../../native-free-codecs/crc32.ts'
import { FRAME_HEADER_BYTES, decodeFrameHeader, emptyFrameHeader } from '../../native-free-codecs/frame.ts'
import type { Position } from '../log/log-writer.ts'

/** How many frames are remembered, a power of two. The oldest are evicted. */
const FRAMES_MAX = 1 << 16

export class RecentFrames {
  // About the frame found last, valid until the next `find` and no longer than the present turn of the event loop.
  type = 0
  payload: Buffer = Buffer.alloc(0)

  readonly #bytes: Buffer
  readonly #logId: number
  readonly #header = emptyFrameHeader()
  // By number of the frame, modulo FRAMES_MAX.
  readonly #positions = new Float64Array(FRAMES_MAX)
  readonly #places = new Uint32Array(FRAMES_MAX)
  #end = 0
  #begin = 0
  #generation = -1

  /** @param bytes of the ring */
  constructor(bytes: Buffer, logId: number) {
    this.#bytes = bytes
    this.#logId = logId
  }

  /** @param at where its header begins in the ring @param generation F2 */
  note(position: Position, at: number, generation: number): void {
    if (generation !== this.#generation) {
      this.#generation = generation
      this.#begin = this.#end
    }
    const slot = this.#end % FRAMES_MAX
    this.#positions[slot] = position
    this.#places[slot] = at
    this.#end += 1
    this.#begin = Math.max(this.#begin, this.#end - FRAMES_MAX)
  }

  /** Sets `type` and `payload`. False: the frame is not in the ring any more, or its payload is longer. */
  find(position: Position, payloadBytesMax: number): boolean {
    const number = this.#numberOf(position)
    if (number < 0) return false
    const at = this.#places[number % FRAMES_MAX]!
    const header = this.#header
    const bytes = this.#bytes
    if (!decodeFrameHeader(bytes, at, header) || header.logId !== this.#logId || header.position !== position)
      return false
    if (header.payloadBytes > payloadBytesMax) return false
    const payloadAt = at + FRAME_HEADER_BYTES
    if (payloadAt + header.payloadBytes > bytes.byteLength) return false // the rest, an external part, is elsewhere
    const payload = bytes.subarray(payloadAt, payloadAt + header.payloadBytes)
    if (crc32(payload) !== header.payloadCrc) return false // F1
    this.type = header.type
    this.payload = payload
    return true
  }

  /** -1: there is none. */
  #numberOf(position: Position): number {
    let low = this.#begin
    let high = this.#end
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      if (this.#positions[middle % FRAMES_MAX]! < position) low = middle + 1
      else high = middle
    }
    return low < this.#end && this.#positions[low % FRAMES_MAX] === position ? low : -1
  }
}
