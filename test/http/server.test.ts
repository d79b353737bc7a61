import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { textOfHeaders } from '../../src/http/exchange.ts'
import type { Exchange } from '../../src/http/exchange.ts'
import { compileRoutes } from '../../src/http/routes.ts'
import { RawClient, answerBodyLength, ask, serve, until, withServer } from '../support/http-server.ts'
import { nextTurn } from '../support/next-turn.ts'

const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`
const post = (path: string, body: string, headers = ''): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`
const hello = (_head: unknown, exchange: Exchange): void => exchange.answer(200, 'text/plain', 'hello')

describe('routing', () => {
  it('finds the endpoint of a method and path, and tells it its parameters decoded', () =>
    withServer(
      {
        'GET /v1/things/:id/parts/:part': (head, exchange) =>
          exchange.answer(200, null, `${head.param(0)} ${head.param(1)}`),
      },
      async ({ server }) => {
        assert.equal((await ask(server, get('/v1/things/a%20b/parts/%C3%A9')))!.body, 'a b é')
        assert.equal((await ask(server, get('/v1/things/%zz/parts/%C3')))!.body, 'null null')
        assert.equal((await ask(server, get('/v1/things//parts/x')))!.status, 404)
      },
    ))

  it('shows path and query as they were sent', () =>
    withServer(
      {
        'GET /*': (head, exchange) =>
          exchange.answer(200, null, `${head.method} ${head.path} ${head.query} ${head.contentLength}`),
      },
      async ({ server }) => {
        assert.equal((await ask(server, get('/a//b/../%2e/?x=%20&y')))!.body, 'GET /a//b/../%2e/ x=%20&y -1')
        assert.equal((await ask(server, get('/a')))!.body, 'GET /a  -1')
      },
    ))

  it('answers an unknown path and an unknown method in the service’s words, naming the methods that exist', () =>
    withServer({ 'GET /a': hello, 'POST /a': hello, 'DELETE /b': hello }, async ({ server }) => {
      assert.deepEqual([(await ask(server, get('/c')))!.status, (await ask(server, get('/a/')))!.status], [404, 404])
      const refused = await ask(server, 'PATCH /a HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.deepEqual([refused!.status, refused!.headers['allow'], refused!.body], [405, 'GET, HEAD, POST', 'not so'])
      assert.equal((await ask(server, 'FOO /b HTTP/1.1\r\nHost: a\r\n\r\n'))!.headers['allow'], 'DELETE')
      assert.equal((await ask(server, 'OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n'))!.status, 405)
    }))

  it('serves HEAD wherever there is a GET: the same headers and length, no body, and the connection goes on', () =>
    withServer({ 'GET /a': hello }, async ({ server }) => {
      const client = await RawClient.connect(server)
      for (let i = 0; i < 2; i++) {
        await client.send('HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n')
        const head = await client.reply(true)
        assert.deepEqual(
          [head!.status, head!.headers['content-length'], head!.headers['content-type']],
          [200, '5', 'text/plain'],
        )
      }
      await client.send('HEAD /nowhere HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.equal((await client.reply(true))!.headers['content-length'], '12')
      await client.send(get('/a'))
      assert.equal((await client.reply())!.body, 'hello')
      client.destroy()
    }))

  it('refuses two endpoints for one method and path at start', () => {
    const route = { method: 'GET', path: '/a', endpoint: { begin: hello } } as const
    assert.throws(() => compileRoutes([route, route]), /two routes for GET \/a/)
  })
})

describe('a request id', () => {
  it('is the client’s own when it has 1 to 128 visible characters, else generated, and in every response', () =>
    withServer({ 'GET /a': hello }, async ({ server }) => {
      const idOf = async (request: string) => (await ask(server, request))!.headers['x-request-id']!
      assert.equal(await idOf(get('/a', 'X-Request-Id: mine-1\r\n')), 'mine-1')
      assert.equal(await idOf(get('/nowhere', `X-Request-Id: ${'m'.repeat(128)}\r\n`)), 'm'.repeat(128))
      for (const bad of ['m'.repeat(129), 'two words', 'mül', '']) {
        assert.match(await idOf(get('/a', `X-Request-Id: ${bad}\r\n`)), /^req-[0-9a-f]{24}$/)
      }
      assert.match(await idOf('PATCH /a HTTP/1.1\r\nHost: a\r\n\r\n'), /^req-/)
    }))

  it('may be any of 1 to 128 bytes of UTF-8 without control characters, for a service that keeps those', async () => {
    const test = await serve({ 'GET /a': hello }, { ownRequestIds: 'printable' })
    const client = await RawClient.connect(test.server)
    const idOf = async (id: string | Buffer): Promise<string> => {
      const [before, behind] = get('/a', 'X-Request-Id: @\r\n').split('@')
      await client.send(Buffer.concat([Buffer.from(before!), Buffer.from(id), Buffer.from(behind!)]))
      return Buffer.from((await client.reply())!.headers['x-request-id']!, 'latin1').toString() // the bytes on the wire
    }
    try {
      // The library cuts off bytes above 0x7f at the ends of a header.
      for (const own of ['m', 'two words', '<mül> "漢"', `a${'é'.repeat(63)}b`, `(${'🗂'.repeat(31)})`, '"\ufffd"']) {
        assert.equal(await idOf(own), own)
      }
      const bad = [`a${'é'.repeat(63)}bc`, 'm'.repeat(129), 'a\tb', 'a\u0085b', Buffer.from([0x61, 0xe9, 0x61])]
      for (const id of bad) assert.match(await idOf(id), /^req-[0-9a-f]{24}$/)
    } finally {
      client.destroy()
      await test[Symbol.asyncDispose]()
    }
  })
})

describe('an answer', () => {
  it('without a body has no content length with 204', () =>
    withServer({ 'DELETE /a': (_head, exchange) => exchange.answer(204, null, null) }, async ({ server }) => {
      const reply = await ask(server, 'DELETE /a HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.deepEqual(
        [reply!.status, reply!.headers['content-length'], reply!.headers['content-type']],
        [204, undefined, undefined],
      )
    }))

  it('has headers that were made to text before as it has others', () =>
    withServer(
      {
        'GET /a': (_head, exchange) =>
          exchange.answer(
            200,
            'text/plain',
            'b',
            textOfHeaders([
              ['x-c', '1'],
              ['x-d', '2'],
            ]),
          ),
      },
      async ({ server }) => {
        const { body, headers } = (await ask(server, get('/a')))!
        assert.deepEqual([body, headers['content-type'], headers['x-c'], headers['x-d']], ['b', 'text/plain', '1', '2'])
      },
    ))

  it('does not name the library', () =>
    withServer({ 'GET /a': hello }, async ({ server }) => {
      assert.deepEqual(Object.keys((await ask(server, get('/a')))!.headers).sort(), [
        'content-length',
        'content-type',
        'date',
        'x-request-id',
      ])
    }))

  it('may come later, is given once, and ends the exchange once', async () => {
    const ends: string[] = []
    let late: Exchange | null = null
    let arrived = (): void => {}
    const begun = new Promise<void>((resolve) => (arrived = resolve))
    await withServer(
      {
        'GET /late': (_head, exchange) => {
          exchange.onEnd((how) => ends.push(how))
          exchange.onEnd((how) => ends.push(`also ${how}`))
          late = exchange
          arrived()
        },
      },
      async ({ server }) => {
        const reply = ask(server, get('/late'))
        await begun
        assert.equal(server.inFlight, 1)
        assert.equal(late!.ended, false)
        late!.answer(202, null, 'first')
        late!.answer(500, null, 'second')
        assert.equal((await reply)!.body, 'first')
        assert.deepEqual([ends, late!.ended, server.inFlight], [['answered', 'also answered'], true, 0])
        late!.onEnd((how) => ends.push(`after ${how}`))
        assert.equal(ends.at(-1), 'after answered')
      },
    )
  })

  it('to a client that is gone is ignored, and the exchange ended as aborted', async () => {
    let ended = (_how: string): void => {}
    const end = new Promise<string>((resolve) => (ended = resolve))
    let begun = (_exchange: Exchange): void => {}
    const beginning = new Promise<Exchange>((resolve) => (begun = resolve))
    await withServer(
      {
        'GET /late': (_head, exchange) => {
          exchange.onEnd((how) => ended(how))
          begun(exchange)
        },
      },
      async ({ server }) => {
        const client = await RawClient.connect(server)
        await client.send(get('/late'))
        const exchange = await beginning
        client.destroy()
        assert.equal(await end, 'aborted')
        exchange.answer(200, null, 'nobody')
        assert.equal(server.inFlight, 0)
      },
    )
  })

  it('of 8 MiB reaches a reader that pauses, whole, and ends only then', async () => {
    const body = Buffer.alloc(8 * 1024 * 1024, 'abcdefgh')
    let ended = false
    await withServer(
      {
        'GET /large': (_head, exchange) => {
          exchange.onEnd(() => (ended = true))
          exchange.answer(200, null, body)
        },
        'GET /text': (_head, exchange) => exchange.answer(200, null, 'é'.repeat(100_000)),
      },
      async ({ server }) => {
        const client = await RawClient.connect(server)
        client.socket.pause()
        await client.send(get('/large'))
        await ask(server, get('/nowhere')) // the first answer is stuck by now
        assert.equal(ended, false)
        client.socket.resume()
        const reply = await client.reply()
        assert.ok(Buffer.from(reply!.body).equals(body))
        assert.equal(ended, true)
        await client.send(get('/text'))
        assert.equal((await client.reply())!.body, 'é'.repeat(100_000))
        client.destroy()
      },
    )
  })

  it('to a slow reader that leaves ends as aborted', async () => {
    let ended = (_how: string): void => {}
    const end = new Promise<string>((resolve) => (ended = resolve))
    await withServer(
      {
        'GET /large': (_head, exchange) => {
          exchange.onEnd((how) => ended(how))
          exchange.answer(200, null, Buffer.alloc(16 * 1024 * 1024))
        },
      },
      async ({ server }) => {
        const client = await RawClient.connect(server)
        client.socket.pause()
        await client.send(get('/large'))
        await ask(server, get('/nowhere'))
        client.destroy()
        assert.equal(await end, 'aborted')
      },
    )
  })

  it('of an endpoint that throws is the service’s internal error, logged with the request id', () =>
    withServer(
      {
        'GET /throws': () => {
          throw new Error('bug')
        },
        'POST /throws': (_head, exchange) =>
          exchange.readBody(10, {
            chunk: () => {
              throw new Error('bug')
            },
            tooLarge: () => {},
            timedOut: () => {},
          }),
      },
      async ({ server, errors }) => {
        const replies = [await ask(server, get('/throws')), await ask(server, post('/throws', 'x'))]
        assert.deepEqual(
          replies.map((reply) => [reply!.status, reply!.body]),
          [
            [500, 'our fault'],
            [500, 'our fault'],
          ],
        )
        assert.equal((errors[0]!.details as { request_id: string }).request_id, replies[0]!.headers['x-request-id'])
      },
    ))
})

describe('a request head', () => {
  it('is dead after begin()', async () => {
    let path = (): string => ''
    await withServer(
      {
        'GET /a': (head, exchange) => {
          path = () => head.path
          exchange.answer(200, null, '')
        },
      },
      async ({ server }) => {
        await ask(server, get('/a'))
        assert.throws(() => path(), assert.AssertionError)
      },
    )
  })

  it('may have 32 KiB of headers behind a target of 8 KiB; far more is refused by the library', () =>
    withServer(
      { 'GET /a': (head, exchange) => exchange.answer(200, null, String(head.header('x-long').length)) },
      async ({ server }) => {
        const target = `/a?${'q'.repeat(8 * 1024 - 3)}`
        assert.equal((await ask(server, get(target, `X-Long: ${'h'.repeat(32 * 1024)}\r\n`)))!.body, String(32 * 1024))
        assert.equal((await ask(server, get('/a', `X-Long: ${'h'.repeat(60_000)}\r\n`)))!.status, 431)
      },
    ))
})

describe('listening', () => {
  it('on a taken port fails with the name of the setting', () =>
    withServer({ 'GET /a': hello }, async ({ server }) => {
      await assert.rejects(serve({}, { port: server.port }), {
        kind: 'invalid',
        code: 'http_bind_failed',
        message: `TEST_BIND_ADDRESS: cannot listen on 127.0.0.1:${server.port}, the port is taken`,
      })
    }))

  it('on an address that is not of this machine fails with the name of the setting', async () => {
    await assert.rejects(serve({}, { host: '192.0.2.1' }), /TEST_BIND_ADDRESS/)
    await assert.rejects(serve({}, { host: '192.0.2.1', port: 9 }), /TEST_BIND_ADDRESS/)
  })

  it('works on the IPv6 loopback', async () => {
    const { server } = await serve({ 'GET /a': hello }, { host: '::1' })
    assert.equal((await ask(server, get('/a')))!.body, 'hello')
    await server.close({ withinMs: 1000 })
  })
})

describe('closing', () => {
  it('refuses new connections, lets the request in flight finish, and ends idle connections', async () => {
    let begun = (_exchange: Exchange): void => {}
    const beginning = new Promise<Exchange>((resolve) => (begun = resolve))
    const { server } = await serve({ 'GET /late': (_head, exchange) => begun(exchange), 'GET /a': hello })
    const idle = await RawClient.connect(server)
    await idle.send(get('/a'))
    await idle.reply()
    const busy = await RawClient.connect(server)
    await busy.send(get('/late'))
    const exchange = await beginning

    const closed = server.close({ withinMs: 1000 })
    await assert.rejects(RawClient.connect(server), /ECONNREFUSED/)
    exchange.answer(200, null, 'finished')
    const reply = await busy.reply()
    assert.deepEqual([reply!.body, reply!.headers['connection']], ['finished', 'close'])
    await Promise.all([closed, idle.closed(), busy.closed()])
  })

  it('lets a request finish that came with the end of the last one in flight', async () => {
    const begun: Exchange[] = []
    const { promise: bothBegun, resolve: haveBothBegun } = Promise.withResolvers<void>()
    const late = (_head: unknown, exchange: Exchange): void => {
      if (begun.push(exchange) === 2) haveBothBegun()
    }
    const { server } = await serve({ 'GET /late': late, 'GET /a': hello })
    const first = await RawClient.connect(server)
    const second = await RawClient.connect(server)
    await second.send(get('/a'))
    await second.reply()
    await first.send(get('/late'))
    await until(() => begun.length === 1)

    const closed = server.close({ withinMs: 1000 })
    // In one turn of the event loop, so that the server is idle while the request is on its way.
    void second.send(get('/late'))
    begun[0]!.answer(200, null, 'first')
    await Promise.race([bothBegun, closed])
    await nextTurn() // the server would close its connections in this turn
    begun[1]!.answer(200, null, 'second')
    assert.equal((await first.reply())!.body, 'first')
    const reply = await second.reply()
    assert.deepEqual([reply?.body, reply?.headers['connection']], ['second', 'close'])
    await Promise.all([closed, first.closed(), second.closed()])
  })

  it('gives up on what does not finish in time', async () => {
    let end = (_how: string): void => {}
    const ended = new Promise<string>((resolve) => (end = resolve))
    let begun = (): void => {}
    const beginning = new Promise<void>((resolve) => (begun = resolve))
    const { server, clock } = await serve({
      'GET /never': (_head, exchange) => {
        exchange.onEnd((how) => end(how))
        begun()
      },
    })
    const client = await RawClient.connect(server)
    await client.send(get('/never'))
    await beginning
    const closed = server.close({ withinMs: 5000 })
    clock.advanceMs(5000)
    await closed
    assert.equal(await ended, 'aborted')
    await client.closed()
    assert.equal(await server.close({ withinMs: 1 }), undefined)
  })
})

describe('pipelined requests', () => {
  it('that are answered at once are answered in order', () =>
    withServer({ 'GET /a': hello, 'POST /m': answerBodyLength(100) }, async ({ server }) => {
      const client = await RawClient.connect(server)
      await client.send(get('/a') + post('/m', 'four') + get('/nowhere'))
      const statuses = [await client.reply(), await client.reply(), await client.reply()].map((reply) => reply!.body)
      assert.deepEqual(statuses, ['hello', '4 bytes', 'nothing here'])
      client.destroy()
    }))
})
