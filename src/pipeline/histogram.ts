/**
 * How many observed values fell into each range, in one SharedArrayBuffer: a thread observes, main reads.
 *
 *   f64 cells   one for each bound: values at or below it and above the bound before
 *               one for values above the last bound
 *               the sum of all values
 *
 * H1  each histogram has one thread that writes, so that no addition is lost and none has to be atomic. Threads that measure the same thing
 *     have a histogram each, and a label each in the metrics
 * H2  an aligned 8-byte store is whole on the processors this runs on. A reader may see a value counted that the sum does not have yet
 */
import assert from 'node:assert/strict'

export class Histogram {
  readonly shared: SharedArrayBuffer
  readonly bounds: readonly number[]
  readonly #bounds: Float64Array
  readonly #cells: Float64Array

  static create(bounds: readonly number[]): Histogram {
    return new Histogram(bounds, new SharedArrayBuffer(histogramBytes(bounds)), 0)
  }

  /**
   * A part of memory that threads share anyway.
   *
   * @param at multiple of 8; from there `histogramBytes(bounds)` belong to the histogram, zeros at first
   */
  static inSharedMemory(shared: SharedArrayBuffer, at: number, bounds: readonly number[]): Histogram {
    return new Histogram(bounds, shared, at)
  }

  private constructor(bounds: readonly number[], shared: SharedArrayBuffer, at: number) {
    assert(bounds.length > 0 && bounds.every((bound, i) => i === 0 || bound > bounds[i - 1]!), 'bounds ascend')
    this.shared = shared
    this.bounds = bounds
    this.#bounds = Float64Array.from(bounds)
    this.#cells = new Float64Array(shared, at, bounds.length + 2)
  }

  /** Only from the thread that owns the histogram (H1). */
  observe(value: number): void {
    const bounds = this.#bounds
    const { length } = bounds
    let bucket = 0
    while (bucket < length && value > bounds[bucket]!) bucket++
    this.#cells[bucket]!++
    this.#cells[length + 1]! += value
  }

  /** How many values fell into a bucket; the last bucket is behind the last bound. */
  count(bucket: number): number {
    return this.#cells[bucket]!
  }

  get sum(): number {
    return this.#cells[this.bounds.length + 1]!
  }
}

export const histogramBytes = (bounds: readonly number[]): number =>
  (bounds.length + 2) * Float64Array.BYTES_PER_ELEMENT

/** From a tenth of a millisecond to ten seconds: requests and syncs. */
export const LATENCY_BOUNDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
