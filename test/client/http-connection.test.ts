import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inspect } from 'node:util'
import { HttpBrokerError, HttpNativeClient, NotSent } from '../../src/client/index.ts'
import type { HttpAnswer, HttpNativeClientSettings, HttpRequest, SdkError } from '../../src/client/index.ts'
import { HttpConnection } from '../../src/client/http/connection.ts'
import type { HttpCall } from '../../src/client/http/connection.ts'
import { httpConfigOf } from '../../src/client/http/settings.ts'
import { platformTimers } from '../../src/client/http/timers.ts'
import { nextTurn } from '../support/next-turn.ts'
import { refusalOf } from './support.ts'

const A = 'http://a:1'
const B = 'http://b:2'
const C = 'http://c:3'
const OK: HttpAnswer = { status: 200, retryAfter: null, text: '{"ok":true}' }
const GET: HttpCall = { method: 'GET', path: '/x', body: null, isRepeatable: true }
const POST: HttpCall = { method: 'POST', path: '/x', body: '{}', isRepeatable: false }
const WAITING: HttpCall = { ...GET, waitMs: 10_000 }

/** A network that answers as the test says, and records the origin of each request. */
class Network {
  readonly asked: string[] = []
  /** Requests that the test answers itself. */
  readonly open: { readonly answer: (answer: HttpAnswer) => void; readonly request: HttpRequest }[] = []
  readonly connection: HttpConnection
  nowMs = 0
  /** How a request fails that is given up. */
  abandonedWith = new Error('aborted')
  #timers: { readonly atMs: number; readonly run: () => void }[] = []
  /** Outcome of every request to an origin; null: the test answers; absent: OK. */
  readonly faults = new Map<string, Error | HttpAnswer | null>()

