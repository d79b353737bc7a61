/** The streaming client of a broker that is killed with kill -9: a ledger of its acknowledged records is compared with what is there afterwards. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { HttpNativeClient } from '../../src/client/index.ts'
import { Proxy } from './proxy.ts'
import { BrokerServer } from '../support/broker.ts'
import { eventually } from '../support/waiting.ts'

const ROUNDS = 3
const PUBLISHERS = 40
const STREAM = 'orders'

it('nothing that was acknowledged is lost, and publishers and a subscription go on by themselves', async () => {
  const server = await BrokerServer.start()
  const proxy = await Proxy.open(() => server.readyLine.http)
  const settings = { producerId: 'ledger', streaming: true } as const
  const [publishing, consuming] = [
    await HttpNativeClient.connect(proxy.url, settings),
    await HttpNativeClient.connect(proxy.url, settings),
  ]
  await publishing.createStream(STREAM)
  const ledger = new Map<string, number>()
  const handled = new Map<number, string>()
  const ended = new AbortController()
  const subscription = consuming.subscribeQueue(STREAM, 'workers', {
    prefetch: 100,
    concurrency: 10,
    lease_timeout_millis: 2000,
    signal: ended.signal,
  })
  const consumed = subscription.handle(({ offset, record }) => {
    handled.set(offset, record.message_id)
  })
  const stop = new AbortController()
  let lost = 0
  const publishers = Array.from({ length: PUBLISHERS }, async (_, publisher) => {
    for (let i = 0; !stop.signal.aborted; i += 1) {
      const message_id = `${publisher}-${i}`
      try {
        const { offset } = await publishing.publish(STREAM, { message_id, payload: message_id })
        ledger.set(message_id, offset)
      } catch {
        lost += 1 // the connection failed: the record may be stored or not
        await publishing.publishWithRetry(
          STREAM,
          { message_id: `${message_id}-again`, payload: '' },
          {
            attemptsMax: 1000,
            delayMs: 20,
            delayMsMax: 100,
          },
        )
      }
    }
  })
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = ledger.size
    await eventually(() => ledger.size > before + 200)
    await server.kill()
    await server.startAgain()
  }
  const before = ledger.size
  await eventually(() => ledger.size > before + 200)
  stop.abort()
  await Promise.all(publishers)
  assert(lost > 0, 'a kill comes while publishes are in flight')

  const stored = new Map<number, string>()
  for (let next = 0, isEnd = false; !isEnd;) {
    const page = await publishing.fetch(STREAM, { start_offset: next, max_records: 1000 })
    for (const { offset, message_id } of page.records) stored.set(offset, message_id)
    next = page.next_offset
    isEnd = page.end_of_stream
  }
  for (const [messageId, offset] of ledger) assert.equal(stored.get(offset), messageId, `offset ${offset}`)
  await eventually(() => handled.size === stored.size)
  assert.deepEqual(
    [...handled].sort(([a], [b]) => a - b),
    [...stored],
  )
  ended.abort()
  await consumed
  await Promise.all([publishing.close(), consuming.close()])
  proxy.close()
  await server.stop()
})
