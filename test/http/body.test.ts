import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import * as fc from 'fast-check'
import { DROPPED_BYTES_MAX } from '../../src/http/limits.ts'
import type { Exchange, RequestHead } from '../../src/http/exchange.ts'
import { RawClient, answerBodyLength, ask, until, withServer } from '../support/http-server.ts'

const post = (headers: string, body = ''): string => `POST /m HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n${body}`
const chunked = (...chunks: string[]): string =>
  chunks.map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`).join('')
const limitBytes = 100_000

describe('a body', () => {
  it('is read whole, whether its length is declared, chunked, in pieces, zero or absent', () =>
    withServer({ 'POST /m': answerBodyLength(limitBytes) }, async ({ server }) => {
      for (const [request, expected] of [
        [post('Content-Length: 5', 'hello'), '5 bytes'],
        [post('Content-Length: 0'), '0 bytes'],
        [post('X-None: 1'), '0 bytes'],
        [post('Transfer-Encoding: chunked', `${chunked('hello', ' world')}0\r\n\r\n`), '11 bytes'],
        [post('Transfer-Encoding: chunked', '0\r\n\r\n'), '0 bytes'],
      ] as const) {
        assert.equal((await ask(server, request))!.body, expected)
      }
      const client = await RawClient.connect(server)
      await client.send(post('Content-Length: 90000', 'x'))
      for (let i = 0; i < 9; i++) await client.send('y'.repeat(i < 8 ? 10_000 : 9999))
      assert.equal((await client.reply())!.body, '90000 bytes')
      client.destroy()
    }))

  it('at its limit is accepted', () =>
    withServer({ 'POST /m': answerBodyLength(5) }, async ({ server }) => {
      assert.equal((await ask(server, post('Content-Length: 5', 'hello')))!.status, 200)
      assert.equal(
        (await ask(server, post('Transfer-Encoding: chunked', `${chunked('hel', 'lo')}0\r\n\r\n`)))!.status,
        200,
      )
      assert.equal((await ask(server, post('Content-Length: 6', 'hello!')))!.status, 413)
    }))

  it('that declares too much is refused before it arrives, and the connection serves the next request after it', () =>
    withServer({ 'POST /m': answerBodyLength(limitBytes) }, async ({ server }) => {
      const client = await RawClient.connect(server)
      await client.send(post(`Content-Length: ${limitBytes + 1}`))
      assert.equal((await client.reply())!.status, 413)
      await client.send('x'.repeat(limitBytes + 1) + post('Content-Length: 2', 'ok'))
      assert.equal((await client.reply())!.body, '2 bytes')
      client.destroy()
    }))

  it('that grows too large in chunks is refused once, and the connection serves the next request after it', () =>
    withServer({ 'POST /m': answerBodyLength(limitBytes) }, async ({ server }) => {
      const client = await RawClient.connect(server)
      await client.send(post('Transfer-Encoding: chunked', chunked('x'.repeat(limitBytes), 'y')))
      assert.equal((await client.reply())!.status, 413)
      await client.send(`${chunked('z'.repeat(limitBytes))}0\r\n\r\n${post('Content-Length: 2', 'ok')}`)
      assert.equal((await client.reply())!.body, '2 bytes')
      client.destroy()
    }))

  it('nobody reads is dropped, and the connection serves the next request', () =>
    withServer(
      { 'POST /m': answerBodyLength(10), 'POST /refused': (_head, exchange) => exchange.answer(403, null, 'no') },
      async ({ server }) => {
        const client = await RawClient.connect(server)
        const refused = 'POST /refused HTTP/1.1\r\nHost: a\r\n'
        await client.send(`${refused}Content-Length: 300000\r\n\r\n`)
        assert.equal((await client.reply())!.status, 403)
        await client.send('x'.repeat(300_000))
        await client.send(`${refused}Transfer-Encoding: chunked\r\n\r\n${chunked('abc')}`)
        assert.equal((await client.reply())!.status, 403)
        await client.send(`${chunked('def')}0\r\n\r\n${post('Content-Length: 2', 'ok')}`)
        assert.equal((await client.reply())!.body, '2 bytes')
        client.destroy()
      },
    ))

  it('of a client that wants the connection closed is read before the refusal, which would be lost with a reset', () =>
    withServer(
      {
        'POST /limited': answerBodyLength(10),
        'POST /refused': (_head, exchange) => exchange.answer(403, 'text/plain', 'no'),
        'POST /later': (_head, exchange) => {
          exchange.readBody(1e9, { chunk: () => {}, tooLarge: () => {}, timedOut: () => {} })
          setImmediate(() => exchange.answer(409, 'text/plain', 'not so'))
        },
        'POST /whole': answerBodyLength(1e9),
      },
      async ({ server }) => {
        const bytes = 8 << 20
        const expected = { '/limited': 413, '/refused': 403, '/later': 409, '/whole': 200 }
        for (const [path, status] of Object.entries(expected)) {
          for (const framing of [`Content-Length: ${bytes}`, 'Transfer-Encoding: chunked']) {
            const client = await RawClient.connect(server)
            const errors: Error[] = []
            client.socket.on('error', (error) => errors.push(error))
            const body = 'x'.repeat(bytes)
            const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${framing}\r\n\r\n`
            await client.send(head)
            await client.send(framing.startsWith('C') ? body : `${chunked(body)}0\r\n\r\n`)
            assert.equal((await client.reply())?.status, status, `${path} ${framing}`)
            await client.closed()
            assert.deepEqual(errors, [])
          }
        }
        await until(() => server.inFlight === 0)
      },
    ))

  it('without end, of such a client, is read up to a bound, and then refused', () =>
    withServer(
      {
        'POST /limited': answerBodyLength(10),
        'POST /refused': (_head, exchange) => exchange.answer(413, 'text/plain', 'too large'),
      },
      async ({ server }) => {
        const piece = 'x'.repeat(DROPPED_BYTES_MAX + (1 << 20)) // the bound starts at the refusal
        for (const path of ['/limited', '/refused']) {
          for (const framing of ['Content-Length: 1000000000000', 'Transfer-Encoding: chunked']) {
            const client = await RawClient.connect(server)
            await client.send(`POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${framing}\r\n\r\n`)
            await client.send(framing.startsWith('C') ? piece : chunked(piece))
            assert.equal((await client.reply())?.body, 'too large', `${path} ${framing}`)
            await client.closed()
          }
        }
        assert.equal(server.inFlight, 0)
      },
    ))

  it('whose refusal waits for it may be given up by its client, and nothing is left of it', () =>
    withServer({ 'POST /refused': (_head, exchange) => exchange.answer(403, null, 'no') }, async ({ server }) => {
      const client = await RawClient.connect(server)
      await client.send('POST /refused HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\n\r\nhalf')
      await until(() => server.inFlight === 1)
      client.destroy()
      await until(() => server.inFlight === 0)
    }))

  it('is invited when the client expects 100-continue', () =>
    withServer({ 'POST /m': answerBodyLength(10) }, async ({ server }) => {
      const client = await RawClient.connect(server)
      await client.send(post('Expect: 100-continue\r\nContent-Length: 2'))
      assert.equal((await client.reply())!.status, 100)
      await client.send('ok')
      assert.equal((await client.reply())!.body, '2 bytes')
      client.destroy()
    }))

  it('whose sender leaves in the middle ends the exchange as aborted, with neither tooLarge nor timedOut', async () => {
    const seen: string[] = []
    let end = (): void => {}
    const ended = new Promise<void>((resolve) => (end = resolve))
    let begin = (): void => {}
    const begun = new Promise<void>((resolve) => (begin = resolve))
    await withServer(
      {
        'POST /m': (_head, exchange) => {
          exchange.onEnd((how) => {
            seen.push(how)
            end()
          })
          exchange.readBody(100, {
            chunk: (bytes) => seen.push(`chunk ${bytes.byteLength}`),
            tooLarge: () => seen.push('tooLarge'),
            timedOut: () => seen.push('timedOut'),
          })
          begin()
        },
      },
      async ({ server, clock }) => {
        const client = await RawClient.connect(server)
        await client.send(post('Content-Length: 10', 'half'))
        await begun
        client.destroy()
        await ended
        clock.advanceMs(60_000)
        assert.deepEqual(seen, ['chunk 4', 'aborted'])
      },
    )
  })
})