  constructor(origins: readonly string[] = [A], settings: Partial<HttpNativeClientSettings> = {}) {
    const limits = { maxConnections: 2, maxWaitingConnections: 1 }
    this.connection = new HttpConnection({
      config: httpConfigOf(origins, { producerId: 'p', ...settings }, limits),
      transport: { send: (request) => this.#send(request) },
      timers: {
        nowMs: () => this.nowMs,
        wait: (delayMs, run) => {
          const timer = { atMs: this.nowMs + delayMs, run }
          this.#timers.push(timer)
          return () => (this.#timers = this.#timers.filter((each) => each !== timer))
        },
      },
      random: () => 0,
    })
  }

  get timers(): number {
    return this.#timers.length
  }

  pass(ms: number): void {
    this.nowMs += ms
    for (const { atMs, run } of this.#timers) if (atMs <= this.nowMs) run()
  }

  ask(call: HttpCall = GET): Promise<unknown> {
    return this.connection.ask(() => call, JSON.parse)
  }

  #send(request: HttpRequest): Promise<HttpAnswer> {
    this.asked.push(request.origin)
    const fault = this.faults.get(request.origin)
    if (fault instanceof Error) return Promise.reject(fault)
    if (fault !== null) return Promise.resolve(fault ?? OK)
    return new Promise((resolve, reject) => {
      this.open.push({ answer: resolve, request })
      request.signal.addEventListener('abort', () => reject(this.abandonedWith))
    })
  }
}

const shownOf = ({ kind, code, retryable }: SdkError): unknown[] => [kind, code, retryable]

describe('several addresses', () => {
  it('are tried in turn while there is no connection, whatever is asked, and the one that works is kept (C2)', async () => {
    const network = new Network([A, B, C])
    network.faults.set(A, new NotSent('no')).set(B, new NotSent('no'))
    assert.deepEqual(await network.ask(POST), { ok: true })
    await network.ask(POST)
    assert.deepEqual(network.asked, [A, B, C, C])
  })

  it('are each tried once, and the last failure is told (C2)', async () => {
    const network = new Network([A, B])
    network.faults.set(A, new NotSent('no')).set(B, new NotSent('no'))
    assert.deepEqual(shownOf(await refusalOf(network.ask(POST))), ['Transport', 'connection_failed', true])
    assert.deepEqual(network.asked, [A, B])
  })

  it('are not tried with what may have happened, unless a second time does no more than the first (C2)', async () => {
    const network = new Network([A, B])
    network.faults.set(A, new Error('reset'))
    assert.deepEqual(shownOf(await refusalOf(network.ask(POST))), ['Transport', 'connection_lost', false])
    await network.ask(POST)
    assert.deepEqual(network.asked, [A, B])
    network.faults.set(B, new Error('reset')).delete(A)
    await network.ask(GET)
    assert.deepEqual(network.asked, [A, B, B, A])
  })

  it('are left when an answer does not come in time, though what was asked is not asked again: its time is over (C2)', async () => {
    for (const [call, error, shown] of [
      [GET, new Error('aborted'), ['Transport', 'timeout', true]],
      [POST, new Error('aborted'), ['Transport', 'timeout', false]],
      [POST, new NotSent('no'), ['Transport', 'connection_failed', true]],
    ] as const) {
      const network = new Network([A, B], { requestTimeoutMs: 100 })
      network.faults.set(A, null)
      network.abandonedWith = error
      const late = refusalOf(network.ask(call))
      await nextTurn()
      network.pass(100)
      assert.deepEqual(shownOf(await late), shown)
      assert.deepEqual(network.asked, [A])
      await network.ask(call)
      assert.deepEqual(network.asked, [A, B])
    }
  })

  it('are not tried when the broker refuses: it was reached', async () => {
    const network = new Network([A, B])
    network.faults.set(A, { status: 503, retryAfter: '3', text: '{}' })
    await refusalOf(network.ask(GET))
    assert.deepEqual(network.asked, [A])
  })

  it('when there is one, have what can be repeated asked there twice, once the connection was lost (C2)', async () => {
    const network = new Network([A])
    network.faults.set(A, new Error('reset'))
    assert.deepEqual(shownOf(await refusalOf(network.ask(GET))), ['Transport', 'connection_lost', true])
    assert.deepEqual(shownOf(await refusalOf(network.ask(POST))), ['Transport', 'connection_lost', false])
    network.faults.set(A, new NotSent('no'))
    await refusalOf(network.ask(GET))
    assert.deepEqual(network.asked, [A, A, A, A])
  })
})

describe('connections', () => {
  it('are so many at a time; the rest waits in its order (C3)', async () => {
    const network = new Network()
    network.faults.set(A, null)
    const calls = Array.from({ length: 4 }, (_, i) => network.ask({ ...GET, path: `/${i}` }))
    await nextTurn()
    const paths = (): string[] => network.open.map(({ request }) => request.path)
    assert.deepEqual(paths(), ['/0', '/1'])
    network.open[1]!.answer(OK)
    await nextTurn()
    assert.deepEqual(paths(), ['/0', '/1', '/2'])
    network.open.forEach(({ answer }) => answer(OK))
    await nextTurn()
    network.open[3]!.answer(OK)
    assert.equal((await Promise.all(calls)).length, 4)
    assert.equal(network.timers, 0)
  })

  it('of what waits for a record are others (C3)', async () => {
    const network = new Network()
    network.faults.set(A, null)
    const calls = [network.ask(WAITING), network.ask(WAITING), network.ask(), network.ask()]
    await nextTurn()
    assert.deepEqual(
      network.open.map(({ request }) => request.signal.aborted),
      [false, false, false],
    )
    while (network.open.length > 0) {
      network.open.shift()!.answer(OK)
      await nextTurn()
    }
    await Promise.all(calls)
  })

  it('are waited for by a bounded number of calls', async () => {
    const network = new Network([A], { maxConnections: 1, maxQueuedCalls: 1 })
    network.faults.set(A, null)
    const calls = [network.ask(), network.ask()]
    assert.deepEqual(shownOf(await refusalOf(network.ask())), ['Transport', 'too_many_calls', true])
    await nextTurn()
    network.open[0]!.answer(OK)
    await nextTurn()
    network.open[1]!.answer(OK)
    await Promise.all(calls)
  })

  it('are waited for no longer by what was aborted', async () => {
    const network = new Network([A], { maxConnections: 1 })
    network.faults.set(A, null)
    const first = network.ask()
    const stop = new AbortController()
    const second = refusalOf(network.ask({ ...GET, signal: stop.signal }))
    const third = network.ask()
    stop.abort()
    assert.deepEqual(shownOf(await second), ['Aborted', 'aborted', false])
    network.open[0]!.answer(OK)
    await nextTurn()
    network.open[1]!.answer(OK)
    await Promise.all([first, third])
    assert.equal(network.asked.length, 2)
  })
})

describe('an answer', () => {
  it('that does not come in time is given up; a request that asked to wait is given that time besides', async () => {
    const network = new Network([A], { requestTimeoutMs: 100 })
    network.faults.set(A, null)
    const calls = [GET, POST, WAITING].map((call) => refusalOf(network.ask(call)))
    await nextTurn()
    network.pass(100)
    assert.deepEqual((await Promise.all(calls.slice(0, 2))).map(shownOf), [
      ['Transport', 'timeout', true],
      ['Transport', 'timeout', false],
    ])
    assert.equal(network.open[2]!.request.signal.aborted, false)
    network.pass(10_000)
    assert.equal((await calls[2]!).code, 'timeout')
  })

  it('may take as long as a timer can last, and a wait besides', (context) => {
    const { mock } = context.mock.method(globalThis, 'setTimeout', () => undefined)
    platformTimers.wait(2 ** 31 - 1 + 10_000, () => {})
    assert.deepEqual(
      mock.calls.map(({ arguments: [, delayMs] }) => delayMs),
      [2 ** 31 - 1],
    )
  })

  it('is given up when the signal says stop, and leaves nothing behind', async () => {
    const network = new Network()
    network.faults.set(A, null)
    const stop = new AbortController()
    const call = refusalOf(network.ask({ ...GET, signal: stop.signal }))
    await nextTurn()
    stop.abort()
    assert.equal((await call).kind, 'Aborted')
    assert.deepEqual([network.open[0]!.request.signal.aborted, network.timers], [true, 0])
  })

  it('that is no success is told in the words of the broker (C1)', async () => {
    const network = new Network()
    const error = { code: 'quota_exceeded', message: 'm', action: 'a', retryable: true }
    network.faults.set(A, { status: 429, retryAfter: '7', text: JSON.stringify({ api_version: 'v1', error }) })
    const refused = await refusalOf(network.ask())
    assert(refused instanceof HttpBrokerError)
    const { kind, status, code, message, action, retryable, retryAfterSeconds } = refused
    assert.deepEqual(
      { kind, status, code, message, action, retryable, retryAfterSeconds },
      { kind: 'HttpBroker', status: 429, ...error, retryAfterSeconds: 7 },
    )
  })

  it('of something else than a broker is told as such, and not repeated', async () => {
    for (const [status, text, retryable] of [
      [502, '<html>secret</html>', true],
      [404, '', false],
      [301, '{"error":"secret"}', false],
      [500, '{"error":{"code":5}}', false],
    ] as const) {
      const network = new Network()
      network.faults.set(A, { status, retryAfter: 'Wed, 21 Oct 2026 07:28:00 GMT', text })
      const refused = await refusalOf(network.ask())
      assert(refused instanceof HttpBrokerError)
      assert.deepEqual(
        [refused.status, refused.code, refused.retryable, refused.retryAfterSeconds],
        [status, `http_${status}`, retryable, null],
      )
      assert.doesNotMatch(inspect(refused), /secret/)
    }
  })

  it('that succeeds and is no JSON is bad, and not repeated in the error (C5)', async () => {
    const network = new Network()
    network.faults.set(A, { ...OK, text: 'secret payload' })
    const refused = await refusalOf(network.ask())
    assert.deepEqual(shownOf(refused), ['Transport', 'bad_answer', false])
    assert.doesNotMatch(inspect(refused), /secret/)
  })
})

describe('a client that is closed', () => {
  it('waits for what was asked, ends what waits for records, and asks nothing more (C4)', async () => {
    const network = new Network()
    network.faults.set(A, null)
    const [call, waiting, queued] = [network.ask(), refusalOf(network.ask(WAITING)), refusalOf(network.ask(WAITING))]
    await nextTurn()
    const closing = network.connection.close({ withinMs: 1000 })
    assert.deepEqual([(await waiting).kind, (await queued).kind], ['Aborted', 'Aborted'])
    network.open[0]!.answer(OK)
    await Promise.all([call, closing])
    assert.deepEqual(shownOf(await refusalOf(network.ask())), ['Transport', 'client_closed', false])
    assert.deepEqual([network.asked.length, network.timers], [2, 0])
  })

  it('a second time waits for the same calls, and not longer than the first (C4)', async () => {
    const network = new Network()
    network.faults.set(A, null)
    const call = network.ask()
    await nextTurn()
    const closing = [1, 2].map(() => network.connection.close({ withinMs: 1000 }))
    network.open[0]!.answer(OK)
    await Promise.all([call, ...closing])
    assert.equal(network.timers, 0)
  })

  it('does not wait for ever (C4)', async () => {
    const network = new Network()
    network.faults.set(A, null)
    const call = refusalOf(network.ask(POST))
    await nextTurn()
    const closing = network.connection.close({ withinMs: 1000 })
    network.pass(1000)
    await closing
    assert.equal((await call).code, 'client_closed')
  })
})

describe('connect', () => {
  const settings = { producerId: 'p' }

  it('takes addresses of http, one or several, in any notation of URLs', async () => {
    for (const addresses of ['http://localhost', 'HTTP://127.0.0.1:7400/', ['http://[::1]:7400', 'http://b']]) {
      await (await HttpNativeClient.connect(addresses, settings)).close()
    }
  })

  it('refuses what is no address of http, and does not repeat it', async () => {
    const bad = [
      'https://secret.example',
      'secret.example:7400',
      'http://user:secret@host',
      'http://host/secret',
      'http://host?secret',
      'http://host#secret',
      'http://host:99999/',
      'ftp://secret',
      ' http://secret',
      '',
      [],
      [['http://secret']],
      null,
      5,
      ['http://a', 'secret'],
    ]
    for (const addresses of bad) {
      const refused = await refusalOf(HttpNativeClient.connect(addresses as never, settings))
      assert.equal(refused.kind, 'InvalidConfig')
      assert.doesNotMatch(inspect(refused), /secret(?!\w*\.ts)/)
    }
  })

  it('takes https with the setting tls only', async () => {
    const client = await HttpNativeClient.connect('https://localhost:1', { ...settings, tls: {} })
    assert.equal((await refusalOf(client.listStreams())).code, 'connection_failed')
    await client.close()
  })

  it('refuses settings that are none', async () => {
    for (const wrong of [
      null,
      'p',
      {},
      { producerId: ' ' },
      { ...settings, apiKey: '' },
      { ...settings, apiKey: 'a b' },
      { ...settings, apiKey: 'secret\r\nx: y' },
      { ...settings, apiKey: 5 },
      { ...settings, requestTimeoutMs: 0 },
      { ...settings, maxConnections: 0 },
      { ...settings, maxWaitingConnections: 1.5 },
      { ...settings, maxQueuedCalls: -1 },
      { ...settings, transport: 5 },
      { ...settings, transport: async () => {} },
      { ...settings, tls: null },
      { ...settings, tls: 'secret' },
    ]) {
      const refused = await refusalOf(HttpNativeClient.connect(A, wrong as never))
      assert.equal(refused.kind, 'InvalidConfig')
      assert.doesNotMatch(inspect(refused), /secret/)
    }
  })
})

describe('a key', () => {
  const KEY = 'k-very-secret-1234'

  it('goes with every request, as the broker takes it', async () => {
    const seen: unknown[] = []
    const transport = {
      async send({ headers }: HttpRequest): Promise<HttpAnswer> {
        seen.push(headers['authorization'])
        return OK
      },
    }
    const client = await HttpNativeClient.connect(A, { producerId: 'p', apiKey: KEY, transport })
    await client.listStreams()
    await client.publish('s', { message_id: 'm', payload: '' })
    assert.deepEqual(seen, [`Bearer ${KEY}`, `Bearer ${KEY}`])
  })

  it('is shown neither by the client nor by any error (C5)', async () => {
    const errors = [new NotSent('no'), new Error('reset'), new TypeError('fetch failed')]
    const answers = [401, 500, 200].map((status) => ({ status, retryAfter: null, text: '<' }))
    for (const outcome of [...errors, ...answers]) {
      const send = (): Promise<HttpAnswer> =>
        outcome instanceof Error ? Promise.reject(outcome) : Promise.resolve(outcome)
      const client = await HttpNativeClient.connect(A, { producerId: 'p', apiKey: KEY, transport: { send } })
      const error = await refusalOf(client.listStreams())
      for (const shown of [inspect(error, { depth: 9, showHidden: true }), JSON.stringify(error), inspect(client)]) {
        assert.doesNotMatch(shown, /very-secret/)
      }
    }
    const client = await HttpNativeClient.connect('http://127.0.0.1:1', { producerId: 'p', apiKey: KEY })
    const shown = inspect(await refusalOf(client.listStreams()), { depth: 9, showHidden: true })
    assert.doesNotMatch(`${shown}${JSON.stringify(client)}`, /very-secret/)
  })
})

describe('several nodes of a cluster', () => {
  const elsewhere = (leader: string | null): HttpAnswer => ({
    status: 503,
    retryAfter: '1',
    leader,
    text: JSON.stringify({ api_version: 'v1', error: { code: 'not_leading', message: 'elsewhere', retryable: true } }),
  })

  it('are asked where the leader is, whatever the call, and all later calls go there', async () => {
    const network = new Network([A, B, C])
    network.faults.set(A, elsewhere(`${C}/`))
    await network.ask(POST)
    await network.ask(POST)
    assert.deepEqual(network.asked, [A, C, C])
  })

  it('are asked one after the other when the leader is not known, or is none of the addresses', async () => {
    for (const leader of [null, 'http://d:4', 'no address']) {
      const network = new Network([A, B, C])
      network.faults.set(A, elsewhere(leader))
      network.faults.set(B, elsewhere(leader))
      await network.ask(POST)
      assert.deepEqual(network.asked, [A, B, C])
    }
  })

  it('refuse retryably when none of them leads, also when two of them name each other', async () => {
    const network = new Network([A, B])
    network.faults.set(A, elsewhere(B))
    network.faults.set(B, elsewhere(A))
    const refused = await refusalOf(network.ask(POST))
    assert.ok(refused instanceof HttpBrokerError)
    assert.deepEqual([refused.code, refused.retryable, refused.retryAfterSeconds], ['not_leading', true, 1])
    assert.deepEqual(network.asked, [A, B, A])
    const alone = new Network([A])
    alone.faults.set(A, elsewhere(A))
    await refusalOf(alone.ask(POST))
    assert.deepEqual(alone.asked, [A])
  })
})
