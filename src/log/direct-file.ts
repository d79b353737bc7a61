/**
 * Long reads of one file that go past the page cache (O_DIRECT), one after the other. A read through the page cache takes each page from the system and
 * evicts others, and copying out of new pages takes a millisecond for a MiB.
 *
 * F3  nothing here fails: the caller reads what could not be read in its own way, which reports why
 */
import fs from 'node:fs'
import { alignedMemory } from '../libc.ts'

/** An alignment that suffices for every file system. */
export const BLOCK_BYTES = 4096
/** Shorter reads cost less through the page cache. */
const LONG_BYTES = 128 << 10
const PIECE_BYTES = 256 << 10

/** The calls of the operating system; tests pass in others. */
type FileCalls = Pick<typeof fs, 'openSync' | 'readSync' | 'closeSync'>

/** Aligned memory, made when the first read needs it. All reads of this thread share it, because each ends before the next begins. */
let piece: Buffer | null = null

export class DirectFile {
  readonly #descriptor: number
  readonly #system: FileCalls

  /** Null: the file cannot be read this way. */
  static open(path: string, system: FileCalls = fs): DirectFile | null {
    try {
      return new DirectFile(system.openSync(path, fs.constants.O_RDONLY | fs.constants.O_DIRECT), system)
    } catch {
      return null // F3
    }
  }

  private constructor(descriptor: number, system: FileCalls) {
    this.#descriptor = descriptor
    this.#system = system
  }

  /** @returns the bytes that are filled from byte `at` on: 0 for a short read, fewer than there are when the rest has to be read another way */
  read(into: Uint8Array, at: number): number {
    if (into.byteLength < LONG_BYTES) return 0
    piece ??= alignedMemory(PIECE_BYTES, BLOCK_BYTES)
    let filled = 0
    while (filled < into.byteLength) {
      const skipped = (at + filled) % BLOCK_BYTES
      const wanted = skipped + into.byteLength - filled
      const blocks = Math.min(PIECE_BYTES, Math.ceil(wanted / BLOCK_BYTES) * BLOCK_BYTES)
      const end = Math.min(this.#readBlocks(blocks, at + filled - skipped), wanted)
      if (end <= skipped) break
      into.set(piece.subarray(skipped, end), filled)
      filled += end - skipped
    }
    return filled
  }

  close(): void {
    this.#system.closeSync(this.#descriptor)
  }

  #readBlocks(bytes: number, at: number): number {
    try {
      return this.#system.readSync(this.#descriptor, piece!, 0, bytes, at)
    } catch {
      return 0 // F3
    }
  }
}
