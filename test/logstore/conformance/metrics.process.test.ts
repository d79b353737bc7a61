/** What a scrape of a log store says after real traffic. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Exposition } from '../../support/exposition.ts'
import { JSON_LOGS, QUERY, accept, jsonLogs, logRecordsOf, startForTests } from './batches.ts'

const server = await startForTests({ env: { TRILOG_METRICS_SERIES_MAX: '2' } })
const DURATION = 'logstore_http_request_duration_seconds'

/** One batch that has the resources of these batches. */
const batchOf = (...batches: readonly Buffer[]): Buffer => {
  const parsed = batches.map((batch) => JSON.parse(batch.toString()) as { readonly resourceLogs: readonly object[] })
  return Buffer.from(JSON.stringify({ resourceLogs: parsed.flatMap(({ resourceLogs }) => resourceLogs) }))
}

const scrape = async (): Promise<Exposition> => new Exposition((await server.request('/metrics', null)).text)

describe('metrics of a log store', () => {
  it('say what each dataset took in, and how long requests, queries and syncs took', async () => {
    const bodies = [
      jsonLogs(logRecordsOf(3), { dataset: 'checkout' }),
      jsonLogs(logRecordsOf(2, 'shipped'), { dataset: 'checkout' }),
      jsonLogs(logRecordsOf(1), { dataset: 'other' }),
      jsonLogs(logRecordsOf(4), { dataset: 'cart' }),
      jsonLogs(logRecordsOf(5), { dataset: 'search' }),
    ]
    for (const body of bodies) await accept(server, JSON_LOGS, body)
    const both = batchOf(
      jsonLogs(logRecordsOf(1, 'both'), { dataset: 'checkout' }),
      jsonLogs(logRecordsOf(3, 'both'), { dataset: 'other' }),
    )
    await accept(server, JSON_LOGS, both)
    const share = both.byteLength / 4
    const trace = { trace_id: '0'.repeat(31) + '1' }
    for (const filter of [{}, { record_id: 'none' }, trace, trace]) {
      const body = Buffer.from(JSON.stringify({ dataset: 'checkout', filter }))
      assert.equal((await server.request(QUERY, body)).status, 200)
    }
    assert.equal((await server.request('/v1/datasets', null)).status, 200)
    for (const path of ['/v1/query/histogram', '/v1/query/fields']) {
      assert.equal((await server.request(path, { dataset: 'checkout' })).status, 200)
    }
    await server.request('/nowhere', null)

    const shown = await scrape()
    const taken = shown
      .labelsOf('logstore_dataset_records_total')
      .map((labels) => [
        labels,
        shown.value('logstore_dataset_records_total', labels),
        shown.value('logstore_dataset_bytes_total', labels),
      ])
    const bytes = bodies.map(({ byteLength }) => byteLength)
    assert.deepEqual(taken, [
      [{ tenant: 'local', dataset: 'checkout' }, 6, bytes[0]! + bytes[1]! + share],
      [{ tenant: 'local', dataset: 'other' }, 4, bytes[2]! + 3 * share],
      [{ tenant: 'other', dataset: 'other', summed: 'true' }, 9, bytes[3]! + bytes[4]!],
    ])
    const kinds = ['time', 'record_id', 'trace_id', 'datasets', 'histogram', 'fields']
    assert.deepEqual(
      kinds.map((kind) => shown.value('logstore_query_duration_seconds_count', { kind })),
      [1, 1, 2, 1, 1, 1],
    )
    assert.equal(shown.value(`${DURATION}_count`, { route: `POST ${JSON_LOGS}`, status: '2xx' }), 6)
    assert.equal(shown.value(`${DURATION}_count`, { route: 'other', status: '4xx' }), 1)
    assert(shown.value('logstore_wal_sync_duration_seconds_count', { directory: '0' })! > 0)
    assert(shown.value('trilog_event_loop_delay_seconds_count')! > 0)
  })
})
