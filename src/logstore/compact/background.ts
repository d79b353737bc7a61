/** The jobs of the compaction thread, and their results. */
import type { CompactJob, CompactResult } from './compact-segment.ts'
import type { MendJob, MendResult } from './mend-bundle.ts'
import type { MergeResult, MergeTask } from './merge-bundles.ts'
import type { TrimResult, TrimTask } from './trim-bundle.ts'

interface Stoppable {
  /** One word: not 0 when the work is to stop. */
  readonly stop: SharedArrayBuffer
}
export type MergeJob = MergeTask & Stoppable
export type TrimJob = TrimTask & Stoppable

export type BackgroundJob = CompactJob | MendJob | MergeJob | TrimJob
export type BackgroundResult = CompactResult | MendResult | MergeResult | TrimResult
