/** A process that exports traces of itself to a log store. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { BrokerServer } from './support/broker.ts'
import { LogStoreServer } from './support/logstore.ts'
import { ObjectStoreServer } from './support/objectstore.ts'
import { JSON_LOGS, jsonLogs, logRecordsOf } from './logstore/conformance/batches.ts'
import { eventually } from './support/waiting.ts'

interface StoredSpan {
  readonly name: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly kind: number
}

const PARENT = 'b7ad6b7169203331'
const traceId = (number: number): string => String(number).padStart(32, 'a')
const traceparent = (number: number): string => `00-${traceId(number)}-${PARENT}-01`

describe('traces of a process', { concurrency: true }, () => {
  let collector: LogStoreServer
  let env: Record<string, string>
  before(async () => {
    collector = await LogStoreServer.start()
    env = {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/otlp/traces`,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-logstore-tenant=local,authorization=Bearer%20local-dev-token',
      OTEL_RESOURCE_ATTRIBUTES: 'tenant_id=local',
    }
  })
  after(() => collector.stop())

  /** Spans of a trace at the collector, once there are `count` of them. */
  async function spansOf(number: number, count: number): Promise<StoredSpan[]> {
    let spans: StoredSpan[] = []
    await eventually(async () => {
      const query = { dataset: 'trilog', filter: { trace_id: traceId(number) } }
      const { results } = (await collector.request('/v1/query', query)).ok() as {
        results: { record: { raw_payload: { record: StoredSpan } } }[]
      }
      spans = results.map(({ record }) => record.raw_payload.record)
      return spans.length >= count
    })
    return spans
  }

  /** Asserts that the spans are the request, in the caller's trace, and everything that it waited for. */
  function assertTrace(spans: readonly StoredSpan[], request: string, ...below: readonly string[]): void {
    const server = spans.find(({ kind }) => kind === 2)!
    assert.deepEqual([server.name, server.parentSpanId], [request, PARENT])
    const inside = spans.filter(({ parentSpanId }) => parentSpanId === server.spanId)
    for (const name of below)
      assert.ok(
        inside.some((span) => span.name === name),
        name,
      )
    assert.equal(spans.length, 1 + inside.length)
  }

  it('has a publish with its commit', async () => {
    const broker = await BrokerServer.start({ env })
    await broker.request('PUT', '/v1/streams/s', {})
    const record = { message_id: 'm', payload: 'p' }
    await broker.request('POST', '/v1/streams/s/records', record, { traceparent: traceparent(1) })
    assertTrace(await spansOf(1, 2), 'POST /v1/streams/{stream}/records', 'commit')
    await broker.stop()
  })

  it('has a PUT of an object with its commit', async () => {
    const store = await ObjectStoreServer.start({ env })
    const headers = { traceparent: traceparent(2) }
    await fetch(`${store.url}/bucket`, { method: 'PUT' })
    await fetch(`${store.url}/bucket/key`, { method: 'PUT', body: 'x', headers })
    assertTrace(await spansOf(2, 2), 'PutObject', 'commit')
    await store.stop()
  })

  it('has an ingest with its commit, and a query with what it reads', async () => {
    const store = await LogStoreServer.start({ env })
    await store.request(JSON_LOGS, jsonLogs(logRecordsOf(3)), { headers: { traceparent: traceparent(3) } })
    await store.request('/v1/query', { dataset: 'x' }, { headers: { traceparent: traceparent(4) } })
    assertTrace(await spansOf(3, 2), `POST ${JSON_LOGS}`, 'commit')
    assertTrace(await spansOf(4, 2), 'POST /v1/query', 'read')
    await store.stop()
  })

  it('are sent to the end, and have none of their own where they arrive', async () => {
    const between = await LogStoreServer.start({ env }) // exports its own traces to the collector
    const toIt = { ...env, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${between.url}/v1/otlp/traces` }
    const broker = await BrokerServer.start({ env: toIt })
    await broker.request('GET', '/v1/streams', null, { traceparent: traceparent(5) })
    await broker.stop()
    const query = { dataset: 'trilog', filter: { trace_id: traceId(5) } }
    const headers = { traceparent: traceparent(6) }
    const found = (await between.request('/v1/query', query, { headers })).ok() as { matched_records: number }
    assert.equal(found.matched_records, 1)
    await spansOf(6, 2) // these spans come after any that the arrival of the others could make
    const exports = { dataset: 'trilog', filter: { search: { span_name: 'POST /v1/otlp/traces' } } }
    const seen = (await collector.request('/v1/query', exports)).ok() as { matched_records: number }
    assert.equal(seen.matched_records, 0)
    await between.stop()
  })

  it('cost nothing but themselves when the collector is away', async () => {
    const away = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }
    const broker = await BrokerServer.start({ env: away })
    assert.equal((await broker.request('PUT', '/v1/streams/s', {})).status, 201)
    await broker.logged('spans were dropped')
    assert.equal((await broker.request('GET', '/v1/streams')).status, 200)
    await broker.stop()
  })
})
