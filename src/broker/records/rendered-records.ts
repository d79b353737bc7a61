/** The results of reading records. */
import type { Failure } from './frame-source.ts'

/** A record that could not be given out. */
export interface Unreadable extends Failure {
  readonly offset: number
  /** -1: the index has no such record. */
  readonly segmentBase: number
  readonly place: number
}

/** Records in JSON, or as they stand in their frames; one for each that was asked for. */
export interface RenderedRecords {
  readonly bytes: Buffer
  /** See `ReadAnswer.textDone`. */
  readonly bytesDone: () => void
  readonly unreadable: readonly Unreadable[]
  /** Where record `number` begins in `bytes`. */
  readonly start: (number: number) => number
  /** Where it ends; at its start when it cannot be read. */
  readonly end: (number: number) => number
}
