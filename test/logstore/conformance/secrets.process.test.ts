/** Contract "All three": neither answers nor the log ever show a token or a payload. */
import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { test } from 'node:test'
import { policyTenant, requestHead } from '../../support/logstore.ts'
import { INGEST_ROUTES, JSON_LOGS, QUERY, jsonLogs, logRecordsOf, startForTests } from './batches.ts'

const TOKEN = 'tokenmarker4711'
const PAYLOAD = 'payloadmarker0815'
const MARKERS = /tokenmarker|payloadmarker/i

const server = await startForTests({
  env: { TRILOG_LOG_LEVEL: 'trace', LOGSTORE_MAX_BODY_BYTES: '100000' },
  policy: [policyTenant('acme', TOKEN, { records: 600 }, ['orders'])],
})

test('tokens and payloads are in no refusal and in no line of the log, whatever goes wrong', async () => {
  const headers = [
    {},
    { authorization: `Bearer ${TOKEN}x` },
    { authorization: `Basic ${TOKEN}` },
    { authorization: TOKEN },
    { 'x-logstore-tenant': TOKEN },
    { 'content-type': `text/${PAYLOAD}` },
    { 'content-encoding': PAYLOAD },
    { 'content-encoding': 'gzip' },
    { 'content-encoding': 'zstd' },
    { accept: 'application/json' },
  ]
  const record = { timeUnixNano: '1', body: { stringValue: PAYLOAD } }
  const bodies = [
    `{"resourceLogs":[{"resource":{"${PAYLOAD}`,
    PAYLOAD,
    JSON.stringify({ resourceLogs: PAYLOAD }),
    JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano: PAYLOAD }] }] }] }),
    JSON.stringify({ dataset: 'orders', [PAYLOAD]: 1 }),
    JSON.stringify({ dataset: 'orders', filter: { [PAYLOAD]: 1 } }),
    JSON.stringify({ url: PAYLOAD, latency: 1, activation_id: 'a', [PAYLOAD]: 1 }),
    JSON.stringify({ dataset: 'orders', filter: { trace_id: PAYLOAD } }),
    JSON.stringify({ dataset: 'orders', filter: { start_time_unix_nano: PAYLOAD } }),
    JSON.stringify({ dataset: 'orders', page: { cursor: PAYLOAD } }),
    JSON.stringify({ dataset: PAYLOAD }),
    gzipSync(PAYLOAD).subarray(0, -1),
    jsonLogs([record], { tenant: PAYLOAD, dataset: 'orders' }),
    jsonLogs([record], { tenant: 'acme', dataset: PAYLOAD }),
    jsonLogs(logRecordsOf(600, PAYLOAD), { tenant: 'acme', dataset: 'orders' }),
    jsonLogs(logRecordsOf(500, PAYLOAD), { tenant: 'acme', dataset: 'orders' }),
    PAYLOAD.repeat(10_000),
    ...INGEST_ROUTES.map(({ batch }) => batch(1, { label: PAYLOAD, dataset: PAYLOAD, tenant: 'acme' })),
  ]
  const requests = [
    ...bodies.map((body) => ({ body, more: {} })),
    ...headers.flatMap((more) => [PAYLOAD, jsonLogs([record])].map((body) => ({ body, more }))),
  ]
  const kinds = new Set<string>()
  for (const path of [...INGEST_ROUTES.map(({ path }) => path), QUERY, '/v1/endpoint/a', `/${PAYLOAD}`])
    for (const { body, more } of requests) {
      const options = { tenant: 'acme', token: TOKEN, headers: { ...typeOf(path), ...more } }
      const reply = await server.request(path, body, options)
      if (reply.status === 200) continue
      assert.doesNotMatch(reply.text, MARKERS)
      for (const [name, value] of reply.headers) assert.doesNotMatch(`${name}: ${value}`, MARKERS)
      kinds.add(/[a-z]+(?:_[a-z]+)+/.exec(reply.text)![0])
    }
  const connection = await server.connect()
  connection.write(
    requestHead(JSON_LOGS, 1000, { 'x-logstore-tenant': 'acme', authorization: `Bearer ${TOKEN}` }) + PAYLOAD,
  )
  connection.close()
  server.writePolicy(`{"tenants":[{"id":"${PAYLOAD}","token":"${TOKEN}"`)
  server.signal('SIGHUP')
  await server.request('/health', null)
  await assert.rejects(server.restart(), (error) => !MARKERS.test(String(error))) // the policy file is damaged by now

  assert(kinds.size >= 14, [...kinds].join())
  assert.notEqual(server.stderr, '')
  assert.doesNotMatch(server.stderr, MARKERS)
})

const typeOf = (path: string): Record<string, string> => ({
  'content-type': INGEST_ROUTES.find((route) => route.path === path)?.contentType ?? 'application/json',
})
