import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { listen } from '../../src/http/server.ts'
import type { HttpServer } from '../../src/http/server.ts'
import { Letters, RawClient, answerBodyLength } from '../support/http-server.ts'

const PAUSE_MS = 13_000
const LARGE_BYTES = 24 << 20 // more than the buffers of a connection take

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS))

/** In real time, as a timer inside the library closes a connection after 8 to 12 s without a sign of life. */
describe('a client that pauses, or waits, for 13 s', { concurrency: true }, () => {
  let server: HttpServer

  before(async () => {
    server = await listen(
      {
        name: 'test',
        routes: [
          { method: 'POST', path: '/m', endpoint: { begin: answerBodyLength(100) } },
          {
            method: 'POST',
            path: '/refused',
            endpoint: { begin: (_head, exchange) => exchange.answer(403, 'text/plain', 'no') },
          },
          {
            method: 'POST',
            path: '/late',
            endpoint: {
              begin: (_head, exchange) =>
                exchange.readBody(100, {
                  chunk(_bytes, isLast) {
                    if (!isLast) exchange.pauseBody()
                    else void pause().then(() => exchange.answer(200, 'text/plain', 'late'))
                  },
                  tooLarge: () => {},
                  timedOut: () => {},
                }),
            },
          },
          {
            method: 'GET',
            path: '/whole',
            endpoint: { begin: (_head, exchange) => exchange.answer(200, null, Buffer.alloc(LARGE_BYTES, 'a')) },
          },
          {
            method: 'GET',
            path: '/pieces',
            endpoint: {
              begin: (_head, exchange) =>
                exchange.answerFrom(200, null, LARGE_BYTES, new Letters(LARGE_BYTES >> 18, 1 << 18)),
            },
          },
        ],
        requestIdHeader: 'x-request-id',
        ownRequestIds: 'visible',
        requestIdPrefix: 'req-',
        notFound: () => {},
        methodNotAllowed: () => {},
        malformed: () => {},
        internalError: () => {},
      },
      { host: '127.0.0.1', port: 0, setting: 'TEST' },
      {
        logger: { error: () => {} },
        clock: {
          nowMs: () => performance.now(),
          every(ms, run) {
            const timer = setInterval(run, ms)
            return () => clearInterval(timer)
          },
        },
        random: () => {},
        stalledClientMs: PAUSE_MS + 8000,
      },
    )
  })
  after(() => server.close({ withinMs: 1000 }))

  it('in the middle of a body is read to its end, and refused later bodies still get their answer', async () => {
    const patient = await RawClient.connect(server)
    const stalled = await RawClient.connect(server)
    for (const client of [patient, stalled])
      await client.send('POST /m HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf')
    await pause()
    await patient.send('second')
    assert.equal((await patient.reply())!.body, '10 bytes')
    assert.equal((await stalled.reply())!.status, 408)
    patient.destroy()
  })

  it('in the middle of a body whose refusal waits for it gets the refusal, whether the body goes on or not', async () => {
    const patient = await RawClient.connect(server)
    const stalled = await RawClient.connect(server)
    for (const client of [patient, stalled])
      await client.send('POST /refused HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\n\r\nhalf')
    await pause()
    await patient.send('second')
    for (const client of [patient, stalled]) {
      assert.equal((await client.reply())!.status, 403)
      await client.closed()
    }
  })

  it('for the answer to a body that was paused at its end gets it, and is served on', async () => {
    const client = await RawClient.connect(server)
    const body = '4\r\nhalf\r\n0\r\n\r\n' // both chunks come in one read, and the first one causes the pause
    await client.send(`POST /late HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body}`)
    assert.equal((await client.reply())!.body, 'late')
    await client.send('POST /m HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnext')
    assert.equal((await client.reply())!.body, '4 bytes')
    client.destroy()
  })

  for (const path of ['/whole', '/pieces']) {
    it(`in the middle of a large answer gets all of it (${path})`, async () => {
      const socket = connect(server.port, server.host)
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
      await once(socket, 'readable')
      await pause()
      const chunks: Buffer[] = []
      for await (const chunk of socket) chunks.push(chunk as Buffer)
      const reply = Buffer.concat(chunks)
      assert.equal(reply.byteLength - reply.indexOf('\r\n\r\n') - 4, LARGE_BYTES)
    })
  }
})
