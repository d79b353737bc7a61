/**
 * Finds an ASCII text in bytes, whatever the case of either.
 *
 * Source: R. N. Horspool, "Practical fast searching in strings" (1980): the byte under the end of the text says how far it may be
 * moved. Only the first SCANNED_TEXT_MAX bytes of the text are searched, which bounds the comparisons per byte. Beyond NEAR_BYTES, WebAssembly searches
 * (native-free-codecs/text-scan.ts).
 */
import { SCANNED_BYTES_MAX, SCANNED_TEXT_MAX, TextScan } from '../../../native-free-codecs/text-scan.ts'

/** Within this distance a search byte by byte is faster. */
const NEAR_BYTES = 192
/** Length of the first piece that WebAssembly searches. Each next piece is longer: to copy a long first one would often be in vain. */
const PIECE_BYTES = 1024
const PIECE_GROWTH = 4

/** ASCII letters in lower case. */
export const LOWER = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 32 : byte))

export class ByteFinder {
  readonly #needle: Uint8Array
  readonly #skip = new Uint8Array(256)
  readonly #scan: TextScan

  /** @param text folded, ASCII, not empty */
  constructor(text: string) {
    this.#needle = Buffer.from(text.slice(0, SCANNED_TEXT_MAX), 'latin1')
    this.#scan = new TextScan(this.#needle)
    const last = this.#needle.length - 1
    this.#skip.fill(this.#needle.length)
    for (let byte = 0; byte < 256; byte++) {
      const at = last > 0 ? this.#needle.lastIndexOf(LOWER[byte]!, last - 1) : -1
      if (at >= 0) this.#skip[byte] = last - at
    }
  }

  /** Where the text begins first in [from, end), or -1. A longer text than SCANNED_TEXT_MAX is found by its beginning. */
  next(bytes: Uint8Array, from: number, end: number): number {
    const nearEnd = from + NEAR_BYTES
    if (end <= nearEnd) return this.#near(bytes, from, end)
    const near = this.#near(bytes, from, nearEnd)
    return near >= 0 ? near : this.#far(bytes, nearEnd - this.#needle.length + 1, end)
  }

  #far(bytes: Uint8Array, from: number, end: number): number {
    const { length } = this.#needle
    let pieceBytes = PIECE_BYTES
    for (let at = from; at + length <= end; at += pieceBytes - length + 1) {
      if (at > from) pieceBytes = Math.min(PIECE_GROWTH * pieceBytes, SCANNED_BYTES_MAX)
      const hit = this.#scan.next(bytes.subarray(at, Math.min(end, at + pieceBytes)))
      if (hit >= 0) return at + hit
    }
    return -1
  }

  #near(bytes: Uint8Array, from: number, end: number): number {
    const needle = this.#needle
    const skip = this.#skip
    const last = needle.length - 1
    const lastByte = needle[last]!
    for (let at = from + last; at < end;) {
      const byte = bytes[at]!
      if (LOWER[byte] === lastByte) {
        let i = 0
        while (i < last && LOWER[bytes[at - last + i]!] === needle[i]) i++
        if (i === last) return at - last
      }
      at += skip[byte]!
    }
    return -1
  }
}
