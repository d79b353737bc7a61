/**
 * Copies of short bodies, side by side in memory that they share: memory of its own for each costs main more than twice what the copy does.
 *
 * S1  memory is never used again: it is collected when nobody keeps any of its copies
 * S2  a copy that is kept for long holds at most SHARED_BYTES: no more than the longest body that stays in memory
 */
const SHARED_BYTES = 64 * 1024
const COPY_BYTES_MAX = 16 * 1024

export class SharedCopies {
  #shared = Buffer.alloc(0)
  #used = 0

  /** A longer one gets memory of its own. */
  copyOf(bytes: Uint8Array): Buffer {
    if (bytes.byteLength > COPY_BYTES_MAX) return Buffer.from(bytes)
    if (this.#used + bytes.byteLength > this.#shared.byteLength) {
      this.#shared = Buffer.allocUnsafeSlow(SHARED_BYTES)
      this.#used = 0
    }
    const from = this.#used
    this.#used += bytes.byteLength
    this.#shared.set(bytes, from)
    return this.#shared.subarray(from, this.#used)
  }
}
