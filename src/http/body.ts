/**
 * Gathers a body in memory, for endpoints that parse it as a whole. Larger ones are streamed by their service instead.
 *
 * G1  a body that arrives in one piece is not copied: most do, and are parsed at once
 * G2  a long body is copied while it grows, at most half of it at a time: its chunks are never joined at the end
 */
import type { Exchange, TimeOut } from './exchange.ts'

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
  let gathered: Buffer | null = null
  let length = 0
  exchange.readBody(limitBytes, {
    chunk(bytes, isLast) {
      if (gathered === null && isLast) return readers.whole(bufferOver(bytes), false)
      const end = length + bytes.byteLength
      if (gathered === null || end > gathered.byteLength) {
        const longer = Buffer.allocUnsafeSlow(Math.max(end, Math.min(limitBytes, Math.max(FIRST_BYTES, 2 * length))))
        if (gathered !== null) longer.set(gathered.subarray(0, length))
        gathered = longer
      }
      gathered.set(bytes, length)
      length = end
      if (isLast) readers.whole(gathered.subarray(0, length), true)
    },
    tooLarge: () => readers.tooLarge(),
    timedOut: (why) => readers.timedOut(why),
  })
}

const bufferOver = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength)
