/**
 * Says whether a block may hold a token: a Bloom filter over the words of its records, their resources and scopes, and over `key=value` of attributes that
 * are texts.
 *
 *   filter   u32 words; a bit for each of PROBES hashes of each token
 *
 * F1  the filter has every word of every record, whatever searches look at: words as searches cut them (W1 of search/words.ts), if they are ASCII, in
 *     lower case
 * F2  if the words of a record are not known, such as those of JSON with escapes, its block has no filter, and may hold any word
 * F3  the filter has pairs of key and value if its block says so (PAIRS of token-counts.ts)
 */
import { LOWER } from '../search/byte-finder.ts'
import { mix } from './hash-index.ts'

const PROBES = 7
/** One of 150 absent words passes the filter. */
const BITS_PER_TOKEN = 10.5
export const HASH_SEED = 0x2545f491
export const HASH_PRIME = 0x01000193

/** The hash of a word in ASCII, in whatever case. */
export function wordHash(bytes: Uint8Array, start: number, end: number): number {
  let hash = HASH_SEED
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ LOWER[bytes[at]!]!, HASH_PRIME)
  return mix(hash ^ (end - start))
}

/** The hash of an attribute's key in ASCII with a value in ASCII, whose case does not count. */
export const pairHash = (keyHash: number, value: Uint8Array, start: number, end: number): number =>
  mix(wordHash(value, start, end) ^ keyHash)

/** The hash of an attribute's key, for `pairHash`. */
export function keyHashOf(key: string): number {
  let hash = HASH_SEED
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), HASH_PRIME)
  return mix(hash + key.length + 1)
}

/** @param hashes of distinct tokens */
export function filterOf(hashes: Uint32Array): Buffer {
  const filter = new Uint32Array(Math.max(1, Math.ceil((hashes.length * BITS_PER_TOKEN) / 32)))
  const bits = 32 * filter.length
  for (const hash of hashes) {
    const step = mix(hash) | 1
    for (let probe = 0, at = hash; probe < PROBES; probe++, at = (at + step) >>> 0) {
      const bit = at % bits
      filter[bit >>> 5]! |= 1 << (bit & 31)
    }
  }
  return Buffer.from(filter.buffer)
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
