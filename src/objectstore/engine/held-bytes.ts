/** Bytes of a body that have no place in the arena yet, one behind the other: many small pieces take no more memory than a long one. */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'

const NOTHING = Buffer.alloc(0)
const BYTES_MIN = 4096
/** Memory that is larger than this is given up when it is emptied. */
const KEPT_BYTES_MAX = 64 * 1024

export class HeldBytes {
  #memory: Buffer = NOTHING
  #bytes = 0

  get byteLength(): number {
    return this.#bytes
  }

  /** Copies; the bytes may be those that `take` gave. */
  add(bytes: Uint8Array): void {
    const end = this.#bytes + bytes.byteLength
    if (end > this.#memory.byteLength) {
      const memory = Buffer.allocUnsafeSlow(Math.max(BYTES_MIN, 2 ** Math.ceil(Math.log2(end))))
      copyBytes(this.#memory.subarray(0, this.#bytes), memory, 0)
      this.#memory = memory
    }
    this.#memory.set(bytes, this.#bytes)
    this.#bytes = end
  }

  /** Gives all of them, valid until more are added. */
  take(): Buffer {
    const bytes = this.#memory.subarray(0, this.#bytes)
    this.#bytes = 0
    if (this.#memory.byteLength > KEPT_BYTES_MAX) this.#memory = NOTHING
    return bytes
  }

  clear(): void {
    this.#memory = NOTHING
    this.#bytes = 0
  }
}
