/** The client's side of the streaming connection, with sockets and time that the test controls. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ANSWER, FrameReader, FrameWriter, PUBLISH, REFUSED } from '../../src/broker/wire/connection-frames.ts'
import { SdkError } from '../../src/client/index.ts'
import { ClientConfig } from '../../src/client/client-config.ts'
import { Stream } from '../../src/client/streaming/stream.ts'
import { publishOver } from '../../src/client/streaming/streamed-calls.ts'
import type { StreamParts } from '../../src/client/streaming/stream.ts'
import { nextTurn } from '../support/next-turn.ts'

/** The shortest limit of messages that a broker can have. */
const MIB = 1 << 20

type Events = Parameters<StreamParts['openSocket']>[2]

class FakeSocket {
  readonly url: string
  readonly protocols: readonly string[]
  readonly events: Events
  readonly frames: { readonly id: number; readonly text: string }[] = []
  readonly messageBytes: number[] = []
  isClosed = false

  constructor(url: string, protocols: readonly string[], events: Events) {
    this.url = url
    this.protocols = protocols
    this.events = events
  }

  send(message: Uint8Array): void {
    this.messageBytes.push(message.byteLength)
    const frame = new FrameReader(message.slice())
    while (frame.next()) this.frames.push({ id: frame.id, text: frame.text() })
  }

  close(): void {
    this.isClosed = true
  }

  say(type: number, id: number, body: object): void {
    const writer = new FrameWriter()
    writer.begin(type, 0, id, '')
    writer.text(JSON.stringify(body))
    writer.end(1)
    this.events.message(writer.written.slice())
  }
}

class World {
  readonly sockets: FakeSocket[] = []
  nowMs = 0
  #timers: { readonly dueMs: number; readonly run: () => void }[] = []
  readonly stream: Stream

  constructor(overrides: Partial<StreamParts> = {}) {
    this.stream = new Stream({
      origins: ['http://a', 'http://b'],
      apiKey: null,
      leases: 'keep',
      requestTimeoutMs: 1000,
      maxQueuedCalls: 3,
      openSocket: (url, protocols, events) => {
        const socket = new FakeSocket(url, protocols, events)
        this.sockets.push(socket)
        return socket
      },
      timers: {
        nowMs: () => this.nowMs,
        wait: (delayMs, run) => {
          const timer = { dueMs: this.nowMs + delayMs, run }
          this.#timers.push(timer)
          return () => void (this.#timers = this.#timers.filter((each) => each !== timer))
        },
      },
      defer: (run) => queueMicrotask(run),
      random: () => 0,
      ...overrides,
    })
  }

  get last(): FakeSocket {
    return this.sockets.at(-1)!
  }

  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.dueMs - b.dueMs)[0]
      if (next === undefined || next.dueMs > endMs) break
      this.#timers = this.#timers.filter((each) => each !== next)
      this.nowMs = Math.max(this.nowMs, next.dueMs)
      next.run()
    }
    this.nowMs = endMs
    await nextTurn()
  }
}

const outcomeOf = (asked: Promise<unknown>): Promise<unknown> =>
  asked.then(
    (value) => value,
    (error: unknown) => (error instanceof SdkError ? [error.code, error.retryable] : error),
  )

