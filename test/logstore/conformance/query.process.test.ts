/** Specification and contract of `POST /v1/query`. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { policyTenant, requestHead } from '../../support/logstore.ts'
import type { Reply } from '../../support/logstore.ts'
import { timePasses } from '../../support/waiting.ts'
import {
  JSON_LOGS,
  JSON_TRACES,
  QUERY,
  TIME,
  accept,
  assertRefused,
  find,
  jsonLogs,
  jsonTraces,
  logRecordsOf,
  recordsOf,
  startForTests,
} from './batches.ts'
import type { QueryReply } from './batches.ts'

const DATASET = 'checkout'
const NO_LIMIT = { records: null, bytes: null }

const server = await startForTests({
  policy: [policyTenant('local', 'local-dev-token', NO_LIMIT), policyTenant('acme', 'local-dev-token', NO_LIMIT)],
})
/** Ids of the ten records at TIME, TIME + 1, … */
const ids = (await accept(server, JSON_LOGS, jsonLogs(logRecordsOf(10), { dataset: DATASET }))).record_ids

const ask = (query: unknown): Promise<Reply> => server.request(QUERY, JSON.stringify(query))
const idsOf = (reply: QueryReply): readonly string[] => recordsOf(reply).map(({ record_id }) => record_id)
const range = (from: number | null, to: number | null): object => ({
  ...(from !== null && { start_time_unix_nano: String(TIME + BigInt(from)) }),
  ...(to !== null && { end_time_unix_nano: String(TIME + BigInt(to)) }),
})

describe('the answer to a query', () => {
  it('has the fields of the specification, and nothing else', async () => {
    const { results, scanned_bundles, ...rest } = await find(server, { dataset: DATASET })
    assert.deepEqual(rest, {
      status: 'ok',
      api_version: 'v1',
      tenant_id: 'local',
      dataset: DATASET,
      matched_records: 10,
      page: { limit: 100, cursor: null, next_cursor: null },
      used_indexes: ['dataset_time'],
    })
    assert(Number.isInteger(scanned_bundles) && scanned_bundles >= 1)
    assert.deepEqual(
      results.map(({ record }) => record.record_id),
      ids,
    )
    for (const result of results) assert.deepEqual(Object.keys(result), ['record'])
  })
  it('is ok and empty when nothing matches', async () => {
    const nothing = [
      { dataset: 'no such dataset' },
      { dataset: DATASET, filter: { record_id: `logstore_${'0'.repeat(32)}` } },
      { dataset: DATASET, filter: { record_id: 'anything' } },
      { dataset: DATASET, filter: { record_id: '' } },
      { dataset: DATASET, filter: { trace_id: 'f'.repeat(32) } },
      { dataset: 'CHECKOUT' },
      { dataset: 'check' },
    ]
    for (const query of nothing) {
      const { status, matched_records, results, page } = await find(server, query)
      assert.deepEqual({ status, matched_records, results }, { status: 'ok', matched_records: 0, results: [] })
      assert.equal(page.next_cursor, null)
    }
  })
})

