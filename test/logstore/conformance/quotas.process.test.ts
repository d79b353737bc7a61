/**
 * Specification "Limits": tenant windows, gateway budgets, concurrent requests. A window of a second must slide; a window of an hour must not
 * during the test.
 */
import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { describe, it } from 'node:test'
import { eventually, timePasses } from '../../support/waiting.ts'
import { policyTenant, requestHead } from '../../support/logstore.ts'
import type { RawConnection, Reply } from '../../support/logstore.ts'
import { JSON_LOGS, QUERY, accept, assertRefused, find, jsonLogs, logRecordsOf, startForTests } from './batches.ts'

const RETRYABLE = { retryable: true }

const TENANTS = [
  policyTenant('few', 't', { window_seconds: 1, records: 10, bytes: null, concurrent_requests: null }),
  policyTenant('hour', 't', { window_seconds: 3600, records: 10, bytes: null }),
  policyTenant('day', 't', { window_seconds: 86_400, records: 10, bytes: null }),
  policyTenant('retried', 't', { window_seconds: 3600, records: 10, bytes: null }),
  policyTenant('thrifty', 't', { window_seconds: 3600, records: null, bytes: 4000 }),
  policyTenant('small', 't', { window_seconds: 1, records: null, bytes: 4000, concurrent_requests: null }),
  policyTenant('two', 't', { records: null, bytes: null, concurrent_requests: 2 }),
  policyTenant('free', 't', { records: null, bytes: null, concurrent_requests: null }),
  { id: 'default', credentials: policyTenant('default', 't').credentials },
]

const server = await startForTests({
  policy: TENANTS,
  env: {
    LOGSTORE_GATEWAY_MAX_REQUESTS: '6',
    LOGSTORE_GATEWAY_MAX_RECORDS: '400',
    LOGSTORE_GATEWAY_MAX_BYTES: '100000',
    LOGSTORE_MAX_CONCURRENT_QUERIES: '2',
  },
})

let batches = 0
/** A batch unlike all others, so that none of its records is collapsed. */
const batchOf = (tenant: string, records: number): Buffer =>
  jsonLogs(logRecordsOf(records, `batch ${batches++}`), { tenant })
const send = (tenant: string, records: number): Promise<Reply> => sendBatch(tenant, batchOf(tenant, records))
const sendBatch = (tenant: string, batch: Buffer, encoding = 'identity'): Promise<Reply> =>
  server.request(JSON_LOGS, batch, { tenant, token: 't', headers: { 'content-encoding': encoding } })
const retryAfter = (reply: Reply): number => Number(reply.headers.get('retry-after'))

async function requestsInFlight(): Promise<number> {
  const { text } = await server.request('/metrics', null)
  return Number(/^logstore_gateway_requests_in_flight (\d+)$/m.exec(text)?.[1])
}

/** Sends half a body, and returns once the service has the headers: the request holds its slot until `finish`. */
async function hold(tenant: string, path = JSON_LOGS, body: Buffer = batchOf(tenant, 1)): Promise<RawConnection> {
  const connection = await server.connect()
  const headers = { 'x-logstore-tenant': tenant, authorization: 'Bearer t', expect: '100-continue' }
  connection.write(requestHead(path, body.byteLength, headers))
  assert.equal((await connection.reply()).status, 100)
  connection.write(body.subarray(0, 5))
  held.set(connection, body)
  return connection
}
const held = new Map<RawConnection, Buffer>()

async function finish(connection: RawConnection): Promise<Reply> {
  connection.write(held.get(connection)!.subarray(5))
  const reply = await connection.reply()
  connection.close()
  return reply
}

interface Refused {
  readonly batch: Buffer
  readonly refused: Reply
}

/** Sends one batch after the other until one is refused: the window is full. */
async function firstRefused(tenant: string, next: () => Buffer): Promise<Refused> {
  for (;;) {
    const batch = next()
    const refused = await sendBatch(tenant, batch)
    if (refused.status === 429) return { batch, refused }
    assert.equal(refused.status, 200)
  }
}

