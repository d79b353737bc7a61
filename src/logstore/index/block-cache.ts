/**
 * Verified blocks of index files, least recently used first out, bounded in bytes. One per thread, shared by all files it reads.
 *
 * A block that was handed out stays valid after it left the cache: blocks are never written again.
 */
import { BLOCK_BYTES } from './index-file.ts'

export type Block = Uint32Array<ArrayBuffer>

/** Blocks of one file; more than any segment's index has. */
const BLOCKS_PER_OWNER = 2 ** 24

export class BlockCache {
  readonly #blocksMax: number
  /** In order of use: a Map iterates in order of insertion, and a hit inserts again. */
  readonly #blocks = new Map<number, Block>()
  #owners = 0

  constructor(bytesMax: number) {
    this.#blocksMax = Math.max(1, Math.floor(bytesMax / BLOCK_BYTES))
  }

  /** A number for a file that was opened, never used before. */
  newOwner(): number {
    return this.#owners++
  }

  get(owner: number, block: number): Block | undefined {
    const key = owner * BLOCKS_PER_OWNER + block
    const cached = this.#blocks.get(key)
    if (cached !== undefined) {
      this.#blocks.delete(key)
      this.#blocks.set(key, cached)
    }
    return cached
  }

  put(owner: number, block: number, words: Block): void {
    this.#blocks.set(owner * BLOCKS_PER_OWNER + block, words)
    if (this.#blocks.size <= this.#blocksMax) return
    for (const oldest of this.#blocks.keys()) {
      this.#blocks.delete(oldest)
      return
    }
  }

  /** Gives up the blocks of a file that was closed. */
  drop(owner: number, blockCount: number): void {
    for (let block = 0; block < blockCount; block++) this.#blocks.delete(owner * BLOCKS_PER_OWNER + block)
  }
}