describe('a query that is', () => {
  const INVALID: readonly (readonly [what: string, query: unknown, kind?: string])[] = [
    ['an array', []],
    ['a string', 'checkout'],
    ['null', null],
    ['without dataset', {}],
    ['without dataset but with a filter', { filter: { record_id: 'x' } }],
    ['of dataset null', { dataset: null }],
    ['of an empty dataset', { dataset: '' }],
    ['of a dataset that is a number', { dataset: 1 }],
    ['of a dataset that is too long', { dataset: 'x'.repeat(1025) }],
    ['with an unknown field', { dataset: DATASET, limit: 1 }],
    ['with an unknown filter', { dataset: DATASET, filter: { span_id: 'b7ad6b7169203331' } }],
    ['with an unknown field of the page', { dataset: DATASET, page: { offset: 1 } }],
    ['with a filter that is a string', { dataset: DATASET, filter: 'x' }],
    ['with a filter that is an array', { dataset: DATASET, filter: [] }],
    ['with a page that is a number', { dataset: DATASET, page: 1 }],
    ['with a record id that is a number', { dataset: DATASET, filter: { record_id: 1 } }],
    ...['', '0', 'f'.repeat(31), 'f'.repeat(33), 'g'.repeat(32), ` ${'f'.repeat(31)}`].map(
      (trace_id) => [`of the trace id '${trace_id}'`, { dataset: DATASET, filter: { trace_id } }] as const,
    ),
    ...['', 'now', '-1', '1.5', '1e3', '0x10', ' 1', '18446744073709551616', -1, 1.5, true, {}].flatMap((time) =>
      ['start_time_unix_nano', 'end_time_unix_nano'].map(
        (name) => [`of ${name} ${JSON.stringify(time)}`, { dataset: DATASET, filter: { [name]: time } }] as const,
      ),
    ),
    ...[0, -1, 60_001, 1.5, '100', true].map(
      (deadline_ms) => [`of deadline_ms ${JSON.stringify(deadline_ms)}`, { dataset: DATASET, deadline_ms }] as const,
    ),
    ...[0, -1, 501, 1.5, '10', true].map(
      (limit) =>
        [
          `of page.limit ${JSON.stringify(limit)}`,
          { dataset: DATASET, page: { limit } },
          'invalid_page_limit',
        ] as const,
    ),
    ...['', 'x', 'AAAA', 'x'.repeat(54), 7, {}].map(
      (cursor) =>
        [`of page.cursor ${JSON.stringify(cursor)}`, { dataset: DATASET, page: { cursor } }, 'invalid_cursor'] as const,
    ),
  ]
  for (const [what, query, kind = 'invalid_query'] of INVALID)
    it(`${what} is ${kind}`, async () => assertRefused(await ask(query), 400, kind))

  for (const body of ['', '{', 'dataset', '{"dataset":"checkout"} x', '{"dataset":"checkout",}'])
    it(`the text '${body}' is invalid_query`, async () =>
      assertRefused(await server.request(QUERY, body), 400, 'invalid_query'))
  it('not UTF-8 is invalid_query', async () => {
    assertRefused(await server.request(QUERY, Buffer.from('{"dataset":"\xff"}', 'latin1')), 400, 'invalid_query')
  })

  for (const [what, query] of [
    ['of page.limit 1', { page: { limit: 1 } }],
    ['of page.limit 500', { page: { limit: 500 } }],
    ['of deadline_ms 60000', { deadline_ms: 60_000 }],
    ['of nulls for what is optional', { filter: null, page: null, deadline_ms: null }],
    [
      'of nulls inside',
      { filter: { record_id: null, trace_id: null, start_time_unix_nano: null }, page: { limit: null, cursor: null } },
    ],
    ['of an empty filter and page', { filter: {}, page: {} }],
  ] as const)
    it(`${what} is answered`, async () => {
      assert.equal((await find(server, { dataset: DATASET, ...query })).matched_records, 10)
    })
})

describe('a time range', () => {
  const cases: [from: number | null, to: number | null, first: number, end: number][] = [
    [null, null, 0, 10],
    [3, null, 3, 10],
    [null, 3, 0, 3],
    [2, 5, 2, 5],
    [5, 6, 5, 6],
    [0, 10, 0, 10],
    [9, 11, 9, 10],
    [10, 20, 0, 0],
    [-5, 0, 0, 0],
    [5, 5, 0, 0],
    [6, 5, 0, 0],
  ]
  for (const [from, to, first, end] of cases)
    it(`from ${from} (inclusive) to ${to} (exclusive) finds records ${first} to ${end - 1}`, async () => {
      const found = await find(server, { dataset: DATASET, filter: range(from, to) })
      assert.deepEqual([found.matched_records, idsOf(found)], [end - first, ids.slice(first, end)])
      assert.deepEqual(found.used_indexes, ['dataset_time'])
    })
  it('may be given in JSON integers, which are exact', async () => {
    const query = `{"dataset":"${DATASET}","filter":{"start_time_unix_nano":${TIME + 4n},"end_time_unix_nano":${TIME + 6n}}}`
    assert.deepEqual(idsOf((await server.request(QUERY, query)).ok() as QueryReply), ids.slice(4, 6)) // checked by this assertion
  })
  it('may reach from 0 to the last nanosecond of 64 bits', async () => {
    const filter = { start_time_unix_nano: '0', end_time_unix_nano: '18446744073709551615' }
    assert.equal((await find(server, { dataset: DATASET, filter })).matched_records, 10)
  })
})

