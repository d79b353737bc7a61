/**
 * Serves one service on one port over uWebSockets.js. What the library does by itself, found by trying 20.51:
 *
 *  - it refuses HTTP/1.0, a missing Host, a bad Content-Length, more than 48 KiB or about 95 headers with an answer of its own
 *    (505, 400, 431) and closes; no handler sees such a request
 *  - it closes without an answer after 8 to 12 s of half a header section, an idle connection, a body that stalls, or a reader that
 *    takes nothing; for the latter two, this server puts that off until its own time-out (uws-exchange.ts E7)
 *  - it answers `Expect: 100-continue` at once, and decodes chunked bodies (without chunk extensions and trailers: uws-exchange.ts E9, framing.ts F3)
 *  - it takes the first of several Content-Length headers and any Transfer-Encoding for chunked (framing.ts), and drops the two bytes behind
 *    a chunk whatever they are
 *  - after an answer that closes the connection, it goes on parsing the bytes that it has read
 *  - it handles pipelined requests one by one while each is answered at once; a second one that arrives while the first is
 *    waiting for its answer makes it close the connection
 *  - a request that is waiting for its answer has no time-out
 *
 * Under TLS all of this applies to the decrypted bytes. The differences:
 *
 *  - the time of the first header section covers the handshake, too: a connection without a handshake is closed after 8 to 12 s
 *  - a paused body may still bring what one read of the socket had (receive-buffer.ts), in several chunks
 *  - a connection that is refused in its handshake was accepted, so the accept gate counts it, and no handler sees it
 */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { StoreError } from '../errors.ts'
import type { Link } from '../linked-list.ts'
import type { AcceptGate } from './accept-gate.ts'
import { STALLED_CLIENT_MS, STALLED_CLIENT_SWEEP_MS } from './limits.ts'
import { limitReceiveBuffer } from './receive-buffer.ts'
import { UwsRequestHead } from './request-head.ts'
import { RequestIds } from './request-ids.ts'
import type { BegunRequest, RequestWatch } from './request-watch.ts'
import { compileRoutes } from './routes.ts'
import type { CompiledPath, Endpoint, HttpService, Method } from './routes.ts'
import { ServedTime, WaitedClients } from './slow-clients.ts'
import { UwsExchange } from './uws-exchange.ts'
import type { ExchangeHost } from './exchange-host.ts'
import { loadUws } from './uws.ts'
import { serveWebSockets } from './web-socket.ts'
import type { Accepted, OpenSocket, SocketHost, WebSocketEndpoint } from './web-socket.ts'
import type { UwsApp, UwsHandler, UwsRequest, UwsResponse } from './uws.ts'
import { UwsListener, createApp } from './uws-listener.ts'
import type { TlsFiles } from '../tls-files.ts'
import type { TlsListener } from './tls.ts'

export interface HttpBind {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** The setting it came from, for the error message. */
  readonly setting: string
  /** Absent or null: plain HTTP. */
  readonly tls?: TlsFiles | null
}

export interface HttpClock {
  /** Monotonic. */
  nowMs(): number
  /** Calls `task` again and again until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
}

export interface HttpDependencies {
  readonly logger: { error(details: object, message: string): void }
  readonly clock: HttpClock
  /** Fills the bytes with randomness. */
  readonly random: (bytes: Uint8Array) => void
  /** The gate of the process. */
  readonly acceptGate?: AcceptGate
  readonly requests?: RequestObserver
  /** Null: single requests have no watcher. */
  readonly watch?: RequestWatch | null
  readonly stalledClientMs?: number
  readonly heldBodyBytesMax?: number
}

/** Hears how requests ended. */
export interface RequestObserver {
  /**
   * @param route  as in OpenAPI, or the service's word for the operation; OTHER_ROUTE: there is no such route
   * @param status 0: the client was gone before it had the answer
   */
  ended(route: string, status: number, seconds: number, receivedBytes: number, sentBytes: number): void
}

const OTHER_ROUTE = 'other'

export interface HttpServer extends TlsListener {
  readonly host: string
  readonly port: number
  /** It speaks TLS. */
  readonly isSecure: boolean
  /** Requests begun and not ended. */
  readonly inFlight: number
  /**
   * From now on requests go to this service, which has the same front as the one before. Routes whose path is served already stay as they
   * are.
   */
  serve(service: HttpService): void
  /** Accepts nothing new, lets what is in flight finish for a while, closes every connection. */
  close(options: { readonly withinMs: number }): Promise<void>
}

