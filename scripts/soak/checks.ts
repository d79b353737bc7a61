/**
 * Is everything acknowledged there, once, and as it was sent? Through POST /v1/query only.
 *
 * C1  the time range of a batch holds its records, all of them, each once, in order, with their trace and span ids
 * C2  a trace finds its records and no others; a record id finds one record
 * C3  the number of records of the dataset is between what was acknowledged before the question and what was sent before the answer
 */
import assert from 'node:assert/strict'
import type { Random } from '../../bench/load/random.ts'
import { DATASET } from './batches.ts'
import type { Batches, SentBatch } from './batches.ts'

const CONCURRENT_QUERIES = 4

export interface QueryReply {
  readonly matched_records: number
  readonly quarantined_records?: number
  readonly results: readonly {
    readonly record: {
      readonly record_id: string
      readonly trace_id: string | null
      readonly span_id: string | null
      readonly time_unix_nano: string
      readonly raw_payload: unknown
    }
  }[]
  readonly page: { readonly next_cursor: string | null }
}

export type Ask = (query: object) => Promise<QueryReply>

const timeRange = ({ firstTimeNs, lastTimeNs }: SentBatch): object => ({
  start_time_unix_nano: String(firstTimeNs),
  end_time_unix_nano: String(lastTimeNs + 1n),
})

/** C1 */
export async function checkBatch(ask: Ask, batches: Batches, batch: SentBatch): Promise<void> {
  const expected = batches.expected(batch)
  const reply = await ask({ dataset: DATASET, filter: timeRange(batch), page: { limit: 500 } })
  const where = `batch ${batch.number} (${batch.route.path})`
  assert.equal(reply.matched_records, batch.records, `${where} was acknowledged with ${batch.records} records`)
  const found = reply.results.map(({ record }) => ({
    traceId: record.trace_id,
    spanId: record.span_id,
    timeNs: record.time_unix_nano,
  }))
  assert.deepEqual(found, expected, where)
  if (batch.recordIds.length === 0) return
  const ids = reply.results.map(({ record }) => record.record_id)
  assert.deepEqual(ids, batch.recordIds, `${where} answered other record ids`)
}

/** C2, for one record of the batch. */
async function checkExact(ask: Ask, batches: Batches, batch: SentBatch, record: number): Promise<void> {
  const expected = batches.expected(batch)
  const { traceId } = expected[record]!
  const ofTrace = expected.filter((each) => each.traceId === traceId).map(({ spanId }) => spanId)
  const reply = await ask({ dataset: DATASET, filter: { trace_id: traceId } })
  assert.deepEqual([reply.matched_records, reply.results.map((each) => each.record.span_id)], [ofTrace.length, ofTrace])
  const recordId = batch.recordIds[record]
  if (recordId === undefined) return
  const one = await ask({ dataset: DATASET, filter: { record_id: recordId } })
  assert.deepEqual(
    one.results.map((each) => each.record.span_id),
    [expected[record]!.spanId],
  )
  assert.equal(one.matched_records, 1)
}

/** C1 and C2 for some batches, chosen at random. */
export async function checkSample(ask: Ask, batches: Batches, random: Random, count: number): Promise<void> {
  const { acknowledged } = batches
  if (acknowledged.length === 0) return
  await each(Array.from({ length: count }), async () => {
    const batch = acknowledged[random.between(0, acknowledged.length - 1)]!
    await checkBatch(ask, batches, batch)
    await checkExact(ask, batches, batch, random.between(0, batch.records - 1))
  })
}

/** C1 for every batch that was acknowledged. */
export async function checkAll(ask: Ask, batches: Batches): Promise<void> {
  await each(batches.acknowledged, (batch) => checkBatch(ask, batches, batch))
}

/** C3 */
export async function checkCount(ask: Ask, batches: Batches): Promise<number> {
  const least = batches.acknowledgedRecords
  const { matched_records: matched } = await ask({ dataset: DATASET, page: { limit: 1 }, deadline_ms: 60_000 })
  const most = batches.sentRecords
  assert(matched >= least && matched <= most, `${matched} records are stored, ${least} acknowledged, ${most} sent`)
  return matched
}

/** Some at a time. */
async function each<Item>(items: readonly Item[], run: (item: Item) => Promise<void>): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < items.length) await run(items[next++]!)
  }
  await Promise.all(Array.from({ length: CONCURRENT_QUERIES }, lane))
}
