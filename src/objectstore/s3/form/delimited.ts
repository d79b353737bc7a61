/**
 * Finds a delimiter in bytes that come in chunks, and hands on what stands before it without keeping any of it.
 *
 * D1  the delimiter begins with CR and has no other: after a match that broke off, a new one can only begin at the byte that broke it
 * D2  of the chunk before, only the number of matched bytes is remembered: when they turn out to be content, they are taken from the
 *     delimiter itself
 */
import assert from 'node:assert/strict'

const CR = 0x0d

export class DelimitedContent {
  readonly #delimiter: Buffer
  #matchedBytes = 0

  constructor(delimiter: Buffer) {
    assert(delimiter[0] === CR && delimiter.lastIndexOf(CR) === 0) // D1
    this.#delimiter = delimiter
  }

  /** The next delimiter may begin right here, without its first `bytes`. */
  expectAfter(bytes: number): void {
    this.#matchedBytes = bytes
  }

  /**
   * @param content gets views of the chunk, and of the delimiter, in order
   * @returns where the chunk goes on behind the delimiter; -1 when the delimiter does not end in it
   */
  scan(chunk: Buffer, offset: number, content: (bytes: Buffer) => void): number {
    let at = offset
    if (this.#matchedBytes > 0) {
      const end = this.#continueMatch(chunk, at)
      if (this.#matchedBytes === this.#delimiter.length) {
        this.#matchedBytes = 0
        return end
      }
      if (end === chunk.length) return -1
      content(this.#delimiter.subarray(0, this.#matchedBytes)) // D2
      this.#matchedBytes = 0
      at = end
    }

    const found = chunk.indexOf(this.#delimiter, at)
    if (found >= 0) {
      if (found > at) content(chunk.subarray(at, found))
      return found + this.#delimiter.length
    }
    const contentEnd = this.#beginMatch(chunk, at)
    if (contentEnd > at) content(chunk.subarray(at, contentEnd))
    return -1
  }

  /** @returns index of the first byte that does not match */
  #continueMatch(chunk: Buffer, offset: number): number {
    let at = offset
    while (
      at < chunk.length &&
      this.#matchedBytes < this.#delimiter.length &&
      chunk[at] === this.#delimiter[this.#matchedBytes]
    ) {
      at++
      this.#matchedBytes++
    }
    return at
  }

  /** @returns where a delimiter may begin whose end is not in this chunk, else the end of the chunk */
  #beginMatch(chunk: Buffer, offset: number): number {
    const start = Math.max(offset, chunk.lastIndexOf(CR)) // D1
    if (chunk[start] !== CR) return chunk.length
    if (this.#continueMatch(chunk, start) === chunk.length) return start
    this.#matchedBytes = 0
    return chunk.length
  }
}
