/**
 * Is everything acknowledged there, once, and as it was sent? Through POST /v1/query only.
 *
 * C1  the time range of a batch holds its records, all of them, each once, in order, with their trace and span ids
 * C2  a trace finds its records and no others; a record id finds one record
 * C3  the number of records of the dataset is between what was acknowledged before the question and what was sent before the answer
 */
import assert from 'node:assert/strict'
import type { Random } from '../../../bench/load/random.ts'
import type { Batches, SentBatch } from './batches.ts'

const CONCURRENT_QUERIES = 4
const PAGE_MAX = 500

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

/** Filter for the records of batches that follow each other by number. */
export const timeRangeOf = (some: readonly SentBatch[]): object => ({
  start_time_unix_nano: String(some[0]!.firstTimeNs),
  end_time_unix_nano: String(some.at(-1)!.lastTimeNs + 1n),
})

/** C1, for batches that follow each other by number, with at most PAGE_MAX records. */
export async function checkBatches(ask: Ask, batches: Batches, some: readonly SentBatch[]): Promise<void> {
  const reply = await ask({ dataset: batches.dataset, filter: timeRangeOf(some), page: { limit: PAGE_MAX } })
  const where = `batches ${some[0]!.number} (${some[0]!.route.path}) to ${some.at(-1)!.number}`
  const found = reply.results.map(({ record }) => ({
    traceId: record.trace_id,
    spanId: record.span_id,
    timeNs: record.time_unix_nano,
  }))
  const expected = some.flatMap((batch) => batches.expected(batch))
  assert.equal(reply.matched_records, expected.length, `${where} were acknowledged`)
  assert.deepEqual(found, expected, where)
  let at = 0
  for (const { recordIds, records, number } of some) {
    const ids = reply.results.slice(at, (at += records)).map(({ record }) => record.record_id)
    if (recordIds.length > 0) assert.deepEqual(ids, recordIds, `batch ${number} was answered with other record ids`)
  }
}

/** C2, for one record of the batch. */
async function checkExact(ask: Ask, batches: Batches, batch: SentBatch, record: number): Promise<void> {
  const expected = batches.expected(batch)
  const { traceId } = expected[record]!
  const ofTrace = expected.filter((each) => each.traceId === traceId).map(({ spanId }) => spanId)
  const reply = await ask({ dataset: batches.dataset, filter: { trace_id: traceId } })
  assert.deepEqual([reply.matched_records, reply.results.map((each) => each.record.span_id)], [ofTrace.length, ofTrace])
  const recordId = batch.recordIds[record]
  if (recordId === undefined) return
  const one = await ask({ dataset: batches.dataset, filter: { record_id: recordId } })
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
    await checkBatches(ask, batches, [batch])
    await checkExact(ask, batches, batch, random.between(0, batch.records - 1))
  })
}

/** C1 for every batch. All were acknowledged. */
export async function checkAll(ask: Ask, batches: Batches): Promise<void> {
  const { sent } = batches
  assert(sent.every(({ acknowledged }) => acknowledged))
  const perQuery = Math.floor(PAGE_MAX / sent[0]!.records)
  const groups = Array.from({ length: Math.ceil(sent.length / perQuery) }, (_, n) => n * perQuery)
  await each(groups, (from) => checkBatches(ask, batches, sent.slice(from, from + perQuery)))
}

/** C3 */
export async function checkCount(ask: Ask, batches: Batches): Promise<number> {
  const least = batches.acknowledgedRecords
  const { matched_records: matched } = await ask({ dataset: batches.dataset, page: { limit: 1 } })
  const most = batches.sentRecords
  assert(matched >= least && matched <= most, `${matched} records are stored, ${least} acknowledged, ${most} sent`)
  return matched
}

/** Runs a few at a time. */
async function each<Item>(items: readonly Item[], run: (item: Item) => Promise<void>): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < items.length) await run(items[next++]!)
  }
  await Promise.all(Array.from({ length: CONCURRENT_QUERIES }, lane))
}
