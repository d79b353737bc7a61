/** A server on a free port with a clock that the test moves, and raw sockets to talk to it. */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import type { ConnectionOptions } from 'node:tls'
import type { AnswerSource, Exchange, RequestHead } from '../../src/http/exchange.ts'
import type { AcceptGate } from '../../src/http/accept-gate.ts'
import type { OwnIds } from '../../src/http/request-ids.ts'
import type { Endpoint, HttpService, Method, Route } from '../../src/http/routes.ts'
import { listen } from '../../src/http/server.ts'
import type { HttpServer } from '../../src/http/server.ts'
import type { TlsFiles } from '../../src/tls-files.ts'
import { nextTurn } from './next-turn.ts'
import { LIMIT_MS } from './waiting.ts'

export class TestClock {
  #nowMs = 0
  readonly #tasks = new Set<{ everyMs: number; dueMs: number; run: () => void }>()

  nowMs(): number {
    return this.#nowMs
  }

  every(everyMs: number, run: () => void): () => void {
    const task = { everyMs, dueMs: this.#nowMs + everyMs, run }
    this.#tasks.add(task)
    return () => void this.#tasks.delete(task)
  }

  advanceMs(ms: number): void {
    const untilMs = this.#nowMs + ms
    for (;;) {
      const next = [...this.#tasks].sort((a, b) => a.dueMs - b.dueMs)[0]
      if (!next || next.dueMs > untilMs) break
      this.#nowMs = next.dueMs
      next.dueMs += next.everyMs
      next.run()
    }
    this.#nowMs = untilMs
  }

  /** Passes time as if the process stood still meanwhile: each task that was due runs once, late. */
  stopMs(ms: number): void {
    this.#nowMs += ms
    for (const task of this.#tasks) {
      if (task.dueMs > this.#nowMs) continue
      task.dueMs = this.#nowMs + task.everyMs
      task.run()
    }
  }
}

export interface TestServer extends AsyncDisposable {
  readonly server: HttpServer
  readonly clock: TestClock
  readonly errors: { details: object; message: string }[]
}

export type Begin = (head: RequestHead, exchange: Exchange) => void
type Table = Record<`${Method} ${string}`, Begin | Endpoint>

export interface ServeOptions {
  readonly host?: string
  readonly port?: number
  readonly tls?: TlsFiles
  /** Gives the service `withoutCertificate`, which answers requests without a client certificate. */
  readonly asksForCertificate?: boolean
  readonly heldBodyBytesMax?: number
  readonly acceptGate?: AcceptGate
  readonly ownRequestIds?: OwnIds
}

export async function serve(table: Table, options: ServeOptions = {}): Promise<TestServer> {
  const routes: Route[] = Object.entries(table).map(([key, begin]) => {
    const [method, path] = key.split(' ')
    return { method: method as Method, path: path!, endpoint: typeof begin === 'function' ? { begin } : begin }
  })
  const service: HttpService = {
    name: 'test',
    routes,
    requestIdHeader: 'x-request-id',
    ownRequestIds: options.ownRequestIds ?? 'visible',
    requestIdPrefix: 'req-',
    notFound: (_head, exchange) => exchange.answer(404, 'text/plain', 'nothing here'),
    methodNotAllowed: (_head, exchange, allow) =>
      exchange.answer(405, 'text/plain', 'not so', [['allow', allow.join(', ')]]),
    ...(options.asksForCertificate && {
      withoutCertificate: (_head, exchange) => exchange.answer(401, 'text/plain', 'no certificate'),
    }),
    malformed: (exchange, message) => exchange.answer(400, 'text/plain', `malformed: ${message}`),
    internalError: (exchange) => exchange.answer(500, 'text/plain', 'our fault'),
  }
  const clock = new TestClock()
  const errors: TestServer['errors'] = []
  const logger = { error: (details: object, message: string) => void errors.push({ details, message }) }
  let seed = 0
  const random = (bytes: Uint8Array): void => void bytes.fill(++seed)
  const bind = {
    host: options.host ?? '127.0.0.1',
    port: options.port ?? 0,
    setting: 'TEST_BIND_ADDRESS',
    tls: options.tls ?? null,
  }
  const server = await listen(service, bind, { ...options, logger, clock, random })
  return {
    server,
    clock,
    errors,
    async [Symbol.asyncDispose]() {
      await server.close({ withinMs: 1000 })
    },
  }
}

/** Runs a test against a server and closes it afterwards, also when the test throws. */
export async function withServer(
  table: Table,
  test: (server: TestServer) => Promise<void>,
  options: ServeOptions = {},
): Promise<void> {
  const server = await serve(table, options)
  try {
    await test(server)
  } finally {
    await server[Symbol.asyncDispose]()
  }
}

/** Reads a whole body and answers with its length, or with the reason why it cannot. */
export function answerBodyLength(limitBytes: number): Begin {
  return (_head, exchange) => {
    let bytes = 0
    exchange.readBody(limitBytes, {
      chunk(chunk, isLast) {
        bytes += chunk.byteLength
        if (isLast) exchange.answer(200, 'text/plain', `${bytes} bytes`)
      },
      tooLarge: () => exchange.answer(413, 'text/plain', 'too large'),
      timedOut: () => exchange.answer(408, 'text/plain', 'too slow'),
    })
  }
}

/** Pieces of `pieceBytes` bytes: each repeats one letter, and the next piece has the next letter. */
export class Letters implements AnswerSource {
  closed = 0
  asked = 0
  readonly #pieces: number
  readonly #pieceBytes: number
  readonly #failAt: number

  constructor(pieces: number, pieceBytes: number, failAt = Infinity) {
    this.#pieces = pieces
    this.#pieceBytes = pieceBytes
    this.#failAt = failAt
  }

  get bytes(): number {
    return this.#pieces * this.#pieceBytes
  }

  async next(): Promise<Uint8Array | null> {
    if (this.asked === this.#failAt) throw new Error('the disk is broken')
    if (this.asked === this.#pieces) return null
    this.asked += 1
    return Buffer.alloc(this.#pieceBytes, 'abcdefghij'[(this.asked - 1) % 10])
  }

  close(): void {
    this.closed += 1
  }

  text(): string {
    return Array.from({ length: this.#pieces }, (_, i) => 'abcdefghij'[i % 10]!.repeat(this.#pieceBytes)).join('')
  }
}

export interface Reply {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: string
}

/** A connection on which the test writes the bytes itself. */
export class RawClient {
  readonly #socket: Socket
  #received = Buffer.alloc(0)
  #closed = false
  #heard: () => void = () => {}

  /** @param tls for a server with TLS */
  static async connect({ host, port }: Pick<HttpServer, 'host' | 'port'>, tls?: ConnectionOptions): Promise<RawClient> {
    const socket = tls ? tlsConnect({ ...tls, host, port }) : connect(port, host)
    const connected = tls ? 'secureConnect' : 'connect'
    await new Promise((resolve, reject) => socket.once(connected, resolve).once('error', reject))
    return new RawClient(socket)
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (bytes) => {
      this.#received = Buffer.concat([this.#received, bytes])
      this.#heard()
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#closed = true
      this.#heard()
    })
  }

  get socket(): Socket {
    return this.#socket
  }

  send(bytes: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => this.#socket.write(bytes, () => resolve()))
  }

  /** The next whole reply; null when the connection ends before there is one. */
  async reply(isHead = false): Promise<Reply | null> {
    for (;;) {
      const reply = this.#parse(isHead)
      if (reply) return reply
      if (this.#closed) return null
      await new Promise<void>((resolve) => (this.#heard = resolve))
    }
  }

  /** Resolves when the other side closed. */
  async closed(): Promise<void> {
    while (!this.#closed) await new Promise<void>((resolve) => (this.#heard = resolve))
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #parse(isHead: boolean): Reply | null {
    const end = this.#received.indexOf('\r\n\r\n')
    if (end < 0) return null
    const [first, ...lines] = this.#received.toString('latin1', 0, end).split('\r\n')
    const headers = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
    )
    const status = Number(first!.split(' ')[1])
    const bodyBytes = isHead || status === 100 ? 0 : Number(headers['content-length'] ?? 0)
    if (this.#received.byteLength < end + 4 + bodyBytes) return null
    const body = this.#received.toString('utf8', end + 4, end + 4 + bodyBytes)
    this.#received = this.#received.subarray(end + 4 + bodyBytes)
    return { status, headers, body }
  }
}

/** One exchange on a connection of its own. */
export async function ask(server: HttpServer, request: string | Uint8Array, isHead = false): Promise<Reply | null> {
  const client = await RawClient.connect(server)
  await client.send(request)
  const reply = await client.reply(isHead)
  client.destroy()
  return reply
}

/** Lets the event loop turn until the condition holds. */
export async function until(condition: () => boolean): Promise<void> {
  const dueMs = performance.now() + LIMIT_MS
  while (!condition()) {
    if (performance.now() > dueMs) throw new Error(`not within ${LIMIT_MS} ms: ${String(condition)}`)
    await nextTurn()
  }
}
