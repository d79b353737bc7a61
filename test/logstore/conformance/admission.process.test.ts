/** Specification "Authentication" and contract "Order of refusals": who may send and ask. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { after, before, describe, it } from 'node:test'
import { eventually } from '../../support/waiting.ts'
import { policyTenant, requestHead } from '../../support/logstore.ts'
import type { RawConnection, Reply, RequestOptions } from '../../support/logstore.ts'
import { text } from '../../support/otlp.ts'
import type { KeyValue } from '../../support/otlp.ts'
import {
  INGEST_ROUTES,
  JSON_LOGS,
  QUERY,
  accept,
  assertRefused,
  find,
  jsonLogs,
  logRecordsOf,
  startForTests,
} from './batches.ts'

const ACME = { tenant: 'acme', token: 'acme-token' }
const BODY_BYTES_MAX = 64 * 1024

const digest = (token: string): string => createHash('sha256').update(token).digest('hex')
const server = await startForTests({
  env: { LOGSTORE_MAX_BODY_BYTES: String(BODY_BYTES_MAX) },
  policy: [
    {
      id: 'acme',
      credentials: [
        { token_sha256: digest('acme-token'), datasets: ['*'] },
        { token_sha256: digest('acme-orders-token').toUpperCase(), datasets: ['orders', 'returns'] },
      ],
    },
    policyTenant('globex', 'globex-token'),
    policyTenant('small', 'small-token', { records: 5, concurrent_requests: 1 }, ['orders']),
  ],
})

const ROUTES = [
  ...INGEST_ROUTES.map(({ path, contentType, batch }) => ({
    path,
    contentType,
    body: (tenant: string): Buffer => batch(1, { tenant }),
  })),
  { path: QUERY, contentType: 'application/json', body: (): Buffer => Buffer.from('{"dataset":"checkout"}') },
]

/** Sends a good request of acme with these headers on every route, with refusals in JSON. */
async function each(headers: RequestOptions['headers'], check: (reply: Reply) => void): Promise<void> {
  for (const { path, contentType, body } of ROUTES) {
    const all = { 'content-type': contentType, accept: 'application/json', ...headers }
    check(await server.request(path, body('acme'), { ...ACME, headers: all }))
  }
}

describe('the tenant header', () => {
  for (const tenant of [null, '', '   '])
    it(`that is ${tenant === null ? 'omitted' : `'${tenant}'`} is missing_tenant, which says that it is required`, () =>
      each({ 'x-logstore-tenant': tenant }, (reply) => {
        assertRefused(reply, 401, 'missing_tenant')
        assert.match(reply.rejection().error.message, /x-logstore-tenant is required/)
      }))
})

describe('the bearer token', () => {
  for (const authorization of [null, '', 'Bearer', 'Bearer ', 'Basic YTpi', 'acme-token', 'Bearer acme-token more'])
    it(`in ${authorization === null ? 'no header' : `'${authorization}'`} is missing_credentials`, () =>
      each({ authorization }, (reply) => assertRefused(reply, 401, 'missing_credentials')))

  for (const authorization of ['bearer acme-token', 'BEARER acme-token', 'Bearer   acme-token '])
    it(`in '${authorization}' is taken`, () =>
      each({ authorization }, (reply) => assert.equal(reply.status, 200, reply.text)))

  for (const token of ['wrong', 'globex-token', 'ACME-TOKEN', 'acme-toke', 'acme-token1'])
    it(`'${token}' is invalid_credentials for acme`, () =>
      each({ authorization: `Bearer ${token}` }, (reply) => assertRefused(reply, 401, 'invalid_credentials')))
})

describe('the tenant', () => {
  for (const tenant of ['ghost', 'ACME', 'acme2', 'local', '__proto__'])
    it(`${tenant}, absent from the policy, is unknown_tenant`, () =>
      each({ 'x-logstore-tenant': tenant }, (reply) => assertRefused(reply, 403, 'unknown_tenant')))

  it('sees only its own records', async () => {
    await accept(server, JSON_LOGS, jsonLogs(logRecordsOf(2), { tenant: 'acme', dataset: 'own' }), ACME)
    const globex = { tenant: 'globex', token: 'globex-token' }
    assert.equal((await find(server, { dataset: 'own' }, globex)).matched_records, 0)
    const { tenant_id, matched_records } = await find(server, { dataset: 'own' }, ACME)
    assert.deepEqual([tenant_id, matched_records], ['acme', 2])
  })
})

