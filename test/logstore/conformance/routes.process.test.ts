/** Specification "Endpoints": every route, and what is outside of them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eventually } from '../../support/waiting.ts'
import { INGEST_ROUTES, QUERY, accept, assertRefused, find, startForTests } from './batches.ts'

const server = await startForTests()
const SURVEYS = ['/v1/datasets', '/v1/query/histogram', '/v1/query/fields']

describe('the ready line', () => {
  it('is the only thing on stdout, and says service, listeners and pid', () => {
    const { http, ...rest } = server.readyLine
    assert.match(http, /^127\.0\.0\.1:[1-9][0-9]*$/)
    assert.deepEqual(rest, { service: 'logstore', grpc: null, pid: server.pid })
    assert.equal(server.stdout.trim().split('\n').length, 1)
  })
})

describe('GET /health', () => {
  it('answers 200 with the JSON string Healthy, without credentials', async () => {
    const reply = await server.request('/health', null, { headers: { 'x-logstore-tenant': null, authorization: null } })
    assert.equal(reply.ok(), 'Healthy')
    assert.equal(reply.text, '"Healthy"\n')
  })
})

describe('an answer that people read in a terminal', () => {
  it('ends with a newline: metrics, the document, texts and refusals', async () => {
    for (const path of ['/metrics', '/openapi.json', '/nowhere', '/v1/query', '/v1/endpoint/none']) {
      assert.match((await server.request(path, null)).text, /[^\n]\n$/, path)
    }
  })
})

describe('a request that does not say clearly where its body ends', () => {
  it('is a malformed_batch, and its connection is closed', async () => {
    const connection = await server.connect()
    connection.write('POST /v1/otlp/logs HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}')
    const reply = await connection.reply()
    assertRefused(reply, 400, 'malformed_batch')
    assert.match(reply.text, /Content-Length must be one decimal number/)
    await eventually(() => connection.closed)
  })
})

describe('an ingest route', () => {
  for (const route of INGEST_ROUTES.filter(({ contentType }) => contentType === 'application/json')) {
    it(`${route.path} accepts a batch of N records with ${route.signal}, N and N record ids`, async () => {
      const { status, signal, accepted_records, record_ids } = await accept(server, route.path, route.batch(3))
      assert.deepEqual(
        { status, signal, accepted_records },
        { status: 'accepted', signal: route.signal, accepted_records: 3 },
      )
      assert.equal(new Set(record_ids).size, 3)
      for (const id of record_ids) assert.match(id, /^logstore_[0-9a-f]{32}$/)
    })
  }
  for (const route of INGEST_ROUTES.filter(({ contentType }) => contentType !== 'application/json')) {
    it(`${route.path} accepts a batch with 200 and an empty Export…ServiceResponse in protobuf`, async () => {
      const reply = await server.request(route.path, route.batch(3), { headers: { 'content-type': route.contentType } })
      assert.deepEqual(
        [reply.status, reply.headers.get('content-type'), reply.bytes.byteLength],
        [200, route.contentType, 0],
      )
    })
  }

  it('stores what the query then finds, by the source of its route', async () => {
    for (const [i, { path, contentType, batch, signal, source }] of INGEST_ROUTES.entries()) {
      const dataset = `route-${i}`
      const reply = await server.request(path, batch(2, { dataset }), { headers: { 'content-type': contentType } })
      assert.equal(reply.status, 200)
      const { matched_records, results } = await find(server, { dataset })
      assert.equal(matched_records, 2)
      for (const { record } of results) assert.deepEqual([record.source, record.signal], [source, signal])
    }
  })
})

describe('a request id', () => {
  it('of up to 128 visible characters is kept in the answer', async () => {
    for (const id of ['a', '!~{}"', 'x'.repeat(128)]) {
      const reply = await server.request('/health', null, { headers: { 'x-request-id': id } })
      assert.equal(reply.headers.get('x-request-id'), id)
    }
  })
  it('that is missing, longer or not visible is replaced by one of our own', async () => {
    const seen = new Set<string>()
    for (const id of [null, 'x'.repeat(129), 'a b']) {
      const reply = await server.request('/health', null, { headers: { 'x-request-id': id } })
      const given = reply.headers.get('x-request-id')
      assert.match(given ?? '', /^req-[0-9a-f]{24}$/)
      seen.add(given!)
    }
    assert.equal(seen.size, 3)
  })
  it('is in refusals as well', async () => {
    const options = { headers: { 'x-request-id': 'mine' } }
    for (const path of ['/nothing', QUERY, '/v1/logs', '/v1/otlp/logs']) {
      const reply = await server.request(path, '{', options)
      assert(reply.status >= 400)
      assert.equal(reply.headers.get('x-request-id'), 'mine')
    }
  })
})

describe('what is outside the routes', () => {
  for (const path of [
    '/',
    '/v1',
    '/v1/metrics',
    '/v1/profiles',
    '/v1development/profiles',
    '/v1/otlp/metrics',
    '/health/',
    '/V1/logs',
    '/v1//logs',
  ])
    it(`${path} is not_found`, async () => {
      assertRefused(await server.request(path, null), 404, 'not_found')
      assertRefused(await server.request(path, '{}'), 404, 'not_found')
    })

  const methods: [path: string, allow: string, method: string][] = [
    ['/health', 'GET, HEAD', 'POST'],
    ['/metrics', 'GET, HEAD', 'DELETE'],
    ['/openapi.json', 'GET, HEAD', 'PUT'],
    [QUERY, 'POST', 'GET'],
    ['/v1/datasets', 'GET, HEAD', 'POST'],
    ['/v1/query/histogram', 'POST', 'GET'],
    ['/v1/query/fields', 'POST', 'GET'],
    ...INGEST_ROUTES.map(({ path }): [string, string, string] => [path, 'POST', 'GET']),
    ...INGEST_ROUTES.map(({ path }): [string, string, string] => [path, 'POST', 'PUT']),
  ]
  for (const [path, allow, method] of methods)
    it(`${method} ${path} is method_not_allowed, and Allow says ${allow}`, async () => {
      const reply = await server.request(path, null, { method })
      assertRefused(reply, 405, 'method_not_allowed')
      assert.equal(reply.headers.get('allow'), allow)
    })
})

describe('GET /openapi.json', () => {
  it('describes the routes of the specification', async () => {
    const document = (await server.request('/openapi.json', null)).ok() as {
      openapi: string
      paths: Record<string, Record<string, object>>
    }
    assert.match(document.openapi, /^3\.1\./)
    for (const { path } of INGEST_ROUTES) assert(document.paths[path]?.['post'], path)
    assert(document.paths[QUERY]?.['post'])
    assert(document.paths['/health']?.['get'])
    assert(document.paths['/metrics']?.['get'])
  })
  it('says which routes need the tenant header and a bearer token, and which encodings are taken', async () => {
    const { paths, components } = (await server.request('/openapi.json', null)).ok() as {
      paths: Record<
        string,
        Record<string, { security?: object; parameters?: { in: string; name: string; required: boolean }[] }>
      >
      components: object
    }
    assert.partialDeepStrictEqual(components, { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } })
    const tenantRoutes = new Set([...INGEST_ROUTES.map(({ path }) => path), QUERY, ...SURVEYS])
    const isRead = (path: string): boolean => /^\/(?:v1\/(?:export|tail|traces\/)|jaeger\/)/.test(path)
    for (const [path, { get, post }] of Object.entries(paths)) {
      const { security, parameters = [] } = post ?? get!
      const needed = parameters.filter((each) => each.in === 'header' && each.required).map(({ name }) => name)
      if (tenantRoutes.has(path) || isRead(path))
        assert.deepEqual([security, needed], [[{ bearer: [] }], ['x-logstore-tenant']])
      else assert.deepEqual(security, [], path)
    }
    for (const { path } of INGEST_ROUTES) {
      assert.partialDeepStrictEqual(paths[path]!['post']!.parameters, [
        {
          name: 'content-encoding',
          schema: { enum: ['identity', 'gzip', 'deflate', 'zstd', 'snappy', 'x-snappy-framed'] },
        },
      ])
    }
  })
  it('describes a query as it is taken: times as strings and integers, null for what is absent', async () => {
    const { text } = await server.request('/openapi.json', null)
    assert.doesNotMatch(text, /unsafe/)
    const { components } = JSON.parse(text) as { components: { schemas: Record<string, object> } }
    const nullType = { type: 'null' }
    const filter = {
      properties: { start_time_unix_nano: { anyOf: [{ type: 'string' }, { type: 'integer' }, nullType] } },
    }
    const schema = { properties: { filter: { anyOf: [filter, nullType] }, deadline_ms: { anyOf: [{}, nullType] } } }
    assert.partialDeepStrictEqual(components.schemas['QueryRecordsRequest'], schema)
  })
})

describe('GET /metrics', () => {
  it('counts what was acknowledged and refused, in the text format of Prometheus', async () => {
    await server.request(INGEST_ROUTES[0]!.path, '{"resourceLogs":[]}')
    const reply = await server.request('/metrics', null)
    assert.equal(reply.status, 200)
    assert.match(reply.headers.get('content-type') ?? '', /^text\/plain; version=/)
    assert.match(reply.text, /^logstore_ingest_records_total [1-9][0-9]*$/m)
    assert.match(reply.text, /^logstore_ingest_refusals_total\{kind="empty_batch"\} [1-9][0-9]*$/m)
  })
})
