/** The tasks of walking threads, and their answers. Cloned; the memory of texts is handed over. */
import type { Cursor, Order, QueryFilter } from '../query/cursor.ts'
import type { ThreadAnswer, QueryTask } from '../query/task.ts'
import type { Search } from '../search/expression.ts'

/** A record in the log: the position of its frame, and its number in it. */
export interface LogPlace {
  readonly position: number
  readonly recordNumber: number
}

interface Timed {
  /** Deadline of this step. */
  readonly deadlineMs: number
}

/** The next lines of an export. */
export interface ExportRequest extends Timed {
  readonly kind: 'export'
  readonly dataset: string | null
  readonly filter: QueryFilter
  readonly order: Order
  readonly resume: Cursor | null
}

/** The next events of a tail. */
export interface TailRequest extends Timed {
  readonly kind: 'tail'
  readonly dataset: string | null
  readonly search: Search | null
  readonly from: LogPlace
  /** Position that the step ends at; null: what is committed. */
  readonly to: number | null
  /** Records are counted, not written. */
  readonly isCounted: boolean
}

/** A whole trace, as a tree or as Jaeger has it. */
export interface TraceRequest extends Timed {
  readonly kind: 'trace'
  readonly traceId: string
  readonly form: 'tree' | 'jaeger'
}

/** Datasets of the tenant. */
export interface DatasetsRequest extends Timed {
  readonly kind: 'datasets'
}

/** The names of the next spans of a dataset, or the traces that they belong to; newest first. */
export interface SpansRequest extends Timed {
  readonly kind: 'spans'
  readonly dataset: string
  readonly filter: QueryFilter
  readonly resume: Cursor | null
  readonly of: 'traces' | 'names'
  /** Most different names or traces of the answer. */
  readonly limit: number
}

export type WalkRequest = ExportRequest | TailRequest | TraceRequest | DatasetsRequest | SpansRequest
export type WalkTask = QueryTask<WalkRequest>
export type WalkAnswer = ThreadAnswer<WalkBody>

/** The result of a step, for all kinds of requests: fields that a kind does not use are as in NOTHING. */
export interface WalkBody {
  /** UTF-8. Export: lines. Tail: events. Trace: JSON, empty when no record of the trace is stored. */
  readonly text: Uint8Array<ArrayBuffer>
  /** Records in the text; of a tail that counts, those that match. */
  readonly records: number
  /** Matching records that are damaged. */
  readonly quarantined: number
  /** Damaged ranges of the log. */
  readonly quarantinedRanges: number
  /** For an export and for spans; null: it is over. */
  readonly resume: Cursor | null
  /** For a tail. */
  readonly next: LogPlace
  /** For a tail: everything committed was read. */
  readonly isAtEnd: boolean
  /** For datasets and spans. */
  readonly names: readonly string[]
}

export const EMPTY_BODY: WalkBody = {
  text: new Uint8Array(0),
  records: 0,
  quarantined: 0,
  quarantinedRanges: 0,
  resume: null,
  next: { position: 0, recordNumber: 0 },
  isAtEnd: false,
  names: [],
}
