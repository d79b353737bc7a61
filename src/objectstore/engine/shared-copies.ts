/**
 * Copies of short bodies, side by side in memory that they share: memory of its own for each costs main more than twice what the copy does.
 *
 * S1  memory is used again when all of its copies were given back. If one is not, garbage collection frees the memory with its last copy
 * S2  a copy that is kept for long holds at most SHARED_BYTES: no more than the longest body that stays in memory
 */
const SHARED_BYTES = 64 * 1024
const COPY_BYTES_MAX = 16 * 1024
/** Memory that waits to be used again. */
const SPARE_MAX = 16

interface SharedMemory {
  readonly bytes: Buffer
  used: number
  /** Not given back yet. */
  copies: number
}

export interface SharedCopy {
  readonly bytes: Buffer
  /** Null: the copy has memory of its own. */
  readonly memory: SharedMemory | null
}

export class SharedCopies {
  #filling = newMemory()
  readonly #spare: SharedMemory[] = []

  /** Copies a body. Long ones get memory of their own. */
  copyOf(bytes: Uint8Array): SharedCopy {
    if (bytes.byteLength > COPY_BYTES_MAX) return { bytes: Buffer.from(bytes), memory: null }
    if (this.#filling.used + bytes.byteLength > SHARED_BYTES) this.#begin()
    const memory = this.#filling
    const from = memory.used
    memory.used += bytes.byteLength
    memory.copies += 1
    memory.bytes.set(bytes, from)
    return { bytes: memory.bytes.subarray(from, memory.used), memory }
  }

  /** The holder of a copy calls it once, when nothing reads the copy any more (S1). */
  release({ memory }: SharedCopy): void {
    if (memory === null) return
    memory.copies -= 1
    if (memory.copies > 0) return
    memory.used = 0
    if (memory !== this.#filling && this.#spare.length < SPARE_MAX) this.#spare.push(memory)
  }

  #begin(): void {
    this.#filling = this.#spare.pop() ?? newMemory()
  }
}

const newMemory = (): SharedMemory => ({ bytes: Buffer.allocUnsafeSlow(SHARED_BYTES), used: 0, copies: 0 })