describe('exact filters', () => {
  const dataset = 'traces'
  const trace = (byte: number): Buffer => Buffer.alloc(16, byte)
  const spanOf = (traceByte: number, i: number) => ({
    traceId: trace(traceByte),
    spanId: Buffer.alloc(8, i + 1),
    name: `span ${i}`,
    startTimeUnixNano: String(TIME + BigInt(i)),
  })
  let spanIds: readonly string[]
  before(async () => {
    const spans = [spanOf(0xaa, 0), spanOf(0xbb, 1), spanOf(0xaa, 2), spanOf(0xbb, 3)]
    spanIds = (await accept(server, JSON_TRACES, jsonTraces(spans, { dataset }))).record_ids
    await accept(server, JSON_TRACES, jsonTraces([spanOf(0xaa, 5)], { dataset: 'another' }))
  })
  const a = { trace_id: 'aa'.repeat(16) }

  it('by trace id find the spans of the trace in the dataset, with used_indexes identity.trace_id', async () => {
    const found = await find(server, { dataset, filter: a })
    assert.deepEqual([found.matched_records, idsOf(found)], [2, [spanIds[0], spanIds[2]]])
    assert.deepEqual(found.used_indexes, ['identity.trace_id'])
  })
  it('by trace id take either case', async () => {
    const found = await find(server, { dataset, filter: { trace_id: 'aA'.repeat(16) } })
    assert.equal(found.matched_records, 2)
  })
  it('by trace id give the two spans of a trace one by one with page.limit 1', async () => {
    const first = await find(server, { dataset, filter: a, page: { limit: 1 } })
    assert.deepEqual(
      [first.matched_records, idsOf(first), first.page.limit, first.page.cursor],
      [2, [spanIds[0]], 1, null],
    )
    const cursor = first.page.next_cursor
    assert.equal(typeof cursor, 'string')
    const second = await find(server, { dataset, filter: a, page: { limit: 1, cursor } })
    assert.deepEqual([second.matched_records, idsOf(second)], [2, [spanIds[2]]])
    assert.deepEqual(second.page, { limit: 1, cursor, next_cursor: null })
  })
  it('together report both indexes, and match what has both', async () => {
    for (const [record_id, matched] of [
      [spanIds[0], 1],
      [spanIds[1], 0],
    ] as const) {
      const found = await find(server, { dataset, filter: { record_id, ...a } })
      assert.deepEqual([found.matched_records, found.used_indexes], [matched, ['record_id', 'identity.trace_id']])
    }
  })
  it('combine with the time range', async () => {
    assert.deepEqual(idsOf(await find(server, { dataset, filter: { ...a, ...range(1, null) } })), [spanIds[2]])
    assert.deepEqual(idsOf(await find(server, { dataset, filter: { ...a, ...range(null, 2) } })), [spanIds[0]])
    assert.deepEqual(idsOf(await find(server, { dataset, filter: { record_id: spanIds[3], ...range(3, 4) } })), [
      spanIds[3],
    ])
    assert.deepEqual(idsOf(await find(server, { dataset, filter: { record_id: spanIds[3], ...range(4, 5) } })), [])
  })
  it('match only the dataset they name', async () => {
    assert.equal((await find(server, { dataset: 'another', filter: { record_id: spanIds[0] } })).matched_records, 0)
    assert.equal((await find(server, { dataset: 'another', filter: a })).matched_records, 1)
  })
  it('take a name that has no form in UTF-8 for the one that it is stored as', async () => {
    const names = ['\ud800', '\udc00', '\ufffd'].map((unit) => `half${unit}`)
    for (const [n, name] of names.entries()) {
      const log = { timeUnixNano: String(TIME), body: { stringValue: String(n) } }
      await accept(server, JSON_LOGS, jsonLogs([log], { dataset: name }))
      for (const asked of names) assert.equal((await find(server, { dataset: asked })).matched_records, n + 1)
    }
  })
  it('by record id match nothing in upper case, with a space, or cut short', async () => {
    const id = spanIds[0]!
    for (const record_id of [id.toUpperCase(), `${id} `, id.slice(0, -1), id.slice('logstore_'.length)])
      assert.equal((await find(server, { dataset, filter: { record_id } })).matched_records, 0)
  })
  it('by trace id find logs and spans alike', async () => {
    const log = { timeUnixNano: String(TIME), traceId: trace(0xcc), spanId: Buffer.alloc(8, 1) }
    await accept(server, JSON_LOGS, jsonLogs([log], { dataset: 'mixed' }))
    await accept(server, JSON_TRACES, jsonTraces([spanOf(0xcc, 1)], { dataset: 'mixed' }))
    const found = await find(server, { dataset: 'mixed', filter: { trace_id: 'cc'.repeat(16) } })
    assert.deepEqual(
      recordsOf(found).map(({ signal }) => signal),
      ['log', 'trace'],
    )
  })
})

