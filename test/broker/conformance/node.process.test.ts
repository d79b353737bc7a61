/** The node itself: specification "Endpoints" (/health, /metrics) and "Errors", and the contract's lines for all services. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { HealthReply } from '../../../src/broker/wire/node-answers.ts'
import { BrokerServer, assertRefused } from '../../support/broker.ts'

let broker: BrokerServer
before(async () => {
  broker = await BrokerServer.start({ flags: ['--node-id', 'eu-1'] })
})
after(() => broker.stop())

const requestId = async (headers: Readonly<Record<string, string>>): Promise<string | null> =>
  (await broker.request('GET', '/health', null, headers)).headers.get('x-request-id')

describe('the ready line', () => {
  it('is the only thing on stdout, and says service, listener and pid', () => {
    const { http, ...rest } = broker.readyLine
    assert.match(http, /^127\.0\.0\.1:[1-9][0-9]*$/)
    assert.deepEqual(rest, { service: 'broker', grpc: null, pid: broker.pid })
    assert.equal(broker.stdout.trim().split('\n').length, 1)
  })
})

describe('GET /health', () => {
  it('answers status, service, node_id, http_bind, storage.status, security.auth_mode, release, audit and metrics', async () => {
    const { version, release, clock, ...health } = await broker.get('/health', HealthReply)
    assert.ok(Math.abs(clock.offset_ms) <= 1000 && clock.message === undefined)
    assert.deepEqual(health, {
      status: 'ok',
      service: 'mq',
      node_id: 'eu-1',
      http_bind: broker.readyLine.http,
      storage: { status: 'ok' },
      security: { auth_mode: 'insecure-local' },
      audit: { status: 'ok' },
      metrics: { exposure: 'disabled' },
    })
    assert.match(version, /^\d+\.\d+\.\d+/)
    assert.equal(release.version, version)
  })
  it('is public and never refused, whatever comes with it', async () => {
    assert.equal((await broker.request('GET', '/health?x=1', null, { authorization: 'Bearer nonsense' })).status, 200)
  })
})

describe('a body that is too large', () => {
  it('is met with advice that helps: the setting where records are published, and only there', async () => {
    const stream = await broker.newStream()
    const published = await stream.post('/records', { message_id: 'm', payload: 'x'.repeat(16 << 20) })
    assertRefused(published, 413, 'payload_too_large')
    assert.match(published.refusal().action, /--max-body-bytes/)
    const rewound = await stream.group().rewind('main', { offset: 0, reason: 'x'.repeat(256 << 10) })
    assertRefused(rewound, 413, 'payload_too_large')
    assert.equal(rewound.refusal().action, 'Send less in one request.')
  })
})

describe('a request id', () => {
  it('of up to 128 visible characters is kept in the answer, of refusals too', async () => {
    for (const id of ['a', '!~{}"', 'x'.repeat(128)]) {
      const headers = { 'x-request-id': id }
      assert.equal(await requestId(headers), id)
      const refused = await broker.request('GET', '/v1/streams/nothing', null, headers)
      assert.equal(refused.headers.get('x-request-id'), id)
    }
  })
  it('that is missing, longer or not visible is replaced by one of our own', async () => {
    const given = [await requestId({})]
    for (const id of ['x'.repeat(129), 'a b']) given.push(await requestId({ 'x-request-id': id }))
    for (const id of given) assert.match(id ?? '', /^req-[0-9a-f]{24}$/)
    assert.equal(new Set(given).size, 3)
  })
})

describe('what is outside of the table of routes', () => {
  it('is 404 not_found, in the shape of every error', async () => {
    const paths = [
      '/',
      '/v2/streams',
      '/v1',
      '/v1/streams/',
      '/v1/streams/a/b',
      '/streams/a',
      '/v1/streams/a/records/x',
      '/v1//streams',
    ]
    for (const path of paths) assertRefused(await broker.request('GET', path), 404, 'not_found')
    for (const path of ['/v1/streams/a/consumer-groups/', '/v1/streams/a/consumer-groups/g/cursors/c/d/e']) {
      for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
        assertRefused(await broker.request(method, path), 404, 'not_found')
      }
    }
  })
  it('by its method is 405 method_not_allowed with Allow', async () => {
    for (const [method, path, allow] of [
      ['POST', '/v1/streams/a', 'DELETE, GET, HEAD, PATCH, PUT'],
      ['POST', '/v1/streams', 'GET, HEAD'],
      ['PATCH', '/v1/streams/a/records', 'GET, HEAD, POST'],
      ['GET', '/v1/streams/a/consumer-groups/g/claims', 'POST'],
      ['GET', '/v1/streams/a/subscriptions/s/deliveries/d/ack', 'POST'],
      ['GET', '/v1/streams/a/consumer-groups/g/cursors/c', 'DELETE, PUT'],
      ['POST', '/health', 'GET, HEAD'],
      ['PUT', '/v1/audit/events', 'GET, HEAD'],
      ['OPTIONS', '/metrics', 'GET, HEAD'],
    ] as const) {
      const reply = await broker.request(method, path)
      assertRefused(reply, 405, 'method_not_allowed')
      assert.equal(reply.headers.get('allow'), allow)
    }
  })
})

describe('an error', () => {
  it('never echoes a payload or a token', async () => {
    const stream = await broker.newStream()
    const secret = { authorization: 'Bearer s3cret' }
    const bodies = [
      '{"message_id":"m","payload":s3cret}',
      { message_id: 's3cret\n', payload: 's3cret' },
      { message_id: 'm', payload_hex: 's3cret' },
      { message_id: 'm', payload: 'p', headers: { s3cret: 1 } },
      { message_id: 'm', payload: 'p', durability_mode: 's3cret' },
    ]
    for (const body of bodies) {
      const reply = await broker.request('POST', `${stream.path}/records`, body, secret)
      assert.equal(reply.status, 400)
      assert(!reply.text.includes('s3cret'), reply.text)
    }
    for (const path of ['/v1/streams?limit=s3cret', `${stream.path}/records?start_offset=s3cret`]) {
      const reply = await broker.request('GET', path, null, secret)
      assert.equal(reply.status, 400)
      assert(!reply.text.includes('s3cret'), reply.text)
    }
    assert(!broker.stderr.includes('s3cret'))
  })
  it('of a HEAD request has the status and the headers of the GET, and no body', async () => {
    const reply = await broker.request('HEAD', '/v1/streams/nothing')
    assert.deepEqual([reply.status, reply.bytes.byteLength], [404, 0])
    assert.equal((await broker.request('HEAD', '/health')).status, 200)
  })
})

describe('GET /openapi.json', () => {
  it('documents every route of the specification', async () => {
    const reply = await broker.request('GET', '/openapi.json')
    const { paths } = reply.json() as { paths: Record<string, object> }
    for (const [path, ...methods] of [
      ['/health', 'get'],
      ['/metrics', 'get'],
      ['/v1/streams', 'get'],
      ['/v1/streams/{stream}', 'delete', 'get', 'patch', 'put'],
      ['/v1/streams/{stream}/records', 'get', 'post'],
      ['/v1/streams/{stream}/consumer-groups/{group}/claims', 'post'],
      ['/v1/streams/{stream}/subscriptions/{subscription}/deliveries/{delivery}/dead-letter', 'post'],
      ['/v1/replication/target/apply', 'post'],
      ['/streams/{stream}/quarantine/{incident}/acknowledge', 'post'],
    ] as const) {
      assert.deepEqual(Object.keys(paths[path] ?? {}).sort(), methods, path)
    }
  })
})

describe('GET /metrics', () => {
  it('without --metrics-exposure http is 404 metrics_disabled; with a query 400 invalid_query', async () => {
    assertRefused(await broker.request('GET', '/metrics'), 404, 'metrics_disabled')
    assertRefused(await broker.request('GET', '/metrics?x=1'), 400, 'invalid_query')
  })
  it('with it is text/plain, each metric under its OpenTelemetry name and its Prometheus-safe one', async () => {
    await broker.stop()
    await broker.startAgain({ MQ_METRICS_EXPOSURE: 'http' })
    assert.equal((await broker.get('/health', HealthReply)).metrics.exposure, 'http')
    const stream = await broker.newStream({ failure_policy: { max_attempts: 9 } })
    await stream.fill(6, () => '0123456789')
    const group = stream.group()
    const [a, b, c, d, e] = await group.claim({ max_messages: 5 })
    await a!.ack()
    await b!.nack(true)
    await c!.renew(1000)
    await c!.retry(3_600_000)
    const dead = await broker.newStream()
    await d!.deadLetter(dead.name)
    assertRefused(await b!.nack(true), 409, 'lease_not_active')
    assert(e)
    assert.deepEqual(await stream.group('none left').claim({ start_offset: 6 }), [])
    await stream.replay()
    await broker.request('GET', '/v1/streams/nothing')
    assertRefused(await broker.request('GET', '/metrics?x=1'), 400, 'invalid_query')
    const reply = await broker.request('GET', '/metrics')
    assert.equal(reply.status, 200)
    assert.match(reply.headers.get('content-type')!, /^text\/plain/)
    const lines = reply.text.split('\n')
    for (const [name, safe, value] of [
      ['mq.publish.records', 'mq_publish_records_total', 6],
      ['mq.publish.bytes', 'mq_publish_bytes_total', 60],
      ['mq.replay.pages', 'mq_replay_pages_total', 1],
      ['mq.replay.records', 'mq_replay_records_total', 6],
      ['mq.queue.claims', 'mq_queue_claims_total', 2],
      ['mq.queue.deliveries', 'mq_queue_deliveries_total', 5],
      ['mq.queue.acks', 'mq_queue_acks_total', 1],
      ['mq.queue.nacks', 'mq_queue_nacks_total', 1],
      ['mq.queue.renewals', 'mq_queue_renewals_total', 1],
      ['mq.queue.retries', 'mq_queue_retries_total', 1],
      ['mq.queue.dead_letters', 'mq_queue_dead_letters_total', 1],
      ['mq.queue.active_leases', 'mq_queue_active_leases', 1],
      ['mq.queue.delayed_retries', 'mq_queue_delayed_retries', 1],
      ['mq.groups', 'mq_groups', 1],
      ['mq.log.read_only', 'mq_log_read_only', 0],
    ] as const) {
      assert(lines.includes(`# OTEL ${safe} ${name}`), name)
      assert(
        lines.includes(`${safe} ${value}`),
        lines.find((line) => line.startsWith(safe)),
      )
    }
    assert(lines.includes('mq_refusals_total{code="stream_not_found"} 1'))
  })
})
