/**
 * Which segments may hold this id? A blocked Bloom filter over 128-bit keys: every probe for a key falls into one 64-byte block,
 * so a look-up costs one cache miss, or one ranged read.
 *
 *   block   16 u32 words, 512 bits; bit b of a block is bit b mod 32 of its word b / 32
 *   key     four u32 words → two independent 32-bit hashes: one picks the block, one the PROBES bits in it
 *
 * A key that was added is always found, as bits are only ever set. The array is stored as it is: a change of hash, salt or layout is a new format.
 *
 * Source: block-local probing after Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007; bits picked
 * by multiplication with odd constants as in the split block filter of Apache Parquet (whose salts these are).
 */
const BLOCK_WORDS = 16
const BLOCK_BYTES = 4 * BLOCK_WORDS
const BITS_PER_KEY = 12

const SALTS = Uint32Array.of(
  0x47b6137b,
  0x44974d91,
  0x8824ad5b,
  0xa2b7289d,
  0x705495c7,
  0x2df1424b,
  0x9efc4947,
  0x5c6bfb31,
)
const PROBES = SALTS.length

const BLOCK_SEED = 0x9747b28c
const BITS_SEED = 0x3c6ef372

/**
 * Size of the filter for a number of keys, at 12 bits a key: about 0.5 % of absent keys are then said to be there.
 *
 * @param keyCount  distinct keys, >= 0
 * @returns bytes, a multiple of 64 and never 0
 *
 * Example: 1000 keys need 12000 bits, stored as 24 blocks of 512: 1536 bytes.
 */
export function filterBytes(keyCount: number): number {
  return BLOCK_BYTES * Math.max(1, Math.ceil((keyCount * BITS_PER_KEY) / (8 * BLOCK_BYTES)))
}

/** Adds the key (w0, w1, w2, w3) to a filter of filterBytes(…) / 4 words. */
export function addKey(filter: Uint32Array, w0: number, w1: number, w2: number, w3: number): void {
  const block = blockOf(filter, w0, w1, w2, w3)
  const bits = mix(BITS_SEED, w0, w1, w2, w3)
  for (let i = 0; i < PROBES; i++) {
    const bit = Math.imul(bits, SALTS[i]!) >>> 23
    filter[block + (bit >>> 5)]! |= 1 << (bit & 31)
  }
}

/** False: the key was never added. True: it was, or this is one of the few false positives. */
export function mayContain(filter: Uint32Array, w0: number, w1: number, w2: number, w3: number): boolean {
  const block = blockOf(filter, w0, w1, w2, w3)
  const bits = mix(BITS_SEED, w0, w1, w2, w3)
  for (let i = 0; i < PROBES; i++) {
    const bit = Math.imul(bits, SALTS[i]!) >>> 23
    if ((filter[block + (bit >>> 5)]! & (1 << (bit & 31))) === 0) return false
  }
  return true
}

/** First word of the key's block. The product of two numbers below 2^32 and 2^21 is exact in a double. */
function blockOf(filter: Uint32Array, w0: number, w1: number, w2: number, w3: number): number {
  const blocks = filter.length / BLOCK_WORDS
  return BLOCK_WORDS * Math.floor((mix(BLOCK_SEED, w0, w1, w2, w3) * blocks) / 0x1_0000_0000)
}

/** A 32-bit hash of four words; trace ids may be counters, so every input bit has to reach every output bit (MurmurHash3). */
function mix(seed: number, w0: number, w1: number, w2: number, w3: number): number {
  let hash = mixIn(mixIn(mixIn(mixIn(seed, w0), w1), w2), w3)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

function mixIn(hash: number, word: number): number {
  let k = Math.imul(word, 0xcc9e2d51)
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593)
  hash ^= k
  hash = (hash << 13) | (hash >>> 19)
  return (Math.imul(hash, 5) + 0xe6546b64) | 0
}
