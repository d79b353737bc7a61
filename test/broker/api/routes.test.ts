/** Every route of the specification's "Endpoints": the operation that it calls, and its answer. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { AuditRequest, ReplayRequest } from '../../../src/broker/operations.ts'
import { brokerRoutes } from '../../../src/broker/api/routes.ts'
import type { BrokerHttpParts } from '../../../src/broker/api/parts.ts'
import { REPLIES, TestBroker, assertRefused, json } from './support.ts'
import type { Asked, OperationName } from './support.ts'

let broker: TestBroker

const GROUP = '/v1/streams/orders/consumer-groups/workers'
const DELIVERY = '/v1/streams/orders/subscriptions/sub-1/deliveries/dlv-1'
const group = { stream: 'orders', group: 'workers' }
const delivery = { stream: 'orders', subscriptionId: 'sub-1', deliveryId: 'dlv-1' }
const replay: ReplayRequest = {
  start: { by: 'offset', offset: 0 },
  maxRecords: 100,
  maxPayloadBytes: null,
  consumer: null,
  legacy: false,
}
const audit: AuditRequest = { startOffset: 0, maxRecords: 100, format: 'json' }
const limits = { maxBytes: null, maxAgeMs: null }
const publishBody = { message_id: 'm-1', payload: 'hello' }
const published = {
  messageId: 'm-1',
  payload: { text: 'hello', encoding: 'utf8' },
  key: null,
  eventTimeMs: null,
  headers: {},
  durability: null,
}
const controlBody = { stream: 'orders', source_site: 'a', target_site: 'b', tenant: 'local', reason: 'maintenance' }
const applyBody = {
  source_site: 'a',
  target_site: 'b',
  policy: 'dr',
  stream: 'orders',
  records: [{ origin_offset: 0, message_id: 'm', payload_hex: '00', event_time_ms: 1, ingest_time_ms: 2 }],
}

type Row = readonly [
  method: string,
  path: string,
  body: object | undefined,
  operation: OperationName,
  args: readonly unknown[],
  status: number,
  type?: string,
]
const rows: readonly Row[] = [
  ['PUT', '/v1/streams/orders', {}, 'createStream', ['orders', {}], 201],
  ['GET', '/v1/streams', undefined, 'listStreams', [], 200],
  ['GET', '/v1/streams/orders', undefined, 'describeStream', ['orders'], 200],
  ['POST', '/v1/streams/orders/records', publishBody, 'publish', ['orders', published], 201],
  [
    'POST',
    '/v1/streams/orders/records/batch',
    { records: [publishBody, publishBody] },
    'publishBatch',
    ['orders', [published, published]],
    200,
  ],
  ['PATCH', '/v1/streams/orders', { retention: null }, 'updateStream', ['orders', { retention: null }, false], 200],
  ['DELETE', '/v1/streams/orders?force=true', undefined, 'deleteStream', ['orders', true], 200],
  ['POST', '/v1/streams/orders/purge', { offset: 2 }, 'purgeStream', ['orders', { offset: 2 }, false], 200],
  ['POST', '/v1/streams/dead/dead-letters/redrive', undefined, 'redrive', ['dead', {}], 200],
  ['GET', '/v1/streams/orders/consumer-groups', undefined, 'listGroups', ['orders'], 200],
  ['DELETE', GROUP, undefined, 'deleteGroup', [group, false], 200],
  ['POST', `${GROUP}/seek`, { offset: 0, reason: 'bug' }, 'seekGroup', [group, { offset: 0, reason: 'bug' }], 200],
  ['DELETE', `${GROUP}/cursors/main?force=false`, undefined, 'deleteCursor', [group, 'main', false], 200],
  ['GET', '/v1/streams/orders/records', undefined, 'replay', ['orders', replay], 200],
  ['GET', '/streams/orders/records', undefined, 'replay', ['orders', { ...replay, legacy: true }], 200],
  ['GET', GROUP, undefined, 'describeGroup', [group], 200],
  ['GET', `${GROUP}/leases`, undefined, 'leases', [group, false], 200],
  ['GET', `${GROUP}/delayed`, undefined, 'delayed', [group], 200],
  ['GET', `${GROUP}/replay-consumers`, undefined, 'replayConsumers', [group], 200],
  ['GET', `${GROUP}/cursors`, undefined, 'cursors', [group], 200],
  ['PUT', `${GROUP}/cursors/main`, { offset: 3 }, 'commitCursor', [group, 'main', 3], 200],
  [
    'POST',
    `${GROUP}/cursors/main/rewind`,
    { offset: 1, reason: 'again' },
    'rewindCursor',
    [group, 'main', { offset: 1, reason: 'again' }],
    200,
  ],
  ['POST', `${DELIVERY}/ack`, {}, 'ack', [delivery], 200],
  [
    'POST',
    '/v1/streams/orders/subscriptions/sub-1/deliveries/batch-ack',
    { delivery_ids: ['dlv-1', 'dlv-2'] },
    'batchAck',
    ['orders', 'sub-1', { delivery_ids: ['dlv-1', 'dlv-2'] }],
    200,
  ],
  [
    'POST',
    `${DELIVERY}/nack`,
    { reason: 'no', requeue: true },
    'nack',
    [delivery, { reason: 'no', requeue: true }],
    200,
  ],
  ['POST', `${DELIVERY}/renew`, { extend_by_millis: 1 }, 'renew', [delivery, { extend_by_millis: 1 }], 200],
  [
    'POST',
    `${DELIVERY}/retry`,
    { reason: 'no', delay_millis: 0 },
    'retry',
    [delivery, { reason: 'no', delay_millis: 0 }],
    200,
  ],
  [
    'POST',
    `${DELIVERY}/dead-letter`,
    { reason: 'no', dead_letter_stream: 'dead' },
    'deadLetter',
    [delivery, { reason: 'no', dead_letter_stream: 'dead' }],
    200,
  ],
  ['GET', '/v1/replication/status', undefined, 'replicationStatus', [], 200],
  ['POST', '/v1/replication/workers/poll', undefined, 'pollReplication', [], 200],
  ['POST', '/v1/replication/workers/pause', controlBody, 'pauseReplication', [controlBody], 200],
  ['POST', '/v1/replication/workers/resume', controlBody, 'resumeReplication', [controlBody], 200],
  ['POST', '/v1/replication/target/apply', applyBody, 'applyReplica', [applyBody], 200],
  ['GET', '/v1/audit/events', undefined, 'audit', [audit], 200],
  ['GET', '/v1/audit/export', undefined, 'audit', [{ ...audit, format: 'ndjson' }], 200, 'application/x-ndjson'],
  ['GET', '/streams/orders/retention/dry-run', undefined, 'retentionPlan', ['orders', limits], 200],
  ['GET', '/streams/orders/tiering/readiness', undefined, 'tieringReadiness', ['orders', limits], 200],
  [
    'GET',
    '/streams/orders/tiering/archive-manifest',
    undefined,
    'archiveManifest',
    ['orders', limits],
    200,
    'application/vnd.broker.storage-tiering.v1+json',
  ],
  ['GET', '/streams/orders/quarantine', undefined, 'quarantine', ['orders'], 200],
  [
    'POST',
    '/streams/orders/quarantine/inc-1/acknowledge',
    { acknowledged_by: 'ops', note: 'seen' },
    'acknowledgeQuarantine',
    ['orders', 'inc-1', { acknowledged_by: 'ops', note: 'seen' }],
    200,
  ],
]

const enough = { maxBodyBytes: 1, metrics: null } as BrokerHttpParts // for the route table alone: no endpoint is called
const asked = (body: object | undefined): Asked => (body === undefined ? {} : { body })

describe('the broker’s routes', () => {
  before(async () => {
    broker = await TestBroker.start()
  })
  after(() => broker.stop())

  describe('a route', () => {
    for (const [method, path, body, operation, args, status, type = 'application/json'] of rows) {
      it(`${method} ${path} asks for ${operation} and answers ${status} with all that it said`, async () => {
        const answer = await broker.ask(method, path, asked(body))
        assert.deepEqual(broker.taken(operation), args)
        assert.deepEqual([answer.status, answer.headers['content-type']], [status, type])
        const reply = REPLIES[operation]
        if (reply instanceof Uint8Array) assert.equal(answer.text, Buffer.from(reply).toString())
        else assert.deepEqual(json(answer), reply)
      })
    }

    it(`POST ${GROUP}/claims asks for claim, and answers 200 with the bytes it was given`, async () => {
      const answer = await broker.ask('POST', `${GROUP}/claims`, { body: { max_messages: 2, wait_millis: 0 } })
      const [path, body] = broker.taken('claim')
      assert.deepEqual([path, body], [group, { max_messages: 2, wait_millis: 0 }])
      assert.deepEqual([answer.status, answer.text], [200, '{"claimed":true}'])
    })

    it('is in the table once, with a permission', () => {
      const table = brokerRoutes(enough).map(([method, path, permission]) => `${method} ${path} ${permission}`)
      assert.deepEqual(new Set(table).size, table.length)
      assert.equal(table.length, rows.length + ['health', 'claims', 'metrics'].length)
      assert.deepEqual(
        table.filter((line) => line.endsWith(' public')),
        ['GET /health public'],
      )
    })

    it('that reads answers HEAD without a body', async () => {
      const answer = await broker.ask('HEAD', '/v1/streams')
      assert.deepEqual([answer.status, answer.text], [200, ''])
      broker.taken('listStreams')
    })
  })

  describe('a claim that waits', () => {
    it('is given up when its client leaves', async () => {
      const client = await broker.connect()
      const abandoned = new Promise<void>((resolve, reject) => {
        broker.instead = ({ args }) => {
          const abandonedSignal = args[3] as { onAbandoned(listener: () => void): void }
          abandonedSignal.onAbandoned(resolve)
          client.destroy()
          return new Promise(() => {})
        }
        client.send(`POST ${GROUP}/claims HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n`).catch(reject)
      })
      await abandoned
      broker.instead = null
      broker.calls.length = 0
    })
  })

  describe('outside the table', () => {
    for (const path of [
      '/',
      '/v1',
      '/v1/streams/',
      '/v1/streams//records',
      '/health/',
      '/v1/streams/a/b',
      '/v2/streams',
    ])
      it(`${path} is not_found`, async () => {
        assertRefused(await broker.ask('GET', path), 404, 'not_found')
        assertRefused(await broker.ask('POST', path, { body: {} }), 404, 'not_found')
      })

    for (const [method, path, allow] of [
      ['POST', '/v1/streams/orders', 'DELETE, GET, HEAD, PATCH, PUT'],
      ['POST', '/v1/streams', 'GET, HEAD'],
      ['PUT', '/v1/streams/orders/records', 'GET, HEAD, POST'],
      ['GET', `${GROUP}/claims`, 'POST'],
      ['GET', `${GROUP}/cursors/main`, 'DELETE, PUT'],
      ['GET', `${DELIVERY}/ack`, 'POST'],
      ['POST', '/health', 'GET, HEAD'],
      ['GET', '/v1/replication/workers/poll', 'POST'],
      ['PATCH', '/streams/orders/quarantine', 'GET, HEAD'],
    ] as const)
      it(`${method} ${path} is method_not_allowed, and Allow says ${allow}`, async () => {
        const answer = await broker.ask(method, path)
        assertRefused(answer, 405, 'method_not_allowed')
        assert.equal(answer.headers['allow'], allow)
      })
  })

  describe('GET /health', () => {
    it('says who the node is and how it is, to anybody and whatever the query', async () => {
      const closed = await TestBroker.start({
        storage: () => ({ status: 'read-only', message: 'the disk failed' }),
        clock: () => ({ offset_ms: -5000, message: 'it is behind' }),
      })
      const answer = await closed.ask('GET', '/health?x=1')
      assert.equal(answer.status, 200)
      assert.deepEqual(json(answer), {
        status: 'read-only',
        service: 'mq',
        version: '1.2.3',
        node_id: 'node-1',
        http_bind: `127.0.0.1:${closed.port}`,
        storage: { status: 'read-only', message: 'the disk failed' },
        clock: { offset_ms: -5000, message: 'it is behind' },
        security: { auth_mode: 'insecure-local' },
        audit: { status: 'read-only' },
        metrics: { exposure: 'disabled' },
        release: { channel: 'private-beta', version: '1.2.3' },
      })
      await closed.stop()
    })
  })

  describe('POST /v1/replication/workers/…', () => {
    for (const verb of ['pause', 'resume'])
      it(`${verb} needs stream, source_site and target_site`, async () => {
        const path = `/v1/replication/workers/${verb}`
        for (const field of ['stream', 'source_site', 'target_site']) {
          const body = { ...controlBody, [field]: null }
          assertRefused(await broker.ask('POST', path, { body }), 400, 'invalid_request')
        }
        assertRefused(await broker.ask('POST', path), 400, 'invalid_request')
      })
    it('poll takes no body: else invalid_payload', async () => {
      const path = '/v1/replication/workers/poll'
      for (const body of ['{"a":1}', '[]', 'x', 'null']) {
        assertRefused(await broker.ask('POST', path, { body }), 400, 'invalid_payload')
      }
    })
  })

  describe('GET /openapi.json', () => {
    it('describes every route of the table', async () => {
      const answer = await broker.ask('GET', '/openapi.json')
      const { openapi, paths } = json(answer) as { openapi: string; paths: Record<string, Record<string, object>> }
      assert.equal(openapi, '3.1.0')
      for (const [method, path] of brokerRoutes(enough)) {
        const operation = paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
        assert(operation, `${method} ${path}`)
      }
      const replayed = JSON.stringify(paths['/v1/streams/{stream}/records']!['get'])
      assert.match(replayed, /"name":"max_records","in":"query"/)
    })
  })

  describe('a request id', () => {
    it('of the client is kept, else one is made, in refusals as well', async () => {
      const mine = { headers: { 'x-request-id': 'mine' } }
      for (const path of ['/health', '/nothing', '/v1/streams?x']) {
        assert.equal((await broker.ask('GET', path, mine)).headers['x-request-id'], 'mine')
        assert.match((await broker.ask('GET', path)).headers['x-request-id']!, /^req-[0-9a-f]{24}$/)
      }
    })
  })
})
