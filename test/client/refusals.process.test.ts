/** The same mistakes by both kinds of clients and by raw HTTP requests: the refusal must not depend on where the broker is. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { inspect } from 'node:util'
import { HttpBrokerError, HttpNativeClient } from '../../src/client/index.ts'
import type { BrokerClient, RecordToPublish } from '../../src/client/index.ts'
import { BrokerServer } from '../support/broker.ts'
import type { RequestBody } from '../support/http.ts'
import { KINDS, openSource } from './sources.ts'
import type { ClientSource } from './sources.ts'
import { closesBrokers, openClient, refusalOf } from './support.ts'

interface Mistake {
  readonly what: string
  readonly call: (client: BrokerClient) => Promise<unknown>
  readonly request: readonly [method: string, path: string, body?: RequestBody]
}

const DELIVERY = { stream: 'orders', subscription_id: 'sub-x', delivery_id: 'dlv-x' }
const DELIVERY_PATH = '/v1/streams/orders/subscriptions/sub-x/deliveries/dlv-x'
const GROUP = '/v1/streams/orders/consumer-groups/g'
const bad = (value: unknown): never => value as never // TypeScript would refuse the value

const publishing = (what: string, record: unknown): Mistake => ({
  what,
  call: (client) => client.publish('orders', bad(record)),
  request: ['POST', '/v1/streams/orders/records', JSON.stringify(record)],
})
const withHeaders = (headers: unknown): object => ({ message_id: 'm', payload: 'p', headers })

const MISTAKES: readonly Mistake[] = [
  {
    what: 'a stream that exists',
    call: (client) => client.createStream('orders'),
    request: ['PUT', '/v1/streams/orders'],
  },
  {
    what: 'a stream with white space around its name',
    call: (client) => client.createStream(' a'),
    request: ['PUT', '/v1/streams/%20a'],
  },
  {
    what: 'a policy without attempts',
    call: (client) => client.createStream('a', { failure_policy: { max_attempts: 0 } }),
    request: ['PUT', '/v1/streams/a', { failure_policy: { max_attempts: 0 } }],
  },
  {
    what: 'a record for a stream that is not there',
    call: (client) => client.publish('nowhere', { message_id: 'm', payload: 'p' }),
    request: ['POST', '/v1/streams/nowhere/records', { message_id: 'm', payload: 'p' }],
  },
  {
    what: 'a record for the audit stream',
    call: (client) => client.publish('system.audit', { message_id: 'm', payload: 'p' }),
    request: ['POST', '/v1/streams/system.audit/records', { message_id: 'm', payload: 'p' }],
  },
  {
    what: 'a record without an id',
    call: (client) => client.publish('orders', bad({ payload: 'p' })),
    request: ['POST', '/v1/streams/orders/records', { payload: 'p' }],
  },
  {
    what: 'a record without a payload',
    call: (client) => client.publish('orders', bad({ message_id: 'm' })),
    request: ['POST', '/v1/streams/orders/records', { message_id: 'm' }],
  },
  {
    what: 'a payload that is no text',
    call: (client) => client.publish('orders', { message_id: 'm', payload: '\ud800' }),
    request: ['POST', '/v1/streams/orders/records', { message_id: 'm', payload: '\ud800' }],
  },
  {
    what: 'an unknown field of a record',
    call: (client) => client.publish('orders', { message_id: 'm', payload: 'p', priority: 1 } as RecordToPublish),
    request: ['POST', '/v1/streams/orders/records', { message_id: 'm', payload: 'p', priority: 1 }],
  },
  publishing('no record', null),
  publishing('a record that is a text', 'm'),
  publishing('a record that is a list', []),
  publishing('headers that are a text', withHeaders('x')),
  publishing('headers that are a number', withHeaders(5)),
  publishing('headers that are a list', withHeaders(['a'])),
  publishing('headers that are an empty list', withHeaders([])),
  publishing('a header that is no text', withHeaders({ a: 1 })),
  publishing('headers that are a text, of a record without an id', { payload: 'p', headers: 'x' }),
  {
    what: 'a stream of nothing',
    call: (client) => client.createStream('a', bad(null)),
    request: ['PUT', '/v1/streams/a', 'null'],
  },
  {
    what: 'two beginnings',
    call: (client) => client.fetch('orders', { start_offset: 0, event_time_ms: 0 }),
    request: ['GET', '/v1/streams/orders/records?start_offset=0&event_time_ms=0'],
  },
  {
    what: 'an unknown option of a replay',
    call: (client) => client.fetch('orders', bad({ since: 1 })),
    request: ['GET', '/v1/streams/orders/records?since=1'],
  },
  {
    what: 'a negative offset',
    call: (client) => client.fetchFromOffset('orders', -1),
    request: ['GET', '/v1/streams/orders/records?start_offset=-1'],
  },
  {
    what: 'a page that is too long',
    call: (client) => client.fetch('orders', { max_records: 1001 }),
    request: ['GET', '/v1/streams/orders/records?max_records=1001'],
  },
  {
    what: 'half a consumer',
    call: (client) => client.fetch('orders', { consumer_id: 'c' }),
    request: ['GET', '/v1/streams/orders/records?consumer_id=c'],
  },
  {
    what: 'a cursor beyond the end',
    call: (client) => client.commitCursor('orders', 'g', 'c', 9),
    request: ['PUT', `${GROUP}/cursors/c`, { offset: 9 }],
  },
  {
    what: 'a cursor at no offset',
    call: (client) => client.commitCursor('orders', 'g', 'c', 0.5),
    request: ['PUT', `${GROUP}/cursors/c`, { offset: 0.5 }],
  },
  {
    what: 'a claim of nothing',
    call: (client) => client.claimQueue('orders', 'g', { max_messages: 0 }),
    request: ['POST', `${GROUP}/claims`, { max_messages: 0 }],
  },
  {
    what: 'a claim with an unknown field',
    call: (client) => client.claimQueue('orders', 'g', bad({ max: 1 })),
    request: ['POST', `${GROUP}/claims`, { max: 1 }],
  },
  {
    what: 'a claim where nothing is',
    call: (client) => client.claimQueue('nowhere', 'g'),
    request: ['POST', '/v1/streams/nowhere/consumer-groups/g/claims'],
  },
  {
    what: 'a group with a slash',
    call: (client) => client.describeConsumerGroup('orders', 'a/b'),
    request: ['GET', '/v1/streams/orders/consumer-groups/a%2Fb'],
  },
  {
    what: 'a delivery that is none, acknowledged',
    call: (client) => client.ack(DELIVERY),
    request: ['POST', `${DELIVERY_PATH}/ack`],
  },
  {
    what: 'a nack without a reason',
    call: (client) => client.nack(DELIVERY, bad({ requeue: true })),
    request: ['POST', `${DELIVERY_PATH}/nack`, { requeue: true }],
  },
  {
    what: 'a nack of nothing',
    call: (client) => client.nack(DELIVERY, bad(null)),
    request: ['POST', `${DELIVERY_PATH}/nack`, 'null'],
  },
  {
    what: 'a lease renewed by nothing',
    call: (client) => client.renewLease(DELIVERY, { extend_by_millis: 0 }),
    request: ['POST', `${DELIVERY_PATH}/renew`, { extend_by_millis: 0 }],
  },
  {
    what: 'a retry in the past',
    call: (client) => client.retryDelivery(DELIVERY, { reason: 'r', delay_millis: -1 }),
    request: ['POST', `${DELIVERY_PATH}/retry`, { reason: 'r', delay_millis: -1 }],
  },
  {
    what: 'a dead letter for a blank reason',
    call: (client) => client.deadLetter(DELIVERY, { dead_letter_stream: 'orders', reason: ' ' }),
    request: ['POST', `${DELIVERY_PATH}/dead-letter`, { dead_letter_stream: 'orders', reason: ' ' }],
  },
]

describe('a mistake is refused in the process, and by the client over HTTP, as over HTTP', () => {
  closesBrokers()
  let clients: readonly BrokerClient[]
  let remote: HttpNativeClient
  let server: BrokerServer
  before(async () => {
    server = await BrokerServer.start()
    remote = await HttpNativeClient.connect(server.url, { producerId: 'tester' })
    clients = [await openClient(), remote]
    for (const client of clients) await client.createStream('orders')
  })
  after(async () => {
    await remote.close()
    await server.stop()
  })

  for (const { what, call, request } of MISTAKES) {
    it(what, async () => {
      const [method, path, body] = request
      const reply = await server.request(method, path, body ?? null)
      for (const client of clients) {
        const error = await refusalOf(call(client))
        assert(error instanceof HttpBrokerError)
        const { status, code, message, action, retryable } = error
        assert.deepEqual({ status, code, message, action, retryable }, { status: reply.status, ...reply.refusal() })
      }
    })
  }
})

interface Misuse {
  readonly what: string
  readonly given: readonly unknown[]
  readonly calls: readonly ((value: never) => Promise<unknown>)[]
  readonly message: string
}

/** Values that are no objects. */
const NO_OBJECTS: readonly unknown[] = [null, 5, 'x', []]
const RECORD = { message_id: 'm', payload: 'p' }
class Tags {
  readonly a = 'b'
}

