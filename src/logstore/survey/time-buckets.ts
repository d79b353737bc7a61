/** Spans of time of equal width, one behind the other. Times are ns since the Unix epoch, as words. */
import { isBefore, timeOfWords } from '../time-words.ts'

const WORD = 2 ** 32

export class TimeBuckets {
  readonly width: bigint
  readonly count: number
  readonly #origin: bigint
  /** Where each bucket begins, and where the last one ends: the high word may be 2^32. */
  readonly #beginHigh: Float64Array
  readonly #beginLow: Float64Array

  /** @param origin where the first bucket begins */
  constructor(origin: bigint, width: bigint, count: number) {
    this.width = width
    this.count = count
    this.#origin = origin
    const begins = Array.from({ length: count + 1 }, (_, i) => origin + BigInt(i) * width)
    this.#beginHigh = Float64Array.from(begins, (time) => Number(time >> 32n))
    this.#beginLow = Float64Array.from(begins, (time) => Number(time & 0xffff_ffffn))
  }

  beginOf(bucket: number): bigint {
    return this.#origin + BigInt(bucket) * this.width
  }

  beginHigh(bucket: number): number {
    return this.#beginHigh[bucket]!
  }

  beginLow(bucket: number): number {
    return this.#beginLow[bucket]!
  }

  /** The bucket of a time between the begin of the first and the end of the last one. */
  of(timeHigh: number, timeLow: number): number {
    const high = this.#beginHigh
    const low = this.#beginLow
    const since = (timeHigh - high[0]!) * WORD + (timeLow - low[0]!)
    // Doubles round: the bucket is this one or a neighbour.
    let bucket = Math.min(Math.floor(since / Number(this.width)), this.count - 1)
    while (isBefore(timeHigh, timeLow, high[bucket]!, low[bucket]!)) bucket--
    while (!isBefore(timeHigh, timeLow, high[bucket + 1]!, low[bucket + 1]!)) bucket++
    return bucket
  }
}

/** Times [from, to), `to` at most 2^64. */
export interface TimeRange {
  readonly from: bigint
  readonly to: bigint
}

/** The smallest range with both of them. */
export const rangeUnion = (a: TimeRange | null, b: TimeRange | null): TimeRange | null =>
  a === null || b === null ? (a ?? b) : { from: a.from < b.from ? a.from : b.from, to: a.to > b.to ? a.to : b.to }

/** The range of times from the earliest to the latest. */
export const rangeOfWords = (
  earliestHigh: number,
  earliestLow: number,
  latestHigh: number,
  latestLow: number,
): TimeRange => ({ from: timeOfWords(earliestHigh, earliestLow), to: timeOfWords(latestHigh, latestLow) + 1n })
