/** Names in paths: "no slash, tab or control characters", at most 256 bytes of UTF-8, and no white space around the name of a stream. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { brokerRoutes } from '../../../src/broker/api/routes.ts'
import type { BrokerHttpParts } from '../../../src/broker/api/parts.ts'
import { TestBroker, assertRefused } from './support.ts'

let broker: TestBroker

const BAD = [
  '%20',
  '%E2%80%83%C2%A0',
  'a%2Fb',
  '%2f',
  'a%09b',
  '%00',
  'a%1Fb',
  'a%7Fb',
  'a%C2%85b',
  '%ff',
  '%C3',
  '%ED%A0%80',
  '%',
  '%4',
  '%zz',
  'x'.repeat(257),
  '%C3%A9'.repeat(129),
]
const BAD_STREAMS = [...BAD, '%20a', 'a%20', 'a%E2%80%83']
const GOOD = [
  ['orders', 'orders'],
  ['a%20b', 'a b'],
  ['größe', 'größe'],
  ['gr%C3%B6%C3%9Fe', 'größe'],
  ['%F0%9F%98%80', '😀'],
  ['a+b', 'a+b'],
  ['..', '..'],
  ["a.b_c-d~!$&'()*,;=:@", "a.b_c-d~!$&'()*,;=:@"],
  ['x'.repeat(256), 'x'.repeat(256)],
  ['%C3%A9'.repeat(128), 'é'.repeat(128)],
] as const

const parameters = (path: string): string[] => [...path.matchAll(/:\w+/g)].map(([name]) => name)
const enough = { maxBodyBytes: 1, metrics: null } as BrokerHttpParts // for the route table alone: no endpoint is called

describe('a name in a path', () => {
  before(async () => {
    broker = await TestBroker.start()
  })
  after(() => broker.stop())

  for (const [method, path] of brokerRoutes(enough).filter(([, path]) => path.includes(':'))) {
    it(`${method} ${path}: what it must not be is invalid_request`, async () => {
      for (const name of parameters(path)) {
        for (const bad of name === ':stream' ? BAD_STREAMS : BAD) {
          const asked = parameters(path).reduce((asked, each) => asked.replace(each, each === name ? bad : 'x'), path)
          assertRefused(await broker.ask(method, asked), 400, 'invalid_request', /^the \w+( \w+)? must not be blank/)
        }
      }
      assert.deepEqual(broker.calls, [])
    })
  }

  it('is percent-decoded', async () => {
    for (const [raw, name] of GOOD) {
      await broker.ask('GET', `/v1/streams/${raw}`)
      assert.deepEqual(broker.taken('describeStream'), [name])
      await broker.ask('GET', `/v1/streams/${raw}/consumer-groups/${raw}`)
      assert.deepEqual(broker.taken('describeGroup'), [{ stream: name, group: name }])
    }
  })

  it('of anything but a stream may have white space around it', async () => {
    await broker.ask('GET', '/v1/streams/s/consumer-groups/%20a%20')
    assert.deepEqual(broker.taken('describeGroup'), [{ stream: 's', group: ' a ' }])
  })

  it('in raw bytes that are not UTF-8 is invalid_request, not a guess', async () => {
    const client = await broker.connect()
    await client.send(Buffer.from('GET /v1/streams/a\xff HTTP/1.1\r\nhost: localhost\r\n\r\n', 'latin1'))
    const reply = await client.reply()
    client.destroy()
    assertRefused({ ...reply!, text: reply!.body }, 400, 'invalid_request')
  })
})
