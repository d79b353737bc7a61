/** Contract "Log store": deterministic ids, deduplication that never eats data, and the time of a record. */
import assert from 'node:assert/strict'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, it } from 'node:test'
import { DEVELOPMENT_CREDENTIALS, policyTenant } from '../../support/logstore.ts'
import {
  INGEST_ROUTES,
  JSON_LOGS,
  LOGS,
  PROTOBUF,
  TIME,
  accept,
  find,
  jsonLogs,
  logRecordsOf,
  protobufLogs,
  recordsOf,
  startForTests,
} from './batches.ts'

const BY_RECORD = { tenant: 'by-record', token: 'by-record-token' }
const server = await startForTests({
  policy: [
    policyTenant(DEVELOPMENT_CREDENTIALS.tenant, DEVELOPMENT_CREDENTIALS.token),
    { ...policyTenant(BY_RECORD.tenant, BY_RECORD.token), deduplication: 'records' },
  ],
})

const idsOf = async (batch: Buffer): Promise<readonly string[]> => (await accept(server, JSON_LOGS, batch)).record_ids

async function stored(dataset: string): Promise<readonly string[]> {
  const found = await find(server, { dataset, page: { limit: 500 } })
  assert.equal(found.matched_records, found.results.length)
  return recordsOf(found).map(({ record_id }) => record_id)
}

async function collapses(): Promise<number> {
  const { text } = await server.request('/metrics', null)
  return Number(/^logstore_ingest_collapsed_records_total (\d+)$/m.exec(text)?.[1])
}

describe('the id of a record', () => {
  it('finds exactly that record, with used_indexes record_id', async () => {
    const dataset = 'by-id'
    const ids = await idsOf(jsonLogs(logRecordsOf(5), { dataset }))
    for (const [i, record_id] of ids.entries()) {
      const found = await find(server, { dataset, filter: { record_id } })
      assert.deepEqual([found.matched_records, found.used_indexes], [1, ['record_id']])
      const [record] = recordsOf(found)
      assert.deepEqual(
        [record?.record_id, record?.raw_payload.record['body']],
        [record_id, { stringValue: `paid ${i}` }],
      )
    }
  })
  it('is the same when the batch comes again, however it is compressed', async () => {
    const dataset = 'again'
    const batch = jsonLogs(logRecordsOf(4), { dataset })
    const ids = await idsOf(batch)
    assert.deepEqual(await idsOf(batch), ids)
    for (const [name, bytes] of [
      ['gzip', gzipSync(batch)],
      ['zstd', zstdCompressSync(batch)],
    ] as const)
      assert.deepEqual(
        (await accept(server, JSON_LOGS, bytes, { headers: { 'content-encoding': name } })).record_ids,
        ids,
      )
    assert.deepEqual(await stored(dataset), ids)
  })
  it('is the same when a timed record comes again in another batch', async () => {
    const dataset = 'regrouped'
    const records = logRecordsOf(4)
    const ids = await idsOf(jsonLogs(records, { dataset }))
    assert.deepEqual(await idsOf(jsonLogs(records.slice(1, 3).toReversed(), { dataset })), [ids[2], ids[1]])
    const more = await idsOf(jsonLogs([...logRecordsOf(1, 'new'), ...records], { dataset }))
    assert.deepEqual(more.slice(1), ids)
    assert.deepEqual(new Set(await stored(dataset)), new Set([...ids, more[0]]))
  })
  it('differs with tenant data: dataset, time, content, resource, scope and their schema URLs', async () => {
    const [record] = logRecordsOf(1)
    assert(record)
    const resource = {
      attributes: [
        { key: 'service.name', value: { stringValue: 'differs' } },
        { key: 'tenant_id', value: { stringValue: 'local' } },
      ],
    }
    const other = { attributes: [...resource.attributes, { key: 'host', value: { stringValue: 'a' } }] }
    const batches = [
      jsonLogs([record], { dataset: 'differs' }),
      jsonLogs([record], { dataset: 'differs too' }),
      jsonLogs([{ ...record, timeUnixNano: String(TIME + 1n) }], { dataset: 'differs' }),
      jsonLogs([{ ...record, severityNumber: 1 }], { dataset: 'differs' }),
      ...[{}, { schemaUrl: 'a' }].flatMap((ofResource) =>
        [{}, { schemaUrl: 'a' }, { schemaUrl: 'b' }].map((ofScope) => {
          const scopeLogs = [{ scope: { name: 'other' }, logRecords: [record], ...ofScope }]
          return Buffer.from(JSON.stringify({ resourceLogs: [{ resource, scopeLogs, ...ofResource }] }))
        }),
      ),
      Buffer.from(
        JSON.stringify({
          resourceLogs: [
            { resource: other, scopeLogs: [{ scope: { name: 'test', version: '1.0.0' }, logRecords: [record] }] },
          ],
        }),
      ),
    ]
    const ids = new Set<string>()
    for (const batch of batches) for (const id of await idsOf(batch)) ids.add(id)
    assert.equal(ids.size, batches.length)
  })
  it('differs between identical records of one batch, which are all kept', async () => {
    const dataset = 'identical'
    const [record] = logRecordsOf(1)
    assert(record)
    const batch = jsonLogs([record, record, record], { dataset })
    const ids = await idsOf(batch)
    assert.equal(new Set(ids).size, 3)
    assert.deepEqual(await idsOf(batch), ids)
    assert.deepEqual(new Set(await stored(dataset)), new Set(ids))
  })
})

