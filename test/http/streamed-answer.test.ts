import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, it } from 'node:test'
import { UwsRequestHead } from '../../src/http/request-head.ts'
import { UwsExchange } from '../../src/http/uws-exchange.ts'
import type { ExchangeHost } from '../../src/http/exchange-host.ts'
import type { UwsRequest, UwsResponse } from '../../src/http/uws.ts'
import { Letters, RawClient, ask, until, withServer } from '../support/http-server.ts'
import { nextTurn } from '../support/next-turn.ts'

const MEBIBYTE = 1 << 20
const get = 'GET /m HTTP/1.1\r\nHost: a\r\n\r\n'

describe('an answer made while it is sent', () => {
  it('arrives whole, in order, with its length and headers, and the connection serves the next request', () => {
    const sources = [new Letters(1, 5), new Letters(20, 300_000), new Letters(3, 1), new Letters(0, 1)]
    let asked = 0
    return withServer(
      {
        'GET /m': (_, exchange) => {
          const source = sources[asked++]!
          exchange.answerFrom(200, 'text/plain', source.bytes, source, [['x-kind', 'letters']])
        },
      },
      async ({ server }) => {
        const client = await RawClient.connect(server)
        for (const source of sources) {
          await client.send(get)
          const reply = (await client.reply())!
          assert.equal(reply.status, 200)
          assert.equal(reply.headers['content-length'], String(source.bytes))
          assert.equal(reply.headers['x-kind'], 'letters')
          assert.equal(reply.body, source.text())
          assert.equal(source.closed, 1)
        }
        client.destroy()
      },
    )
  })

  it('to HEAD is its length alone', () => {
    const source = new Letters(3, 1000)
    return withServer(
      { 'GET /m': (_, exchange) => exchange.answerFrom(200, 'text/plain', source.bytes, source) },
      async ({ server }) => {
        const reply = (await ask(server, 'HEAD /m HTTP/1.1\r\nHost: a\r\n\r\n', true))!
        assert.equal(reply.headers['content-length'], '3000')
        assert.equal(source.asked, 0)
        assert.equal(source.closed, 1)
      },
    )
  })

  it('that fails after its reader left ends nothing else', () => {
    let fail = (_error: Error): void => {}
    const source = { next: () => new Promise<null>((_, reject) => (fail = reject)), close: () => {} }
    let ended = ''
    return withServer(
      {
        'GET /m': (_, exchange) => {
          exchange.onEnd((how) => (ended = how))
          exchange.answerFrom(200, 'text/plain', MEBIBYTE, source)
        },
        'GET /other': (_, exchange) => exchange.answer(200, 'text/plain', 'here'),
      },
      async ({ server }) => {
        const client = await RawClient.connect(server)
        await client.send(get)
        await until(() => server.inFlight > 0)
        client.destroy()
        await until(() => ended === 'aborted')
        fail(new Error('the disk failed'))
        assert.equal((await ask(server, 'GET /other HTTP/1.1\r\nHost: a\r\n\r\n'))!.body, 'here')
      },
    )
  })

  it('waits for its reader: what nobody takes is not made', () => {
    const source = new Letters(200, MEBIBYTE)
    return withServer(
      { 'GET /m': (_, exchange) => exchange.answerFrom(200, 'text/plain', source.bytes, source) },
      async ({ server }) => {
        const client = await RawClient.connect(server)
        client.socket.pause()
        await client.send(get)
        await until(() => source.asked > 0)
        let before = -1
        while (before !== source.asked) {
          before = source.asked
          for (let i = 0; i < 50; i++) await nextTurn()
        }
        assert.ok(source.asked < 100, `${source.asked} MiB made for a reader that takes none`)
        client.destroy()
        await until(() => source.closed === 1)
        assert.equal(server.inFlight, 0)
      },
    )
  })

  it('whose source fails before the first byte is our fault, and after it ends the connection', () => {
    const sources = [new Letters(3, 1000, 0), new Letters(3, MEBIBYTE, 1)]
    let asked = 0
    return withServer(
      {
        'GET /m': (_, exchange) => {
          const source = sources[asked++]!
          exchange.answerFrom(200, 'text/plain', source.bytes, source)
        },
      },
      async ({ server, errors }) => {
        assert.equal((await ask(server, get))!.status, 500)
        assert.equal(errors.length, 1)
        const client = await RawClient.connect(server)
        await client.send(get)
        assert.equal(await client.reply(), null)
        assert.deepEqual(
          sources.map(({ closed }) => closed),
          [0, 0],
        )
      },
    )
  })
})

describe('a source that has all its pieces, to a reader that takes them at once,', () => {
  it('is sent a mebibyte in each turn of the event loop', async () => {
    const source = new Letters(16, MEBIBYTE / 4)
    const askedInTurns: number[] = []
    let askedBefore = 0
    const host = {
      later(task: () => void) {
        askedInTurns.push(source.asked - askedBefore)
        askedBefore = source.asked
        setImmediate(task)
      },
    }
    const { exchange, ended } = exchangeOfGreedyReader(host)
    exchange.answerFrom(200, 'text/plain', source.bytes, source)
    assert.equal(await ended, 'answered')
    assert.deepEqual(askedInTurns, [4, 4, 4])
    assert.equal(source.asked, 16)
  })
})

