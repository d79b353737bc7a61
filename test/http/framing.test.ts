/** Requests whose end two readers could find in different places. The test writes their bytes. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Exchange, RequestHead } from '../../src/http/exchange.ts'
import { RawClient, until, withServer } from '../support/http-server.ts'
import type { TestServer } from '../support/http-server.ts'
import { nextTurn } from '../support/next-turn.ts'

const put = (lines: string, body = ''): string => `PUT /a HTTP/1.1\r\nHost: a\r\n${lines}\r\n\r\n${body}`
const NEXT = 'GET /next HTTP/1.1\r\nHost: a\r\n\r\n'
const CHUNKED = 'Transfer-Encoding: chunked'

/** The bodies that were stored, and the number of other requests. */
class Seen {
  readonly stored: string[] = []
  readonly ends: string[] = []
  nexts = 0
  /** Called when a body is whole; null: the answer is given at once. */
  answerLater: ((answer: () => void) => void) | null = null

  readonly table = {
    'PUT /a': (_head: RequestHead, exchange: Exchange): void => {
      let text = ''
      exchange.onEnd((how) => this.ends.push(how))
      exchange.readBody(1000, {
        chunk: (bytes, isLast) => {
          text += Buffer.from(bytes).toString()
          if (!isLast) return
          this.stored.push(text)
          const answer = (): void => exchange.answer(200, 'text/plain', 'stored')
          if (this.answerLater) this.answerLater(answer)
          else answer()
        },
        tooLarge: () => exchange.answer(413, 'text/plain', 'too large'),
        timedOut: () => exchange.answer(408, 'text/plain', 'too slow'),
      })
    },
    'GET /next': (_head: RequestHead, exchange: Exchange): void => {
      this.nexts += 1
      exchange.answer(200, 'text/plain', 'next')
    },
  }
}

const withSeen = (test: (server: TestServer, seen: Seen) => Promise<void>): Promise<void> => {
  const seen = new Seen()
  return withServer(seen.table, (server) => test(server, seen))
}

describe('a request that says twice, or unclearly, where its body ends', () => {
  const cases: readonly [what: string, request: string][] = [
    ['two lengths', put('Content-Length: 3\r\nContent-Length: 3', 'abc')],
    ['two lengths that differ', put('Content-Length: 3\r\nContent-Length: 40', 'abc')],
    ['an empty length before another', put('Content-Length: \r\nContent-Length: 3', 'abc')],
    ['an empty length', put('Content-Length:')],
    ['two transfer encodings', put(`${CHUNKED}\r\n${CHUNKED}`, '3\r\nabc\r\n0\r\n\r\n')],
    ['two transfer encodings, one of them none', put(`Transfer-Encoding: identity\r\n${CHUNKED}`, '0\r\n\r\n')],
    ['chunked, identity', put('Transfer-Encoding: chunked, identity', '3\r\nabc\r\n0\r\n\r\n')],
    ['gzip, chunked', put('Transfer-Encoding: gzip, chunked', '3\r\nabc\r\n0\r\n\r\n')],
    ['identity', put('Transfer-Encoding: identity', '3\r\nabc\r\n0\r\n\r\n')],
    ['an unknown transfer encoding', put('Transfer-Encoding: xchunked', '3\r\nabc\r\n0\r\n\r\n')],
    ['an empty transfer encoding', put('Transfer-Encoding:')],
    ['announced trailers', put(`${CHUNKED}\r\nTrailer: X-Sum`, '3\r\nabc\r\n')],
  ]
  for (const [what, request] of cases) {
    it(`is refused in the service’s words, and its connection closed: ${what}`, () =>
      withSeen(async ({ server, errors }, seen) => {
        const client = await RawClient.connect(server)
        await client.send(request)
        const reply = await client.reply()
        assert.deepEqual([reply!.status, reply!.headers['connection']], [400, 'close'])
        assert.match(reply!.body, /^malformed: (Content-Length|Transfer-Encoding|trailers) /)
        assert.match(reply!.headers['x-request-id']!, /^req-/)
        await client.closed()
        const smuggler = await RawClient.connect(server)
        await smuggler.send(request + NEXT) // the library does not begin the next request before the answer
        await smuggler.closed()
        await until(() => server.inFlight === 0)
        assert.deepEqual([seen.stored, seen.nexts, errors], [[], 0, []])
      }))
  }

  it('is refused by the library when it has a length and a transfer encoding, or a length that is no number', () =>
    withSeen(async ({ server }, seen) => {
      const both = [`Content-Length: 3\r\n${CHUNKED}`, `${CHUNKED}\r\nContent-Length: 3`]
      for (const lines of [...both, 'Content-Length: 3, 3', 'Content-Length: +3']) {
        const client = await RawClient.connect(server)
        await client.send(put(lines, '3\r\nabc\r\n0\r\n\r\n') + NEXT)
        assert.equal((await client.reply())!.status, 400)
        await client.closed()
      }
      assert.deepEqual([seen.stored, seen.nexts], [[], 0])
    }))

  it('is served when it says so once: in any case, and on the same connection after another', () =>
    withSeen(async ({ server }, seen) => {
      const client = await RawClient.connect(server)
      for (const request of [
        put('transfer-encoding: Chunked', '3\r\nabc\r\n0\r\n\r\n'),
        put('CONTENT-LENGTH: 3', 'abc'),
        put('X-A: b'),
      ]) {
        await client.send(request)
        assert.equal((await client.reply())!.status, 200)
      }
      assert.deepEqual(seen.stored, ['abc', 'abc', ''])
      client.destroy()
    }))
})

