/** Contract "Log store": what a tenant's policy may allow, so that what collectors send by default works. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { policyTenant } from '../../support/logstore.ts'
import type { PolicyTenant, Reply } from '../../support/logstore.ts'
import { messageType } from '../../../src/logstore/query/render/otlp-types.ts'
import { text } from '../../support/otlp.ts'
import {
  INGEST_ROUTES,
  JSON_LOGS,
  JSON_TRACES,
  TRACES,
  assertRefused,
  find,
  jsonLogs,
  jsonTraces,
  logRecordsOf,
  protobufTraces,
  spansOf,
  startForTests,
} from './batches.ts'

const TOKEN = 'collector-token'
const UNLIMITED = { records: null, bytes: null, concurrent_requests: null }
const tenant = (id: string, options: Partial<PolicyTenant> = {}): PolicyTenant => ({
  ...policyTenant(id, TOKEN, UNLIMITED),
  ...options,
})

const server = await startForTests({
  env: { LOGSTORE_GATEWAY_MAX_RECORDS: 'none' },
  policy: [
    tenant('strict'),
    tenant('claimless', { tenant_claim: 'optional' }),
    tenant('large', { max_records_per_batch: 8192 }),
    tenant('records', { max_records_per_batch: 8192, deduplication: 'records' }),
    tenant('partial', { partial_success: true }),
    tenant('both', { partial_success: true, max_records_per_batch: 2000 }),
    { ...policyTenant('smooth', TOKEN, { window_seconds: 60, records: 600 }), smooth_quota: true },
  ],
})

const send = (id: string, path: string, contentType: string, body: Buffer): Promise<Reply> =>
  server.request(path, body, { tenant: id, token: TOKEN, headers: { 'content-type': contentType } })
const ask = (id: string, query: object): ReturnType<typeof find> => find(server, query, { tenant: id, token: TOKEN })
const ofTenant = (id: string, dataset = 'checkout') => ({ tenant: id, dataset })

describe('a tenant whose claim is optional', () => {
  for (const { path, contentType, batch } of INGEST_ROUTES) {
    it(`is that of the header on ${path}; another one’s claim stays a mismatch`, async () => {
      const dataset = `claims of ${path}`
      const claimless = batch(3, { label: path, attributes: [text('service.name', dataset)] })
      assert.equal((await send('claimless', path, contentType, claimless)).status, 200)
      assert.equal((await ask('claimless', { dataset })).matched_records, 3)
      assert.equal((await send('claimless', path, contentType, batch(3, ofTenant('strict')))).status, 403)
      assert.equal((await send('strict', path, contentType, claimless)).status, 403)
    })
  }
})

describe('a tenant that may send more than 512 records in a batch', () => {
  for (const { path, contentType, batch, source } of INGEST_ROUTES) {
    it(`has 8192 of them stored and found on ${path}, and stored once when they come again`, async () => {
      const dataset = `many of ${path}`
      const body = batch(8192, { label: path, ...ofTenant('large', dataset) })
      for (const duplicates of [0, 8192]) {
        const reply = await send('large', path, contentType, body)
        assert.equal(reply.status, 200, reply.text)
        if (source === 'v1.otlp_http') {
          const { accepted_records, duplicate_records, record_ids } = reply.json() as Record<string, unknown>
          assert.deepEqual([accepted_records, duplicate_records], [8192, duplicates])
          assert.equal(new Set(record_ids as string[]).size, 8192)
          const byId = await ask('large', { dataset, filter: { record_id: (record_ids as string[])[8000]! } })
          assert.equal(byId.matched_records, 1)
        }
        assert.equal((await ask('large', { dataset })).matched_records, 8192)
      }
      const tooMany = batch(8193, { label: path, ...ofTenant('large', dataset) })
      assert.equal((await send('large', path, contentType, tooMany)).status, 413)
      const others = batch(513, { label: path, ...ofTenant('strict', dataset) })
      assert.equal((await send('strict', path, contentType, others)).status, 413)
    })
  }

  it('has identical records stored as often as they came, each with an id of its own, timed or not, also after a restart', async () => {
    const alike = { body: { stringValue: 'beat' } }
    for (const [dataset, record] of [
      ['beats', { ...alike, timeUnixNano: '7' }],
      ['timeless beats', alike],
    ] as const) {
      const body = jsonLogs(
        Array.from({ length: 1100 }, () => record),
        ofTenant('large', dataset),
      )
      const replies: (readonly string[])[] = []
      for (const duplicates of [0, 1100]) {
        const reply = (await send('large', JSON_LOGS, 'application/json', body)).ok() as Record<string, unknown>
        assert.equal(reply['duplicate_records'], duplicates)
        replies.push(reply['record_ids'] as string[])
      }
      const [ids] = replies
      assert.deepEqual(replies, [ids, ids])
      assert.equal(new Set(ids).size, 1100)
      await server.restart()
      assert.equal((await ask('large', { dataset })).matched_records, 1100)
      for (const record_id of [ids![0]!, ids![512]!, ids![1099]!]) {
        assert.equal((await ask('large', { dataset, filter: { record_id } })).matched_records, 1)
      }
    }
  })

  it('may also have records recognised by themselves: identical ones of a batch stay apart, whatever frames they are in', async () => {
    const dataset = 'apart'
    const beat = { timeUnixNano: '7', body: { stringValue: 'beat' } }
    const batch = Array.from({ length: 1100 }, () => beat)
    for (const [records, duplicates] of [
      [batch, 0],
      [batch, 1100],
      [[...batch, beat], 1100],
    ] as const) {
      const body = jsonLogs(records, ofTenant('records', dataset))
      const reply = (await send('records', JSON_LOGS, 'application/json', body)).ok() as Record<string, unknown>
      assert.equal(reply['duplicate_records'], duplicates)
    }
    await server.restart()
    assert.equal((await ask('records', { dataset })).matched_records, 1101)
  })

  for (const [dataset, time] of [
    ['begins alike, timed', { timeUnixNano: '7' }],
    ['begins alike, timeless', {}],
  ] as const) {
    it(`has each batch stored whole that is another one, however much of it came before (${dataset})`, async () => {
      const alike = Array.from({ length: 1024 }, (_, i) => ({ ...time, body: { stringValue: `${i}` } }))
      const other = { ...time, body: { stringValue: 'other' } }
      let stored = 0
      for (const records of [[...alike, alike[0]!], [...alike, other], alike.slice(0, 513), [other, ...alike]]) {
        const body = jsonLogs(records, ofTenant('large', dataset))
        for (const duplicates of [0, records.length]) {
          const reply = (await send('large', JSON_LOGS, 'application/json', body)).ok() as Record<string, unknown>
          assert.equal(reply['duplicate_records'], duplicates)
        }
        stored += records.length
      }
      assert.equal((await ask('large', { dataset })).matched_records, stored)
    })
  }

  it('finds them again after a restart', async () => {
    const dataset = 'restarted'
    const body = jsonLogs(logRecordsOf(1500), ofTenant('large', dataset))
    const ids = ((await send('large', JSON_LOGS, 'application/json', body)).ok() as { record_ids: string[] }).record_ids
    const before = await ask('large', { dataset, page: { limit: 500 } })
    await server.restart()
    assert.deepEqual(await ask('large', { dataset, page: { limit: 500 } }), before)
    const last = await ask('large', { dataset, filter: { record_id: ids[1499]! } })
    assert.equal(last.matched_records, 1)
  })
})

describe('a tenant with partial success', () => {
  it('has a record without a time stored of each batch, if only their malformed records differ', async () => {
    const dataset = 'partial alike'
    for (const time of ['zzz', 'yyyy']) {
      const batch = JSON.parse(
        jsonLogs([{ body: { stringValue: 'good' } }, {}], ofTenant('partial', dataset)).toString(),
      ) as {
        resourceLogs: { scopeLogs: { logRecords: { timeUnixNano?: string }[] }[] }[]
      }
      batch.resourceLogs[0]!.scopeLogs[0]!.logRecords[1]!.timeUnixNano = time
      const reply = await send('partial', JSON_LOGS, 'application/json', Buffer.from(JSON.stringify(batch)))
      assert.equal((reply.ok() as Record<string, unknown>)['rejected_records'], 1)
    }
    assert.equal((await ask('partial', { dataset })).matched_records, 2)
  })

  const spans = spansOf(4)
  const bad = { ...spans[1]!, spanId: Buffer.alloc(8) }
  const mixed = [spans[0]!, bad, spans[2]!, { ...spans[3]!, traceId: Buffer.alloc(3) }]

  it('has a JSON batch stored without its malformed records, and is told how many and what was wrong', async () => {
    const dataset = 'partial json'
    const reply = await send(
      'partial',
      JSON_TRACES,
      'application/json',
      jsonTraces(mixed, ofTenant('partial', dataset)),
    )
    const body = reply.ok() as Record<string, unknown> // looked at field by field
    assert.deepEqual([body['accepted_records'], body['rejected_records']], [2, 2])
    assert.match(String(body['error_message']), /span without a valid span id/)
    assert.equal((body['record_ids'] as string[]).length, 2)
    assert.equal((await ask('partial', { dataset })).matched_records, 2)
    await server.restart()
    assert.equal((await ask('partial', { dataset })).matched_records, 2)
  })

  it('is told in OTLP’s partial success of a protobuf batch, also of one that is cut', async () => {
    const dataset = 'partial protobuf'
    const many = [...spansOf(1000, 'many'), bad]
    for (const [id, batch, stored] of [
      ['partial', mixed, 2],
      ['both', many, 1000],
    ] as const) {
      const body = protobufTraces(batch, ofTenant(id, dataset))
      const reply = await send(id, TRACES, 'application/x-protobuf', body)
      assert.equal(reply.status, 200, reply.text)
      const type = messageType('opentelemetry.proto.collector.trace.v1.ExportTraceServiceResponse')
      const { partialSuccess } = type.toObject(type.decode(reply.bytes), { longs: Number })
      assert.equal(partialSuccess.rejectedSpans, batch.length - stored)
      assert.match(partialSuccess.errorMessage, /span without a valid span id/)
      assert.equal((await ask(id, { dataset })).matched_records, stored)
    }
    const { text: metrics } = await server.request('/metrics', null)
    assert(Number(/^logstore_ingest_rejected_records_total (\d+)$/m.exec(metrics)![1]) >= 3)
  })

  it('is refused as before when no record is well-formed, when the batch is no batch, and without the option', async () => {
    const none = jsonTraces([bad], ofTenant('partial'))
    assertRefused(await send('partial', JSON_TRACES, 'application/json', none), 400, 'malformed_batch')
    assertRefused(
      await send('partial', JSON_TRACES, 'application/json', Buffer.from('{"resou')),
      400,
      'malformed_batch',
    )
    const strict = jsonTraces(mixed, ofTenant('strict'))
    assertRefused(await send('strict', JSON_TRACES, 'application/json', strict), 400, 'malformed_batch')
  })
})

describe('a tenant with a smooth quota', () => {
  it('waits as long as its batch takes to refill, not until a burst has left the window', async () => {
    const batch = (label: string): Buffer => jsonLogs(logRecordsOf(300, label), ofTenant('smooth'))
    for (const label of ['a', 'b'])
      assert.equal((await send('smooth', JSON_LOGS, 'application/json', batch(label))).status, 200)
    const small = jsonLogs(logRecordsOf(20, 'c'), ofTenant('smooth'))
    const reply = await send('smooth', JSON_LOGS, 'application/json', small)
    if (reply.status === 200) return // two seconds went by
    assertRefused(reply, 429, 'record_quota_exceeded', { retryable: true })
    assert(Number(reply.headers.get('retry-after')) <= 2)
  })
})
