import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { describe, it, mock } from 'node:test'
import type { TestContext } from 'node:test'
import { HttpConnection } from '../../../bench/load/http-connection.ts'
import { LIMIT_MS } from '../../support/waiting.ts'

const HEAD = Buffer.from('POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 4\r\n\r\n')
const BODY = Buffer.from('body')
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'

async function connectTo(t: TestContext, onConnection: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    onConnection(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server has no other kind
  const connection = new HttpConnection({
    target: { host: '127.0.0.1', port },
    timeoutMs: LIMIT_MS,
    nowMs: () => performance.now(),
  })
  t.after(() => {
    connection.destroy()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await connection.open()
  return { connection, port }
}

describe('a connection', () => {
  it('carries one request after the other, head and body as given', async (t) => {
    let received = ''
    const { connection } = await connectTo(t, (socket) => {
      socket.on('data', (chunk) => {
        received += chunk.toString()
        if (received.endsWith('body')) socket.write(OK)
      })
    })
    for (const round of [1, 2]) {
      const response = await connection.send(HEAD, BODY)
      assert.equal(response.status, 200)
      assert.equal(received, Buffer.concat([HEAD, BODY]).toString().repeat(round))
    }
    assert(connection.isOpen)
  })

  it('carries a request that is whole in its head', async (t) => {
    let received = ''
    const { connection } = await connectTo(t, (socket) => {
      socket.on('data', (chunk) => {
        received += chunk.toString()
        if (received.endsWith('body')) socket.write(OK)
      })
    })
    assert.equal((await connection.send(Buffer.concat([HEAD, BODY]), null)).status, 200)
    assert.equal(received, `${HEAD.toString()}body`)
  })

  it('takes the answer to HEAD for whole without a body, and that to the next request with one', async (t) => {
    const { connection } = await connectTo(t, (socket) => {
      socket.on('data', (chunk) => {
        const body = chunk.toString().startsWith('HEAD ') ? '' : 'body'
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n${body}`)
      })
    })
    for (const [method, body] of [
      ['HEAD', ''],
      ['GET', 'body'],
      ['HEAD', ''],
    ] as const) {
      const response = await connection.send(Buffer.from(`${method} / HTTP/1.1\r\n\r\n`), null)
      assert.equal(String(response.body), body)
    }
  })

  it('waits until its bytes have left before the request is over, even when the answer came early', async (t) => {
    const body = Buffer.alloc(64 * 1024 * 1024, 1) // more than the kernel buffers
    let answeredAtBytes = 0
    const { connection } = await connectTo(t, (socket) => {
      socket.once('data', (chunk) => {
        answeredAtBytes = chunk.byteLength
        socket.write('HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n')
        socket.resume()
      })
    })
    const response = await connection.send(Buffer.from('POST / HTTP/1.1\r\n\r\n'), body)
    assert.equal(response.status, 413)
    assert(answeredAtBytes < body.byteLength)
  })

  it('fails with connection_reset when the server closes instead of answering, and can be opened again', async (t) => {
    let connections = 0
    const { connection } = await connectTo(t, (socket) => {
      const answer = ++connections > 1
      socket.on('data', () => (answer ? socket.write(OK) : socket.destroy()))
    })
    await assert.rejects(connection.send(HEAD, BODY), { kind: 'connection_reset' })
    assert(!connection.isOpen)
    await assert.rejects(connection.send(HEAD, BODY), { kind: 'connection_reset' })
    await connection.open()
    assert.equal((await connection.send(HEAD, BODY)).status, 200)
  })

  it('closes after an answer that says so', async (t) => {
    const { connection } = await connectTo(t, (socket) => {
      socket.on('data', () => socket.write('HTTP/1.1 503 x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'))
    })
    assert.equal((await connection.send(HEAD, BODY)).status, 503)
    assert(!connection.isOpen)
  })

  it('fails with bad_response on an answer it cannot read, with timeout on none, with aborted when destroyed', async (t) => {
    const unreadable = await connectTo(t, (socket) => {
      socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'))
    })
    await assert.rejects(unreadable.connection.send(HEAD, BODY), { kind: 'bad_response' })
    const silent = await connectTo(t, () => undefined)
    mock.timers.enable({ apis: ['setTimeout'] })
    t.after(() => mock.timers.reset())
    const unanswered = silent.connection.send(HEAD, BODY)
    mock.timers.tick(LIMIT_MS)
    await assert.rejects(unanswered, { kind: 'timeout' })
    const slow = await connectTo(t, () => undefined)
    const sending = slow.connection.send(HEAD, BODY)
    slow.connection.destroy()
    await assert.rejects(sending, { kind: 'aborted' })
  })

  it('fails with connection_refused when nobody listens', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo // a TCP server has no other kind
    await new Promise((resolve) => server.close(resolve))
    const target = { host: '127.0.0.1', port }
    const connection = new HttpConnection({ target, timeoutMs: LIMIT_MS, nowMs: () => 0 })
    await assert.rejects(connection.open(), { kind: 'connection_refused' })
  })
})
