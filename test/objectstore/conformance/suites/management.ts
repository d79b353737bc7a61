/** Specification "Management routes", contract "Endpoint helper". */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { store } from './shared-store.ts'

const JSON_HEADERS = { 'content-type': 'application/json' }

const post = (id: string, body: object | string) =>
  store.request('POST', `/v1/endpoint/${id}`, {
    headers: JSON_HEADERS,
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

describe('management routes', () => {
  it('GET /health: 200 with the JSON string Healthy', async () => {
    const reply = await store.request('GET', '/health')
    assert.deepEqual([reply.status, reply.json()], [200, 'Healthy'])
    assert.match(reply.header('x-obj-request-id')!, /^objreq-/)
  })
  it('GET /v1/platform/capabilities: 200 with runtime, dataDirectory, freeSpace, device, atomicRename, flushBehavior, directIo', async () => {
    const reply = await store.request('GET', '/v1/platform/capabilities')
    const shown = reply.json() as Record<string, unknown> // the next lines check it
    assert.equal(reply.status, 200)
    assert.deepEqual(
      Object.entries(shown).map(([name, value]) => [name, typeof value]),
      [
        ['runtime', 'string'],
        ['dataDirectory', 'string'],
        ['freeSpace', 'number'],
        ['device', 'string'],
        ['atomicRename', 'boolean'],
        ['flushBehavior', 'string'],
        ['directIo', 'boolean'],
      ],
    )
    assert.equal(shown['dataDirectory'], store.dataDirectory)
  })
  it('POST /v1/endpoint/{activation_id}: 200 with the JSON string Data stored; recent is the last one, recent_100 newest first', async () => {
    const records = [1, 2, 3].map((latency) => ({ url: 'https://a.example', latency, activation_id: 'act.1-A_z' }))
    for (const record of records) {
      const reply = await post('act.1-A_z', record)
      assert.deepEqual([reply.status, reply.json()], [200, 'Data stored'])
    }
    const recent = await store.request('GET', '/v1/endpoint/act.1-A_z/recent')
    assert.deepEqual([recent.status, recent.json()], [200, records[2]])
    const recent100 = await store.request('GET', '/v1/endpoint/act.1-A_z/recent_100')
    assert.deepEqual([recent100.status, recent100.json()], [200, records.toReversed()])
  })
  it('recent_100 is an array of at most 100', async () => {
    const record = (latency: number) => ({ url: 'u', latency, activation_id: 'many' })
    await Promise.all(Array.from({ length: 104 }, (_, i) => post('many', record(i))))
    const recent = (await store.request('GET', '/v1/endpoint/many/recent_100')).json()
    assert(Array.isArray(recent) && recent.length === 100)
  })
  it('404 "No data found" for an id that has none', async () => {
    for (const path of ['recent', 'recent_100']) {
      const reply = await store.request('GET', `/v1/endpoint/nothing/${path}`)
      assert.deepEqual([reply.status, reply.json()], [404, 'No data found'])
    }
  })
  it('400 "Invalid activation id" for what is none, or another one than in the body', async () => {
    const record = (activation_id: string) => ({ url: 'u', latency: 1, activation_id })
    for (const id of ['a%2Fb', 'a%20b', '%ff', 'x'.repeat(129), '..%2f..', 'caf%C3%A9']) {
      const replies = [await post(id, record(id)), await store.request('GET', `/v1/endpoint/${id}/recent`)]
      replies.push(await store.request('GET', `/v1/endpoint/${id}/recent_100`))
      for (const reply of replies) assert.deepEqual([reply.status, reply.json()], [400, 'Invalid activation id'], id)
    }
    const other = await post('one', record('another'))
    assert.deepEqual([other.status, other.json()], [400, 'Invalid activation id'])
    assert.equal((await store.request('GET', '/v1/endpoint/one/recent')).status, 404)
  })
  it('a body that is no such record is 400, one that is not JSON by its type 415', async () => {
    for (const body of [
      '',
      '{',
      'null',
      '[]',
      '{"url":1,"latency":1,"activation_id":"bad"}',
      '{"activation_id":"bad"}',
    ]) {
      const reply = await post('bad', body)
      assert.deepEqual([reply.status, typeof reply.json()], [400, 'string'], body)
    }
    const body = JSON.stringify({ url: 'u', latency: 1, activation_id: 'bad' })
    const untyped = await store.request('POST', '/v1/endpoint/bad', { body, headers: { 'content-type': 'text/plain' } })
    assert.equal(untyped.status, 415)
  })
  it('go before buckets of their names, for every method: a wrong one is 405 with Allow', async () => {
    for (const path of ['/health', '/v1/platform/capabilities', '/v1/endpoint/a/recent']) {
      const reply = await store.request('PUT', path)
      assert.deepEqual([reply.status, reply.header('allow')], [405, 'GET, HEAD'], path)
    }
    assert.equal((await store.request('GET', '/v1/endpoint/a')).header('allow'), 'POST')
  })
  it('take no credentials: what comes with them is ignored', async () => {
    const headers = { authorization: 'AWS4-HMAC-SHA256 nonsense', 'x-obj-permissions': 'nonsense' }
    assert.equal((await store.request('GET', '/health', { headers })).status, 200)
  })
})

describe('GET /v1/metrics (ours)', () => {
  it('is for Prometheus, under a name that no bucket can have', async () => {
    const reply = await store.request('GET', '/v1/metrics')
    assert.equal(reply.status, 200)
    assert.match(reply.header('content-type')!, /^text\/plain/)
    ;(await store.request('PUT', '/v1')).refused('InvalidBucketName')
  })
})
