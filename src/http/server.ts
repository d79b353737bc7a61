/**
 * Serves one service on one port over uWebSockets.js. What the library does by itself, found by trying 20.51:
 *
 *  - it refuses HTTP/1.0, a missing Host, a bad Content-Length, more than 48 KiB or about 95 headers with an answer of its own
 *    (505, 400, 431) and closes; no handler sees such a request
 *  - it closes without an answer after 8 to 12 s with half a header section, an idle connection, a body that stalls, or a reader that
 *    takes nothing; the latter two are kept for our own time (E7)
 *  - it answers `Expect: 100-continue` at once, and decodes chunked bodies (without chunk extensions and trailers: E9, framing.ts)
 *  - it takes the first of several Content-Length headers and any Transfer-Encoding for chunked (framing.ts), and drops the two bytes behind
 *    a chunk whatever they are
 *  - it goes on parsing what it has read behind an answer that closes the connection
 *  - it handles pipelined requests one by one while each is answered at once; a second one that arrives while the first is
 *    waiting for its answer makes it close the connection
 *  - a request that is waiting for its answer has no time-out
 */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { StoreError } from '../errors.ts'
import type { AcceptGate } from './accept-gate.ts'
import { STALLED_CLIENT_MS, STALLED_CLIENT_SWEEP_MS } from './limits.ts'
import { limitReceiveBuffer } from './receive-buffer.ts'
import { UwsRequestHead } from './request-head.ts'
import { RequestIds } from './request-ids.ts'
import { compileRoutes } from './routes.ts'
import type { CompiledPath, Endpoint, HttpService, Method } from './routes.ts'
import { ServedTime, WaitedClients } from './slow-clients.ts'
import { UwsExchange } from './uws-exchange.ts'
import type { ExchangeHost } from './uws-exchange.ts'
import { loadUws } from './uws.ts'
import { serveWebSockets } from './web-socket.ts'
import type { Accepted, OpenSocket, SocketHost, WebSocketEndpoint } from './web-socket.ts'
import type { UwsApp, UwsHandler, UwsListenSocket, UwsRequest, UwsResponse } from './uws.ts'

export interface HttpBind {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** The setting it came from, for the error message. */
  readonly setting: string
}

export interface HttpClock {
  /** Monotonic. */
  nowMs(): number
  /** Calls again and again until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
}

export interface HttpDependencies {
  readonly logger: { error(details: object, message: string): void }
  readonly clock: HttpClock
  /** Fills the bytes with randomness. */
  readonly random: (bytes: Uint8Array) => void
  /** Of the process. */
  readonly acceptGate?: AcceptGate
  readonly stalledClientMs?: number
  readonly heldBodyBytesMax?: number
}

export interface HttpServer {
  readonly host: string
  readonly port: number
  /** Requests begun and not ended. */
  readonly inFlight: number
  /** Accepts nothing new, lets what is in flight finish for a while, closes every connection. */
  close(options: { readonly withinMs: number }): Promise<void>
}

/** @throws StoreError that names the setting when the address cannot be bound */
export async function listen(
  service: HttpService,
  bind: HttpBind,
  dependencies: HttpDependencies,
): Promise<HttpServer> {
  const uws = loadUws()
  await probe(bind)
  const app = uws.App()
  const { acceptGate } = dependencies
  if (acceptGate) app.filter((_response, change) => change > 0 && acceptGate.opened())
  const server = new UwsServer(service, bind.host, app, dependencies)
  for (const path of compileRoutes(service.routes)) server.addPath(path)
  server.addNotFound()
  const socket = await new Promise<UwsListenSocket | false>((resolve) => app.listen(bind.host, bind.port, resolve))
  if (!socket) throw cannotBind(bind, 'the address cannot be bound')
  const port = uws.us_socket_local_port(socket)
  limitReceiveBuffer(port)
  const leaveGate = acceptGate?.add(port)
  server.start(port, () => {
    leaveGate?.()
    uws.us_listen_socket_close(socket)
  })
  return server
}

