/**
 * Large writes that go past the page cache (O_DIRECT). The page cache takes each page from the system, for 2 to 10 µs, and may hold bytes that are
 * never read. Past it, the disk takes the same bytes from our memory by itself.
 *
 *   at                                                                        in the file
 *   | head, to the next block | whole blocks, copied to aligned memory, piece by piece | rest |
 *     through the page cache    past it                                                through it
 *
 * Both ways write the same bytes to the same place, and `fdatasync` makes both durable, as it flushes the cache of the disk, too. No block is written
 * by both ways while only one of them has its bytes: the head fills its block up, the rest begins a new one.
 *
 * D3  if the file system refuses such a write (EINVAL), that write and all later ones go through the page cache
 */
import fs from 'node:fs'
import { copyBytes } from '../../native-free-codecs/copy-bytes.ts'
import { alignedMemory } from '../libc.ts'
import { BLOCK_BYTES } from './direct-file.ts'
import { errorCode } from './files.ts'

/** Smaller writes cost less through the page cache, and are read again sooner. */
const DIRECT_BYTES_MIN = { short: 256 << 10, medium: 1 << 20 }
const PIECE_BYTES = 1 << 20

/** The calls of the operating system; tests pass in others. */
type FileCalls = Pick<typeof fs, 'openSync' | 'writeSync' | 'closeSync'>

/** Aligned memory, made when the first write needs it. All writes of this thread share it, because each ends before the next begins. */
let piece: Buffer | null = null

export class DirectWrites {
  readonly #descriptor: number
  readonly #bytesMin: number
  readonly #system: FileCalls

  /** Null: the file system cannot write this way. @param cached which writes go through the page cache all the same */
  static open(path: string, cached: keyof typeof DIRECT_BYTES_MIN, system: FileCalls = fs): DirectWrites | null {
    try {
      const descriptor = system.openSync(path, fs.constants.O_WRONLY | fs.constants.O_DIRECT)
      return new DirectWrites(descriptor, DIRECT_BYTES_MIN[cached], system)
    } catch (error) {
      if (errorCode(error) === 'EINVAL') return null
      throw error
    }
  }

  private constructor(descriptor: number, bytesMin: number, system: FileCalls) {
    this.#descriptor = descriptor
    this.#bytesMin = bytesMin
    this.#system = system
  }

  /**
   * Writes the parts as one run of bytes, as far as this way allows.
   *
   * @param write the way through the page cache, for the head
   * @returns the bytes written: fewer than there are when a rest has to go through the page cache, 0 for a small write. Null: D3, and the bytes
   *          before `at` are as they were
   * @throws what the file system throws
   */
  writev(
    parts: readonly Uint8Array[],
    at: number,
    write: (parts: readonly Uint8Array[], at: number) => void,
  ): number | null {
    let bytes = 0
    for (const part of parts) bytes += part.byteLength
    if (bytes < this.#bytesMin) return 0
    piece ??= alignedMemory(PIECE_BYTES, BLOCK_BYTES)
    const source = new Parts(parts)
    const headBytes = -at & (BLOCK_BYTES - 1)
    if (headBytes > 0) write([piece.subarray(0, source.take(piece, headBytes))], at)
    let written = headBytes
    while (bytes - written >= BLOCK_BYTES) {
      const count = Math.min(PIECE_BYTES, (bytes - written) & -BLOCK_BYTES)
      source.take(piece, count)
      if (!this.#writePiece(count, at + written)) return null
      written += count
    }
    return written
  }

  close(): void {
    this.#system.closeSync(this.#descriptor)
  }

  /** False: the file system refuses the write (D3). */
  #writePiece(count: number, at: number): boolean {
    try {
      // After a short write the memory may not be aligned any more: then the system refuses the rest.
      for (let from = 0; from < count;) {
        from += this.#system.writeSync(this.#descriptor, piece!, from, count - from, at + from)
      }
      return true
    } catch (error) {
      if (errorCode(error) === 'EINVAL') return false
      throw error
    }
  }
}

/** Parts as one run of bytes, taken from its beginning. */
class Parts {
  readonly #parts: readonly Uint8Array[]
  #index = 0
  #from = 0

  constructor(parts: readonly Uint8Array[]) {
    this.#parts = parts
  }

  /** Copies the next `count` bytes to the beginning of `into`. */
  take(into: Buffer, count: number): number {
    for (let taken = 0; taken < count;) {
      const part = this.#parts[this.#index]!
      const bytes = Math.min(count - taken, part.byteLength - this.#from)
      taken = copyBytes(part.subarray(this.#from, this.#from + bytes), into, taken)
      this.#from += bytes
      if (this.#from === part.byteLength) {
        this.#index += 1
        this.#from = 0
      }
    }
    return count
  }
}
