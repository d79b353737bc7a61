import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { describe, it } from 'node:test'
import type { AnswerSource } from '../../src/http/exchange.ts'
import { ANSWER_BYTES_PER_TURN } from '../../src/http/limits.ts'
import type { HttpServer } from '../../src/http/server.ts'
import { Letters, until, withServer } from '../support/http-server.ts'

const PIECE_BYTES = 1 << 16

/** The head of a reply. Its body is read only when the test reads it. */
async function open({ host, port }: HttpServer): Promise<IncomingMessage> {
  const [response] = (await once(get({ host, port, path: '/m', agent: false }), 'response')) as [IncomingMessage]
  return response
}

/** Waits until a count has not changed for 1000 turns of the event loop: then nothing is under way. */
async function standsStill(count: () => number): Promise<void> {
  let before = -1
  let turns = 0
  await until(() => {
    turns = count() === before ? turns + 1 : 0
    before = count()
    return turns > 1000
  })
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer) // a Buffer, as no encoding is set
  return Buffer.concat(chunks).toString()
}

describe('an answer of unknown length', () => {
  it('arrives whole and in order, however many pieces it has', async () => {
    for (const source of [new Letters(0, 1), new Letters(1, 5), new Letters(3, 0), new Letters(200, PIECE_BYTES)]) {
      await withServer(
        { 'GET /m': (_, exchange) => exchange.answerStream(200, 'text/plain', source, [['x-kind', 'letters']]) },
        async ({ server }) => {
          const response = await open(server)
          assert.equal(response.statusCode, 200)
          assert.equal(response.headers['content-type'], 'text/plain')
          assert.equal(response.headers['x-kind'], 'letters')
          assert.equal(await textOf(response), source.text())
          assert.equal(source.closed, 0)
        },
      )
    }
  })

  it('is asked for no faster than its reader takes it', () => {
    const source = new Letters(2000, PIECE_BYTES)
    return withServer(
      { 'GET /m': (_, exchange) => exchange.answerStream(200, 'text/plain', source) },
      async ({ server }) => {
        const response = await open(server)
        await standsStill(() => source.asked)
        assert.ok(source.asked < 1000, 'buffers of sockets hold a few MiB')
        assert.equal(await textOf(response), source.text())
      },
    )
  })

  it('leaves the event loop a turn after so many bytes, however fast source and reader are', () => {
    let turn = 0
    let isOver = false
    const countTurns = (): void => {
      turn += 1
      if (!isOver) setImmediate(countTurns)
    }
    const bytesOfTurns = new Map<number, number>()
    class Fast extends Letters {
      override async next(): Promise<Uint8Array | null> {
        bytesOfTurns.set(turn, (bytesOfTurns.get(turn) ?? 0) + PIECE_BYTES)
        return super.next()
      }
    }
    const source = new Fast(500, PIECE_BYTES)
    return withServer(
      { 'GET /m': (_, exchange) => exchange.answerStream(200, 'text/plain', source) },
      async ({ server }) => {
        countTurns()
        const response = await open(server)
        let received = 0
        for await (const chunk of response) received += (chunk as Buffer).byteLength // a Buffer, as no encoding is set
        isOver = true
        assert.equal(received, source.bytes)
        const most = Math.max(...bytesOfTurns.values())
        assert.ok(most <= 2 * ANSWER_BYTES_PER_TURN, `${most} bytes in one turn`) // the end of one share, and all of the next
      },
    )
  })

  it('reaches its reader to the last byte while its source has nothing more yet', () => {
    let given = 0
    let isOver = false
    const end = Promise.withResolvers<null>() // the end may come before the source is asked again
    const source: AnswerSource = {
      async next() {
        if (isOver) return end.promise
        given++
        return Buffer.alloc(PIECE_BYTES, 'a')
      },
      close: () => {},
    }
    return withServer(
      { 'GET /m': (_, exchange) => exchange.answerStream(200, 'text/plain', source) },
      async ({ server }) => {
        const response = await open(server)
        await standsStill(() => given)
        isOver = true
        let received = 0
        response.on('data', (chunk: Buffer) => (received += chunk.byteLength))
        await until(() => received === given * PIECE_BYTES)
        const ended = once(response, 'end')
        end.resolve(null)
        await ended
      },
    )
  })

  it('is given up when its reader leaves, also while a piece is awaited', () => {
    let closed = 0
    let ended = ''
    const source: AnswerSource = {
      next: (() => {
        let asked = 0
        return () => (asked++ === 0 ? Promise.resolve(Buffer.from('first')) : new Promise<null>(() => {}))
      })(),
      close: () => void closed++,
    }
    return withServer(
      {
        'GET /m': (_, exchange) => {
          exchange.onEnd((how) => (ended = how))
          exchange.answerStream(200, 'text/plain', source)
        },
      },
      async ({ server }) => {
        const response = await open(server)
        response.destroy()
        await until(() => ended !== '')
        assert.deepEqual([ended, closed], ['aborted', 1])
      },
    )
  })

  it('whose source fails before the first byte is our fault, and after it ends the connection inside the body', async () => {
    const sources = [new Letters(3, 1000, 0), new Letters(3, 1000, 1)]
    let asked = 0
    await withServer(
      { 'GET /m': (_, exchange) => exchange.answerStream(200, 'text/plain', sources[asked++]!) },
      async ({ server, errors }) => {
        assert.equal((await open(server)).statusCode, 500)
        assert.equal(errors.length, 1)
        await assert.rejects(async () => textOf(await open(server)), { code: 'ECONNRESET' })
      },
    )
  })

  it('to HEAD has no body, and its source is closed unasked', () => {
    const source = new Letters(3, 1000)
    return withServer(
      { 'GET /m': (_, exchange) => exchange.answerStream(200, 'text/plain', source) },
      async ({ server: { host, port } }) => {
        const response = await fetch(`http://${host}:${port}/m`, { method: 'HEAD' })
        assert.equal(response.status, 200)
        assert.deepEqual([source.asked, source.closed], [0, 1])
      },
    )
  })
})