/** An exchange whose connection takes everything at once. */
function exchangeOfGreedyReader(ownHost: Partial<ExchangeHost<UwsExchange>>): {
  exchange: UwsExchange
  ended: Promise<string>
} {
  const host = {
    requestIdHeader: 'x-request-id',
    requestIdAlias: null,
    requestIdOf: () => 'id',
    nowMs: () => 0,
    ended() {},
    ...ownHost,
  } as unknown as ExchangeHost<UwsExchange> // an answer uses nothing else
  let sentBytes = 0
  const response = {
    onAborted() {},
    cork: (write: () => void) => write(),
    writeStatus() {},
    writeHeader() {},
    tryEnd(piece: Uint8Array, lengthBytes: number) {
      sentBytes += piece.byteLength
      return [true, sentBytes === lengthBytes]
    },
  } as unknown as UwsResponse
  const head = new UwsRequestHead()
  head.open({ forEach() {} } as unknown as UwsRequest, 'GET')
  const exchange = new UwsExchange(host, response, head, 'GET /')
  return { exchange, ended: new Promise((resolve) => exchange.onEnd(resolve)) }
}

describe('a reader that pauses', () => {
  it('is given up after 30 s without taking a byte, not before, and nothing is left of it', () => {
    const source = new Letters(200, MEBIBYTE)
    return withServer(
      {
        'GET /m': (_, exchange) => exchange.answerFrom(200, 'text/plain', source.bytes, source),
        'GET /whole': (_, exchange) => exchange.answer(200, 'text/plain', Buffer.alloc(32 * MEBIBYTE)),
      },
      async ({ server, clock }) => {
        for (const path of ['/m', '/whole']) {
          const client = await RawClient.connect(server)
          client.socket.pause()
          await client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
          await until(() => server.inFlight === 1)
          clock.advanceMs(29_000)
          assert.equal(server.inFlight, 1)
          await until(() => {
            clock.advanceMs(4000) // the connection may still take a little before it is full
            return server.inFlight === 0
          })
          client.socket.resume()
          assert.equal(await client.reply(), null)
        }
        await until(() => source.closed === 1)
      },
    )
  })

  it('is given up earlier, the slowest first, when answers that wait for their readers hold too much memory', () =>
    withServer(
      { 'GET /m': (_, exchange) => exchange.answer(200, 'text/plain', Buffer.alloc(32 * MEBIBYTE)) },
      async ({ server, clock }) => {
        const ask = async (count: number): Promise<RawClient> => {
          const client = await RawClient.connect(server)
          client.socket.pause()
          await client.send(get)
          await until(() => server.inFlight === count)
          return client
        }
        const clients = [await ask(1), await ask(2), await ask(3)]
        // Less than the 30 s after which any reader that takes nothing is cut off.
        for (let seconds = 0; seconds < 24; seconds += 4) {
          clock.advanceMs(4000)
          await nextTurn()
        }
        assert.equal(server.inFlight, 2, 'that much may wait')
        for (const client of clients) client.destroy()
        await until(() => server.inFlight === 0)
        const more = [await ask(1), await ask(2)]
        clock.advanceMs(24_000)
        assert.equal(server.inFlight, 2, 'what was held was given back')
        for (const client of more) client.destroy()
      },
      { heldBodyBytesMax: 80 * MEBIBYTE },
    ))

  it('leaves others waiting for room until it is given up, and they get theirs in the order in which they came', () => {
    const granted: string[] = []
    return withServer(
      {
        'GET /m': (head, exchange) => {
          const name = head.query
          exchange.reserve(40 * MEBIBYTE, () => {
            granted.push(name)
            exchange.answer(200, 'text/plain', Buffer.alloc(32 * MEBIBYTE))
          })
        },
        'GET /s': (_, exchange) => {
          const source = new Letters(200, 65_536)
          exchange.reserve(40 * MEBIBYTE, () => {
            granted.push('stream')
            exchange.answerStream(200, 'text/plain', source)
          })
        },
      },
      async ({ server, clock }) => {
        const ask = async (path: string): Promise<RawClient> => {
          const client = await RawClient.connect(server)
          client.socket.pause()
          const count = server.inFlight + 1
          await client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
          await until(() => server.inFlight === count)
          return client
        }
        const clients = [await ask('/m?a'), await ask('/s')]
        assert.deepEqual(granted, ['a', 'stream'])
        clients.push(await ask('/m?b'), await ask('/m?c'), await ask('/m?d'))
        assert.deepEqual(granted, ['a', 'stream'])
        clients[2]!.destroy()
        await until(() => server.inFlight === 4)
        assert.deepEqual(granted, ['a', 'stream'], 'b was gone before it had room')
        clients[0]!.destroy()
        await until(() => granted.length === 3)
        for (let seconds = 0; seconds < 24; seconds += 4) {
          clock.advanceMs(4000)
          await nextTurn()
        }
        assert.deepEqual(granted, ['a', 'stream', 'c', 'd'])
        for (const client of clients) client.destroy()
        await until(() => server.inFlight === 0)
        const last = [await ask('/m?e'), await ask('/m?f')]
        assert.deepEqual(granted.slice(4), ['e', 'f'], 'all that was reserved was given back')
        for (const client of last) client.destroy()
      },
      { heldBodyBytesMax: 80 * MEBIBYTE },
    )
  })

  it('for less than that, again and again, gets all of the answer', () => {
    const source = new Letters(24, MEBIBYTE)
    return withServer(
      { 'GET /m': (_, exchange) => exchange.answerFrom(200, 'text/plain', source.bytes, source) },
      async ({ server, clock }) => {
        const client = connect(server.port, server.host)
        const ended = once(client, 'end')
        client.write(get.replace('Host', 'Connection: close\r\nHost'))
        const chunks: Buffer[] = []
        client.on('data', (chunk) => chunks.push(chunk))
        while (source.asked < 24) {
          const before = source.asked
          await until(() => source.asked > before)
          client.pause()
          clock.advanceMs(24_000)
          client.resume()
        }
        await ended
        const reply = Buffer.concat(chunks).toString('latin1')
        assert.equal(reply.slice(reply.indexOf('\r\n\r\n') + 4), source.text())
      },
    )
  })

  it('with room for less than the library tells of, is sent that by the sweeps, every byte once', () => {
    const body = Buffer.alloc(32 * MEBIBYTE, 'abcdefghijklm')
    return withServer(
      { 'GET /m': (_, exchange) => exchange.answer(200, 'text/plain', body) },
      async ({ server, clock }) => {
        const client = connect(server.port, server.host)
        const ended = once(client, 'end')
        client.write(get.replace('Host', 'Connection: close\r\nHost'))
        const chunks: Buffer[] = []
        let received = 0
        client.on('data', (chunk) => {
          chunks.push(chunk)
          received += chunk.byteLength
        })
        while (received < body.byteLength) {
          const enough = Math.min(received + MEBIBYTE, body.byteLength)
          await until(() => received >= enough)
          client.pause()
          clock.advanceMs(4000)
          client.resume()
        }
        await ended
        const reply = Buffer.concat(chunks)
        assert.ok(reply.subarray(reply.indexOf('\r\n\r\n') + 4).equals(body))
      },
    )
  })
})