describe('a credential with datasets', () => {
  const orders = { tenant: 'acme', token: 'acme-orders-token' }
  const send = (dataset: string): Promise<Reply> =>
    server.request(JSON_LOGS, jsonLogs(logRecordsOf(1), { tenant: 'acme', dataset }), orders)

  it('may write and query each of them', async () => {
    for (const dataset of ['orders', 'returns']) {
      assert.equal((await send(dataset)).status, 200)
      assert.equal((await find(server, { dataset }, orders)).matched_records, 1)
    }
  })
  it('may neither write nor query another: dataset_not_authorized', async () => {
    for (const dataset of ['billing', 'Orders', 'orders2', 'unknown_service', '*']) {
      assertRefused(await send(dataset), 403, 'dataset_not_authorized')
      assertRefused(await server.request(QUERY, { dataset }, orders), 403, 'dataset_not_authorized')
    }
  })
  it('may not send a batch of which one resource is for another dataset, and nothing of it is stored', async () => {
    const [mine, other] = ['returns', 'billing'].map((dataset) => ({
      resource: { attributes: [text('service.name', dataset), text('tenant_id', 'acme')] },
      scopeLogs: [{ logRecords: [{ timeUnixNano: '77' }] }],
    }))
    const reply = await server.request(JSON_LOGS, { resourceLogs: [mine, other] }, orders)
    assertRefused(reply, 403, 'dataset_not_authorized')
    const filter = { start_time_unix_nano: '77', end_time_unix_nano: '78' }
    assert.equal((await find(server, { dataset: 'returns', filter }, orders)).matched_records, 0)
  })
  it('may not send a resource without service.name, whose dataset is unknown_service', async () => {
    const batch = jsonLogs(logRecordsOf(1), { attributes: [text('tenant_id', 'acme')] })
    assertRefused(await server.request(JSON_LOGS, batch, orders), 403, 'dataset_not_authorized')
  })
})

describe('the tenant claim of a resource', () => {
  const claims: [what: string, attributes: readonly KeyValue[], accepted: boolean][] = [
    ['tenant_id of the tenant is accepted', [text('tenant_id', 'acme')], true],
    ['service.logstore.tenant_id of the tenant is accepted', [text('service.logstore.tenant_id', 'acme')], true],
    ['both of the tenant are accepted', [text('tenant_id', 'acme'), text('service.logstore.tenant_id', 'acme')], true],
    ['absent is a mismatch', [], false],
    ['of another tenant is a mismatch', [text('tenant_id', 'globex')], false],
    ['of another tenant by the other name is a mismatch', [text('service.logstore.tenant_id', 'globex')], false],
    ['empty is a mismatch', [text('tenant_id', '')], false],
    ['in another case is a mismatch', [text('tenant_id', 'Acme')], false],
    ['that is no string is a mismatch', [{ key: 'tenant_id', value: { intValue: '1' } }], false],
    [
      'of two different values is a mismatch',
      [text('tenant_id', 'acme'), text('service.logstore.tenant_id', 'globex')],
      false,
    ],
    [
      'of two different values, the other way round, too',
      [text('service.logstore.tenant_id', 'acme'), text('tenant_id', 'globex')],
      false,
    ],
    ['of one name twice with different values, too', [text('tenant_id', 'acme'), text('tenant_id', 'globex')], false],
  ]
  for (const [what, attributes, accepted] of claims)
    it(what, async () => {
      for (const { path, contentType, batch } of INGEST_ROUTES) {
        const headers = { 'content-type': contentType, accept: 'application/json' }
        const reply = await server.request(path, batch(1, { attributes }), { ...ACME, headers })
        if (accepted) assert.equal(reply.status, 200, reply.text)
        else assertRefused(reply, 403, 'tenant_mismatch')
      }
    })

  it('is checked on every resource, and nothing of a mismatch is stored', async () => {
    const resourceLogs = ['acme', 'globex'].map((tenant) => ({
      resource: { attributes: [text('service.name', 'claims'), text('tenant_id', tenant)] },
      scopeLogs: [{ logRecords: [{ timeUnixNano: '1' }] }],
    }))
    assertRefused(await server.request(JSON_LOGS, { resourceLogs }, ACME), 403, 'tenant_mismatch')
    assertRefused(
      await server.request(JSON_LOGS, { resourceLogs: resourceLogs.toReversed() }, ACME),
      403,
      'tenant_mismatch',
    )
    assert.equal((await find(server, { dataset: 'claims' }, ACME)).matched_records, 0)
  })
  it('is missing where there is no resource at all', async () => {
    const batch = { resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano: '1' }] }] }] }
    assertRefused(await server.request(JSON_LOGS, batch, ACME), 403, 'tenant_mismatch')
  })
})

