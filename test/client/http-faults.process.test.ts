/** How a client over HTTP handles brokers that die, connections that are cut, and slow readers. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { HttpNativeClient as FetchClient } from '../../src/client/browser.ts'
import { HttpNativeClient, textOf } from '../../src/client/index.ts'
import type { HttpNativeClientSettings } from '../../src/client/index.ts'
import { BrokerServer } from '../support/broker.ts'
import { eventually } from '../support/waiting.ts'
import { Proxy } from './proxy.ts'
import { newStream, refusalOf } from './support.ts'

const PATIENT = { attemptsMax: 10_000, delayMs: 5, delayMsMax: 50 }
const SETTINGS = { producerId: 'tester' }
/** No broker is ever at this address: the port is privileged and unused. */
const NOWHERE = 'http://127.0.0.1:1'

for (const [kind, library] of [
  ['node:http', HttpNativeClient],
  ['fetch', FetchClient],
] as const) {
  describe(`over ${kind}`, () => {
    let server: BrokerServer
    let proxy: Proxy
    const clients: HttpNativeClient[] = []
    const connect = async (
      addresses: string | readonly string[],
      settings: Partial<HttpNativeClientSettings> = {},
    ): Promise<HttpNativeClient> => {
      const client = await library.connect(addresses, { ...SETTINGS, ...settings } as never) // the settings of both clients without TLS are the same
      clients.push(client)
      return client
    }
    before(async () => {
      server = await BrokerServer.start()
      proxy = await Proxy.open(() => server.readyLine.http)
    })
    after(async () => {
      await Promise.all(clients.map((client) => client.close()))
      proxy.close()
      await server.stop()
    })

    it('publishes with retries across a broker that is killed and started again, and loses nothing that it says is there', async () => {
      const client = await connect(proxy.url)
      const stream = await newStream(client)
      const acknowledged: string[] = []
      const publishing = Array.from({ length: 8 }, async (_, worker) => {
        for (let i = 0; i < 25; i += 1) {
          const message_id = `${worker}-${i}`
          await client.publishWithRetry(stream, { message_id, payload: message_id }, PATIENT)
          acknowledged.push(message_id)
        }
      })
      await eventually(() => acknowledged.length > 20)
      await server.kill()
      await server.startAgain()
      await Promise.all(publishing)
      const stored = new Set<string>()
      let page = await client.fetch(stream, { max_records: 1000 })
      for (; ; page = await client.fetch(stream, { start_offset: page.next_offset, max_records: 1000 })) {
        for (const { message_id, payload } of page.records) {
          assert.equal(textOf(payload), message_id)
          stored.add(message_id)
        }
        if (page.end_of_stream) break
      }
      assert.equal(acknowledged.length, 200)
      assert.deepEqual([...stored].sort(), acknowledged.sort())
    })

    it('reads a stream without a gap and without repeating itself while the broker dies and connections are cut', async () => {
      const client = await connect(proxy.url)
      const stream = await newStream(client)
      const records = Array.from({ length: 300 }, (_, i) => ({ message_id: `${i}`, payload: 'p' }))
      await client.publishBatch(stream, records.slice(0, 200))
      const offsets: number[] = []
      for await (const { offset } of client.subscribeReplay(stream, { max_records: 7, retry: PATIENT })) {
        offsets.push(offset)
        if (offset % 40 === 39) proxy.cut()
        if (offset === 100) {
          await server.kill()
          await server.startAgain()
        }
        if (offset === 199) void client.publishWithRetry(stream, records[200]!, PATIENT)
        if (offset === 200) break
      }
      assert.deepEqual(
        offsets,
        Array.from({ length: 201 }, (_, i) => i),
      )
    })

    it('handles every delivery while the broker dies and connections are cut', async () => {
      const client = await connect(proxy.url)
      const stream = await newStream(client)
      const ids = Array.from({ length: 120 }, (_, i) => `job-${i}`)
      await client.publishBatch(
        stream,
        ids.map((message_id) => ({ message_id, payload: '' })),
      )
      const stop = new AbortController()
      const handled = new Set<string>()
      let calls = 0
      const failures: unknown[] = []
      const options = {
        signal: stop.signal,
        concurrency: 2,
        prefetch: 10,
        lease_timeout_millis: 3000,
        retry: PATIENT,
        onHandlerError: (_: unknown, error: unknown) => failures.push(error),
      }
      await client.subscribeQueue(stream, 'g', options).handle(async ({ record }) => {
        calls += 1
        handled.add(record.message_id)
        if (calls % 25 === 0) proxy.cut()
        if (calls === 60) {
          await server.kill()
          await server.startAgain()
        }
        if (handled.size === ids.length) stop.abort()
      })
      assert.deepEqual(failures, [])
      assert.deepEqual([...handled].sort(), ids.toSorted())
    })

    it('is given the deliveries again whose claim it did not hear the answer of', async () => {
      const client = await connect(proxy.url)
      const stream = await newStream(client, 'a', 'b', 'c')
      let lost = 0
      proxy.passes = (answer) => {
        if (!answer.includes('"deliveries":[{') || lost === 2) return true
        lost += 1
        return false
      }
      const seen: unknown[] = []
      const options = { max_messages: 3, lease_timeout_millis: 3_600_000, retry: PATIENT }
      for await (const { offset, attempt } of client.subscribeQueue(stream, 'g', options)) {
        if (seen.push([offset, attempt]) === 3) break
      }
      proxy.passes = () => true
      assert.deepEqual(seen, [
        [0, 1],
        [1, 1],
        [2, 1],
      ])
      assert.equal(lost, 2)
    })

    it('does not repeat what may have happened: the answer to a publish is lost', async () => {
      const client = await connect(proxy.url)
      const stream = await newStream(client)
      proxy.passes = () => false
      const refused = await refusalOf(client.publish(stream, { message_id: 'once', payload: '' }))
      proxy.passes = () => true
      assert.deepEqual([refused.kind, refused.code, refused.retryable], ['Transport', 'connection_lost', false])
      assert.equal((await client.describeStream(stream)).next_offset, 1)
    })

    it('goes to the next address when one is gone, with what is safe to repeat', async (t) => {
      const other = await Proxy.open(() => server.readyLine.http)
      t.after(() => other.close())
      const client = await connect([NOWHERE, other.url, proxy.url])
      const stream = await newStream(await connect(proxy.url), 'a')
      assert.equal((await client.fetch(stream)).records.length, 1)
      other.close()
      assert.equal((await client.fetch(stream)).records.length, 1)
      await client.publish(stream, { message_id: 'b', payload: '' })
      assert.equal((await client.fetch(stream)).records.length, 2)
    })

    it('holds one page for a reader that stops in the middle, however much there is to read', async () => {
      const client = await connect(proxy.url)
      const stream = await newStream(client)
      const payload = 'x'.repeat(100_000)
      for (let i = 0; i < 8; i += 1) {
        await client.publishBatch(
          stream,
          Array.from({ length: 10 }, (_, j) => ({ message_id: `${i}-${j}`, payload })),
        )
      }
      const before = proxy.answeredBytes
      const records = client.subscribeReplay(stream, { max_records: 5 })
      await records.next()
      await client.publish(stream, { message_id: 'beside', payload: '' })
      const pageBytes = 5 * 2 * payload.length
      assert.ok(proxy.answeredBytes - before < 2 * pageBytes, String(proxy.answeredBytes - before))
      await records.return()
    })

    it('keeps its connections, and no more than it may have', async (t) => {
      const counting = await Proxy.open(() => server.readyLine.http)
      t.after(() => counting.close())
      const client = await connect(counting.url, { maxConnections: 3 })
      const stream = await newStream(client)
      await Promise.all(
        Array.from({ length: 60 }, (_, i) => client.publish(stream, { message_id: `${i}`, payload: '' })),
      )
      for (let i = 0; i < 20; i += 1) await client.describeStream(stream)
      const most = library === HttpNativeClient ? 3 : 20 // fetch sometimes opens a connection before it knows that one is free
      assert.ok(counting.connections <= most, String(counting.connections))
    })

    it('serves calls while as many subscriptions wait as it has connections', async () => {
      const client = await connect(proxy.url, { maxConnections: 1, maxWaitingConnections: 2 })
      const stream = await newStream(client)
      const stop = new AbortController()
      const waiting = ['a', 'b', 'c', 'd'].map((group) =>
        client.subscribeQueue(stream, group, { signal: stop.signal }).next(),
      )
      await client.publish(stream, { message_id: 'm', payload: '' })
      assert.equal((await client.describeStream(stream)).next_offset, 1)
      assert.equal((await Promise.race(waiting)).value?.offset, 0)
      stop.abort()
      await Promise.all(waiting)
    })

    it('says that there is no connection, or that it was lost, when nothing is there', async () => {
      const client = await connect(NOWHERE)
      const { kind, code, retryable } = await refusalOf(client.listStreams())
      const expected = library === HttpNativeClient ? 'connection_failed' : 'connection_lost'
      assert.deepEqual([kind, code, retryable], ['Transport', expected, true])
    })
  })
}

describe('over node:http', () => {
  it('asks for names that are dots, which fetch cannot, and says so', async () => {
    const server = await BrokerServer.start()
    const client = await HttpNativeClient.connect(server.url, SETTINGS)
    const web = await FetchClient.connect(server.url, SETTINGS)
    for (const name of ['.', '..']) {
      await client.createStream(name)
      assert.equal((await client.describeStream(name)).stream, name)
      assert.equal((await client.describeConsumerGroup(name, name)).consumer_group, name)
      const refused = await refusalOf(web.describeStream(name))
      assert.deepEqual([refused.kind, refused.code], ['HttpBroker', 'invalid_request'])
    }
    for (const name of ['a.b', '..a', 'käse', 'a b', '%2e%2e', 'a?b#c', '😀', 'a\\b', '+']) {
      await web.createStream(name)
      assert.equal((await web.describeStream(name)).stream, name)
      assert.equal((await client.describeStream(name)).stream, name)
    }
    await Promise.all([client.close(), web.close()])
    await server.stop()
  })
})
