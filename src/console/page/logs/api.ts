/** The log store's routes, as far as the pages use them. Shapes are those of its answers. */
import { askJson } from '../request.ts'
import type { StoredRecord } from './stored-record.ts'

export interface Dataset {
  readonly dataset: string
  readonly records: number
  readonly bytes: number | null
  readonly first_time_unix_nano: string | null
  readonly last_time_unix_nano: string | null
}

/** What is looked for in a dataset. */
export interface Question {
  readonly dataset: string
  readonly search: string
  /** In nanoseconds; null: open. */
  readonly start: string | null
  /** Exclusive. */
  readonly end: string | null
}

export interface RecordPage {
  readonly matched_records: number
  readonly results: readonly { readonly record: StoredRecord }[]
  readonly page: { readonly next_cursor: string | null }
  readonly quarantined_records?: number
}

export interface Histogram {
  readonly matched_records: number
  readonly interval_nano: string
  readonly buckets: readonly { readonly start_time_unix_nano: string; readonly records: number }[]
  readonly series?: readonly {
    readonly kind: 'value' | 'other' | 'none'
    readonly value?: string
    readonly records: number
    readonly counts: readonly number[]
  }[]
}

interface FieldValue {
  readonly value: string
  readonly records: number
  readonly value_is_cut?: boolean
}

export interface Field {
  readonly name: string
  readonly of: 'record' | 'scope' | 'resource' | 'field'
  readonly records: number
  readonly distinct_values: number
  readonly values: readonly FieldValue[]
}

export interface FieldsAnswer {
  readonly sampled: boolean
  readonly sampled_records: number
  readonly fields: readonly Field[]
}

export interface TraceSpan {
  readonly span_id: string | null
  readonly root?: 'no_parent' | 'parent_missing' | 'circle' | 'too_deep'
  readonly name: string
  readonly dataset: string
  readonly start_time_unix_nano: string
  readonly duration_nano: string
  readonly record: StoredRecord
  readonly logs: readonly { readonly record: StoredRecord }[]
  readonly children: readonly TraceSpan[]
}

export interface Trace {
  readonly trace_id: string
  readonly datasets: readonly string[]
  readonly start_time_unix_nano: string
  readonly end_time_unix_nano: string
  readonly spans: number
  readonly log_records: number
  readonly matched_records: number
  readonly truncated: boolean
  readonly quarantined_records?: number
  readonly roots: readonly TraceSpan[]
  readonly logs: readonly { readonly record: StoredRecord }[]
}

const DEADLINE_MS = 30_000
const DATASETS_MAX = 1000

const post = <Reply>(path: string, body: object, signal: AbortSignal): Promise<Reply> =>
  askJson<Reply>('logstore', path, { method: 'POST', body: { ...body, deadline_ms: DEADLINE_MS }, signal })

const filterOf = ({ search, start, end }: Question): object => ({
  ...(search !== '' && { search }),
  ...(start !== null && { start_time_unix_nano: start }),
  ...(end !== null && { end_time_unix_nano: end }),
})

export const listDatasets = async (signal: AbortSignal): Promise<readonly Dataset[]> =>
  (await askJson<{ datasets: readonly Dataset[] }>('logstore', `/v1/datasets?limit=${DATASETS_MAX}`, { signal }))
    .datasets

export const queryRecords = (
  question: Question,
  order: 'asc' | 'desc',
  page: { readonly limit: number; readonly cursor?: string },
  signal: AbortSignal,
): Promise<RecordPage> =>
  post('/v1/query', { dataset: question.dataset, filter: filterOf(question), order, page }, signal)

export async function findRecord(dataset: string, id: string, signal: AbortSignal): Promise<StoredRecord | null> {
  const page = await post<RecordPage>('/v1/query', { dataset, filter: { record_id: id } }, signal)
  return page.results[0]?.record ?? null
}

export const countByTime = (
  question: Question,
  intervalNano: string,
  splitBy: string | null,
  signal: AbortSignal,
): Promise<Histogram> =>
  post(
    '/v1/query/histogram',
    {
      dataset: question.dataset,
      filter: filterOf(question),
      interval_nano: intervalNano,
      ...(splitBy !== null && { split_by: splitBy }),
    },
    signal,
  )

export const listFields = (question: Question, signal: AbortSignal): Promise<FieldsAnswer> =>
  post('/v1/query/fields', { dataset: question.dataset, filter: filterOf(question), values: 12 }, signal)

export const findTrace = (id: string, signal: AbortSignal): Promise<Trace> =>
  askJson('logstore', `/v1/traces/${encodeURIComponent(id)}`, { signal })