/** The library only says that it failed: node:net says why. */
function probe(bind: HttpBind): Promise<void> {
  if (bind.port === 0) return Promise.resolve()
  const probing = createServer()
  return new Promise((resolve, reject) => {
    probing.once('error', (error: NodeJS.ErrnoException) => {
      reject(cannotBind(bind, error.code === 'EADDRINUSE' ? 'the port is taken' : error.message))
    })
    probing.listen({ host: bind.host, port: bind.port }, () => probing.close(() => resolve()))
  })
}

function cannotBind({ setting, host, port }: HttpBind, why: string): StoreError {
  return new StoreError('invalid', 'http_bind_failed', `${setting}: cannot listen on ${host}:${port}, ${why}`)
}

const REGISTER: Record<Method, 'get' | 'head' | 'post' | 'put' | 'patch' | 'del' | 'options'> = {
  GET: 'get',
  HEAD: 'head',
  POST: 'post',
  PUT: 'put',
  PATCH: 'patch',
  DELETE: 'del',
  OPTIONS: 'options',
}

class UwsServer implements HttpServer, ExchangeHost, SocketHost {
  readonly host: string
  port = 0
  readonly requestIdHeader: string
  readonly requestIdLine: string
  readonly requestIdAlias: string | null
  readonly stalledClientMs: number
  closing = false
  inFlight = 0

  readonly #service: HttpService
  readonly #app: UwsApp
  readonly #dependencies: HttpDependencies
  readonly #head = new UwsRequestHead()
  readonly #ids: RequestIds
  readonly #watched: WaitedClients<UwsExchange>
  readonly #served: ServedTime
  readonly #sockets = new Set<OpenSocket>()
  #sweptAtMs = 0
  #stopListening: () => void = () => {}
  #stopSweeping: () => void = () => {}
  #idle: (() => void) | null = null
  #closed: Promise<void> | null = null

  constructor(service: HttpService, host: string, app: UwsApp, dependencies: HttpDependencies) {
    this.host = host
    this.requestIdHeader = service.requestIdHeader
    this.requestIdLine = `\r\n${service.requestIdHeader}: `
    this.requestIdAlias = service.requestIdAlias ?? null
    this.stalledClientMs = dependencies.stalledClientMs ?? STALLED_CLIENT_MS
    this.#watched = new WaitedClients(dependencies.heldBodyBytesMax)
    this.#served = new ServedTime(dependencies.clock)
    this.#service = service
    this.#app = app
    this.#dependencies = dependencies
    this.#ids = new RequestIds(service.requestIdPrefix, service.ownRequestIds, dependencies.random)
  }

  addPath({ path, endpoints, allow }: CompiledPath): void {
    for (const [method, endpoint] of endpoints) {
      if (method === 'GET' && endpoint.webSocket) serveWebSockets(this.#app, path, endpoint.webSocket, this)
      this.#app[REGISTER[method]](path, this.#handler(endpoint, method === 'HEAD'))
    }
    this.#app.any(
      path,
      this.#handler({ begin: (head, exchange) => this.#service.methodNotAllowed(head, exchange, allow) }),
    )
  }

  addNotFound(): void {
    this.#app.any('/*', this.#handler({ begin: (head, exchange) => this.#service.notFound(head, exchange) }))
  }

  start(port: number, stopListening: () => void): void {
    this.port = port
    this.#stopListening = stopListening
    this.#sweptAtMs = this.nowMs()
    this.#stopSweeping = this.#dependencies.clock.every(STALLED_CLIENT_SWEEP_MS, () => this.#sweep())
  }

