/** Remembers what stood at the offsets of whole blocks in a few bytes each, so that an old one can be read again and compared. */
import { crc32 } from 'node:zlib'
import type { Random } from '../../../bench/load/random.ts'

export const BLOCK_OFFSETS = 256

export interface Block {
  readonly from: number
  readonly digest: number
}

export const digestOf = (texts: readonly string[]): number => crc32(texts.join('\n'))

export class BlockDigests {
  readonly #digests: number[] = []
  #first = 0

  /** Behind the last block. */
  get end(): number {
    return this.#first + this.#digests.length * BLOCK_OFFSETS
  }

  /** @param texts at the next offsets, one for each of a block */
  add(texts: readonly string[]): void {
    this.#digests.push(digestOf(texts))
  }

  /** The block behind the last one was removed from the stream before it was read as a whole. */
  skip(): void {
    this.#digests.push(Number.NaN)
  }

  /** A block at or above an offset; null when there is none. */
  pick(random: Random, from: number): Block | null {
    const first = Math.ceil((from - this.#first) / BLOCK_OFFSETS)
    if (first >= this.#digests.length) return null
    const block = random.between(Math.max(0, first), this.#digests.length - 1)
    const digest = this.#digests[block]!
    return Number.isNaN(digest) ? null : { from: this.#first + block * BLOCK_OFFSETS, digest }
  }
}