for (const kind of KINDS)
  describe(`what stands where an object belongs is refused ${kind}`, () => {
    let source: ClientSource
    let client: BrokerClient
    before(async () => {
      source = await openSource(kind)
      client = await source.client({ producerId: 'tester' })
      await client.createStream('orders')
    })
    after(() => source.close())

    const misuses: readonly Misuse[] = [
      {
        what: 'a record that is no object',
        given: [...NO_OBJECTS, undefined, () => {}],
        calls: [(record) => client.publish('orders', record), (record) => client.publishWithRetry('orders', record)],
        message: 'a record must be an object',
      },
      {
        what: 'headers that keep elsewhere what they stand for',
        given: [new Map(), new Map([['a', 'b']]), new Headers({ a: 'b' }), new Date(), new Tags(), () => {}],
        calls: [
          (headers) => client.publish('orders', { ...RECORD, headers }),
          (headers) => client.publishWithRetry('orders', { ...RECORD, headers }),
        ],
        message: 'headers must be an object of strings',
      },
      {
        what: 'a delivery that is no object',
        given: [...NO_OBJECTS, undefined],
        calls: [
          (delivery) => client.ack(delivery),
          (delivery) => client.nack(delivery, { reason: 'r', requeue: true }),
          (delivery) => client.renewLease(delivery, { extend_by_millis: 1 }),
          (delivery) => client.retryDelivery(delivery, { reason: 'r', delay_millis: 0 }),
          (delivery) => client.deadLetter(delivery, { dead_letter_stream: 'orders', reason: 'r' }),
        ],
        message: 'the delivery must be object',
      },
      {
        what: 'options that are no object',
        given: NO_OBJECTS,
        calls: [
          (options) => client.fetch('orders', options),
          (options) => client.fetchFromOffset('orders', 0, options),
          (options) => client.subscribeReplay('orders', options).next(),
          (options) => client.claimQueue('orders', 'g', {}, options),
          (options) => client.subscribeQueue('orders', 'g', options).next(),
          (options) => client.inspectLeases('orders', 'g', options),
        ],
        message: 'the options must be object',
      },
      {
        what: 'a body that is no object',
        given: NO_OBJECTS,
        calls: [
          (body) => client.createStream('a', body),
          (body) => client.claimQueue('orders', 'g', body),
          (body) => client.nack(DELIVERY, body),
          (body) => client.renewLease(DELIVERY, body),
          (body) => client.retryDelivery(DELIVERY, body),
          (body) => client.deadLetter(DELIVERY, body),
        ],
        message: 'the body must be object',
      },
    ]
    for (const { what, given, calls, message } of misuses) {
      it(what, async () => {
        for (const value of given) {
          for (const call of calls) {
            const error = await refusalOf(call(bad(value)))
            assert(error instanceof HttpBrokerError)
            const { status, code } = error
            assert.deepEqual(
              { status, code, message: error.message },
              { status: 400, code: 'invalid_request', message },
              `${call.toString()} of ${inspect(value)}`,
            )
          }
        }
        assert.equal((await client.describeStream('orders')).next_offset, 0)
      })
    }
  })
