/**
 * How often each value came, by bucket, in bounded memory.
 *
 * V1  while the values are few, each has exact counts in every bucket. With more, the counts by bucket are dropped; with still more, the
 *     rarest values are dropped as well: each count is then too low by at most `#error` (Misra and Gries, 1982), so that a value of more than
 *     1/KEPT_VALUES_MAX of all is always among the kept ones
 * V2  `onlyOf` counts chosen values exactly: those that a first walk has chosen, in a second one
 */
import { KEPT_CELLS_MAX, KEPT_VALUES_MAX } from './question.ts'

export interface CountedValue {
  readonly key: string
  readonly records: number
  readonly counts: Float64Array
}

export class ValueCounts {
  readonly #buckets: number
  readonly #totals = new Map<string, number>()
  /** Null: there are too many values (V1). */
  #cells: Map<string, Float64Array> | null = new Map()
  readonly #cellValuesMax: number
  readonly #isClosed: boolean
  #error = 0

  /** Counts all values. */
  static ofAll(buckets: number): ValueCounts {
    return new ValueCounts(buckets, null)
  }

  /** V2 */
  static onlyOf(keys: readonly string[], buckets: number): ValueCounts {
    return new ValueCounts(buckets, keys)
  }

  private constructor(buckets: number, keys: readonly string[] | null) {
    this.#buckets = buckets
    this.#isClosed = keys !== null
    this.#cellValuesMax = Math.floor(KEPT_CELLS_MAX / Math.max(1, buckets))
    for (const key of keys ?? []) {
      this.#totals.set(key, 0)
      this.#cells!.set(key, new Float64Array(buckets))
    }
  }

  add(key: string, bucket: number, records = 1): void {
    let left = records
    const known = this.#totals.get(key)
    // Each record that finds no room takes one of every value with it.
    if (known === undefined) while (!this.#admit(key)) if (--left === 0 || this.#isClosed) return
    this.#totals.set(key, (known ?? 0) + left)
    const cells = this.#cells?.get(key)
    if (cells !== undefined) cells[bucket]! += left
  }

  #admit(key: string): boolean {
    if (this.#isClosed) return false
    if (this.#totals.size >= this.#cellValuesMax || this.#totals.size >= KEPT_VALUES_MAX) this.#cells = null
    if (this.#totals.size >= KEPT_VALUES_MAX) {
      this.#giveUpRarest()
      return false
    }
    this.#cells?.set(key, new Float64Array(this.#buckets))
    return true
  }

  /** Drops one record of every value, and the one that has no room. */
  #giveUpRarest(): void {
    this.#error++
    for (const [key, records] of this.#totals) {
      if (records > 1) this.#totals.set(key, records - 1)
      else this.#totals.delete(key)
    }
  }

  /** The most frequent values, the first ones in order where several came as often. */
  top(count: number): readonly string[] {
    return this.#ranked()
      .slice(0, count)
      .map(([key]) => key)
  }

  /** True when no other value occurred more often than one of the first `count`. */
  isTopCertain(count: number): boolean {
    const ranked = this.#ranked()
    const last = ranked[count - 1]?.[1] ?? 0
    return this.#error === 0 || last >= (ranked[count]?.[1] ?? 0) + this.#error
  }

  /** Null: the counts by bucket were dropped (V1). */
  counted(keys: readonly string[]): readonly CountedValue[] | null {
    const cells = this.#cells
    if (cells === null) return null
    return keys.map((key) => ({ key, records: this.#totals.get(key)!, counts: cells.get(key)! }))
  }

  #ranked(): (readonly [key: string, records: number])[] {
    return [...this.#totals].sort(([keyA, a], [keyB, b]) => b - a || (keyA < keyB ? -1 : 1))
  }
}
