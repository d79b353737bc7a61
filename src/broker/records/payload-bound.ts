/**
 * An upper bound for the payload of some records, by their index alone: by the sums of its marks, and by where frames begin. It may be far
 * too high if their marks cover other, much longer records, but never too low.
 *
 * B1  for the records of one mark it is the mark's sum, or the bytes from the start of each of their frames to the start of the next one,
 *     whichever is less
 */
import type { RecordIndex } from './record-index.ts'
import { MARK_PAYLOAD_BYTES } from './record-run.ts'
import type { RecordRun } from './record-run.ts'

export class PayloadBound {
  readonly #index: RecordIndex
  readonly #segmentBytes: (segmentBase: number) => number
  /** Bound for the records in the marks before this one. */
  #before = 0
  // The mark of the record added last.
  #run: RecordRun | null = null
  #mark = -1
  #frameBytes = 0
  #place = -1

  /** @param segmentBytes how long a segment is, at least to the end of its last record */
  constructor(index: RecordIndex, segmentBytes: (segmentBase: number) => number) {
    this.#index = index
    this.#segmentBytes = segmentBytes
  }

  /** Adds a record; they come in ascending order. @returns a bound for all records so far, this one included */
  add(offset: number): number {
    const run = this.#index.runAt(offset)
    if (run === null) return this.#before + this.#ofMark
    const mark = run.markOf(offset)
    if (run !== this.#run || mark !== this.#mark) this.#beginMark(run, mark)
    const place = run.place(offset)
    if (place !== this.#place) {
      this.#place = place
      this.#frameBytes += (run.placeAfter(offset) ?? this.#segmentBytes(run.segmentBase)) - place
    }
    return this.#before + this.#ofMark
  }

  /** B1 */
  get #ofMark(): number {
    return this.#run === null ? 0 : Math.min(this.#run.mark(this.#mark, MARK_PAYLOAD_BYTES), this.#frameBytes)
  }

  #beginMark(run: RecordRun, mark: number): void {
    this.#before += this.#ofMark
    this.#run = run
    this.#mark = mark
    this.#frameBytes = 0
    this.#place = -1
  }
}
