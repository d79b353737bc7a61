/** Clients that ask for long pages and do not read them. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { after, it } from 'node:test'
import { BrokerServer } from '../../support/broker.ts'
import { eventually } from '../../support/waiting.ts'

const CLIENTS = 24
const RECORDS = 60
const PAYLOAD_BYTES = 512 * 1024
/** Half of the 1.4 GB that the pages of all clients would take together. */
const MEMORY_BYTES_MAX = 700 << 20

const server = await BrokerServer.start()
after(() => server.kill())

/** Largest resident memory so far. */
const peakBytes = (): number =>
  1024 * Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))![1])

/** Resolves when the answer begins. The client reads nothing more. */
async function askAndNotRead(path: string): Promise<Socket> {
  const [host, port] = server.readyLine.http.split(':')
  const socket = connect({ host: host!, port: Number(port) })
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`)
  await once(socket, 'readable')
  return socket
}

it('cost a bounded memory, and others are served: pages are shorter meanwhile, and whole again when the clients are gone', async () => {
  const stream = await server.newStream()
  const payload = 'x'.repeat(PAYLOAD_BYTES)
  for (let i = 0; i < RECORDS / 10; i += 1) await stream.fill(10, () => payload)
  const before = peakBytes()
  const path = `${stream.path}/records?max_records=1000`
  const sockets = await Promise.all(Array.from({ length: CLIENTS }, () => askAndNotRead(path)))
  const { records, next_offset, end_of_stream, diagnostics } = await stream.replay()
  assert(records.length > 0 && records.length < RECORDS, `${records.length} records`)
  assert.deepEqual([next_offset, end_of_stream, diagnostics.payload_cap_reached], [records.length, false, false])
  const usedBytes = peakBytes() - before
  assert(usedBytes < MEMORY_BYTES_MAX, `${usedBytes >> 20} MiB`)
  const other = await server.newStream()
  await other.fill(3)
  assert.equal((await other.replay()).records.length, 3)
  assert.equal((await stream.group().claim({ max_messages: 2 })).length, 1, 'one at least')
  for (const socket of sockets) socket.destroy()
  const long = `max_payload_bytes=${4 * PAYLOAD_BYTES}`
  await eventually(async () => (await stream.replay(long)).records.length === 4)
})
