/** A node over TLS with clients that do not begin or end a handshake, that send a request byte by byte, or that never read. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { HttpNativeClient } from '../../../src/client/index.ts'
import { BrokerServer } from '../../support/broker.ts'
import { Authority, TlsFilesOnDisk } from '../../support/certificates.ts'
import { RawWebSocket } from '../../support/raw-web-socket.ts'
import { eventually, timePasses } from '../../support/waiting.ts'

const authority = new Authority('servers')
const SILENT = 100

/** The first bytes of a TLS client. */
async function clientHello(): Promise<Buffer> {
  const listener = createServer()
  await once(listener.listen(0, '127.0.0.1'), 'listening')
  const { port } = listener.address() as AddressInfo
  const client = connectTls({ host: '127.0.0.1', port }).on('error', () => {})
  const [socket] = (await once(listener, 'connection')) as [Socket]
  const [hello] = (await once(socket, 'data')) as [Buffer]
  client.destroy()
  socket.destroy()
  listener.close()
  return hello
}

describe('over TLS', () => {
  let node: BrokerServer
  let client: HttpNativeClient
  before(async () => {
    const files = new TlsFilesOnDisk()
    files.write(authority.certify([['CN', 'localhost']]))
    node = await BrokerServer.start({ flags: ['--tls-cert', files.cert, '--tls-key', files.key] })
    client = await HttpNativeClient.connect(node.url, { producerId: 't', tls: { ca: authority.cert } })
    await client.createStream('orders')
  })
  after(async () => {
    await client.close()
    await node.stop()
  })

  it('connections whose handshake or request never comes to its end are closed, and others are served meanwhile', async () => {
    const hello = await clientHello()
    const [host, port] = node.readyLine.http.split(':')
    const open: Socket[] = []
    const opened = (socket: Socket): Socket => {
      socket.on('error', () => {}) // a reset is a close
      socket.resume()
      open.push(socket)
      return socket
    }
    /** Sends one byte after the other until the socket is closed. */
    const littleByLittle = async (socket: Socket, bytes: Buffer): Promise<void> => {
      for (let at = 0; !socket.destroyed && at < bytes.byteLength; at += 1) {
        socket.write(bytes.subarray(at, at + 1))
        await timePasses(500)
      }
      assert.ok(socket.destroyed, 'it was closed before it was through')
    }
    for (let i = 0; i < SILENT; i += 1) opened(connect(Number(port), host))
    opened(connect(Number(port), host)).write(hello.subarray(0, hello.byteLength - 1))
    opened(connect(Number(port), host)).write(hello) // and nothing more
    const ofHandshake = littleByLittle(opened(connect(Number(port), host)), hello)
    const spoken = opened(connectTls({ host: host!, port: Number(port), ca: authority.cert, servername: 'localhost' }))
    const ofHead = littleByLittle(
      spoken,
      Buffer.from(`GET /health HTTP/1.1\r\nhost: localhost\r\nx: ${'x'.repeat(2000)}`),
    )
    for (let i = 0; i < 20; i += 1) await client.publish('orders', { message_id: `m-${i}`, payload: 'p' })
    await eventually(() => open.every(({ destroyed }) => destroyed))
    await Promise.all([ofHandshake, ofHead])
    assert.equal((await client.fetch('orders')).records.length, 20)
  })

  it('a client that never reads is given no more than its credit and its connection hold', async () => {
    await client.createStream('bulk')
    const payload = 'x'.repeat(60_000)
    for (let i = 0; i < 15; i += 1) {
      const records = Array.from({ length: 100 }, (_, n) => ({ message_id: `m-${100 * i + n}`, payload }))
      await client.publishBatch('bulk', records) // 90 MB in all
    }
    const socket = await RawWebSocket.open(node.readyLine.http, { ca: authority.cert })
    assert.equal(socket.status, 101)
    socket.socket.pause()
    const [stream, consumer_group] = ['bulk', 'workers']
    socket.text({ id: 1, op: 'subscribe', stream, consumer_group, credit: 10_000, lease_timeout_millis: 3_600_000 })
    const inFlight = async (): Promise<number> =>
      (await client.describeConsumerGroup(stream, consumer_group)).in_flight_count
    let leased = -1
    await eventually(async () => {
      const now = await inFlight()
      const isStill = now > 0 && now === leased
      leased = now
      return isStill
    })
    assert.ok(leased < 1000, `${leased} of 1500 were leased`)
    socket.socket.resume()
    await eventually(async () => (await inFlight()) > leased)
    socket.destroy()
  })
})
