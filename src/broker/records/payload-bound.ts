/**
 * How much payload records have together, at most, as far as their index says without reading them: the sums of its marks, and where frames
 * begin. Of records that are much longer than others of the stream between them it may be far too much, never too little.
 *
 * B1  of the records of one mark it is no more than the mark's sum, and no more than what lies between the beginnings of their frames and
 *     of the next ones
 */
import type { RecordIndex } from './record-index.ts'
import { MARK_PAYLOAD_BYTES } from './record-run.ts'
import type { RecordRun } from './record-run.ts'

export class PayloadBound {
  readonly #index: RecordIndex
  readonly #segmentBytes: (segmentBase: number) => number
  /** Payload in the marks before this one. */
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
