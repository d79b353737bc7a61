/**
 * The part of a search that reads records: the candidates of one segment, frame by frame in the order of the file.
 *
 * G1  a frame is read once for all its candidates, and the deadline is looked at before each
 */
import { RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import type { ActiveIndex } from '../index/active-index.ts'
import type { StoredBatch } from '../batch-frame.ts'
import type { SearchMatcher } from '../search/matcher.ts'
import type { SegmentScan } from './scan.ts'

/** Where the record of an entry stands. */
interface EntryPlaces {
  readonly frameOffset: number
  readonly recordNumber: number
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

  get frameOffset(): number {
    return this.#index.frameOffset[this.#entry]!
  }

  get recordNumber(): number {
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

/** Tells the scan of its candidates that match. */
export function searchRecords(
  scan: SegmentScan,
  places: EntryPlaces,
  matcher: SearchMatcher,
  read: (frameOffset: number) => StoredBatch,
): void {
  const entries = scan.candidates.sorted()
  const numbers = new Uint16Array(RECORDS_PER_BATCH_MAX)
  const timeHigh = new Uint32Array(RECORDS_PER_BATCH_MAX)
  const timeLow = new Uint32Array(RECORDS_PER_BATCH_MAX)
  for (let first = 0; first < entries.length;) {
    scan.deadline.check()
    places.seekEntry(entries[first]!)
    const { frameOffset } = places
    let count = 0
    while (first + count < entries.length && places.frameOffset === frameOffset) {
      numbers[count] = places.recordNumber
      timeHigh[count] = places.timeHigh
      timeLow[count] = places.timeLow
      count++
      if (first + count < entries.length) places.seekEntry(entries[first + count]!)
    }
    const begin = first
    matcher.run(read(frameOffset), numbers, count, (at, view) =>
      scan.found(entries[begin + at]!, timeHigh[at]!, timeLow[at]!, view),
    )
    first += count
  }
}
