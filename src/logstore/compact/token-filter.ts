/**
 * Says whether a block may hold a word: a Bloom filter over the words of its records, and of the resources and scopes they belong to, and over
 * `key=value` of their attributes.
 *
 *   filter   u32 words; a bit for each of PROBES hashes of each token
 *
 * F1  every token of every record was added, whatever the search that asks: words as search has them (W1 of search/words.ts) as far as they are
 *     ASCII, in lower case
 * F2  of a JSON record whose text has escapes the words are not known: its block has no filter, and may hold anything
 */
import { ASCII_OF_WORD } from '../search/words.ts'
import { LOWER } from '../search/byte-finder.ts'
import { mix } from './hash-index.ts'

const PROBES = 7
/** One of 150 words that are not there is said to be. */
const BITS_PER_TOKEN = 10.5
const SEED = 0x2545f491

/** Of a word in ASCII, in whatever case. */
export function wordHash(bytes: Uint8Array, start: number, end: number): number {
  let hash = SEED
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ LOWER[bytes[at]!]!, 0x01000193)
  return mix(hash ^ (end - start))
}

/** Collects the distinct tokens of a block. */
export class TokenSet {
  #slots = new Uint32Array(1 << 12)
  #count = 0

  get count(): number {
    return this.#count
  }

  add(hash: number): void {
    const slots = this.#slots
    const key = hash || 1
    const mask = slots.length - 1
    let slot = key & mask
    for (let held = slots[slot]!; held !== 0; held = slots[slot]!) {
      if (held === key) return
      slot = (slot + 1) & mask
    }
    slots[slot] = key
    if (++this.#count * 2 > slots.length) this.#grow()
  }

  /** Every word of a text, or of bytes that have texts in them. */
  addWords(bytes: Uint8Array, start: number, end: number): void {
    let hash = SEED
    let length = 0
    for (let at = start; at < end; at++) {
      const byte = bytes[at]!
      if (ASCII_OF_WORD[byte] === 1) {
        hash = Math.imul(hash ^ LOWER[byte]!, 0x01000193)
        length++
      } else if (length > 0) {
        this.add(mix(hash ^ length))
        hash = SEED
        length = 0
      }
    }
    if (length > 0) this.add(mix(hash ^ length))
  }

  filter(): Uint32Array {
    const filter = new Uint32Array(Math.max(1, Math.ceil((this.#count * BITS_PER_TOKEN) / 32)))
    const bits = 32 * filter.length
    for (const hash of this.#slots) {
      if (hash === 0) continue
      const step = mix(hash) | 1
      for (let probe = 0, at = hash; probe < PROBES; probe++, at = (at + step) >>> 0) {
        const bit = at % bits
        filter[bit >>> 5]! |= 1 << (bit & 31)
      }
    }
    return filter
  }

  clear(): void {
    this.#slots.fill(0)
    this.#count = 0
  }

  #grow(): void {
    const before = this.#slots
    this.#slots = new Uint32Array(2 * before.length)
    this.#count = 0
    for (const hash of before) if (hash !== 0) this.add(hash)
  }
}

/** False: no record of the block has the token of this hash. */
export function mayHoldToken(filter: Uint32Array, hash: number): boolean {
  const bits = 32 * filter.length
  const key = hash || 1
  const step = mix(key) | 1
  for (let probe = 0, at = key; probe < PROBES; probe++, at = (at + step) >>> 0) {
    const bit = at % bits
    if ((filter[bit >>> 5]! & (1 << (bit & 31))) === 0) return false
  }
  return true
}