describe('the record window of a tenant', () => {
  it('is used up by batches that fit, then answers record_quota_exceeded with a small Retry-After', async () => {
    const { refused } = await firstRefused('few', () => batchOf('few', 10))
    assertRefused(refused, 429, 'record_quota_exceeded', RETRYABLE)
    assert.equal(retryAfter(refused), 1) // the length of the window
  })
  it('slides: after the wait it told, the same batch fits', async () => {
    const { batch, refused } = await firstRefused('few', () => batchOf('few', 10))
    await timePasses(retryAfter(refused) * 1000)
    assert.equal((await sendBatch('few', batch)).status, 200)
  })
  it('is not used up by refused batches', async () => {
    const { tenant } = { tenant: 'hour' }
    assert.equal((await send(tenant, 9)).status, 200)
    for (let i = 0; i < 5; i++) assertRefused(await send(tenant, 2), 429, 'record_quota_exceeded', RETRYABLE)
    assertRefused(await sendBatch(tenant, jsonLogs(logRecordsOf(1), { tenant: 'other' })), 403, 'tenant_mismatch')
    assertRefused(await sendBatch(tenant, Buffer.from('{')), 400, 'malformed_batch')
    assert.equal((await send(tenant, 1)).status, 200)
    const refused = await send(tenant, 1)
    assertRefused(refused, 429, 'record_quota_exceeded', RETRYABLE)
    const waitSeconds = retryAfter(refused)
    assert(waitSeconds > 3300 && waitSeconds <= 3600, String(waitSeconds))
  })
  it('may be as long as a day', async () => {
    assert.equal((await send('day', 10)).status, 200)
    const refused = await send('day', 1)
    assertRefused(refused, 429, 'record_quota_exceeded', RETRYABLE)
    const waitSeconds = retryAfter(refused)
    assert(waitSeconds > 86_000 && waitSeconds <= 86_400, String(waitSeconds))
  })
  it('refuses a sender that does not wait 200 times a second at most', async () => {
    const begunMs = performance.now()
    for (let i = 0; i < 30; i++) assertRefused(await send('hour', 1), 429, 'record_quota_exceeded', RETRYABLE)
    assert(performance.now() - begunMs >= 29 * 5)
  })
  it('never admits a batch larger than itself: not retryable', async () => {
    const refused = await send('few', 11)
    assertRefused(refused, 429, 'record_quota_exceeded')
  })
  it('counts a collapsed retry like any batch', async () => {
    const batch = batchOf('retried', 10)
    assert.equal((await sendBatch('retried', batch)).status, 200)
    assertRefused(await sendBatch('retried', batch), 429, 'record_quota_exceeded', RETRYABLE)
  })
  it('is that of one tenant only', async () => {
    assertRefused(await send('retried', 1), 429, 'record_quota_exceeded', RETRYABLE)
    assert.equal((await send('free', 100)).status, 200)
  })
})

describe('the byte window of a tenant', () => {
  const padded = (bytes: number, tenant = 'small'): Buffer => {
    const batch = batchOf(tenant, 1)
    return Buffer.concat([batch, Buffer.alloc(bytes - batch.byteLength, ' ')])
  }
  it('counts decompressed bytes', async () => {
    assert.equal((await sendBatch('thrifty', gzipSync(padded(4000, 'thrifty')), 'gzip')).status, 200)
    const refused = await sendBatch('thrifty', gzipSync(padded(1000, 'thrifty')), 'gzip')
    assertRefused(refused, 429, 'byte_quota_exceeded', RETRYABLE)
    const waitSeconds = retryAfter(refused)
    assert(waitSeconds > 3300 && waitSeconds <= 3600, String(waitSeconds))
  })
  it('slides: after the wait it told, the same batch fits', async () => {
    const { batch, refused } = await firstRefused('small', () => padded(4000))
    await timePasses(retryAfter(refused) * 1000)
    assert.equal((await sendBatch('small', batch)).status, 200)
  })
  it('never admits a batch larger than itself: not retryable', async () => {
    assertRefused(await sendBatch('small', gzipSync(padded(4001)), 'gzip'), 429, 'byte_quota_exceeded')
  })
})

describe('null in a limit', () => {
  it('is no limit', async () => {
    for (let i = 0; i < 30; i++) assert.equal((await send('free', 400)).status, 200)
  })
})

