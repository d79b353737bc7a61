import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { CAPABILITIES, TestGateway, assertRefused } from './support.ts'

let gateway: TestGateway

const json = (body: object) => ({ body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })
const STORED = { url: 'http://a', latency: 1.5, activation_id: 'a-1' }

describe('the management routes', () => {
  before(async () => {
    gateway = await TestGateway.start()
  })
  after(() => gateway.stop())

  it('say that the service is healthy, or what is wrong', async () => {
    const health = await gateway.ask('GET', '/health')
    assert.deepEqual([health.status, health.text], [200, '"Healthy"\n'])
    assert.match(health.headers['x-obj-request-id']!, /^objreq-/)
    assert.equal((await gateway.ask('HEAD', '/health')).headers['content-length'], '10')
    gateway.problems = ['the disk is full']
    const ill = await gateway.ask('GET', '/health')
    assert.deepEqual([ill.status, ill.text], [503, '"Unhealthy: the disk is full"\n'])
    gateway.problems = []
  })

  it('say what the service is degraded by beside its health, and whether it is ready', async () => {
    const ready = async () => {
      const { status, text } = await gateway.ask('GET', '/readyz')
      return [status, JSON.parse(text)]
    }
    assert.deepEqual(await ready(), [200, { status: 'ok', reasons: [] }])
    gateway.degradations = [{ kind: 'damage', reason: 'Schäden\nhere', action: 'act', sinceMs: 0 }]
    const health = await gateway.ask('GET', '/health')
    assert.deepEqual([health.status, health.text], [200, '"Healthy"\n'])
    assert.equal(health.headers['x-trilog-degraded'], 'Sch?den?here', 'no other bytes are safe in a header')
    const damage = { kind: 'damage', reason: 'Schäden\nhere', action: 'act', since: '1970-01-01T00:00:00.000Z' }
    assert.deepEqual(await ready(), [200, { status: 'degraded', reasons: [damage] }])
    gateway.problems = ['the disk failed']
    const problem = { kind: 'problem', reason: 'the disk failed' }
    assert.deepEqual(await ready(), [503, { status: 'unavailable', reasons: [problem, damage] }])
    gateway.problems = []
    gateway.degradations = []
  })

  it('tell the capabilities of the platform', async () => {
    const { status, text, headers } = await gateway.ask('GET', '/v1/platform/capabilities')
    assert.deepEqual([status, headers['content-type'], JSON.parse(text)], [200, 'application/json', CAPABILITIES])
  })

  it('keep what is posted for an activation id', async () => {
    const none = await gateway.ask('GET', '/v1/endpoint/a-1/recent')
    assert.deepEqual([none.status, none.text], [404, '"No data found"\n'])
    const post = await gateway.ask('POST', '/v1/endpoint/a-1', json(STORED))
    assert.deepEqual([post.status, post.text], [200, '"Data stored"\n'])
    assert.deepEqual(JSON.parse((await gateway.ask('GET', '/v1/endpoint/a-1/recent')).text), STORED)
    assert.deepEqual(JSON.parse((await gateway.ask('GET', '/v1/endpoint/a-1/recent_100')).text), [STORED])
    const bad = await gateway.ask('POST', '/v1/endpoint/b', json(STORED))
    assert.deepEqual([bad.status, bad.text], [400, '"Invalid activation id"\n'])
    assert.equal((await gateway.ask('POST', '/v1/endpoint/a-1', json({ url: 1 }))).status, 400)
  })

  it('answer in lines', async () => {
    const rebound = { headers: { host: 'evil.example' } }
    for (const answer of [
      await gateway.ask('GET', '/v1/platform/capabilities'),
      await gateway.ask('GET', '/v1/platform/capabilities', rebound),
      await gateway.ask('PUT', '/health'),
      await gateway.ask('POST', '/v1/endpoint/a-1', json({ url: 1 })),
    ]) {
      assert.match(answer.text, /[^\n]\n$/)
    }
  })

  it('ask for no credentials, and go before buckets of their names', async () => {
    const headers = { 'x-obj-permissions': '', authorization: 'none of ours' }
    assert.equal((await gateway.ask('GET', '/health', { headers })).status, 200)
    const put = await gateway.ask('PUT', '/health')
    assert.deepEqual([put.status, put.headers['allow']], [405, 'GET, HEAD'])
    assertRefused(await gateway.ask('GET', '/health/key'), 404, 'NoSuchBucket')
    assertRefused(await gateway.ask('GET', '/v1/other'), 404, 'NoSuchBucket')
  })
})
