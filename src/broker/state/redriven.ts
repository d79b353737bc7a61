/**
 * Dead letters that were put back into their source, by the offset of the copy, with where each record is now.
 *
 * V1  a copy that was used stays used, unless its record turned out to be damaged: then it can be put back again, as nothing else would bring the record back
 * V2  for copies that older versions stored, and for records too far away, it is not known where the record is: such a copy stays used
 */
import { TaggedIntervals } from './tagged-intervals.ts'

/** V2 */
const UNKNOWN = 0
/** A tag is (number of the stream + 1) · 2³³ + 2³² + the distance from the copy's offset to the record's. It has to be an exact integer. */
const DISTANCE_BOUND = 2 ** 32
const STREAM_FACTOR = 2 * DISTANCE_BOUND
const STREAM_NUMBERS_MAX = 2 ** 53 / STREAM_FACTOR - 2

/** Where the record of a copy is. */
export interface RedrivenTo {
  readonly streamNumber: number
  readonly offset: number
}

export class Redriven {
  readonly #intervals = new TaggedIntervals()

  /** Takes what `encode` returned; older checkpoints have no `places`. */
  static decode(bounds: readonly number[], places: readonly number[]): Redriven {
    const redriven = new Redriven()
    for (let i = 0; i + 1 < bounds.length; i += 2) redriven.#intervals.set(bounds[i]!, bounds[i + 1]!, UNKNOWN)
    for (let i = 0; i + 2 < places.length; i += 3) redriven.#intervals.set(places[i]!, places[i + 1]!, places[i + 2]!)
    return redriven
  }

  get size(): number {
    return this.#intervals.size
  }

  has(copy: number): boolean {
    return this.#intervals.tagAt(copy) >= 0
  }

  /** Lowest copy >= from that was not used. */
  firstGap(from: number): number {
    return this.#intervals.firstGap(from)
  }

  add(copy: number, { streamNumber, offset }: RedrivenTo): void {
    const distance = offset - copy
    const isFar = streamNumber > STREAM_NUMBERS_MAX || Math.abs(distance) >= DISTANCE_BOUND
    const tag = isFar ? UNKNOWN : (streamNumber + 1) * STREAM_FACTOR + DISTANCE_BOUND + distance
    this.#intervals.set(copy, copy + 1, tag)
  }

  dropBelow(floor: number): void {
    this.#intervals.remove(0, floor)
  }

  /** Null: the copy was not used, or it is not known where its record is (V2). */
  placeOf(copy: number): RedrivenTo | null {
    const tag = this.#intervals.tagAt(copy)
    return tag <= UNKNOWN ? null : placeOf(tag, copy)
  }

  /**
   * The first copy of [from, to) that can be used again (V1); `to`: there is none.
   *
   * @param nextLost the first damaged offset of [from, to) of a stream; `to`: there is none
   */
  firstLost(from: number, to: number, nextLost: (streamNumber: number, from: number, to: number) => number): number {
    for (let at = from; at < to;) {
      const interval = this.#intervals.intervalFrom(at)
      if (interval === null || interval.from >= to) return to
      const begin = Math.max(at, interval.from)
      const end = Math.min(to, interval.to)
      if (interval.tag > UNKNOWN) {
        const { streamNumber, offset } = placeOf(interval.tag, begin)
        const lost = nextLost(streamNumber, offset, offset + end - begin)
        if (lost < offset + end - begin) return begin + lost - offset
      }
      at = end
    }
    return to
  }

  /** For the checkpoint: bounds of the used copies, and where their records are, as from, to, tag. */
  encode(): { readonly bounds: readonly number[]; readonly places: readonly number[] } {
    const bounds: number[] = []
    const places: number[] = []
    for (const [from, to, tag] of this.#intervals.entries()) {
      if (bounds.at(-1) === from) bounds[bounds.length - 1] = to
      else bounds.push(from, to)
      if (tag > UNKNOWN) places.push(from, to, tag)
    }
    return { bounds, places }
  }
}

const placeOf = (tag: number, copy: number): RedrivenTo => ({
  streamNumber: Math.floor(tag / STREAM_FACTOR) - 1,
  offset: copy + (tag % STREAM_FACTOR) - DISTANCE_BOUND,
})
