/**
 * Finds an ASCII text in bytes, whatever the case of either.
 *
 * Source: R. N. Horspool, "Practical fast searching in strings" (1980): the byte under the end of the text says how far it may be
 * moved. Only the first NEEDLE_BYTES_MAX bytes are looked for, so that no text makes it slower than that many looks at each byte.
 */
const NEEDLE_BYTES_MAX = 32

/** ASCII letters in lower case. */
export const LOWER = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 32 : byte))

export class ByteFinder {
  readonly #needle: Uint8Array
  readonly #skip = new Uint8Array(256)

  /** @param text folded, ASCII, not empty */
  constructor(text: string) {
    this.#needle = Buffer.from(text.slice(0, NEEDLE_BYTES_MAX), 'latin1')
    const last = this.#needle.length - 1
    this.#skip.fill(this.#needle.length)
    for (let byte = 0; byte < 256; byte++) {
      const at = last > 0 ? this.#needle.lastIndexOf(LOWER[byte]!, last - 1) : -1
      if (at >= 0) this.#skip[byte] = last - at
    }
  }

  /** Where it begins first in [from, end), or -1. It may be longer than what is looked for. */
  next(bytes: Uint8Array, from: number, end: number): number {
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