describe('a record without any time', () => {
  const timeless = (dataset: string, ...bodies: string[]): Buffer =>
    jsonLogs(
      bodies.map((stringValue) => ({ body: { stringValue } })),
      { dataset },
    )

  it('is not collapsed with its like in another batch', async () => {
    const dataset = 'timeless'
    const first = await idsOf(timeless(dataset, 'tick', 'a'))
    const second = await idsOf(timeless(dataset, 'tick', 'b'))
    assert.equal(new Set([...first, ...second]).size, 4)
    assert.equal((await stored(dataset)).length, 4)
  })
  it('is collapsed when the same batch comes again', async () => {
    const dataset = 'timeless retry'
    const ids = await idsOf(timeless(dataset, 'tick', 'tick', 'tock'))
    assert.equal(new Set(ids).size, 3)
    assert.deepEqual(await idsOf(timeless(dataset, 'tick', 'tick', 'tock')), ids)
    assert.equal((await stored(dataset)).length, 3)
  })
  it('has the time of receipt', async () => {
    const dataset = 'received'
    const before = BigInt(Date.now()) * 1_000_000n
    await idsOf(timeless(dataset, 'now'))
    const after = BigInt(Date.now() + 1) * 1_000_000n
    const [record] = recordsOf(await find(server, { dataset }))
    const time = BigInt(record!.time_unix_nano)
    assert(before <= time && time <= after, `${before} <= ${time} <= ${after}`)
  })
})

describe('the time of a record', () => {
  it("is its own, else its observed time; a zero is none; a span's is its start", async () => {
    const dataset = 'times'
    const [own, observed] = [String(TIME + 7n), String(TIME + 9n)]
    await idsOf(
      jsonLogs(
        [
          { timeUnixNano: own, observedTimeUnixNano: observed },
          { observedTimeUnixNano: observed },
          { timeUnixNano: '0', observedTimeUnixNano: observed, body: { stringValue: 'zero' } },
        ],
        { dataset },
      ),
    )
    const times = recordsOf(await find(server, { dataset })).map(({ time_unix_nano }) => time_unix_nano)
    assert.deepEqual(times, [own, observed, observed])
  })
  it('is exact to the nanosecond, up to the last of 64 bits, in every format', async () => {
    for (const [i, time] of ['1', '1767225600123456789', '9007199254740993', '18446744073709551615'].entries()) {
      const dataset = `nanoseconds ${i}`
      await idsOf(jsonLogs([{ timeUnixNano: time }], { dataset }))
      assert.equal(
        (await server.request(LOGS, protobufLogs([{ timeUnixNano: time }], { dataset }), PROTOBUF)).status,
        200,
      )
      const times = recordsOf(await find(server, { dataset })).map(({ time_unix_nano }) => time_unix_nano)
      assert.deepEqual(times, [time, time])
    }
  })
})

