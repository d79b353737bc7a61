/** What the main thread hands a query thread, and what comes back. Cloned; shared memory stays shared. */
import type { Expired } from '../expired.ts'
import type { RemoteAccess } from '../bucket/remote-protocol.ts'
import type { ActiveIndexHandle } from '../index/active-index.ts'
import type { RefusalKind } from '../refusals.ts'
import type { SendersHandle } from '../senders.ts'
import type { QueryFilter } from './cursor.ts'
import type { FrameGramsHandle } from './frame-grams.ts'
import type { QueryRequest } from './request.ts'

/** What each thread that reads starts with. */
export interface QueryWorkerData {
  /** Where the log's segments are; null: in a bucket, to which each task brings access. */
  readonly segmentsDirectory: string | null
  /** Notes on frames, for all threads; null: each thread that reads a bucket has its own. */
  readonly grams: FrameGramsHandle | null
  readonly senders: SendersHandle
}

/** Anything that is asked of a query thread: a page, or what is there (`src/logstore/survey`). */
export interface Question {
  readonly deadlineMs: number
  readonly filter?: Pick<QueryFilter, 'search'>
}

/** Has what came since the last one noted for searches, or the first part of it (note-frames.ts). It has no tenant. The answer says whether that was all. */
export interface NoteQuestion extends Question {
  readonly kind: 'note'
}

export const isNote = (task: QueryTask<Question>): task is QueryTask<NoteQuestion> =>
  'kind' in task.request && task.request.kind === 'note'

export interface QueryTask<Asked extends Question = QueryRequest> {
  readonly tenant: string
  readonly request: Asked
  /** The datasets that may be read, for a request that names none; null or absent: every one of the tenant. */
  readonly among?: readonly string[] | null
  /** On the clock of `processNowMs`. */
  readonly deadlineAtMs: number
  readonly snapshot: QuerySnapshot
  /** What of the tenant's records has expired; absent: nothing. */
  readonly expired?: Expired
  /** Access to the bucket that is asked. */
  readonly remote?: RemoteAccess
}

/** The state of the log that a query answers for. Every segment with frames is in `indexed` or in `catalog`, never in both. */
export interface QuerySnapshot {
  readonly committed: number
  /** Generation of the log. Files of an earlier one may have been replaced. */
  readonly generation: number
  readonly logId: number
  /** Segments without a published sidecar: the one being written, and those sealed a moment ago. */
  readonly indexed: readonly IndexedSegment[]
  /** The sealed segments with a sidecar, see catalog.ts. */
  readonly catalog: SharedArrayBuffer
  readonly quarantined: readonly QuarantinedRange[]
}

interface IndexedSegment {
  readonly base: number
  readonly index: ActiveIndexHandle
}

/** Positions [from, to) of frames known to be damaged. */
export interface QuarantinedRange {
  readonly from: number
  readonly to: number
}

export type ThreadAnswer<Body> = { readonly kind: 'ok'; readonly body: Body } | QueryRefusal

/** JSON; its memory is handed over. */
export type QueryAnswer = ThreadAnswer<Uint8Array<ArrayBuffer>>

export interface QueryRefusal {
  readonly kind: RefusalKind &
    ('invalid_query' | 'invalid_cursor' | 'deadline_exceeded' | 'bundle_read_failed' | 'object_storage_read_failed')
  readonly message: string
  /** What the main thread should look into; null when there is nothing to repair. */
  readonly incident: QueryIncident | null
}

/** A damaged place that a query came upon. */
export type QueryIncident =
  /** The sidecar of the segment at `base` has to be built again. */
  | { readonly kind: 'index'; readonly base: number }
  /** The stand-in of the segment at `base` is damaged. */
  | { readonly kind: 'stand-in'; readonly base: number }
  /** The frame at `position` has to be quarantined. */
  | { readonly kind: 'frame'; readonly base: number; readonly position: number }

/** Milliseconds on one monotonic clock for all threads of the process; `performance.now` counts from each thread's own start. */
export const processNowMs = (): number => Number(process.hrtime.bigint()) / 1e6

/** How tenants share the threads that read for them. */
export const TURNS_OF_TENANTS = {
  tenantOf: ({ tenant }: { readonly tenant: string }): string => tenant,
  nowMs: processNowMs,
}
