/**
 * Gathers a body in memory, for endpoints that parse it as a whole. Larger ones are streamed by their service instead.
 *
 * A body that arrives in one piece is not copied: most do, and are parsed at once.
 *
 * G2  a long body is copied while it grows, at most half of it at a time: its chunks are never joined at the end
 */
import type { BodySink, Exchange, TimeOut } from './exchange.ts'

export interface BodyReaders {
  /**
   * @param bytes in memory of the connection, valid only during the call, or the reader's own
   */
  whole(bytes: Buffer, isOwn: boolean): void
  tooLarge(): void
  timedOut(why: TimeOut): void
}

/** Room for a body of two chunks or more, at first. */
const FIRST_BYTES = 256 << 10

export function gatherBody(exchange: Exchange, limitBytes: number, readers: BodyReaders): void {
  exchange.readBody(limitBytes, new Gathering(limitBytes, readers))
}

class Gathering implements BodySink {
  readonly #limitBytes: number
  readonly #readers: BodyReaders
  /** Null until a chunk comes that is not the last. */
  #gathered: Buffer | null = null
  #length = 0

  constructor(limitBytes: number, readers: BodyReaders) {
    this.#limitBytes = limitBytes
    this.#readers = readers
  }

  chunk(bytes: Uint8Array, isLast: boolean): void {
    if (isLast && this.#gathered === null) return this.#readers.whole(bufferOver(bytes), false)
    const gathered = this.#withRoomFor(bytes.byteLength)
    gathered.set(bytes, this.#length)
    this.#length += bytes.byteLength
    if (isLast) this.#readers.whole(gathered.subarray(0, this.#length), true)
  }

  tooLarge(): void {
    this.#readers.tooLarge()
  }

  timedOut(why: TimeOut): void {
    this.#readers.timedOut(why)
  }

  #withRoomFor(bytes: number): Buffer {
    const gathered = this.#gathered
    const end = this.#length + bytes
    if (gathered !== null && end <= gathered.byteLength) return gathered
    const roomBytes = Math.min(this.#limitBytes, Math.max(FIRST_BYTES, 2 * this.#length))
    const longer = Buffer.allocUnsafeSlow(Math.max(end, roomBytes))
    if (gathered !== null) longer.set(gathered.subarray(0, this.#length))
    return (this.#gathered = longer)
  }
}

const bufferOver = (bytes: Uint8Array): Buffer =>
  bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