describe('a streaming connection', () => {
  it('is opened for the first call, with its key as a sub-protocol, and brings answers and refusals to their calls', async () => {
    const world = new World({ apiKey: 'secret>?' })
    const [first, second] = [world.stream.ask('1', undefined), outcomeOf(world.stream.ask('2', undefined))]
    assert.equal(world.sockets.length, 1)
    const key = Buffer.from('secret>?').toString('base64url')
    assert.deepEqual(
      [world.last.url, world.last.protocols],
      ['ws://a/v1/connection?leases=keep', ['trilog.v1', `bearer.${key}`]],
    )
    world.last.events.opened()
    const [one, two] = world.last.frames
    assert.deepEqual([one!.text, two!.text], ['1', '2'])
    const error = { code: 'quota_exceeded', message: 'm', action: 'a', retryable: true }
    world.last.say(REFUSED, two!.id, { status: 429, retry_after_seconds: 3, error })
    world.last.say(ANSWER, one!.id, { yes: true })
    assert.deepEqual([await first, await second], [{ yes: true }, ['quota_exceeded', true]])
  })

  it('is opened at the next address when the first does not answer, and fails its calls when none does', async () => {
    const world = new World()
    const asked = outcomeOf(world.stream.ask('1', undefined))
    world.last.events.closed(1006, '')
    assert.deepEqual([world.sockets.length, world.last.url.slice(0, 6)], [2, 'ws://b'])
    world.last.events.closed(1006, '')
    assert.deepEqual(await asked, ['connection_failed', true])
    const again = world.stream.ask('2', undefined)
    assert.equal(world.sockets.length, 2, 'it waits before it tries again')
    await world.pass(50)
    world.last.events.opened()
    world.last.say(ANSWER, world.last.frames[0]!.id, { late: 1 })
    assert.deepEqual(await again, { late: 1 })
  })

  it('that is lost fails what was sent, which may have happened, and tells subscriptions that they may begin anew', async () => {
    const world = new World()
    const ended: unknown[] = []
    const asked = outcomeOf(world.stream.ask('1', undefined))
    world.stream.listen(9, {
      stream: 's',
      group: 'g',
      delivered: () => {},
      ended: ({ code, retryable }) => void ended.push([code, retryable]),
    })
    world.last.events.opened()
    world.last.events.closed(1001, 'the node is stopping')
    assert.deepEqual([await asked, ended], [['connection_lost', false], [['connection_lost', true]]])
  })

  it('on which a call is not answered in time is given up; a late word of it is nobody’s', async () => {
    const world = new World()
    const asked = outcomeOf(world.stream.ask('1', undefined))
    world.last.events.opened()
    await world.pass(1500)
    assert.deepEqual(await asked, ['timeout', false])
    const [old] = world.sockets
    assert(old!.isClosed)
    const again = world.stream.ask('2', undefined)
    await world.pass(50)
    assert.equal(world.sockets.length, 2)
    old!.events.closed(1006, '')
    world.last.events.opened()
    world.last.say(ANSWER, world.last.frames[0]!.id, {})
    assert.deepEqual(await again, {})
  })

  it('that does not open in time is given up: its calls fail as not sent, and later ones go to the next address', async () => {
    const world = new World()
    const early = outcomeOf(world.stream.ask('1', undefined))
    await world.pass(500)
    const late = outcomeOf(world.stream.ask('2', undefined))
    const silent = world.last
    await world.pass(500)
    for (const call of [early, late]) assert.deepEqual(await call, ['connection_failed', true])
    assert(silent.isClosed)
    const next = world.stream.ask('3', undefined)
    await world.pass(50)
    assert.match(world.last.url, /^ws:\/\/b\//)
    silent.events.opened()
    assert.deepEqual(silent.frames, [])
    world.last.events.opened()
    world.last.say(ANSWER, world.last.frames[0]!.id, {})
    assert.deepEqual(await next, {})
  })

  it('sends what gathered before it was open in messages that a broker takes', async () => {
    const world = new World({ maxQueuedCalls: 1000 })
    const ignored = { answered: () => {}, failed: () => {} }
    for (let i = 0; i < 100; i += 1) {
      const bytes = new Uint8Array(i % 3 === 0 ? 250_000 : 1000)
      world.stream.add(PUBLISH, 0, i % 10 === 0 ? 'a' : 'b', (writer) => writer.raw(bytes), ignored, true)
    }
    world.last.events.opened()
    assert.ok(Math.max(...world.last.messageBytes) <= MIB, String(world.last.messageBytes))
    assert.ok(world.last.messageBytes.length < 34)
    const ids = world.last.frames.map(({ id }) => id)
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => a - b),
    )
  })

  it('leaves records to HTTP that are long or that the broker will refuse', () => {
    const { stream } = new World()
    const config = new ClientConfig({ producerId: 'p' })
    const isStreamed = (record: object): boolean => {
      const published = publishOver(stream, 's', { message_id: 'm', payload: '', ...record }, config, undefined)
      void published?.catch(() => {})
      return published !== null
    }
    const half = new Uint8Array(128 << 10)
    assert.deepEqual(
      [isStreamed({ payload: half, key: half.subarray(3) }), isStreamed({ payload: half, key: half })],
      [true, false],
    )
    assert.equal(isStreamed({ headers: { h: 'x'.repeat(64 << 10) } }), false)
  })

  it('that only waits for deliveries is asked for a sign of life', async () => {
    const world = new World()
    const ended: string[] = []
    const asked = world.stream.ask('1', undefined)
    world.stream.listen(9, { stream: 's', group: 'g', delivered: () => {}, ended: ({ code }) => void ended.push(code) })
    world.last.events.opened()
    world.last.say(ANSWER, world.last.frames[0]!.id, {})
    await asked
    await world.pass(1600)
    assert.deepEqual(
      world.last.frames.map(({ text }) => text),
      ['1', '{"op":"ping"}'],
    )
    world.last.say(ANSWER, world.last.frames[1]!.id, {})
    await world.pass(1600)
    assert.equal(world.last.frames.length, 3)
    await world.pass(1600)
    assert.deepEqual(ended, ['connection_lost'])
  })

  it('takes no more calls than may wait, none that is aborted, and none when it is closed', async () => {
    const world = new World()
    const aborting = new AbortController()
    const asked = [1, 2, 3].map((i) => outcomeOf(world.stream.ask(String(i), i === 2 ? aborting.signal : undefined)))
    assert.deepEqual(await outcomeOf(world.stream.ask('4', undefined)), ['too_many_calls', true])
    assert.deepEqual(await outcomeOf(world.stream.ask('5', AbortSignal.abort())), ['aborted', false])
    aborting.abort()
    assert.deepEqual(await asked[1], ['aborted', false])
    const closing = world.stream.close({ withinMs: 100 })
    await world.pass(100)
    await closing
    assert.deepEqual(
      [await asked[0], await asked[2]],
      [
        ['client_closed', false],
        ['client_closed', false],
      ],
    )
    assert.deepEqual(await outcomeOf(world.stream.ask('6', undefined)), ['client_closed', false])
    assert(world.last.isClosed)
  })

  it('sends what its subscriptions need, however many calls wait', async () => {
    const world = new World()
    for (const text of ['1', '2', '3']) void outcomeOf(world.stream.ask(text, undefined))
    world.stream.request('credit', { answered: () => {}, failed: () => {} })
    world.last.events.opened()
    await nextTurn()
    assert.deepEqual(
      world.last.frames.map(({ text }) => text),
      ['1', '2', '3', 'credit'],
    )
    assert.deepEqual(await outcomeOf(world.stream.ask('4', undefined)), ['too_many_calls', true])
  })

  it('is closed as soon as no call waits any more, also when the last is aborted, and however often it is told to close', async () => {
    const world = new World()
    const aborting = new AbortController()
    const call = outcomeOf(world.stream.ask('1', aborting.signal))
    world.last.events.opened()
    const closing = [1, 2].map(() => world.stream.close({ withinMs: 8000 }))
    aborting.abort()
    await Promise.all(closing)
    assert.deepEqual(await call, ['aborted', false])
    assert(world.last.isClosed)
  })
})