describe('a chunked request with trailers that were not announced', () => {
  const body = '3\r\nabc\r\n0\r\n'
  const trailers = 'X-Sum: 1\r\n\r\n'

  it('is not stored when they come with the last chunk', () =>
    withSeen(async ({ server }, seen) => {
      const client = await RawClient.connect(server)
      await client.send(put(CHUNKED, body + trailers))
      const reply = await client.reply()
      assert.equal(reply?.status ?? 0, 505) // the library's own answer
      await client.closed()
      await until(() => server.inFlight === 0)
      assert.deepEqual([seen.stored, seen.ends], [[], ['aborted']])
    }))

  it('is stored and answered when they come later, wherever the connection cuts them, and closed behind', () =>
    withSeen(async ({ server }, seen) => {
      const answers: (() => void)[] = []
      seen.answerLater = (answer) => void answers.push(answer)
      for (let cut = 0; cut < trailers.length; cut++) {
        const client = await RawClient.connect(server)
        await client.send(put(CHUNKED, body + trailers.slice(0, cut)))
        await until(() => answers.length > 0 || seen.ends.length > cut)
        if (answers.length > 0) {
          await client.send(trailers.slice(cut))
          await ping(server) // the server has had a turn to read them
          answers.shift()!()
          assert.equal((await client.reply())!.status, 200, `cut at ${cut}`)
        }
        await client.closed()
      }
      assert.equal(seen.stored.length, seen.ends.filter((how) => how === 'answered').length)
      assert.equal(seen.ends.length, trailers.length)
      assert.ok(seen.stored.length >= 3, 'some of the cuts are behind what the library overlooks')
    }))

  it('does not hide a request in them', () =>
    withSeen(async ({ server }, seen) => {
      const client = await RawClient.connect(server)
      await client.send(put(CHUNKED, `${body}XX${NEXT}`))
      await client.closed()
      assert.deepEqual([seen.stored, seen.nexts], [[], 0])
    }))
})

describe('a chunked request that waits long for its answer', () => {
  it('notices after a while that its client is gone, and waits for as long as the service likes', () =>
    withSeen(async ({ server, clock }, seen) => {
      let answer = (): void => {}
      seen.answerLater = (given) => (answer = given)
      const [waits, leaves] = [await RawClient.connect(server), await RawClient.connect(server)]
      await waits.send(put(CHUNKED, '0\r\n\r\n'))
      await until(() => seen.stored.length === 1)
      const answerFirst = answer
      await leaves.send(put(CHUNKED, '0\r\n\r\n'))
      await until(() => seen.stored.length === 2)
      leaves.destroy()
      clock.advanceMs(60_000)
      await until(() => seen.ends.length === 1)
      assert.deepEqual(seen.ends, ['aborted'])
      answerFirst()
      assert.equal((await waits.reply())!.status, 200)
      await waits.send(NEXT)
      assert.equal((await waits.reply())!.body, 'next')
      waits.destroy()
    }))
})

describe('a chunked request that is refused while its body arrives', () => {
  it('is answered when its client asked to close, and then no longer watched', () =>
    withServer({ 'PUT /a': (_head, exchange) => exchange.answer(403, 'text/plain', 'no') }, async (web) => {
      for (const trailers of ['', 'X-Sum: 1\r\n']) {
        const client = await RawClient.connect(web.server)
        await client.send(put(`${CHUNKED}\r\nConnection: close`, '3\r\nabc\r\n'))
        await until(() => web.server.inFlight === 1)
        await client.send(`0\r\n${trailers}\r\n`)
        if (trailers === '') assert.equal((await client.reply())!.status, 403)
        await client.closed()
        await until(() => web.server.inFlight === 0)
        web.clock.advanceMs(60_000)
      }
      assert.deepEqual(web.errors, [])
    }))

  it('lets go of one whose client leaves before its body is handed over', () =>
    withSeen(async ({ server, clock, errors }, seen) => {
      // If a reset overtakes the request, the server never sees it. Then another client tries.
      for (let turns = 0; seen.ends.length === 0; turns = (turns + 1) % 5) {
        const client = await RawClient.connect(server)
        await client.send(put(CHUNKED, '0\r\nX'))
        for (let i = 0; i < turns; i += 1) await nextTurn()
        client.socket.resetAndDestroy()
        await until(() => client.socket.destroyed && server.inFlight === 0)
      }
      clock.advanceMs(60_000)
      assert.deepEqual(errors, [])
    }))
})

async function ping(server: TestServer['server']): Promise<void> {
  const client = await RawClient.connect(server)
  await client.send(NEXT)
  await client.reply()
  client.destroy()
}