describe('a batch that comes again', () => {
  it('is stored once, told in the answer and counted', async () => {
    const dataset = 'counted'
    const before = await collapses()
    const batch = jsonLogs(logRecordsOf(5), { dataset })
    const first = await accept(server, JSON_LOGS, batch)
    assert.partialDeepStrictEqual(first, { accepted_records: 5, duplicate_records: 0 })
    assert.partialDeepStrictEqual(await accept(server, JSON_LOGS, batch), { accepted_records: 5, duplicate_records: 5 })
    assert.equal(await collapses(), before + 5)
    assert.deepEqual(await stored(dataset), first.record_ids)
  })
  it('is the same in all its records: any other batch is stored whole, and a record of both is found twice by its id', async () => {
    const dataset = 'overlapping'
    const records = logRecordsOf(5)
    const batches = [records.slice(0, 3), records, records.slice(1, 3), records.slice(0, 1), records.toReversed()]
    const before = await collapses()
    for (const batch of batches) {
      assert.partialDeepStrictEqual(await accept(server, JSON_LOGS, jsonLogs(batch, { dataset })), {
        duplicate_records: 0,
      })
    }
    assert.equal(await collapses(), before)
    assert.equal((await stored(dataset)).length, 3 + 5 + 2 + 1 + 5)
    const [record_id] = await idsOf(jsonLogs(records.slice(0, 1), { dataset }))
    const found = await find(server, { dataset, filter: { record_id: record_id! } })
    assert.equal(found.matched_records, 4)
    assert.deepEqual(
      recordsOf(found).map((record) => record.record_id),
      [record_id, record_id, record_id, record_id],
    )
    const pages = [null, 1, 2, 3]
    let cursor: string | null = null
    for (const _ of pages) {
      const page = await find(server, { dataset, filter: { record_id: record_id! }, page: { limit: 1, cursor } })
      assert.deepEqual([page.matched_records, page.results.length], [4, 1])
      cursor = page.page.next_cursor
    }
    assert.equal(cursor, null)
  })
  it('is told by its records where the policy says so: those that were stored before are kept once, in whatever batch', async () => {
    const dataset = 'by record'
    const before = await collapses()
    const send = (records: number) =>
      accept(server, JSON_LOGS, jsonLogs(logRecordsOf(records), { dataset, tenant: BY_RECORD.tenant }), BY_RECORD)
    assert.partialDeepStrictEqual(await send(3), { duplicate_records: 0 })
    const again = await send(5)
    assert.partialDeepStrictEqual(again, { accepted_records: 5, duplicate_records: 3 })
    assert.equal(await collapses(), before + 3)
    const found = await find(server, { dataset }, BY_RECORD)
    assert.deepEqual(
      recordsOf(found).map(({ record_id }) => record_id),
      again.record_ids,
    )
  })
  it('holds for every route: a retry is answered like the first time, and stored once', async () => {
    for (const [i, { path, contentType, batch }] of INGEST_ROUTES.entries()) {
      const dataset = `retry ${i}`
      const body = batch(10, { dataset })
      const headers = { 'content-type': contentType }
      const [first, second] = [
        await server.request(path, body, { headers }),
        await server.request(path, body, { headers }),
      ]
      assert.deepEqual([first.status, second.status], [200, 200])
      assert.equal((await stored(dataset)).length, 10)
    }
  })
})

describe('after a restart', () => {
  it('the ids are the same and a retry is still collapsed, however the process ended', async () => {
    const dataset = 'restarted'
    const batch = jsonLogs([...logRecordsOf(3), { body: { stringValue: 'timeless' } }], { dataset })
    const ids = await idsOf(batch)
    const before = recordsOf(await find(server, { dataset }))
    await server.restart()
    assert.deepEqual(await idsOf(batch), ids)
    await server.kill()
    await server.startAgain()
    assert.deepEqual(await idsOf(batch), ids)
    assert.deepEqual(recordsOf(await find(server, { dataset })), before)
  })
})
