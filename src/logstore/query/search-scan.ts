/**
 * The part of a search that reads records: frame by frame, or block by block, in the order of the file.
 *
 * A frame or block is read once for all its candidates, and the deadline is checked before each. Frames that need not be read are skipped before
 * their entries are looked at.
 */
import { BLOCK_ROWS_MAX } from '../compact/block-writer.ts'
import type { ActiveIndex } from '../index/active-index.ts'
import type { RecordBatch } from '../batch-frame.ts'
import type { SearchMatcher } from '../search/matcher.ts'
import type { FrameTest } from './frame-grams.ts'
import { isInRange } from './plan.ts'
import type { SegmentIndex, SegmentScan } from './scan.ts'

/** Where the record of an entry is read, see BundleSearch. */
export interface EntryPlaces extends SegmentIndex {
  readonly unit: number
  readonly number: number
  readonly partition: number
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

  get partition(): number {
    return this.#index.partition[this.#entry]!
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

  entriesBefore(frameOffset: number, recordNumber: number): number {
    const index = this.#index
    let entry = index.countBefore(frameOffset)
    const { count } = index
    while (entry < count && index.frameOffset[entry] === frameOffset && index.recordNumber[entry]! < recordNumber)
      entry++
    return entry
  }
}

/** The candidates of one unit. */
class Candidates {
  count = 0
  readonly #entries = new Uint32Array(BLOCK_ROWS_MAX)
  readonly #numbers = new Uint16Array(BLOCK_ROWS_MAX)
  readonly #timeHigh = new Uint32Array(BLOCK_ROWS_MAX)
  readonly #timeLow = new Uint32Array(BLOCK_ROWS_MAX)

  /** Adds the entry that the places were set to. */
  add(entry: number, { number, timeHigh, timeLow }: EntryPlaces): void {
    const at = this.count++
    this.#entries[at] = entry
    this.#numbers[at] = number
    this.#timeHigh[at] = timeHigh
    this.#timeLow[at] = timeLow
  }

  /** Reports to the scan the candidates that match, and forgets all of them. */
  search(scan: SegmentScan, batch: RecordBatch, matcher: SearchMatcher): void {
    const { count } = this
    this.count = 0
    matcher.run(batch, this.#numbers, count, (at, view) =>
      scan.addMatch(this.#entries[at]!, this.#timeHigh[at]!, this.#timeLow[at]!, view),
    )
  }
}

type ReadUnit = (unit: number) => RecordBatch

/**
 * Reports to the scan which of its candidates match.
 *
 * @param entries the candidates in the order in which they are read
 * @param frames  which of the units need not be read; null: all have to be read
 */
export function searchEntries(
  scan: SegmentScan,
  entries: Uint32Array,
  places: EntryPlaces,
  matcher: SearchMatcher,
  read: ReadUnit,
  frames: FrameTest | null = null,
): void {
  const candidates = new Candidates()
  for (let at = 0; at < entries.length;) {
    scan.deadline.check()
    places.seekEntry(entries[at]!)
    const { unit } = places
    for (; at < entries.length; at++) {
      places.seekEntry(entries[at]!)
      if (places.unit !== unit) break
      candidates.add(entries[at]!, places)
    }
    if (frames?.mayMatch(unit) === false) {
      candidates.count = 0
      continue
    }
    const batch = read(unit)
    candidates.search(scan, batch, matcher)
    frames?.wasRead(unit, batch)
  }
}

/** Reports to the scan the matching records of its partition and time range, in a segment that is not compacted and has no damage. */
export function searchFrames(
  scan: SegmentScan,
  places: EntryPlaces,
  matcher: SearchMatcher,
  read: ReadUnit,
  frames: FrameTest,
): void {
  const { plan, visible, partitionToSearch } = scan
  const candidates = new Candidates()
  for (let entry = 0; entry < visible;) {
    scan.deadline.check()
    places.seekEntry(entry)
    const { unit } = places
    const next = frames.nextCandidateFrom(unit)
    if (next !== unit) {
      entry = places.entriesBefore(next, 0)
      continue
    }
    for (; entry < visible; entry++) {
      places.seekEntry(entry)
      if (places.unit !== unit) break
      const isCandidate = places.partition === partitionToSearch && isInRange(plan, places.timeHigh, places.timeLow)
      if (isCandidate) candidates.add(entry, places)
    }
    if (candidates.count === 0) continue
    const batch = read(unit)
    candidates.search(scan, batch, matcher)
    frames.wasRead(unit, batch)
  }
}
