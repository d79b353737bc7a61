/**
 * Messages between the main thread and a reader thread. One job has many requests: an array of numbers goes there, text and numbers come
 * back, all without a copy.
 *
 * Task, for each request:     kind, 1 when it is of the audit stream, argument, count of places, the places (see places.ts)
 * Result, for each request:   of `answerNumbers` numbers
 *
 *   kind        argument           text                                numbers
 *   deliveries  none               records in JSON, back to back       begin in the text, end of each record; empty: unreadable
 *   page        max payload bytes  records in JSON, comma between      PAGE_…
 *   events      1: lines           events, comma between, or lines     PAGE_…
 *   times       none               none                                event time of each, then ingest times, then payload bytes; NaN: unreadable
 *   origins     max payload bytes  as a page, for another site         PAGE_…
 *   raw         none               records as they stand in frames     begin in the text, end of each record, then ingest time of each
 *   records     none               ingest time u64, record as it       as of deliveries
 *                                  stands in its frame, back to back
 */
import type { Failure, Readable } from './frame-source.ts'

export const READ_DELIVERIES = 1
export const READ_PAGE = 2
export const READ_EVENTS = 3
export const READ_TIMES = 4
export const READ_RAW = 5
export const READ_ORIGINS = 6
export const READ_RECORDS = 7
export type ReadKind =
  | typeof READ_DELIVERIES
  | typeof READ_PAGE
  | typeof READ_EVENTS
  | typeof READ_TIMES
  | typeof READ_RAW
  | typeof READ_ORIGINS
  | typeof READ_RECORDS

export const REQUEST_NUMBERS = 4

export const PAGE_BEGIN = 0
export const PAGE_END = 1
export const PAGE_RETURNED = 2
/** Places looked at, the unreadable ones too. */
export const PAGE_CONSIDERED = 3
export const PAGE_PAYLOAD_BYTES = 4
export const PAGE_CAPPED = 5
export const PAGE_FIRST_EXCEEDS = 6
const PAGE_NUMBERS = 7

export function answerNumbers(kind: ReadKind, places: number): number {
  switch (kind) {
    case READ_DELIVERIES:
    case READ_RECORDS:
      return 1 + places
    case READ_PAGE:
    case READ_EVENTS:
    case READ_ORIGINS:
      return PAGE_NUMBERS
    case READ_TIMES:
      return 3 * places
    case READ_RAW:
      return 1 + 2 * places
  }
}

/** What each reader thread starts with. */
export interface ReadWorkerData {
  /** Where the log's segments are. */
  readonly segmentsDirectory: string
  readonly logId: number
}

export interface ReadTask {
  readonly readable: Readable
  readonly requests: Float64Array<ArrayBuffer>
  /** Bytes of answers that wait for their clients (unread-answers.ts); default 0. */
  readonly heldBytes?: number
}

/** A place of a request that could not be read. */
export interface UnreadablePlace extends Failure {
  readonly request: number
  readonly number: number
}

export interface ReadResult {
  readonly text: Uint8Array<ArrayBuffer>
  readonly numbers: Float64Array<ArrayBuffer>
  readonly unreadable: readonly UnreadablePlace[]
}