describe('a slow body', () => {
  it('is refused after 30 s without progress, with an answer, and the connection ends', () =>
    withServer({ 'POST /m': answerBodyLength(limitBytes) }, async ({ server, clock }) => {
      const client = await RawClient.connect(server)
      await client.send(post('Content-Length: 10', 'half'))
      await until(() => server.inFlight > 0)
      clock.advanceMs(29_000)
      assert.equal(server.inFlight, 1)
      clock.advanceMs(4000)
      const reply = await client.reply()
      assert.deepEqual([reply!.status, reply!.body, reply!.headers['connection']], [408, 'too slow', 'close'])
      await client.closed()
    }))

  it('that a refusal waits for is waited for no longer than that', () =>
    withServer(
      {
        'POST /limited': answerBodyLength(5),
        'POST /refused': (_head, exchange) => exchange.answer(413, null, 'too large'),
      },
      async ({ server, clock }) => {
        for (const path of ['/limited', '/refused']) {
          const client = await RawClient.connect(server)
          const errors: Error[] = []
          client.socket.on('error', (error) => errors.push(error))
          await client.send(`POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\n\r\nhalf`)
          await until(() => server.inFlight === 1)
          clock.advanceMs(29_000)
          assert.equal(server.inFlight, 1)
          clock.advanceMs(4000)
          assert.equal((await client.reply())!.body, 'too large')
          await client.closed()
          assert.deepEqual(errors, [])
        }
      },
    ))

  it('is not to blame for the time in which the server stood still', () =>
    withServer({ 'POST /m': answerBodyLength(limitBytes) }, async ({ server, clock }) => {
      const patient = await RawClient.connect(server)
      const stalled = await RawClient.connect(server)
      for (const client of [patient, stalled]) await client.send(post('Content-Length: 10', 'half'))
      await until(() => server.inFlight === 2)
      clock.advanceMs(8000)
      clock.stopMs(40_000)
      assert.equal(server.inFlight, 2)
      await patient.send('second')
      assert.equal((await patient.reply())!.body, '10 bytes')
      clock.advanceMs(16_000)
      assert.equal(server.inFlight, 1)
      clock.advanceMs(8000) // 32 s in all, besides the 40 s of the stop
      assert.equal((await stalled.reply())!.status, 408)
      patient.destroy()
    }))

  it('that brings a byte now and then is read to its end', async () => {
    let bytes = 0
    await withServer(
      {
        'POST /m': (_head, exchange) =>
          exchange.readBody(limitBytes, {
            chunk(chunk, isLast) {
              bytes += chunk.byteLength
              if (isLast) exchange.answer(200, null, `${bytes} bytes`)
            },
            tooLarge: () => {},
            timedOut: () => exchange.answer(408, null, ''),
          }),
      },
      async ({ server, clock }) => {
        const client = await RawClient.connect(server)
        await client.send(post('Content-Length: 10'))
        for (let sent = 1; sent <= 10; sent++) {
          await client.send('x')
          await until(() => bytes >= sent)
          if (sent < 10) clock.advanceMs(28_000)
        }
        assert.equal((await client.reply())!.body, '10 bytes')
        client.destroy()
      },
    )
  })
})

