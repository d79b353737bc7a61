/** The same mistakes, made by the client in this process and over HTTP: it must not matter where the broker is. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { HttpBrokerError } from '../../src/client/index.ts'
import type { NativeClient, RecordToPublish } from '../../src/client/index.ts'
import { BrokerServer } from '../support/broker.ts'
import { openClient, refusalOf } from './support.ts'

interface Mistake {
  readonly what: string
  readonly call: (client: NativeClient) => Promise<unknown>
  readonly request: readonly [method: string, path: string, body?: object]
}

const DELIVERY = { stream: 'orders', subscription_id: 'sub-x', delivery_id: 'dlv-x' }
const DELIVERY_PATH = '/v1/streams/orders/subscriptions/sub-x/deliveries/dlv-x'
const GROUP = '/v1/streams/orders/consumer-groups/g'
const bad = (value: unknown): never => value as never // what TypeScript would not let through

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

describe('a mistake is refused in the process as over HTTP', () => {
  let client: NativeClient
  let server: BrokerServer
  before(async () => {
    ;[client, server] = await Promise.all([openClient(), BrokerServer.start()])
    await client.createStream('orders')
    await server.request('PUT', '/v1/streams/orders')
  })

  for (const { what, call, request } of MISTAKES) {
    it(what, async () => {
      const [method, path, body] = request
      const [error, reply] = await Promise.all([refusalOf(call(client)), server.request(method, path, body ?? null)])
      assert(error instanceof HttpBrokerError)
      const { status, code, message, action, retryable } = error
      assert.deepEqual({ status, code, message, action, retryable }, { status: reply.status, ...reply.refusal() })
    })
  }
})