describe('the order of results', () => {
  it('is ascending time, ties in the order of ingest', async () => {
    const dataset = 'ties'
    const at = (offset: number, name: string) => ({
      timeUnixNano: String(TIME + BigInt(offset)),
      body: { stringValue: name },
    })
    const send = async (...records: ReturnType<typeof at>[]) =>
      (await accept(server, JSON_LOGS, jsonLogs(records, { dataset }))).record_ids
    const [a, b, c] = await send(at(5, 'a'), at(1, 'b'), at(5, 'c'))
    const [d, e] = await send(at(5, 'd'), at(0, 'e'))
    const [f] = await send(at(1, 'f'))
    const expected = [e, b, f, a, c, d]
    assert.deepEqual(idsOf(await find(server, { dataset })), expected)
    for (let limit = 1; limit <= expected.length; limit++) assert.deepEqual(await pages({ dataset }, limit), expected)
  })
})

describe('pages', () => {
  it('of 1 to 500 records give every record once', async () => {
    const dataset = 'paged'
    const all: string[] = []
    for (let i = 0; i < 3; i++)
      all.push(...(await accept(server, JSON_LOGS, jsonLogs(logRecordsOf(400, `page ${i}`), { dataset }))).record_ids)
    const complete = await pages({ dataset }, 500)
    assert.deepEqual(new Set(complete), new Set(all))
    assert.equal(complete.length, all.length)
    assert.deepEqual(await pages({ dataset }, 333), complete)
    const { results, page, matched_records } = await find(server, { dataset })
    assert.deepEqual([results.length, page.limit, matched_records], [100, 100, 1200])
  })
  it('that end with the last record have no next cursor', async () => {
    const { page } = await find(server, { dataset: DATASET, page: { limit: 10 } })
    assert.equal(page.next_cursor, null)
  })
  it('skip and repeat nothing while records arrive', async () => {
    const dataset = 'moving'
    const at = (offset: number, name: string) => ({
      timeUnixNano: String(TIME + BigInt(offset)),
      body: { stringValue: name },
    })
    const send = async (name: string, ...offsets: number[]) =>
      (
        await accept(
          server,
          JSON_LOGS,
          jsonLogs(
            offsets.map((offset) => at(offset, name)),
            { dataset },
          ),
        )
      ).record_ids
    const expected = await send('first', 10, 20, 30, 40, 50)
    const seen: string[] = []
    let cursor: string | null = null
    for (let i = 0; ; i++) {
      const found: QueryReply = await find(server, { dataset, page: { limit: 2, cursor } })
      assert.equal(found.matched_records, 5)
      seen.push(...idsOf(found))
      cursor = found.page.next_cursor
      if (cursor === null) break
      await send(`later ${i}`, 0, 15, 25, 30, 45, 60)
    }
    assert.deepEqual(seen, expected)
    assert.equal((await find(server, { dataset })).matched_records, 17)
  })
})