/** @throws StoreError that names the setting when the address cannot be bound */
export async function listen(
  service: HttpService,
  bind: HttpBind,
  dependencies: HttpDependencies,
): Promise<HttpServer> {
  await probe(bind)
  const server = new UwsServer(service, bind, dependencies)
  if (!server.start()) throw cannotBind(bind, 'the address cannot be bound')
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

const begunRequest = (head: UwsRequestHead, { id, remoteAddress }: UwsExchange): BegunRequest => ({
  id,
  method: head.method,
  path: head.path,
  remoteAddress,
  header: (name) => head.header(name),
})

/** An app, and how many connections it has. */
interface ServingApp {
  readonly app: UwsApp
  connections: number
}

class UwsServer implements HttpServer, ExchangeHost<UwsExchange>, SocketHost {
  readonly host: string
  port = 0
  readonly isSecure: boolean
  readonly requestIdHeader: string
  readonly requestIdLine: string
  readonly requestIdAlias: string | null
  readonly stalledClientMs: number
  closing = false
  inFlight = 0

  readonly #uws = loadUws()
  readonly #bind: HttpBind
  readonly #tls: TlsFiles | null
  #service: HttpService
  #paths: readonly CompiledPath[]
  /** The last one listens; those before it have connections still. */
  #apps: ServingApp[] = []
  #listener: UwsListener | null = null
  #leaveGate: (() => void) | undefined
  readonly #dependencies: HttpDependencies
  readonly #watch: RequestWatch | null
  readonly #head = new UwsRequestHead()
  readonly #ids: RequestIds
  readonly #watched: WaitedClients<UwsExchange>
  readonly #served: ServedTime
  readonly #asksForCertificate: boolean
  readonly #sockets = new Set<OpenSocket>()
  #sweptAtMs = 0
  #stopSweeping: () => void = () => {}
  #idle: (() => void) | null = null
  #closed: Promise<void> | null = null

  constructor(service: HttpService, bind: HttpBind, dependencies: HttpDependencies) {
    this.#bind = bind
    this.#tls = bind.tls ?? null
    this.host = bind.host
    this.isSecure = this.#tls !== null
    this.#asksForCertificate = (this.#tls?.clientCaFile ?? null) !== null
    this.#paths = compileRoutes(service.routes)
    this.requestIdHeader = service.requestIdHeader
    this.requestIdLine = `\r\n${service.requestIdHeader}: `
    this.requestIdAlias = service.requestIdAlias ?? null
    this.stalledClientMs = dependencies.stalledClientMs ?? STALLED_CLIENT_MS
    this.#watched = new WaitedClients(dependencies.heldBodyBytesMax)
    this.#served = new ServedTime(dependencies.clock)
    this.#service = service
    this.#dependencies = dependencies
    this.#watch = dependencies.watch ?? null
    this.#ids = new RequestIds(service.requestIdPrefix, service.ownRequestIds, dependencies.random)
  }

  /** @returns false when the address cannot be bound */
  start(): boolean {
    const serving = this.#createApp()
    const listener = UwsListener.listen(this.#uws, serving.app, this.host, this.#bind.port)
    if (listener === null) return false
    this.#apps = [serving]
    this.#listener = listener
    this.port = listener.port
    limitReceiveBuffer(this.port)
    this.#leaveGate = this.#dependencies.acceptGate?.add(this.port)
    this.#sweptAtMs = this.nowMs()
    this.#stopSweeping = this.#dependencies.clock.every(STALLED_CLIENT_SWEEP_MS, () => this.#sweep())
    return true
  }

  renewTls(): void {
    const listener = this.#listener
    if (this.#tls === null || listener === null || this.closing) return
    const serving = this.#createApp() // throws before anything is changed
    this.#leaveGate?.() // it holds descriptors of the listening socket
    try {
      this.#listener = listener.handOver(serving.app, this.host)
      this.#apps = [...this.#apps.filter(({ connections }) => connections > 0), serving]
    } finally {
      this.#leaveGate = this.#dependencies.acceptGate?.add(this.port)
    }
  }

  #createApp(): ServingApp {
    const app = createApp(this.#uws, this.#tls)
    const serving: ServingApp = { app, connections: 0 }
    const { acceptGate } = this.#dependencies
    app.filter((_response, change) => {
      serving.connections += change
      if (change > 0) acceptGate?.opened()
    })
    this.#register(app, this.#paths)
    app.any('/*', this.#handler(OTHER_ROUTE, { begin: (head, exchange) => this.#service.notFound(head, exchange) }))
    return serving
  }

  serve(service: HttpService): void {
    const served = new Set(this.#paths.map(({ path }) => path))
    const added = compileRoutes(service.routes).filter(({ path }) => !served.has(path))
    for (const { app } of this.#apps) this.#register(app, added)
    this.#paths = [...this.#paths, ...added]
    this.#service = service
  }

  #register(app: UwsApp, paths: readonly CompiledPath[]): void {
    for (const { path, endpoints, allow } of paths) {
      for (const [method, endpoint] of endpoints) {
        const route = `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`
        if (method === 'GET' && endpoint.webSocket) serveWebSockets(app, { path, route }, endpoint.webSocket, this)
        app[REGISTER[method]](path, this.#handler(route, endpoint, method))
      }
      const notAllowed: Endpoint = {
        begin: (head, exchange) => this.#service.methodNotAllowed(head, exchange, allow),
      }
      app.any(path, this.#handler(OTHER_ROUTE, notAllowed))
    }
  }

  close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    this.#closed ??= this.#close(withinMs)
    return this.#closed
  }

  async #close(withinMs: number): Promise<void> {
    this.closing = true
    this.#leaveGate?.()
    this.#listener?.close()
    for (const { listener } of this.#sockets) listener.stop()
    let stopWaiting = (): void => {}
    const late = new Promise<'late'>((resolve) => {
      stopWaiting = this.#dependencies.clock.every(withinMs, () => resolve('late'))
    })
    let reached: 'idle' | 'late' = 'idle'
    do {
      const idle = new Promise<'idle'>((resolve) => (this.#idle = () => resolve('idle')))
      if (!this.#isIdle) reached = await Promise.race([idle, late])
      // Not inside a callback of the library, which still has to send what was answered there. A request that comes meanwhile is let finish, too.
      await new Promise((resolve) => setImmediate(resolve))
    } while (reached === 'idle' && !this.#isIdle)
    stopWaiting()
    this.#stopSweeping()
    this.#served.stop()
    for (const { app } of this.#apps) app.close() // aborts what is still in flight
  }

  // For the exchanges

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

  watch(exchange: UwsExchange): Link<UwsExchange> {
    return this.#watched.add(exchange)
  }

  unwatch(link: Link<UwsExchange>): void {
    this.#watched.remove(link)
  }

  hold(bytes: number): void {
    this.#watched.hold(bytes)
  }

  reserve(bytes: number, granted: () => void): () => void {
    return this.#watched.reserve(bytes, granted)
  }

  ended({ route, status, startedMs, receivedBytes, sentBytes, tenant, principal, watched }: UwsExchange): void {
    const seconds = (this.nowMs() - startedMs) / 1000
    this.#dependencies.requests?.ended(route, status, seconds, receivedBytes, sentBytes)
    watched?.ended({ route, status, seconds, receivedBytes, sentBytes, tenant, principal })
    this.inFlight--
    assert(this.inFlight >= 0)
    if (this.#isIdle) this.#idle?.()
  }

  get #isIdle(): boolean {
    return this.inFlight === 0 && this.#sockets.size === 0
  }

  // For the WebSockets

  accepted(route: string, endpoint: WebSocketEndpoint, response: UwsResponse, request: UwsRequest): Accepted | null {
    let accepted: Accepted | null = null
    this.#begin(route, response, request, 'GET', (head, exchange) => {
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

  /** @param method null: all methods that have no handler of their own */
  #handler(route: string, endpoint: Endpoint, method: Method | null = null): UwsHandler {
    const begin = (head: UwsRequestHead, exchange: UwsExchange): void => endpoint.begin(head, exchange)
    const { isPublic = false } = endpoint
    return (response: UwsResponse, request: UwsRequest) =>
      this.#begin(route, response, request, method, begin, isPublic)
  }

  #begin(
    route: string,
    response: UwsResponse,
    request: UwsRequest,
    method: Method | null,
    begin: (head: UwsRequestHead, exchange: UwsExchange) => void,
    isPublic = false,
  ): void {
    this.inFlight++
    const head = this.#head
    head.open(request, method)
    const exchange = new UwsExchange(this, response, head, route)
    if (this.#watch !== null) exchange.watched = this.#watch.watch(begunRequest(head, exchange))
    const { problem } = head.framing
    const withoutCertificate = this.#asksForCertificate && !isPublic ? this.#service.withoutCertificate : undefined
    try {
      if (problem !== null) this.#refuseMalformed(exchange, problem)
      else if (withoutCertificate !== undefined && exchange.clientCertificate === '') withoutCertificate(head, exchange)
      else if (exchange.watched === null) begin(head, exchange)
      else exchange.watched.runWithin(() => begin(head, exchange))
    } catch (error) {
      this.failed(exchange, error)
    }
    head.close()
    exchange.headersEnded()
  }

  /**
   * Refuses outside the library's callback. Inside it the library has not parsed all that it read, and after an answer it would serve a request that is
   * hidden there. While there is no answer, it closes the connection instead.
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
    // While the process was stopped (a suspended machine, SIGSTOP) the server did not read or write: clients get that time back.
    const stoppedMs = Math.max(0, nowMs - this.#sweptAtMs - STALLED_CLIENT_SWEEP_MS)
    this.#sweptAtMs = nowMs
    for (const exchange of this.#watched) exchange.sweep(nowMs, stoppedMs)
    this.#watched.giveUpSlowClients()
  }
}
