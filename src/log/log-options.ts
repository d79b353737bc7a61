/** How a log is opened, and the states it can be in. */
import type { ClusterOptions } from './cluster-part.ts'
import type { LogEnvironment } from './environment.ts'
import type { PageCache } from './files.ts'
import type { QuarantineIncident } from './quarantine.ts'
import type { Pace } from '../steps.ts'

export const SEGMENT_BYTES_DEFAULT = 128 << 20
export const RING_BYTES_DEFAULT = 8 << 20
export const RESERVE_BYTES_DEFAULT = 64 << 20
export const STALL_MS_DEFAULT = 5000

export interface LogOptions {
  readonly directory: string
  readonly segmentsName?: string
  /** A segment is closed before it grows beyond this. */
  readonly segmentBytes?: number
  /** Size of the ring of each journal lane, a power of two. The longest inline part is a little less than half of it. */
  readonly ringBytes?: number
  /** External payload parts live here. */
  readonly arena?: SharedArrayBuffer
  /** More directories that hold the same log. */
  readonly replicas?: readonly string[]
  /** Directories (the primary counts) that have synced a frame before it is committed; default: all. */
  readonly writeQuorum?: number
  /** Free disk space, besides the ring's size, that only frames that finish something may use. */
  readonly reserveBytes?: number
  /** A replica whose ring is not emptied for this long, while the primary's is, is dropped. */
  readonly replicaStallMs?: number
  /** Default: 'all'. */
  readonly pageCache?: PageCache
  /** Zeros that go before small groups: see write-ahead.ts. Default: none. */
  readonly writeAheadBytes?: number
  /** The log is also kept by a cluster. */
  readonly cluster?: ClusterOptions
  readonly environment?: LogEnvironment
  /** Paces the reading and copying of a start, and of a restart in place. Default: all at once. */
  readonly pace?: Pace
  onIncident?(incident: QuarantineIncident): void
  /** A directory held no log that could be read, while others did: it was made again, and filled from them. */
  onRemade?(directory: string): void
}

/** A directory of the log that is not written to any more. */
export interface LostReplica {
  readonly directory: string
  readonly reason: string
}

export type LogState =
  | { readonly kind: 'ok' }
  | { readonly kind: 'degraded'; readonly code: string; readonly message: string }
  | { readonly kind: 'restarting'; readonly code: string; readonly message: string }
  | { readonly kind: 'read-only'; readonly code: string; readonly message: string }
  | { readonly kind: 'closed' }

/** Whether the log takes frames: it does without some of its replicas, too. */
export const takesFrames = ({ kind }: LogState): boolean => kind === 'ok' || kind === 'degraded'
