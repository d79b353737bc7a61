/**
 * Request ids: the client's own, or a prefix and 96 random bits in hexadecimal. Randomness is fetched in pools, as one id needs
 * little of it.
 */
import { REQUEST_ID_CHARACTERS_MAX } from './limits.ts'

const OWN_ID = new RegExp(`^[\\x21-\\x7e]{1,${REQUEST_ID_CHARACTERS_MAX}}$`)

const ID_BYTES = 12
const POOL_BYTES = ID_BYTES * 256

export class RequestIds {
  readonly #prefix: string
  readonly #random: (bytes: Uint8Array) => void
  readonly #pool = Buffer.alloc(POOL_BYTES)
  #used = POOL_BYTES

  constructor(prefix: string, random: (bytes: Uint8Array) => void) {
    this.#prefix = prefix
    this.#random = random
  }

  /** @param own what the client sent for one, '' when nothing: kept unless it is too long or not visible */
  of(own: string): string {
    return OWN_ID.test(own) ? own : this.#next()
  }

  #next(): string {
    if (this.#used === POOL_BYTES) {
      this.#random(this.#pool)
      this.#used = 0
    }
    const from = this.#used
    this.#used += ID_BYTES
    return this.#prefix + this.#pool.toString('hex', from, this.#used)
  }
}
