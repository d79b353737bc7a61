/** The streaming client over a connection that is cut at every byte that the broker sends: nothing is lost or done twice. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { HttpNativeClient } from '../../src/client/index.ts'
import { Proxy } from './proxy.ts'
import { refusalOf } from './support.ts'
import { BrokerServer } from '../support/broker.ts'
import { eventually } from '../support/waiting.ts'

/** Cuts that are tried at the same time. */
const LANES = 12
const GROUP = 'workers'

describe('a connection that is cut', () => {
  let server: BrokerServer
  before(async () => {
    server = await BrokerServer.start()
  })
  after(() => server.stop())

  /** Uses a client whose connection is cut after `cutAt` bytes of answers. @returns bytes that the broker sent on all its connections */
  async function behind<T>(cutAt: number, use: (client: HttpNativeClient) => Promise<T>): Promise<number> {
    const proxy = await Proxy.open(() => server.readyLine.http)
    proxy.cutAfterBytes = cutAt
    const client = await HttpNativeClient.connect(proxy.url, { producerId: 't', streaming: { leases: 'release' } })
    await use(client)
    await client.close()
    proxy.close()
    return proxy.answeredBytes
  }

  async function atEveryByte(end: number, one: (cutAt: number) => Promise<void>): Promise<void> {
    let next = 0
    const lane = async (): Promise<void> => {
      while (next < end) await one(next++)
    }
    await Promise.all(Array.from({ length: LANES }, lane))
  }

  it('at any byte of a delivery: its record is given out again, and is done once', async () => {
    const consumed = async (cutAt: number): Promise<number> => {
      const stream = await server.newStream()
      await stream.publish('payload')
      let handled = 0
      const bytes = await behind(cutAt, async (client) => {
        const ended = new AbortController()
        const subscription = client.subscribeQueue(stream.name, GROUP, { prefetch: 1, signal: ended.signal })
        const handling = subscription.handle(({ record }) => {
          assert.equal(Buffer.from(record.payload).toString(), 'payload')
          handled += 1
        })
        const group = stream.group(GROUP)
        await eventually(async () => handled > 0 && (await group.describe()).progress_offset === 1)
        ended.abort()
        await handling
        const { leases } = await group.leases(true)
        assert.deepEqual(
          leases.map(({ state }) => state),
          ['acked'],
        )
        assert.ok(leases[0]!.attempt <= 2, `attempt ${leases[0]!.attempt}`)
      })
      assert.ok(handled <= 2, 'again only when the connection was cut before its acknowledgement was known')
      return bytes
    }
    const whole = await consumed(Infinity)
    assert.ok(whole > 200)
    await atEveryByte(whole, async (cutAt) => void (await consumed(cutAt)))
  })

  it('at any byte of the answer to a publish: it is stored once, and only one that was told of is certain', async () => {
    const stream = await server.newStream()
    const published = (cutAt: number, message_id: string): Promise<number> =>
      behind(cutAt, async (client) => {
        const outcome = await client.publish(stream.name, { message_id, payload: 'p' }).then(
          ({ offset }) => offset,
          () => null,
        )
        if (outcome !== null) told.set(message_id, outcome)
      })
    const told = new Map<string, number>()
    const whole = await published(Infinity, 'whole')
    await atEveryByte(whole, async (cutAt) => void (await published(cutAt, `m-${cutAt}`)))
    const stored = new Map<number, string>()
    for (let start_offset = 0, isEnd = false; !isEnd;) {
      const page = await stream.replay(`max_records=1000&start_offset=${start_offset}`)
      for (const { offset, message_id } of page.records) stored.set(offset, message_id)
      start_offset = page.next_offset
      isEnd = page.end_of_stream
    }
    for (const [messageId, offset] of told) assert.equal(stored.get(offset), messageId)
    assert.equal(new Set(stored.values()).size, stored.size, 'no publish was sent twice')
  })

  it('leaves its subscription with its stream, though another one has the name when it is open again, before the first delivery', async () => {
    const proxy = await Proxy.open(() => server.readyLine.http)
    const client = await HttpNativeClient.connect(proxy.url, { producerId: 't', streaming: { leases: 'release' } })
    const [stream, other] = [await server.newStream(), await server.newStream()]
    const first = refusalOf(client.subscribeQueue(stream.name, GROUP).next())
    for (const message_id of ['a', 'b']) await client.publish(other.name, { message_id, payload: '' }) // the subscription is open then
    proxy.cut()
    assert.equal((await server.request('DELETE', stream.path)).status, 200)
    assert.equal((await server.request('PUT', stream.path)).status, 201)
    await stream.publish('new')
    assert.equal((await first).code, 'missing_stream')
    await client.close()
    proxy.close()
  })

  for (const taken of [1, 2])
    it(`leaves its subscription with its stream, though another one has the name when it is open again, after ${taken} deliveries`, async () => {
      const proxy = await Proxy.open(() => server.readyLine.http)
      const client = await HttpNativeClient.connect(proxy.url, { producerId: 't', streaming: { leases: 'release' } })
      const stream = await server.newStream()
      await stream.fill(2)
      const subscription = client.subscribeQueue(stream.name, GROUP)
      for (let i = 0; i < taken; i += 1) await subscription.next()
      proxy.cut()
      assert.equal((await server.request('DELETE', stream.path)).status, 200)
      assert.equal((await server.request('PUT', stream.path)).status, 201)
      await stream.publish('new')
      assert.equal((await refusalOf(subscription.next())).code, 'missing_stream')
      await client.close()
      proxy.close()
    })
})
