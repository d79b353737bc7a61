/**
 * Histogram of durations with a bounded relative error, in constant memory.
 *
 * A bucket is the exponent and the top 7 mantissa bits of the value as a float64, so every power of two is cut into 128
 * equal parts: adding costs a store, a load and a shift, no logarithm.
 *
 *   float64, high word:   sign 1 | exponent 11 | mantissa 7 ....... | 13 more
 *                         `----------- bucket number ------------'
 *
 * H1  counts[bucket] is the number of values added whose float64 begins with that bucket's bits
 * H2  a percentile is at most 1 / 256 (0.4 %) away from the value of that rank, inside [VALUE_MIN_MS, VALUE_MAX_MS]
 * H3  min, max, mean and count are exact
 */
import assert from 'node:assert/strict'

const SUB_BUCKET_BITS = 7
const SHIFT = 20 - SUB_BUCKET_BITS // mantissa bits of the high word that a bucket ignores

/** Values below are counted as this one: about one microsecond. */
export const VALUE_MIN_MS = 2 ** -10
/** Values above are counted as this one: about 70 minutes. */
export const VALUE_MAX_MS = 2 ** 22

const scratchValue = new Float64Array(1)
const scratchWords = new Uint32Array(scratchValue.buffer) // little-endian machine: word 1 is the high word

function bucketBits(valueMs: number): number {
  scratchValue[0] = valueMs
  return scratchWords[1]! >>> SHIFT
}

const FIRST_BUCKET = bucketBits(VALUE_MIN_MS)
const BUCKET_COUNT = bucketBits(VALUE_MAX_MS) - FIRST_BUCKET + 1

function lowerBoundMs(bucket: number): number {
  scratchWords[0] = 0
  scratchWords[1] = (bucket + FIRST_BUCKET) << SHIFT
  return scratchValue[0]!
}

export class Histogram {
  readonly #counts = new Float64Array(BUCKET_COUNT)
  #count = 0
  #sumMs = 0
  #minMs = Infinity
  #maxMs = 0

  get count(): number {
    return this.#count
  }

  /** 0 when nothing was added, like every other figure of an empty histogram. */
  get minMs(): number {
    return this.#count === 0 ? 0 : this.#minMs
  }

  get maxMs(): number {
    return this.#maxMs
  }

  get meanMs(): number {
    return this.#count === 0 ? 0 : this.#sumMs / this.#count
  }

  add(valueMs: number): void {
    assert(valueMs >= 0)
    const clamped = valueMs < VALUE_MIN_MS ? VALUE_MIN_MS : valueMs > VALUE_MAX_MS ? VALUE_MAX_MS : valueMs
    this.#counts[bucketBits(clamped) - FIRST_BUCKET]!++ // H1
    this.#count++
    this.#sumMs += valueMs
    if (valueMs < this.#minMs) this.#minMs = valueMs
    if (valueMs > this.#maxMs) this.#maxMs = valueMs
  }

  merge(other: Histogram): void {
    for (let bucket = 0; bucket < BUCKET_COUNT; bucket++) this.#counts[bucket]! += other.#counts[bucket]!
    this.#count += other.#count
    this.#sumMs += other.#sumMs
    this.#minMs = Math.min(this.#minMs, other.#minMs)
    this.#maxMs = Math.max(this.#maxMs, other.#maxMs)
  }

  reset(): void {
    this.#counts.fill(0)
    this.#count = 0
    this.#sumMs = 0
    this.#minMs = Infinity
    this.#maxMs = 0
  }

  /**
   * The value of nearest rank: the smallest that at least `percent` % of the values do not exceed.
   *
   * @param percent in [0, 100]; 100 is the maximum itself
   * Example: of the values 1 … 100 ms, percentile(99) is 99 ms within 0.4 %.
   */
  percentile(percent: number): number {
    assert(percent >= 0 && percent <= 100)
    if (this.#count === 0) return 0
    const rank = Math.max(1, Math.ceil((percent / 100) * this.#count))
    if (rank === this.#count) return this.#maxMs
    let seen = 0
    let bucket = 0
    while ((seen += this.#counts[bucket]!) < rank) bucket++
    const middle = (lowerBoundMs(bucket) + lowerBoundMs(bucket + 1)) / 2 // H2
    return Math.min(Math.max(middle, this.#minMs), this.#maxMs)
  }

  /**
   * The distribution, for plots: bars of equal width on a logarithmic axis, which buckets are not.
   *
   * @param barsPerOctave how many bars a doubling of the value is cut into
   * @returns bars from the first to the last one that is not empty; empty ones in between are included
   */
  bars(barsPerOctave: number): { fromMs: number; toMs: number; count: number }[] {
    const bars: { fromMs: number; toMs: number; count: number }[] = []
    let lastExponent = 0
    for (let bucket = 0; bucket < BUCKET_COUNT; bucket++) {
      const count = this.#counts[bucket]!
      if (count === 0) continue
      const middleMs = (lowerBoundMs(bucket) + lowerBoundMs(bucket + 1)) / 2
      const ownExponent = Math.floor(Math.log2(middleMs) * barsPerOctave)
      for (let exponent = bars.length === 0 ? ownExponent : lastExponent + 1; exponent <= ownExponent; exponent++) {
        bars.push({ fromMs: 2 ** (exponent / barsPerOctave), toMs: 2 ** ((exponent + 1) / barsPerOctave), count: 0 })
      }
      lastExponent = ownExponent
      bars.at(-1)!.count += count
    }
    return bars
  }
}
