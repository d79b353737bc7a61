/**
 * Space for bodies of known length: contiguous runs of fixed-size blocks in one SharedArrayBuffer. One owner thread allocates
 * and frees; other threads attach and read or write inside the runs they were told about.
 *
 *   blocks     |AAA|F|BB|FFFF|C|FF|        A, B, C allocated, F free
 *   #firstOf   |3..|-1|2.|-4..|1|-2.|      at the first block of every run: its blocks, negative when free
 *   #lastOf    |..3|-1|.2|...-4|1|.-2|     the same at its last block; every other entry is 0
 *
 * The runs tile the arena: there is no gap and no overlap.
 *
 * A2  two free runs are never neighbours: freeing merges, so a run of n free blocks is found whenever there is one
 * A3  an entry of #firstOf is not 0 exactly where a run begins: freeing twice, or at a wrong offset, is caught
 * A4  the lowest free run that is long enough is taken: blocks that were never needed at once are never touched, and take no memory of the machine
 */
import assert from 'node:assert/strict'

const BLOCK_BYTES_DEFAULT = 64 * 1024

export class Arena {
  readonly shared: SharedArrayBuffer
  readonly bytes: Buffer
  readonly #owner: Blocks | null

  /** @param capacityBytes a multiple of blockBytes */
  static create(capacityBytes: number, blockBytes = BLOCK_BYTES_DEFAULT): Arena {
    assert(blockBytes > 0 && blockBytes % 8 === 0, 'blocks are a positive multiple of 8 bytes')
    assert(capacityBytes > 0 && capacityBytes % blockBytes === 0, 'arena capacity must be a multiple of its blocks')
    return new Arena(new SharedArrayBuffer(capacityBytes), new Blocks(capacityBytes / blockBytes, blockBytes))
  }

  /** A view for another thread: it can neither allocate nor free. */
  static attach(shared: SharedArrayBuffer): Arena {
    return new Arena(shared, null)
  }

  private constructor(shared: SharedArrayBuffer, owner: Blocks | null) {
    this.shared = shared
    this.bytes = Buffer.from(shared)
    this.#owner = owner
  }

  get blockBytes(): number {
    return this.#blocks.blockBytes
  }

  /** Bytes of the blocks that are allocated now. */
  get usedBytes(): number {
    return this.#blocks.usedBlocks * this.#blocks.blockBytes
  }

  /**
   * @param lengthBytes 0 takes one block too, so that every allocation has an offset of its own
   * @returns offset of contiguous space, a multiple of the block size; -1 when no free run is long enough
   */
  allocate(lengthBytes: number): number {
    const blocks = this.#blocks
    assert(lengthBytes >= 0)
    const first = blocks.take(Math.max(1, Math.ceil(lengthBytes / blocks.blockBytes)))
    return first < 0 ? -1 : first * blocks.blockBytes
  }

  /** @param offset as `allocate` returned it, not freed since */
  free(offset: number): void {
    assert(offset % this.#blocks.blockBytes === 0, 'not an offset of this arena')
    this.#blocks.release(offset / this.#blocks.blockBytes)
  }

  get #blocks(): Blocks {
    assert(this.#owner !== null, 'only the owner of an arena allocates and frees')
    return this.#owner
  }
}

/** The owner's book of runs. */
class Blocks {
  readonly blockBytes: number
  usedBlocks = 0

  readonly #count: number
  readonly #firstOf: Int32Array
  readonly #lastOf: Int32Array
  #lowestFree = 0 // first block of a run; all below are taken

  constructor(count: number, blockBytes: number) {
    this.blockBytes = blockBytes
    this.#count = count
    this.#firstOf = new Int32Array(count)
    this.#lastOf = new Int32Array(count)
    this.#mark(0, count, -1)
  }

  take(blocks: number): number {
    const first = this.#search(blocks)
    if (first < 0) return -1

    const freeBlocks = -this.#firstOf[first]!
    this.#unmark(first, freeBlocks)
    this.#mark(first, blocks, 1)
    if (freeBlocks > blocks) this.#mark(first + blocks, freeBlocks - blocks, -1)
    if (first === this.#lowestFree) this.#lowestFree += blocks
    this.usedBlocks += blocks
    return first
  }

  release(first: number): void {
    const blocks = this.#firstOf[first] ?? 0
    assert(blocks > 0, 'freed twice, or not an allocated offset') // A3
    this.usedBlocks -= blocks
    this.#unmark(first, blocks)

    let start = first
    let end = first + blocks
    const before = first > 0 ? -this.#lastOf[first - 1]! : 0
    if (before > 0) {
      start -= before
      this.#unmark(start, before)
    }
    const after = end < this.#count ? -this.#firstOf[end]! : 0
    if (after > 0) {
      this.#unmark(end, after)
      end += after
    }
    this.#mark(start, end - start, -1) // A2
    this.#lowestFree = Math.min(this.#lowestFree, start)
  }

  /** First block of the first free run of at least `blocks`, or -1 (A4). */
  #search(blocks: number): number {
    let at = this.#lowestFree
    while (at < this.#count) {
      const run = this.#firstOf[at]!
      if (-run >= blocks) return at
      at += Math.abs(run)
    }
    return -1
  }

  #mark(first: number, blocks: number, sign: 1 | -1): void {
    this.#firstOf[first] = sign * blocks
    this.#lastOf[first + blocks - 1] = sign * blocks
  }

  #unmark(first: number, blocks: number): void {
    this.#firstOf[first] = 0
    this.#lastOf[first + blocks - 1] = 0
  }
}
