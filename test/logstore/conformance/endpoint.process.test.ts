/** Specification and contract of the custom endpoint helper, which is outside of tenant admission. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Reply } from '../../support/logstore.ts'
import { QUERY, assertRefused, startForTests } from './batches.ts'

const server = await startForTests({ env: { TRILOG_ALLOWED_HOSTS: 'logs.example' } })

async function statusOf(method: string, path: string, lines: string): Promise<number> {
  const connection = await server.connect()
  connection.write(`${method} ${path} HTTP/1.1\r\n${lines}\r\ncontent-length: 0\r\n\r\n`)
  const { status } = await connection.reply()
  connection.close()
  return status
}

describe('a web page', () => {
  it('whose name was made to point here (DNS rebinding) gets nothing without credentials but the health', async () => {
    const rebound = 'host: evil.example:4318'
    for (const path of ['/v1/endpoint/a', '/v1/endpoint/a/recent_100', '/metrics', '/openapi.json']) {
      assert.equal(await statusOf('GET', path, rebound), 403, path)
      assert.notEqual(await statusOf('GET', path, 'host: logs.example'), 403, path)
    }
    assert.equal(await statusOf('POST', '/v1/endpoint/a', rebound), 403)
    assert.equal(await statusOf('GET', '/health', rebound), 200)
    assert.equal(await statusOf('POST', '/v1/query', rebound), 401)
  })

  it('of another site can neither store nor read', async () => {
    const own = 'host: 127.0.0.1'
    assert.equal(await statusOf('POST', '/v1/endpoint/a', `${own}\r\norigin: http://evil.example`), 403)
    assert.equal(await statusOf('GET', '/v1/endpoint/a', `${own}\r\nsec-fetch-site: cross-site`), 403)
    assert.equal(await statusOf('GET', '/v1/endpoint/a', `${own}\r\norigin: http://evil.example`), 404)
  })
})

const ANONYMOUS = { headers: { 'x-logstore-tenant': null, authorization: null } }
const path = (activationId: string): string => `/v1/endpoint/${activationId}`
const objectOf = (activation_id: string, latency = 1.5): object => ({
  url: 'https://example.org/a?b=c',
  latency,
  activation_id,
})
const store = (id: string, body: object | string = objectOf(id)): Promise<Reply> =>
  server.request(path(id), body, ANONYMOUS)
const read = (path: string): Promise<Reply> => server.request(path, null, ANONYMOUS)

describe('POST /v1/endpoint/{activation_id}', () => {
  it('stores an object without credentials and answers "Data stored"', async () => {
    assert.equal((await store('post')).ok(), 'Data stored')
  })
  it('takes ids of letters, digits, dot, underscore and hyphen, up to 128', async () => {
    for (const id of ['a', 'A.b_c-9', 'x'.repeat(128)]) assert.equal((await store(id)).status, 200, id)
  })
  it('refuses other ids, and one that is not the id of the body, with "Invalid activation id"', async () => {
    for (const id of ['x'.repeat(129), 'a%20b', 'a%2Fb', 'gr%C3%B6%C3%9Fe', 'a,b', '%ff']) {
      const reply = await store(id)
      assert.deepEqual([reply.status, reply.json()], [400, 'Invalid activation id'], id)
    }
    const reply = await store('one', objectOf('two'))
    assert.deepEqual([reply.status, reply.json()], [400, 'Invalid activation id'])
    assert.equal((await read(path('one'))).status, 404)
  })
  it('refuses bodies that are not such an object', async () => {
    const good = objectOf('bad')
    const bodies = [
      '',
      '{',
      '[]',
      '"x"',
      {},
      { ...good, latency: '1' },
      { ...good, url: 1 },
      { ...good, more: 1 },
      { ...good, url: undefined },
    ]
    for (const body of bodies) {
      const reply = await store('bad', body)
      assert.deepEqual([reply.status, reply.rejection().retryable], [400, false], JSON.stringify(body))
    }
    for (const [headers, kind] of [
      [{ 'content-type': 'text/plain' }, 'unsupported_content_type'],
      [{ 'content-encoding': 'gzip' }, 'unsupported_content_encoding'],
    ] as const) {
      assertRefused(await server.request(path('bad'), good, { headers }), 415, kind)
    }
    assert.equal((await read(path('bad'))).status, 404)
  })
})

describe('GET /v1/endpoint/{activation_id}', () => {
  it('gives the object stored last', async () => {
    await store('last', objectOf('last', 1))
    await store('last', objectOf('last', 2))
    assert.deepEqual((await read(path('last'))).ok(), objectOf('last', 2))
  })
  it('answers 404 "No data found" where nothing was stored, /recent_100 too', async () => {
    for (const each of [path('nothing'), `${path('nothing')}/recent_100`]) {
      const reply = await read(each)
      assert.deepEqual([reply.status, reply.json()], [404, 'No data found'])
    }
  })
  it('answers 400 "Invalid activation id" for other ids', async () => {
    for (const each of [path('a%20b'), `${path('a%20b')}/recent_100`]) {
      const reply = await read(each)
      assert.deepEqual([reply.status, reply.json()], [400, 'Invalid activation id'])
    }
  })
})

describe('GET /v1/endpoint/{activation_id}/recent_100', () => {
  it('gives the last 100 objects as an array, newest first, also after a restart', async () => {
    for (let latency = 1; latency <= 105; latency++) await store('many', objectOf('many', latency))
    await store('other', objectOf('other', 7))
    const expected = Array.from({ length: 100 }, (_, i) => objectOf('many', 105 - i))
    assert.deepEqual((await read(`${path('many')}/recent_100`)).ok(), expected)
    await server.restart()
    assert.deepEqual((await read(`${path('many')}/recent_100`)).ok(), expected)
    assert.deepEqual((await read(path('other'))).ok(), objectOf('other', 7))
  })
})

describe('the endpoint helper', () => {
  it('has no other methods', async () => {
    const put = await server.request(path('x'), '{}', { method: 'PUT' })
    assertRefused(put, 405, 'method_not_allowed')
    assert.equal(put.headers.get('allow'), 'GET, HEAD, POST')
    const post = await server.request(`${path('x')}/recent_100`, '{}')
    assertRefused(post, 405, 'method_not_allowed')
    assert.equal(post.headers.get('allow'), 'GET, HEAD')
  })
  it('is kept apart from the records of tenants', async () => {
    await store('apart')
    const reply = await server.request(QUERY, { dataset: 'apart' })
    assert.partialDeepStrictEqual(reply.ok(), { matched_records: 0 })
  })
})
