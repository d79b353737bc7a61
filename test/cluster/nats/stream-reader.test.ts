import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { headers } from '@nats-io/transport-node'
import type { Msg, MsgCallback, Subscription } from '@nats-io/transport-node'
import { headersOf } from '../../../src/cluster/headers.ts'
import { StreamReader } from '../../../src/cluster/nats/stream-reader.ts'
import type { ReaderParts } from '../../../src/cluster/nats/stream-reader.ts'
import { message } from '../../support/cluster-messages.ts'
import { TestClock } from '../../support/cluster-clock.ts'

const PAUSE_MS = 50
const SILENT_MS = 2500

/** A reader; the test acts as its server. */
async function reading() {
  const clock = new TestClock()
  const seen = { asked: [] as string[], delivered: [] as number[][], ended: 0, deleted: [] as string[] }
  let callback: MsgCallback<Msg> = () => {}
  const parts: ReaderParts = {
    connection: {
      publish: (subject, payload) => {
        const { batch, no_wait: takes } = JSON.parse(String(payload)) as { batch: number; no_wait?: boolean }
        seen.asked.push(`${subject} ${batch} ${takes === true ? 'takes' : 'waits'}`)
      },
      subscribe: (_subject, options) => {
        callback = options!.callback!
        return { unsubscribe: () => {} } as Subscription // the reader calls nothing else
      },
    },
    consumers: {
      add: async () => ({ name: 'own' }) as never, // the reader reads nothing else
      delete: async (_stream, name) => seen.deleted.push(name) > 0,
    },
    stream: 'log',
    after: clock.after,
  }
  const reader = await StreamReader.open(parts, 7, {
    delivered: (messages) => seen.delivered.push(messages.map(({ sequence }) => sequence)),
    ended: () => (seen.ended += 1),
  })
  const sends = async (...messages: (number | { readonly status: number })[]): Promise<void> => {
    for (const message of messages) callback(null, typeof message === 'number' ? stored(message) : said(message.status))
    await Promise.resolve() // delivers messages that came together
  }
  const asks = (): readonly string[] =>
    seen.asked.splice(0).map((text) => text.replace('$JS.API.CONSUMER.MSG.NEXT.log.own ', ''))
  return { clock, reader, seen, sends, asks, fails: () => callback(new Error('refused'), said(403)) }
}

function stored(sequence: number): Msg {
  const sent = headers()
  for (const [name, value] of headersOf(message(1, 'a/1', sequence))) sent.set(name, value)
  const reply = `$JS.ACK.log.own.1.${sequence}.1.1795818689194743466.0`
  return { reply, headers: sent, data: new Uint8Array(0) } as Msg // the reader reads nothing else
}

const said = (status: number): Msg => ({ headers: headers(status, 'said'), data: new Uint8Array(0) }) as Msg // the reader reads nothing else

describe('a reader of a stream', () => {
  it('waits for one message, and then takes together what came since', async () => {
    const { clock, seen, sends, asks } = await reading()
    assert.deepEqual(asks(), ['1 waits'])
    await sends(7)
    assert.deepEqual([asks(), seen.delivered], [[], [[7]]])
    clock.passes(PAUSE_MS)
    assert.deepEqual(asks(), ['50 takes'])
    await sends(8, 9, 10, { status: 404 })
    assert.deepEqual(seen.delivered, [[7], [8, 9, 10]])
    clock.passes(PAUSE_MS)
    assert.deepEqual(asks(), ['50 takes'])
    await sends({ status: 404 })
    assert.deepEqual(asks(), ['1 waits'])
    await sends({ status: 408 })
    assert.deepEqual(asks(), ['1 waits'])
  })

  it('takes again after a pause when an older server says in its own way that there are no more', async () => {
    const { clock, sends, asks } = await reading()
    await sends(7)
    clock.passes(PAUSE_MS)
    await sends(8, { status: 408 })
    asks()
    clock.passes(PAUSE_MS)
    assert.deepEqual(asks(), ['50 takes'])
  })

  it('makes no pause where more is there than it asked for', async () => {
    const { clock, sends, asks } = await reading()
    await sends(7)
    clock.passes(PAUSE_MS)
    asks()
    await sends(...Array.from({ length: 50 }, (_, i) => 8 + i))
    assert.deepEqual(asks(), ['50 takes'])
  })

  it('ends once when the server says that there is no consumer, and is not asked again', async () => {
    const { clock, seen, sends, asks } = await reading()
    asks()
    await sends(7, { status: 409 }, { status: 503 }, 8)
    clock.passes(10 * SILENT_MS)
    assert.deepEqual([seen.ended, seen.delivered, seen.deleted, asks()], [1, [], ['own'], []])
  })

  it('ends when the server says nothing any more, and not while it says that it is there', async () => {
    const { clock, seen, sends } = await reading()
    for (let second = 0; second < 10; second += 1) {
      clock.passes(1000)
      await sends({ status: 100 })
    }
    assert.equal(seen.ended, 0)
    clock.passes(SILENT_MS)
    assert.equal(seen.ended, 1)
  })

  it('ends when it may not subscribe', async () => {
    const { seen, fails } = await reading()
    fails()
    assert.equal(seen.ended, 1)
  })

  it('delivers nothing when it was closed, and does not end', async () => {
    const { clock, reader, seen, sends } = await reading()
    const sent = sends(7)
    reader.close()
    await sent
    reader.close()
    clock.passes(10 * SILENT_MS)
    assert.deepEqual([seen.delivered, seen.ended, seen.deleted], [[], 0, ['own']])
  })
})