describe('a body whose reading is paused', () => {
  it('brings nothing more until it is resumed, however fast the client sends', () => {
    let chunks = 0
    let isPaused = false
    return withServer(
      {
        'POST /m': (_, exchange) => {
          exchange.readBody(Infinity, {
            chunk(_bytes, isLast) {
              assert.equal(isPaused, false)
              chunks += 1
              if (isLast) return exchange.answer(200, 'text/plain', 'all')
              isPaused = true
              exchange.pauseBody()
              setImmediate(() => {
                isPaused = false
                exchange.resumeBody()
              })
            },
            tooLarge: () => exchange.answer(413, null, null),
            timedOut: () => exchange.answer(408, null, null),
          })
        },
      },
      async ({ server, errors }) => {
        const client = await RawClient.connect(server)
        const piece = Buffer.alloc(8 * MEBIBYTE, 'x')
        const pieces = 32
        await client.send(`POST /m HTTP/1.1\r\nHost: a\r\nContent-Length: ${pieces * piece.byteLength}\r\n\r\n`)
        for (let i = 0; i < pieces; i++) void client.send(piece)
        assert.equal((await client.reply())!.body, 'all')
        assert.deepEqual(errors, [])
        assert.ok(chunks > pieces)
        client.destroy()
      },
    )
  })

  it('comes on when it is resumed, and its waiting is not the client’s fault', () => {
    let resume = (): void => {}
    let received = 0
    let timedOut = false
    return withServer(
      {
        'POST /m': (_, exchange) => {
          exchange.readBody(100 * MEBIBYTE, {
            chunk(bytes, isLast) {
              received += bytes.byteLength
              if (isLast) return exchange.answer(200, 'text/plain', `${received} bytes`)
              exchange.pauseBody()
              resume = () => exchange.resumeBody()
            },
            tooLarge: () => exchange.answer(413, null, null),
            timedOut: () => {
              timedOut = true
            },
          })
        },
      },
      async ({ server, clock }) => {
        const client = await RawClient.connect(server)
        const bytes = 8 * MEBIBYTE
        const sent = client.send(`POST /m HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n${'x'.repeat(bytes)}`)
        await until(() => received > 0)
        clock.advanceMs(120_000)
        assert.equal(timedOut, false)
        assert.ok(received < bytes)
        const reply = client.reply()
        let isOver = false
        void reply.then(() => (isOver = true))
        await until(() => {
          resume()
          return isOver
        })
        await sent
        assert.equal((await reply)!.body, `${bytes} bytes`)
        client.destroy()
      },
    )
  })
})
