/** Survey questions for a query thread, as the main thread read them from requests. Cloned. There are no schemas here, as query threads load this file. */
import type { QueryFilter } from '../query/cursor.ts'
import type { QueryTask } from '../query/task.ts'

/** Datasets of one answer. */
export const DATASETS_LIMIT_MAX = 1000
/** Buckets of a histogram. */
export const BUCKETS_DEFAULT = 60
export const BUCKETS_MAX = 2000
/** Values of a split that have counts of their own. */
export const TOP_DEFAULT = 10
export const TOP_MAX = 100
/** Records that `fields` looks at. */
export const SAMPLE_DEFAULT = 10_000
export const SAMPLE_MAX = 50_000
/** Most frequent values of a key. */
export const VALUES_DEFAULT = 10
export const VALUES_MAX = 100
/** Keys of one answer. */
export const KEYS_MAX = 1000

export interface DatasetsQuestion {
  readonly kind: 'datasets'
  /** Datasets that the credential may read; null: all. */
  readonly datasets: readonly string[] | null
  readonly limit: number
  /** Returns datasets behind this one, in the order of their names; null: all. */
  readonly after: string | null
  readonly deadlineMs: number
}

export interface HistogramQuestion {
  readonly kind: 'histogram'
  readonly dataset: string
  readonly filter: QueryFilter
  readonly width: { readonly interval: bigint } | { readonly buckets: number }
  /** A name of the search grammar; null: not split. */
  readonly splitBy: string | null
  readonly top: number
  readonly deadlineMs: number
}

export interface FieldsQuestion {
  readonly kind: 'fields'
  readonly dataset: string
  readonly filter: QueryFilter
  readonly sampleMax: number
  readonly valuesMax: number
  readonly deadlineMs: number
}

export type SurveyQuestion = DatasetsQuestion | HistogramQuestion | FieldsQuestion
export type SurveyTask<Asked extends SurveyQuestion = SurveyQuestion> = QueryTask<Asked>

/** Values of a split that are counted at once, and counts of values by bucket, of 8 bytes. */
export const KEPT_VALUES_MAX = 8192
export const KEPT_CELLS_MAX = 1 << 20
/** Names and values of a sample, in characters. */
export const KEPT_SAMPLE_CHARACTERS_MAX = 16 * 1024 * 1024