describe('bodies that hold too much memory', () => {
  it('make the slowest of them give up, but none that is read piece by piece', () => {
    let received = 0
    const read =
      (limitBytes: number) =>
      (_head: RequestHead, exchange: Exchange): void =>
        exchange.readBody(limitBytes, {
          chunk(chunk) {
            received += chunk.byteLength
          },
          tooLarge: () => {},
          timedOut: (why) => exchange.answer(408, null, why),
        })
    return withServer(
      { 'POST /gathered': read(1e9), 'POST /streamed': read(Infinity) },
      async ({ server, clock }) => {
        const send = async (client: RawClient, bytes: number): Promise<void> => {
          const due = received + bytes
          await client.send('x'.repeat(bytes))
          await until(() => received === due)
        }
        const open = async (path: string, bytes: number): Promise<RawClient> => {
          const client = await RawClient.connect(server)
          await client.send(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n`)
          await send(client, bytes)
          return client
        }
        const streamed = await open('/streamed', 400_000)
        const slow = await open('/gathered', 100_000)
        const slower = await open('/gathered', 50_000)
        clock.advanceMs(20_000)
        const fast = await open('/gathered', 140_000)
        assert.equal(server.inFlight, 4)
        await send(fast, 20_000)
        assert.deepEqual([(await slower.reply())!.body, server.inFlight], ['displaced', 3])
        await slower.closed()
        for (const client of [streamed, slow, fast]) client.destroy()
      },
      { heldBodyBytesMax: 300_000 },
    )
  })
})

test('malformed requests get a refusal or a closed connection, and the server goes on', () =>
  withServer({ 'POST /m': answerBodyLength(1000) }, async ({ server }) => {
    const pieces = fc.constantFrom(
      'POST /m HTTP/1.1\r\n',
      'Host: a\r\n',
      'Content-Length: 5\r\n',
      'Content-Length: -1\r\n',
      'Content-Length: 99999999999999999999\r\n',
      'Transfer-Encoding: chunked\r\n',
      'Transfer-Encoding: gzip\r\n',
      'X: \x00\x7f\xff\r\n',
      ': no name\r\n',
      'no colon\r\n',
      '\r\n',
      'hello',
      '5\r\nhello\r\n',
      '0\r\n\r\n',
      'zzzz\r\n',
      '\n\n',
      ' ',
      'HTTP/1.1',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { minLength: 1, maxLength: 8 }), async (parts) => {
        const client = await RawClient.connect(server)
        client.socket.end(Buffer.from(parts.join(''), 'latin1'))
        await client.closed()
        assert.equal((await ask(server, post('Content-Length: 2', 'ok')))!.body, '2 bytes')
      }),
      { numRuns: 150 },
    )
    assert.equal(server.inFlight, 0)
  }))
