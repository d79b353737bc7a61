/** The examples of docs/connection.md, against a node. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { CLOSE } from '../../src/broker/connection/session.ts'
import { REQUESTS } from '../../src/broker/connection/requests.ts'
import { FrameWriter, PUBLISH } from '../../src/broker/wire/connection-frames.ts'
import * as wire from '../../src/broker/wire/connection-frames.ts'
import { BrokerServer } from '../support/broker.ts'
import { RawWebSocket } from '../support/raw-web-socket.ts'
import { eventually } from '../support/waiting.ts'
import { blocksOf, document, tableOf } from './markdown.ts'

const text = document('docs/connection.md')

it('the conversation is had as it stands there', async () => {
  const server = await BrokerServer.start()
  await server.stream('orders').put('')
  const socket = await RawWebSocket.open(server.readyLine.http)
  let heard = 0
  for (const line of blocksOf(text, 'conversation')[0]!.text.trim().split('\n')) {
    const shown = JSON.parse(line.slice(2)) as object
    if (line.startsWith('>')) socket.text(shown)
    else {
      await eventually(() => socket.messages.length > heard)
      assert.deepEqual(asShown(socket.said[heard], shown), shown)
      heard += 1
    }
  }
  assert.equal(socket.messages.length, heard)
  socket.destroy()
  await server.stop()
})

/** The part of an answer that the document shows. */
function asShown(said: unknown, shown: unknown): unknown {
  if (Array.isArray(shown) && Array.isArray(said)) return said.map((each, i) => asShown(each, shown[i]))
  if (typeof shown !== 'object' || shown === null || typeof said !== 'object' || said === null) return said
  return Object.fromEntries(
    Object.entries(shown).map(([name, value]) => [name, asShown((said as Record<string, unknown>)[name], value)]),
  )
}

it('the frame has the bytes that stand there', () => {
  const writer = new FrameWriter()
  writer.begin(PUBLISH, 0, 7, 'orders')
  writer.record({ messageId: 'a', payload: 'paid', key: null, headers: {}, eventTimeMs: null })
  writer.record({ messageId: 'b', payload: 'sent', key: 'k', headers: { h: 'v' }, eventTimeMs: 1000 })
  writer.end(2)
  const shown = blocksOf(text, 'frame')[0]!.text.replaceAll(/\s/g, '')
  assert.equal(shown, Buffer.from(writer.written).toString('hex'))
})

it('types, operations and codes of the tables are those of the code', () => {
  const types = Array.from(text.matchAll(/^\| (\d+) \| ([A-Z]+) \|/gm), ([, type, name]) => [name, Number(type)])
  assert.equal(types.length, 9)
  for (const [name, type] of types) assert.equal((wire as Record<string, unknown>)[String(name)], type, String(name))
  const operations = tableOf(text, 'Messages of text').flatMap(([cell]) =>
    Array.from(cell!.matchAll(/`(\w+)`/g), ([, op]) => op!),
  )
  assert.deepEqual(operations.sort(), [...Object.keys(REQUESTS), 'subscribe', 'credit', 'unsubscribe', 'ping'].sort())
  const codes = Array.from(text.matchAll(/^\| (\d{4}) \|/gm), ([, code]) => Number(code))
  assert.deepEqual(codes, Object.values(CLOSE))
})