describe('limits that a policy leaves out', () => {
  it('are those of the specification: 10000 records', async () => {
    const startedMs = performance.now()
    let sent = 0
    const { refused } = await firstRefused('default', () => batchOf('default', sent++ % 26 < 25 ? 400 : 1))
    assertRefused(refused, 429, 'record_quota_exceeded', RETRYABLE)
    const isWithinWindow = performance.now() - startedMs < 60_000 // else the window has moved meanwhile
    assert(isWithinWindow ? sent === 26 : sent >= 26, `${sent} sent`)
  })
})

describe('the budget of the gateway', () => {
  it('never admits more records at once than it has: not retryable', async () => {
    assert.equal((await send('free', 400)).status, 200)
    assertRefused(await send('free', 401), 429, 'record_quota_exceeded')
  })
  it('never admits more bytes at once than it has: not retryable', async () => {
    const batch = batchOf('free', 1)
    const padded = (bytes: number): Buffer => Buffer.concat([batch, Buffer.alloc(bytes - batch.byteLength, ' ')])
    assert.equal((await sendBatch('free', padded(100_000))).status, 200)
    assertRefused(await sendBatch('free', padded(100_001)), 429, 'byte_quota_exceeded')
    assertRefused(await sendBatch('free', gzipSync(padded(100_001)), 'gzip'), 429, 'byte_quota_exceeded')
  })
  it('is given back with the answer', async () => {
    for (let i = 0; i < 5; i++) assert.equal((await send('free', 400)).status, 200)
    const { text } = await server.request('/metrics', null)
    assert.match(text, /^logstore_gateway_records_in_flight 0$/m)
    assert.match(text, /^logstore_gateway_bytes_in_flight 0$/m)
  })
  it('bounds the requests in flight of all tenants together', async () => {
    const open = []
    for (let i = 0; i < 6; i++) open.push(await hold('free'))
    assertRefused(await send('default', 1), 429, 'concurrency_exceeded', RETRYABLE)
    for (const connection of open) assert.equal((await finish(connection)).status, 200)
    assert.equal((await send('free', 1)).status, 200)
  })
})

describe('the concurrent requests of a tenant', () => {
  it('are places held from the headers to the answer', async () => {
    const open = [await hold('two'), await hold('two')]
    const refused = await send('two', 1)
    assertRefused(refused, 429, 'concurrency_exceeded', RETRYABLE)
    assert.equal(retryAfter(refused), 1)
    assert.equal((await send('free', 1)).status, 200)
    assert.equal((await finish(open[0]!)).status, 200)
    assert.equal((await send('two', 1)).status, 200)
    assert.equal((await finish(open[1]!)).status, 200)
    assert.equal(await requestsInFlight(), 0)
  })
  it('are given back when a client goes away in the middle of its body', async () => {
    const open = [await hold('two'), await hold('two')]
    for (const connection of open) connection.close()
    await eventually(async () => (await requestsInFlight()) === 0)
    assert.equal((await send('two', 1)).status, 200)
  })
  it('do not bound its queries, which have places of their own', async () => {
    const ingest = [await hold('two'), await hold('two')]
    await find(server, { dataset: 'checkout' }, { tenant: 'two', token: 't' })

    const query = Buffer.from('{"dataset":"checkout"}')
    const ask = (tenant: string): Promise<Reply> => server.request(QUERY, query, { tenant, token: 't' })
    const queries = [await hold('free', QUERY, query), await hold('free', QUERY, query)]
    assertRefused(await ask('free'), 429, 'concurrency_exceeded', RETRYABLE)
    for (const [path, body] of [
      ['/v1/datasets', null],
      ['/v1/query/histogram', query],
      ['/v1/query/fields', query],
    ] as const) {
      const reply = await server.request(path, body, { tenant: 'free', token: 't' }) // these routes take the same slots
      assertRefused(reply, 429, 'concurrency_exceeded', RETRYABLE)
    }
    assert.equal((await ask('two')).status, 200)
    await accept(server, JSON_LOGS, batchOf('free', 1), { tenant: 'free', token: 't' })
    for (const connection of queries) assert.equal((await finish(connection)).status, 200)
    assert.equal((await ask('free')).status, 200)
    for (const connection of ingest) await finish(connection)
  })
})