  close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    this.#closed ??= this.#close(withinMs)
    return this.#closed
  }

  async #close(withinMs: number): Promise<void> {
    this.closing = true
    this.#stopListening()
    for (const { listener } of this.#sockets) listener.stop()
    if (!this.#isIdle) {
      let stopWaiting = (): void => {}
      await new Promise<void>((resolve) => {
        stopWaiting = this.#dependencies.clock.every(withinMs, resolve)
        this.#idle = resolve
      })
      stopWaiting()
    }
    // Not inside a callback of the library, which still has to send what was answered there.
    await new Promise((resolve) => setImmediate(resolve))
    this.#stopSweeping()
    this.#served.stop()
    this.#app.close() // aborts what is still in flight
  }

  // For its exchanges

  nowMs(): number {
    return this.#dependencies.clock.nowMs()
  }

  requestIdOf(own: string): string {
    return this.#ids.of(own)
  }

  later(task: () => void): void {
    setImmediate(task)
  }

  get servedMs(): number {
    return this.#served.nowMs
  }

  watch(exchange: UwsExchange): void {
    this.#watched.add(exchange)
  }

  unwatch(exchange: UwsExchange): void {
    this.#watched.delete(exchange)
  }

  hold(bytes: number): void {
    this.#watched.hold(bytes)
  }

  ended(): void {
    this.inFlight--
    assert(this.inFlight >= 0)
    if (this.#isIdle) this.#idle?.()
  }

  get #isIdle(): boolean {
    return this.inFlight === 0 && this.#sockets.size === 0
  }

  // For its WebSockets

  accepted(endpoint: WebSocketEndpoint, response: UwsResponse, request: UwsRequest): Accepted | null {
    let accepted: Accepted | null = null
    this.#begin(response, request, false, (head, exchange) => {
      accepted = endpoint.accept(head, exchange)
      if (accepted !== null) exchange.handOver()
    })
    return accepted
  }

  opened(socket: OpenSocket): void {
    this.#sockets.add(socket)
    if (this.closing) this.later(() => socket.listener.stop())
  }

  closed(socket: OpenSocket): void {
    this.#sockets.delete(socket)
    if (this.#isIdle) this.#idle?.()
  }

  #handler(endpoint: Endpoint, isHead?: boolean): UwsHandler {
    const begin = (head: UwsRequestHead, exchange: UwsExchange): void => endpoint.begin(head, exchange)
    return (response: UwsResponse, request: UwsRequest) =>
      this.#begin(response, request, isHead ?? request.getMethod() === 'head', begin)
  }

  #begin(
    response: UwsResponse,
    request: UwsRequest,
    isHead: boolean,
    begin: (head: UwsRequestHead, exchange: UwsExchange) => void,
  ): void {
    this.inFlight++
    const head = this.#head
    head.open(request)
    const exchange = new UwsExchange(this, response, head, isHead)
    const { problem } = head.framing
    try {
      if (problem === null) begin(head, exchange)
      else this.#refuseMalformed(exchange, problem)
    } catch (error) {
      this.failed(exchange, error)
    }
    head.close()
  }

  /**
   * Outside the library's callback, where what it read is not parsed yet: a request hidden behind this one would be served after an answer.
   * While none is given, the library closes the connection instead.
   */
  #refuseMalformed(exchange: UwsExchange, problem: string): void {
    this.later(() => {
      if (!exchange.ended) this.#service.malformed(exchange, problem)
    })
  }

  failed(exchange: UwsExchange, error: unknown): void {
    this.#dependencies.logger.error(
      { service: this.#service.name, request_id: exchange.id, err: error },
      'request failed',
    )
    this.#service.internalError(exchange)
  }

  #sweep(): void {
    const nowMs = this.nowMs()
    // While the process was stopped (a suspended machine, SIGSTOP) it was the server that did not read or write.
    const stoppedMs = Math.max(0, nowMs - this.#sweptAtMs - STALLED_CLIENT_SWEEP_MS)
    this.#sweptAtMs = nowMs
    for (const exchange of this.#watched) exchange.sweep(nowMs, stoppedMs)
  }
}
