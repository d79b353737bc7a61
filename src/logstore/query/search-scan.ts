/**
 * The part of a search that reads records: the candidates of one segment, frame by frame, or block by block, in the order of the file.
 *
 * A frame or block is read once for all its candidates, and the deadline is checked before each.
 */
import { BLOCK_ROWS_MAX } from '../compact/block-writer.ts'
import type { ActiveIndex } from '../index/active-index.ts'
import type { RecordBatch } from '../batch-frame.ts'
import type { SearchMatcher } from '../search/matcher.ts'
import type { FrameTest } from './frame-grams.ts'
import type { SegmentScan } from './scan.ts'

/** Where the record of an entry is read, see BundleSearch. */
interface EntryPlaces {
  readonly unit: number
  readonly number: number
  readonly timeHigh: number
  readonly timeLow: number
  /** Sets the fields. */
  seekEntry(entry: number): void
}

export class ActivePlaces implements EntryPlaces {
  readonly #index: ActiveIndex
  #entry = 0

  constructor(index: ActiveIndex) {
    this.#index = index
  }

  get unit(): number {
    return this.#index.frameOffset[this.#entry]!
  }

  get number(): number {
    return this.#index.recordNumber[this.#entry]!
  }

  get timeHigh(): number {
    return this.#index.timeHigh[this.#entry]!
  }

  get timeLow(): number {
    return this.#index.timeLow[this.#entry]!
  }

  seekEntry(entry: number): void {
    this.#entry = entry
  }
}

/**
 * Tells the scan of its candidates that match.
 *
 * @param entries the candidates in the order in which they are read
 * @param frames  which of the units need not be read; null: all need
 */
export function searchRecords(
  scan: SegmentScan,
  entries: Uint32Array,
  places: EntryPlaces,
  matcher: SearchMatcher,
  read: (unit: number) => RecordBatch,
  frames: FrameTest | null = null,
): void {
  const numbers = new Uint16Array(BLOCK_ROWS_MAX)
  const timeHigh = new Uint32Array(BLOCK_ROWS_MAX)
  const timeLow = new Uint32Array(BLOCK_ROWS_MAX)
  for (let first = 0; first < entries.length;) {
    scan.deadline.check()
    places.seekEntry(entries[first]!)
    const { unit } = places
    if (frames?.mayMatch(unit) === false) {
      first = endOfUnit(entries, places, first, unit)
      continue
    }
    let count = 0
    while (first + count < entries.length && places.unit === unit) {
      numbers[count] = places.number
      timeHigh[count] = places.timeHigh
      timeLow[count] = places.timeLow
      count++
      if (first + count < entries.length) places.seekEntry(entries[first + count]!)
    }
    const begin = first
    first += count
    const batch = read(unit)
    matcher.run(batch, numbers, count, (at, view) =>
      scan.found(entries[begin + at]!, timeHigh[at]!, timeLow[at]!, view),
    )
    frames?.note(unit, batch)
  }
}

/** Where the entries of a unit end: they stand side by side, so that most of them need no look. */
function endOfUnit(entries: Uint32Array, places: EntryPlaces, first: number, unit: number): number {
  const isOfUnit = (at: number): boolean => {
    places.seekEntry(entries[at]!)
    return places.unit === unit
  }
  let low = first + 1
  let step = 1
  while (low + step < entries.length && isOfUnit(low + step)) {
    low += step + 1
    step *= 2
  }
  let high = Math.min(low + step, entries.length)
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isOfUnit(middle)) low = middle + 1
    else high = middle
  }
  return low
}
