/**
 * A membership filter cut into blocks of the index file: one filter per block, and the key says which one. A probe then
 * needs one verified block, however large the filter is.
 */
import { filterBytes } from '../../../native-free-codecs/membership-filter.ts'
import { BLOCK_BYTES } from './index-file.ts'

/** Blocks for this number of keys; none for none. */
export const filterBlockCount = (keys: number): number => (keys === 0 ? 0 : Math.ceil(filterBytes(keys) / BLOCK_BYTES))

/**
 * The block of a key: by a hash that is independent of those the filter itself uses, so that all blocks fill alike.
 *
 * Source: multiplicative hashing with the odd constants of xxHash32; the product's high bits depend on all bits of the key.
 */
export function filterBlockOf(w0: number, w1: number, w2: number, w3: number, blocks: number): number {
  const sum =
    Math.imul(w0, 0x9e3779b1) ^ Math.imul(w1, 0x85ebca77) ^ Math.imul(w2, 0xc2b2ae3d) ^ Math.imul(w3, 0x27d4eb2f)
  return ((Math.imul(sum, 0x165667b1) >>> 16) * blocks) >>> 16
}