describe('a cursor', () => {
  const next = async (query: object): Promise<string> => {
    const cursor = (await find(server, { ...query, page: { limit: 2 } })).page.next_cursor
    assert(cursor)
    return cursor
  }
  it('is bound to its tenant, dataset and filter', async () => {
    const filter = range(0, 9)
    const cursor = await next({ dataset: DATASET, filter })
    assert.equal((await find(server, { dataset: DATASET, filter, page: { cursor } })).results.length, 7)
    const others = [
      { dataset: 'other', filter },
      { dataset: DATASET },
      { dataset: DATASET, filter: range(0, 8) },
      { dataset: DATASET, filter: { ...filter, record_id: ids[3] } },
      { dataset: DATASET, filter: { ...filter, trace_id: 'a'.repeat(32) } },
    ]
    for (const other of others) assertRefused(await ask({ ...other, page: { cursor } }), 400, 'invalid_cursor')
    const acme = await server.request(QUERY, { dataset: DATASET, filter, page: { cursor } }, { tenant: 'acme' })
    assertRefused(acme, 400, 'invalid_cursor')
  })
  it('may be used with another limit, again, and with the trace id in another case', async () => {
    const cursor = await next({ dataset: DATASET })
    for (const limit of [1, 3, 3]) {
      const found = await find(server, { dataset: DATASET, page: { limit, cursor } })
      assert.deepEqual([idsOf(found), found.page.cursor], [ids.slice(2, 2 + limit), cursor])
    }
  })
  it('that was changed in any character is invalid_cursor', async () => {
    const cursor = await next({ dataset: DATASET })
    for (let i = 0; i < cursor.length; i++) {
      const changed = cursor.slice(0, i) + (cursor[i] === 'A' ? 'B' : 'A') + cursor.slice(i + 1)
      assertRefused(await ask({ dataset: DATASET, page: { cursor: changed } }), 400, 'invalid_cursor')
    }
    for (const changed of [` ${cursor}`, `${cursor}=`, cursor.slice(1), cursor + cursor])
      assertRefused(await ask({ dataset: DATASET, page: { cursor: changed } }), 400, 'invalid_cursor')
  })
  it('survives a restart', async () => {
    const cursor = await next({ dataset: DATASET })
    await server.restart()
    assert.deepEqual(idsOf(await find(server, { dataset: DATASET, page: { limit: 4, cursor } })), ids.slice(2, 6))
  })
})

describe('the deadline of a query', () => {
  it('counts from its headers: a query that is late is deadline_exceeded, retryable', async () => {
    const query = JSON.stringify({ dataset: DATASET, deadline_ms: 1 })
    const connection = await server.connect()
    connection.write(requestHead(QUERY, query.length, { expect: '100-continue' }))
    assert.equal((await connection.reply()).status, 100)
    await timePasses(20) // the deadline has passed by now, however slow the machine
    connection.write(query)
    assertRefused(await connection.reply(), 504, 'deadline_exceeded', { retryable: true })
    connection.close()
  })
})

/** The ids of all pages, each fetched with the cursor of the one before. */
async function pages(query: object, limit: number): Promise<readonly string[]> {
  const seen: string[] = []
  for (let cursor: string | null = null; ;) {
    const found: QueryReply = await find(server, { ...query, page: { limit, cursor } })
    assert.equal(found.page.cursor, cursor)
    assert(found.results.length <= limit)
    seen.push(...idsOf(found))
    cursor = found.page.next_cursor
    if (cursor === null) return seen
    assert.equal(found.results.length, limit)
  }
}
