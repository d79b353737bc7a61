/**
 * OTLP/gRPC ingest on HTTP/2 of Node, beside the HTTP routes: connections here, each call in export-call.ts.
 *
 * F1  pings find a connection whose client is gone, so that its calls give back what they hold
 * F2  a connection that sends something else than HTTP/2 ends alone: its error does not reach the others
 * F3  it listens before the store is open: until `serve`, a call is refused, and may be repeated on the same connection
 *
 * A call whose deadline passes gets DEADLINE_EXCEEDED: its batch may have been stored, and is stored once when it comes again.
 */
import { performServerHandshake } from 'node:http2'
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import { createServer } from 'node:net'
import type { AddressInfo, Server as TcpServer, Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { TlsOptions } from 'node:tls'
import type { AcceptGate } from '../../http/accept-gate.ts'
import { CollectedMemory } from '../../free-memory.ts'
import { ServedTime, WaitedClients } from '../../http/slow-clients.ts'
import type { WaitedClient } from '../../http/slow-clients.ts'
import { StoreError } from '../../errors.ts'
import { RequestIds } from '../../http/request-ids.ts'
import type { HttpBind, HttpClock, HttpDependencies } from '../../http/server.ts'
import type { TlsListener } from '../../http/tls.ts'
import type { TlsMaterial } from '../../tls-files.ts'
import { REQUEST_ID_PREFIX } from '../tenants/caller.ts'
import { AnsweredStreams } from './answered-streams.ts'
import { ExportCall, answerForeign, answerUnopened, answerUnserved } from './export-call.ts'
import type { CallContext, ExportParts } from './export-call.ts'
import { EXPORT_METHODS } from './export-methods.ts'
import type { ExportMethod } from './export-methods.ts'
import { isGrpcType } from './grpc-wire.ts'

export interface GrpcParts {
  readonly acceptGate?: AcceptGate
  readonly clock: HttpClock
  readonly random: HttpDependencies['random']
}

/**
 * Most calls that a connection may have open at once. Admission slots refuse calls long before that, with RetryInfo. Streams beyond this number are
 * reset: clients do not repeat them, and nothing counts them.
 */
const STREAMS_PER_CONNECTION = 2048
/** Bytes that a client may send before it is told that they were read: a batch of the default size fits, so that it waits for no round trip. */
const STREAM_WINDOW_BYTES = 1024 * 1024
const CONNECTION_WINDOW_BYTES = 4 * STREAM_WINDOW_BYTES

/** F1. A ping is sent at every sixth look, and its answer is due three looks later. */
const PING_LOOK_MS = 10_000
const LOOKS_PER_PING = 6
const LOOKS_PER_ANSWER = 3

/** How often open calls are looked at: stalled ones, and those whose deadline has passed. */
const CALL_LOOK_MS = 250

/** Longest TLS handshake, the same as for an HTTP client. */
const HANDSHAKE_MS = 10_000

/** One connection. Pings ask from time to time whether the client still lives. */
interface Connection {
  readonly session: ServerHttp2Session
  looks: number
  /** When the answer to the last ping is due; null: it has arrived. */
  answerDue: number | null
}

export class GrpcFront implements TlsListener {
  readonly host: string
  readonly port: number
  readonly #listener: Listener
  readonly #calls: Calls
  readonly #clock: HttpClock
  #closed: Promise<void> | null = null

  /** @throws StoreError that names the setting when the address cannot be bound */
  static async listen(bind: HttpBind, parts: GrpcParts, tls: TlsMaterial | null = null): Promise<GrpcFront> {
    const calls = new Calls(parts)
    const listener = await listenFor((socket) => calls.connected(socket), bind, parts.acceptGate, tls)
    return new GrpcFront(bind.host, listener, calls, parts.clock)
  }

  private constructor(host: string, listener: Listener, calls: Calls, clock: HttpClock) {
    this.host = host
    this.port = listener.port
    this.#listener = listener
    this.#calls = calls
    this.#clock = clock
  }

  renewTls(material: TlsMaterial): void {
    this.#listener.renewTls(material)
  }

  /** F3 */
  serve(parts: ExportParts): void {
    this.#calls.serve(parts)
  }

  /** Accepts nothing new, lets what is in flight finish for a while, closes every connection. */
  close(options: { readonly withinMs: number }): Promise<void> {
    return (this.#closed ??= this.#close(options.withinMs))
  }

  async #close(withinMs: number): Promise<void> {
    this.#listener.stop()
    const stopWaiting = this.#clock.every(withinMs, () => this.#calls.destroy())
    await this.#calls.close()
    stopWaiting()
  }
}

/** The connections of a front and the calls on them. */
class Calls {
  readonly #clock: HttpClock
  readonly #shared: Omit<CallContext, 'parts'>
  /** F3. Null: the store is not open yet. */
  #context: CallContext | null = null
  readonly #methods = new Map<string, ExportMethod>(EXPORT_METHODS.map((method) => [method.path, method]))
  readonly #connections = new Set<Connection>()
  readonly #open = new Set<ExportCall>()
  readonly #stopPinging: () => void
  /** Null: no call is open. */
  #stopLooking: (() => void) | null = null
  #onEmpty: (() => void) | null = null

  constructor(parts: GrpcParts) {
    const { clock } = parts
    this.#clock = clock
    this.#shared = {
      ids: new RequestIds(REQUEST_ID_PREFIX, 'visible', parts.random),
      answered: new AnsweredStreams(),
      served: new ServedTime(clock),
      waited: new WaitedClients<WaitedClient>(),
      memory: new CollectedMemory(),
      onEnd: (call) => this.#ended(call),
    }
    this.#stopPinging = clock.every(PING_LOOK_MS, () => this.#ping())
  }

  serve(parts: ExportParts): void {
    this.#context = { ...this.#shared, parts }
  }

  connected(socket: Socket): void {
    socket.setNoDelay(true)
    const session = performServerHandshake(socket, {
      settings: { initialWindowSize: STREAM_WINDOW_BYTES, maxConcurrentStreams: STREAMS_PER_CONNECTION },
    })
    const connection: Connection = { session, looks: 0, answerDue: null }
    this.#connections.add(connection)
    session.setLocalWindowSize(CONNECTION_WINDOW_BYTES)
    session.on('stream', (stream, headers) => this.#begin(stream, headers))
    session.on('error', () => {}) // F2: it closes, and its streams with it
    session.on('close', () => {
      this.#connections.delete(connection)
      if (this.#connections.size === 0) this.#onEmpty?.()
    })
  }

  /** Resolves when the calls that are open have ended and their connections are closed. */
  async close(): Promise<void> {
    if (this.#connections.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve
        for (const { session } of this.#connections) session.close()
      })
    }
    this.#stopPinging()
    this.#shared.served.stop()
  }

  destroy(): void {
    for (const { session } of this.#connections) session.destroy()
  }

  #begin(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on('error', () => {}) // F2: 'close' follows
    const isCall = headers[':method'] === 'POST' && isGrpcType(headers['content-type'] ?? '')
    if (!isCall) return answerForeign(stream, headers, this.#shared)
    const method = this.#methods.get(headers[':path']!)
    if (method === undefined) return answerUnserved(stream, headers, this.#shared)
    if (this.#context === null) return answerUnopened(stream, headers, this.#shared)
    const call = new ExportCall(method, stream, headers, this.#context)
    this.#open.add(call)
    this.#stopLooking ??= this.#clock.every(CALL_LOOK_MS, () => this.#look())
    call.begin(headers)
  }

  #ended(call: ExportCall): void {
    this.#open.delete(call)
    if (this.#open.size > 0) return
    this.#stopLooking?.()
    this.#stopLooking = null
  }

  #look(): void {
    const nowMs = this.#clock.nowMs()
    for (const call of this.#open) call.look(nowMs)
  }

  /** F1 */
  #ping(): void {
    this.#shared.answered.look()
    for (const connection of this.#connections) {
      connection.looks += 1
      if (connection.answerDue !== null) {
        if (connection.looks >= connection.answerDue) connection.session.destroy()
      } else if (connection.looks % LOOKS_PER_PING === 0) {
        connection.answerDue = connection.looks + LOOKS_PER_ANSWER
        connection.session.ping(() => (connection.answerDue = null))
      }
    }
  }
}

/**
 * @throws StoreError that names the setting when the address cannot be bound
 */
function listenFor(
  onConnection: (socket: Socket) => void,
  { host, port, setting }: HttpBind,
  acceptGate: AcceptGate | undefined,
  tls: TlsMaterial | null,
): Promise<Listener> {
  const secure = tls === null ? null : createTlsServer(tlsOptions(tls), onConnection)
  const listener: TcpServer = secure ?? createServer(onConnection)
  listener.on('connection', () => acceptGate?.opened())
  return new Promise((resolve, reject) => {
    listener.once('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? 'the port is taken' : error.message
      const message = `${setting}: cannot listen on ${host}:${port}, ${why}`
      reject(new StoreError('invalid', 'grpc_bind_failed', message, { cause: error }))
    })
    listener.listen({ host, port }, () => {
      const bound = (listener.address() as AddressInfo).port // it listens on TCP
      const leaveGate = acceptGate?.add(bound)
      resolve({
        port: bound,
        renewTls: (material) => secure?.setSecureContext(tlsOptions(material)),
        stop() {
          leaveGate?.()
          listener.close()
        },
      })
    })
  })
}

/** The handshake asks for a certificate of the client, and ends for a client that shows none. */
const tlsOptions = ({ cert, key, clientCa }: TlsMaterial): TlsOptions => ({
  cert,
  key,
  ALPNProtocols: ['h2'],
  handshakeTimeout: HANDSHAKE_MS,
  ...(clientCa !== null && { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
})

interface Listener extends TlsListener {
  readonly port: number
  stop(): void
}
