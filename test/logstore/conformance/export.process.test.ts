/** `POST /v1/export` over real sockets: what docs/traces.md says of exports. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, truncateSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { createInterface } from 'node:readline'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { DEVELOPMENT_CREDENTIALS, LogStoreServer, policyTenant } from '../../support/logstore.ts'
import type { Environment } from '../../support/process.ts'
import { eventually, timePasses } from '../../support/waiting.ts'
import { JSON_LOGS, accept, assertRefused, jsonLogs, logRecordsOf } from './batches.ts'
import type { StoredRecord } from './batches.ts'

const NO_LIMIT = { records: null, bytes: null }
const POLICY = [
  policyTenant('local', 'local-dev-token', NO_LIMIT),
  policyTenant('acme', 'acme-token', NO_LIMIT, ['cart']),
]
const EXPORT = '/v1/export'
const MIB = 1024 * 1024

async function start(context: TestContext, env: Environment = {}): Promise<LogStoreServer> {
  const server = await LogStoreServer.start({ policy: POLICY, env })
  context.after(() => server.kill().catch(() => {})) // a test may have stopped it
  return server
}

/** @param at milliseconds that its records are later than those of a batch without it */
async function send(
  server: LogStoreServer,
  label: string,
  records: number,
  dataset = 'checkout',
  at = 0,
): Promise<void> {
  const later = BigInt(at) * 1_000_000n
  const given = logRecordsOf(records, label).map((record) => ({
    ...record,
    timeUnixNano: String(BigInt(record.timeUnixNano!) + later),
  }))
  await accept(server, JSON_LOGS, jsonLogs(given, { dataset }))
}

/** Opens an export and returns its head. Its lines are read only when the test asks for them. */
async function open(server: LogStoreServer, body: object): Promise<IncomingMessage> {
  const { tenant, token } = DEVELOPMENT_CREDENTIALS
  const headers = {
    'x-logstore-tenant': tenant,
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
  }
  const request = httpRequest(`${server.url}${EXPORT}`, { agent: false, method: 'POST', headers })
  request.end(JSON.stringify(body))
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  return response
}

interface Exported {
  readonly records: readonly StoredRecord[]
  readonly end: unknown
}

async function exported(server: LogStoreServer, body: object): Promise<Exported> {
  const { text, headers } = await server.request(EXPORT, body)
  assert.equal(headers.get('content-type'), 'application/x-ndjson')
  const lines = text.split('\n').slice(0, -1)
  const end = JSON.parse(lines.pop()!) as { export: unknown } // the last line, by the document
  return { records: lines.map((line) => JSON.parse(line) as StoredRecord), end: end.export }
}

const textsOf = (records: readonly StoredRecord[]): unknown[] =>
  records.map(({ raw_payload }) => (raw_payload.record['body'] as { stringValue: string }).stringValue) // as it was sent

