/** A set of offsets, as disjoint half-open intervals [from, to). Adjacent intervals merge, so that a dense set is small. */
import { TaggedIntervals } from './state/tagged-intervals.ts'

const MEMBER = 0

export class IntervalSet {
  readonly #intervals = new TaggedIntervals()

  /** @param bounds what `encode` returned */
  static decode(bounds: Float64Array): IntervalSet {
    const set = new IntervalSet()
    for (let i = 0; i + 1 < bounds.length; i += 2) set.add(bounds[i]!, bounds[i + 1]!)
    return set
  }

  /** Offsets covered. */
  get size(): number {
    return this.#intervals.size
  }

  get intervalCount(): number {
    return this.#intervals.intervalCount
  }

  /** Bytes of memory that the columns take. */
  get bytes(): number {
    return this.#intervals.bytes
  }

  has(offset: number): boolean {
    return this.#intervals.tagAt(offset) === MEMBER
  }

  /** [from, to) may overlap what is there; nothing happens when it is empty. */
  add(from: number, to: number): void {
    this.#intervals.set(from, to, MEMBER)
  }

  remove(from: number, to: number): void {
    this.#intervals.remove(from, to)
  }

  /** Lowest offset >= from that is not covered. */
  firstGap(from: number): number {
    return this.#intervals.firstGap(from)
  }

  /** Lowest offset >= from that is covered; Infinity when there is none. */
  nextCovered(from: number): number {
    return this.#intervals.nextCovered(from)
  }

  /** How many offsets of [from, to) are covered. */
  coveredBetween(from: number, to: number): number {
    return this.#intervals.coveredBetween(from, to)
  }

  /** Ascending. The set must not change during the iteration. */
  *entries(): Generator<readonly [from: number, to: number], void> {
    for (const [from, to] of this.#intervals.entries()) yield [from, to]
  }

  /** Bounds of the intervals one after the other: from, to, from, to, … */
  encode(): Float64Array<ArrayBuffer> {
    const bounds = new Float64Array(2 * this.intervalCount)
    let at = 0
    for (const [from, to] of this.#intervals.entries()) {
      bounds[at++] = from
      bounds[at++] = to
    }
    return bounds
  }
}
