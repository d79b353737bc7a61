/** Request ids: a prefix and 96 random bits in hexadecimal. Randomness is fetched in pools, as one id needs little of it. */
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

  next(): string {
    if (this.#used === POOL_BYTES) {
      this.#random(this.#pool)
      this.#used = 0
    }
    const from = this.#used
    this.#used += ID_BYTES
    return this.#prefix + this.#pool.toString('hex', from, this.#used)
  }
}