describe('an export', () => {
  it('has every record of the filter in its order, one a line, and a last line with their number', async (context) => {
    const server = await start(context)
    await send(server, 'paid', 300)
    await send(server, 'refused', 300)
    const paid = await exported(server, { dataset: 'checkout', filter: { search: 'paid' }, order: 'desc' })
    assert.deepEqual(
      textsOf(paid.records),
      Array.from({ length: 300 }, (_, i) => `paid ${299 - i}`),
    )
    assert.deepEqual(paid.end, { status: 'complete', records: 300 })
    const all = await exported(server, { dataset: 'checkout' })
    assert.equal(all.records.length, 600)
    const { results } = (await server.request('/v1/query', { dataset: 'checkout', page: { limit: 500 } })).ok() as {
      results: readonly { record: StoredRecord }[]
    }
    assert.deepEqual(
      all.records.slice(0, 500),
      results.map(({ record }) => record),
    )
    const none = await exported(server, { dataset: 'none' })
    assert.deepEqual(none, { records: [], end: { status: 'complete', records: 0 } })
    await server.stop()
  })

  it('of many records takes bounded memory, and shows nothing that was stored after it began', async (context) => {
    // This limits the old space of the main thread only: the threads have their own.
    const server = await start(context, {
      NODE_OPTIONS: '--max-old-space-size=96',
      LOGSTORE_SEGMENT_BYTES: String(4 * MIB),
      LOGSTORE_COMPACTION: 'off',
    })
    const batches = 160
    const long = 'x'.repeat(600)
    // Half of them have one time, so that their frames are read again and again.
    for (let batch = 0; batch < batches; batch++) {
      await send(server, `${batch} ${long}`, 500, 'checkout', Math.max(0, batch - batches / 2))
    }
    const response = await open(server, { dataset: 'checkout' })
    assert.equal(response.statusCode, 200)
    for (let batch = 0; batch < 20; batch++) await send(server, `late ${batch}`, 500)
    await send(server, 'late', 500, 'cart')
    let records = 0
    let late = 0
    let end = ''
    let lastTime = ''
    for await (const line of createInterface({ input: response })) {
      if (line.startsWith('{"export"')) {
        end = line
        continue
      }
      records++
      if (line.includes('"late ')) late++
      const time = /"time_unix_nano":"([0-9]+)"/.exec(line)![1]!
      assert.ok(time >= lastTime)
      lastTime = time
    }
    assert.deepEqual([records, late], [batches * 500, 0])
    assert.equal(end, `{"export":{"status":"complete","records":${batches * 500}}}`)
    await server.stop()
  })

  it('that meets damage is cut inside its body, without the last line; the next one counts it', async (context) => {
    const server = await start(context, { LOGSTORE_SEGMENT_BYTES: String(MIB) })
    const long = 'x'.repeat(1000)
    for (let batch = 0; batch < 30; batch++) await send(server, `${batch} ${long}`, 400, 'checkout', batch)
    await eventually(async () => /^logstore_sidecars_pending 0$/m.test((await server.request('/metrics', null)).text))
    const segments = `${server.dataDirectory}/bundles`
    const oldest = readdirSync(segments)
      .filter((name) => /^[0-9a-f]{16}$/.test(name))
      .sort()[4]!
    truncateSync(`${segments}/${oldest}/records.log`, 4096)
    const response = await open(server, { dataset: 'checkout' })
    let text = ''
    response.setEncoding('utf8')
    await assert.rejects(
      async () => {
        for await (const piece of response) text += piece
      },
      { code: 'ECONNRESET' },
    )
    assert.ok(!text.includes('"export"'))
    await server.kill()
  })

  it('goes at the pace of its reader, and ends when the reader leaves', async (context) => {
    const server = await start(context)
    const long = 'x'.repeat(1000)
    for (let batch = 0; batch < 60; batch++) await send(server, `${batch} ${long}`, 500)
    const response = await open(server, { dataset: 'checkout' })
    response.pause()
    await timePasses(500)
    response.destroy()
    await eventually(
      async () => (await server.request(EXPORT, { dataset: 'checkout', filter: { search: 'none' } })).status === 200,
    )
    await server.stop()
  })

  it('is refused like a query, and for a page', async (context) => {
    const server = await start(context)
    const refused = async (body: object, status: number, kind: string, options = {}): Promise<void> =>
      assertRefused(await server.request(EXPORT, body, options), status, kind)
    await refused({}, 400, 'invalid_query')
    await refused({ dataset: 'a', page: { limit: 5 } }, 400, 'invalid_query')
    await refused({ dataset: 'a', filter: { search: '(' } }, 400, 'invalid_query')
    await refused({ dataset: 'a' }, 415, 'unsupported_content_type', { headers: { 'content-type': 'text/plain' } })
    await refused({ dataset: 'a' }, 401, 'invalid_credentials', { token: 'x' })
    await refused({ dataset: 'other' }, 403, 'dataset_not_authorized', { tenant: 'acme', token: 'acme-token' })
    await server.stop()
  })
})