describe('a request that is wrong in every way from a step on', () => {
  const tooManyElsewhere = jsonLogs(logRecordsOf(513), { tenant: 'globex', dataset: 'billing' })
  const SMALL = 'Bearer small-token'
  /** Steps that make the request right, one after the other. A request that is right up to a step is refused at the next one. */
  const steps: [
    status: number,
    kind: string,
    right: { method?: string; headers?: Record<string, string>; body?: Buffer },
  ][] = [
    [404, 'not_found', {}],
    [405, 'method_not_allowed', { method: 'POST' }],
    [401, 'missing_tenant', { headers: { 'x-logstore-tenant': 'ghost' } }],
    [401, 'missing_credentials', { headers: { authorization: 'Bearer wrong' } }],
    [403, 'unknown_tenant', { headers: { 'x-logstore-tenant': 'small' } }],
    [401, 'invalid_credentials', { headers: { authorization: SMALL } }],
    [415, 'unsupported_content_type', { headers: { 'content-type': 'application/json' } }],
    [415, 'unsupported_content_encoding', { headers: { 'content-encoding': 'gzip' } }],
    [413, 'payload_too_large', { body: Buffer.from('no gzip') }],
    [400, 'malformed_batch', { body: gzipSync('{"resourceLogs":{}}') }],
    [400, 'malformed_batch', { body: gzipSync(tooManyElsewhere.subarray(0, -1)) }],
    [400, 'malformed_batch', { body: gzipSync('{"resourceLogs":[{"resource":{"attributes":[]},"scopeLogs":[]}]}') }],
    [400, 'empty_batch', { body: gzipSync(tooManyElsewhere) }],
    [413, 'batch_too_large', { body: gzipSync(jsonLogs(logRecordsOf(6), { tenant: 'globex', dataset: 'billing' })) }],
    [403, 'tenant_mismatch', { body: gzipSync(jsonLogs(logRecordsOf(6), { tenant: 'small', dataset: 'billing' })) }],
    [
      403,
      'dataset_not_authorized',
      { body: gzipSync(jsonLogs(logRecordsOf(6), { tenant: 'small', dataset: 'orders' })) },
    ],
    [
      429,
      'record_quota_exceeded',
      { body: gzipSync(jsonLogs(logRecordsOf(5), { tenant: 'small', dataset: 'orders' })) },
    ],
  ]
  let method = 'PUT'
  let headers: Record<string, string | null> = {
    'x-logstore-tenant': null,
    authorization: 'Basic YTpi',
    'content-type': 'text/plain',
    'content-encoding': 'br',
  }
  let body: Buffer = Buffer.alloc(BODY_BYTES_MAX + 1, 0x7b)
  steps.forEach(([status, kind, right], step) => {
    const request = { method, headers, body, path: step === 0 ? '/v1/otlp/log' : JSON_LOGS }
    method = right.method ?? method
    headers = { ...headers, ...right.headers }
    body = right.body ?? body
    it(`is ${kind} (step ${step + 1})`, async () => {
      const reply = await server.request(request.path, request.body, {
        method: request.method,
        headers: request.headers,
      })
      assertRefused(reply, status, kind)
    })
  })
  it('is accepted when nothing is left', async () => {
    const reply = await server.request(JSON_LOGS, body, { method, headers })
    assert.equal(reply.status, 200, reply.text)
  })
})

describe('places', () => {
  let held: RawConnection
  before(async () => {
    held = await server.connect()
    held.write(requestHead(JSON_LOGS, 10, { 'x-logstore-tenant': 'small', authorization: 'Bearer small-token' }))
    held.write('{"res')
    const gauge = /^logstore_gateway_requests_in_flight 1$/m
    await eventually(async () => gauge.test((await server.request('/metrics', null)).text))
  })
  after(() => held.close())

  const send = (body: Buffer, headers: RequestOptions['headers'] = {}): Promise<Reply> =>
    server.request(JSON_LOGS, body, { tenant: 'small', token: 'small-token', headers })

  it('are asked for after everything that the headers say', async () => {
    assertRefused(await send(Buffer.from('{}'), { 'content-type': 'text/plain' }), 415, 'unsupported_content_type')
    assertRefused(await send(Buffer.from('{}'), { 'content-encoding': 'br' }), 415, 'unsupported_content_encoding')
    assertRefused(await send(Buffer.alloc(BODY_BYTES_MAX + 1)), 413, 'payload_too_large')
  })
  it('are asked for before anything that the body says', async () => {
    const retryable = { retryable: true }
    assertRefused(await send(Buffer.from('{')), 429, 'concurrency_exceeded', retryable)
    assertRefused(
      await send(Buffer.from('no gzip'), { 'content-encoding': 'gzip' }),
      429,
      'concurrency_exceeded',
      retryable,
    )
  })
  it('of one tenant are not those of another', async () => {
    await accept(server, JSON_LOGS, jsonLogs(logRecordsOf(1), { tenant: 'acme' }), ACME)
  })
  it('are not needed for queries', async () => {
    await find(server, { dataset: 'orders' }, { tenant: 'small', token: 'small-token' })
  })
})
