/**
 * Does the log store have what it acknowledged? Three questions, through POST /v1/query:
 *
 * V1  the records of a sampled trace are all there, each once, and are the ones that were sent (by span id)
 * V2  JSON routes: a sampled record id finds exactly one record
 * V3  in the time range of the run, a dataset has at least what was acknowledged, and at most that plus what was sent
 *     without a clear answer
 *
 * V3 holds only when no other client writes records of that time into the dataset.
 */
import type { Verification } from '../workload.ts'
import type { DatasetCount, SampledBatch } from './acknowledged-batches.ts'
import type { Ids } from './ids.ts'

const PAGE_MAX = 500
const DATASETS_COUNTED_MAX = 16
const DEADLINE_MS = 60_000
const PROBLEMS_SHOWN_MAX = 3

export interface VerifyOptions {
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, string>>
  readonly ids: Ids
  readonly recordsPerTrace: number
  readonly sample: readonly SampledBatch[]
  readonly datasets: ReadonlyMap<string, Readonly<DatasetCount>>
  /** Inclusive and exclusive. */
  readonly timeRangeNs: readonly [from: bigint, to: bigint]
}

interface Answer {
  readonly matched_records: number
  readonly results: readonly { readonly record: { readonly record_id: string; readonly span_id: string | null } }[]
}

type Check = Verification['checks'][number]

export async function verify(options: VerifyOptions): Promise<Verification> {
  const checks = [await checkTraces(options)]
  if (options.sample.some((batch) => batch.recordIds.length > 0)) checks.push(await checkRecordIds(options))
  for (const [dataset, count] of datasetsByName(options.datasets).slice(0, DATASETS_COUNTED_MAX)) {
    checks.push(await checkCount(options, dataset, count))
  }
  return { ok: checks.every((check) => check.ok), checks }
}

/** The map is in the order of acknowledgements, which differs from run to run. */
function datasetsByName(datasets: VerifyOptions['datasets']): [string, Readonly<DatasetCount>][] {
  return [...datasets].toSorted(([a], [b]) => (a < b ? -1 : 1))
}

/** V1 */
async function checkTraces(options: VerifyOptions): Promise<Check> {
  const { sample, ids, recordsPerTrace } = options
  return checkEach('traces', sample, async (batch) => {
    const traces = Math.ceil(batch.records / recordsPerTrace)
    const traceInBatch = batch.number % traces // a different one from batch to batch, without a die
    const first = traceInBatch * recordsPerTrace
    const records = Math.min(recordsPerTrace, batch.records - first)
    const traceId = ids.traceIdHex(batch.firstTrace + traceInBatch)
    const { matched_records: matched, results } = await query(options, batch.dataset, { trace_id: traceId })
    if (matched !== records) return `trace ${traceId} of batch ${batch.number} has ${matched} records, not ${records}`
    const found = new Set(results.map(({ record }) => record.span_id))
    for (let index = 0; index < Math.min(records, PAGE_MAX); index++) {
      const spanId = ids.spanIdHex(batch.firstRecord + first + index)
      if (!found.has(spanId)) return `span ${spanId} is missing from trace ${traceId}`
    }
    return null
  })
}

/** V2 */
async function checkRecordIds(options: VerifyOptions): Promise<Check> {
  return checkEach('record ids', options.sample, async ({ number, recordIds, records, dataset }) => {
    if (recordIds.length !== records) return `batch ${number} was answered with ${recordIds.length} record ids`
    const recordId = recordIds[number % records] ?? ''
    const { matched_records: matched, results } = await query(options, dataset, { record_id: recordId })
    const found = results[0]?.record.record_id
    return matched === 1 && found === recordId ? null : `record ${recordId} was found ${matched} times`
  })
}

/** V3 */
async function checkCount(options: VerifyOptions, dataset: string, count: DatasetCount): Promise<Check> {
  const [from, to] = options.timeRangeNs
  return checkEach(`count of ${dataset}`, [dataset], async () => {
    const filter = { start_time_unix_nano: String(from), end_time_unix_nano: String(to) }
    const { matched_records: matched } = await query(options, dataset, filter)
    const least = count.acknowledged
    const most = least + count.unresolved
    return matched >= least && matched <= most ? null : `${matched} records, expected ${least} to ${most}`
  })
}

/** @param check resolves to what is wrong, or null */
async function checkEach<T>(
  name: string,
  items: readonly T[],
  check: (item: T) => Promise<string | null>,
): Promise<Check> {
  const problems: string[] = []
  for (const item of items) {
    const problem = await check(item).catch(describeError)
    if (problem !== null) problems.push(problem)
  }
  const ok = problems.length === 0
  const shown = problems.slice(0, PROBLEMS_SHOWN_MAX).join('; ')
  const detail = ok
    ? `${items.length} of ${items.length} as sent`
    : `${problems.length} of ${items.length} wrong: ${shown}`
  return { name, ok, detail }
}

function describeError(error: unknown): string {
  return error instanceof Error ? `query failed: ${error.message}` : 'query failed'
}

async function query(options: VerifyOptions, dataset: string, filter: Record<string, string>): Promise<Answer> {
  const response = await fetch(`${options.baseUrl}/v1/query`, {
    method: 'POST',
    headers: { ...options.headers, 'content-type': 'application/json' },
    body: JSON.stringify({ dataset, filter, page: { limit: PAGE_MAX }, deadline_ms: DEADLINE_MS }),
    signal: AbortSignal.timeout(DEADLINE_MS + 5000),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`status ${response.status}: ${text.slice(0, 200)}`)
  return JSON.parse(text) as Answer // a server that answers otherwise fails the comparison, or right here
}
