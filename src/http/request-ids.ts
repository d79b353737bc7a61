/**
 * Request ids: the client's own, or a prefix and 96 random bits in hexadecimal. Randomness is fetched in pools, as one id needs
 * little of it.
 *
 * The library hands over the bytes of one header as Latin-1 and writes text as UTF-8, so a client's own id comes back byte for byte if it is UTF-8, and
 * is not kept otherwise. Bytes above 0x7f at its ends are lost: the library cuts them off as if they were blanks.
 */
import { REQUEST_ID_BYTES_MAX } from './limits.ts'

/** Which ids of clients are kept: those of visible ASCII, or all without control characters. */
export type OwnIds = 'visible' | 'printable'

const VISIBLE = /^[\x21-\x7e]+$/
const CONTROL = /\p{Cc}/u

const ID_BYTES = 12
const POOL_BYTES = ID_BYTES * 256

export class RequestIds {
  readonly #prefix: string
  readonly #ownIds: OwnIds
  readonly #random: (bytes: Uint8Array) => void
  readonly #pool = Buffer.alloc(POOL_BYTES)
  #digits = ''
  /** How many digits are used. */
  #used = 0

  constructor(prefix: string, ownIds: OwnIds, random: (bytes: Uint8Array) => void) {
    this.#prefix = prefix
    this.#ownIds = ownIds
    this.#random = random
  }

  /** @param own the client's id in Latin-1, '' when it sent none: kept unless it is too long or has characters that are not allowed */
  of(own: string): string {
    if (own === '' || own.length > REQUEST_ID_BYTES_MAX) return this.#next()
    if (VISIBLE.test(own)) return own
    return (this.#ownIds === 'printable' ? printable(Buffer.from(own, 'latin1')) : null) ?? this.#next()
  }

  #next(): string {
    if (this.#used === this.#digits.length) {
      this.#random(this.#pool)
      this.#digits = this.#pool.toString('hex')
      this.#used = 0
    }
    const from = this.#used
    this.#used += 2 * ID_BYTES
    return this.#prefix + this.#digits.slice(from, this.#used)
  }
}

/** Null: not UTF-8, or with control characters. */
function printable(bytes: Buffer): string | null {
  const text = bytes.toString()
  return CONTROL.test(text) || !Buffer.from(text).equals(bytes) ? null : text
}
