/**
 * OTLP/gRPC ingest over @grpc/grpc-js, beside the HTTP routes: the same admission, places, lane and refusals.
 *
 *   metadata ── admission ──► message (decompressed by the library) ──► Ingest.submit ──► status
 *
 * G1  a call is admitted by its metadata, before its message is read
 * G2  the place of an admitted call is given back exactly once: by the call when it ends before its message is whole, by Ingest
 *     after `submit`
 * G3  a call is answered at most once; what comes after the answer, or after the client went away, is ignored
 * G4  a message has time as long as it brings anything at all, as a body over HTTP has (slow-clients.ts)
 * G5  an answer carries the request id in its first headers: of a refusal they are its only ones, with the status, as clients
 *     that have a retry policy repeat no call once they have headers before its status
 *
 * G6  a message stays as it was sent: the decode lane decompresses it, as it does bodies over HTTP
 *
 * What the library refuses by itself, without request id and kind and without RetryInfo, so that no client repeats it: a message
 * over the body limit as it is sent (RESOURCE_EXHAUSTED), an encoding that is none of ENCODINGS and a method that is not served
 * (UNIMPLEMENTED). The first two are counted as payload_too_large and unsupported_content_encoding. A call whose
 * deadline passes gets DEADLINE_EXCEEDED: its batch may have been stored, and is stored once when it comes again.
 */
import { createServer } from 'node:net'
import type { AddressInfo, Server as TcpServer, Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { TlsOptions } from 'node:tls'
import { Metadata, Server, ServerCredentials, logVerbosity, setLogVerbosity, status as Status } from '@grpc/grpc-js'
import type { ServerReadableStream, sendUnaryData } from '@grpc/grpc-js'
import type { AcceptGate } from '../../http/accept-gate.ts'
import { STALLED_CLIENT_MS, STALLED_CLIENT_SWEEP_MS } from '../../http/limits.ts'
import { Pace, ServedTime, WaitedClients } from '../../http/slow-clients.ts'
import type { WaitedClient } from '../../http/slow-clients.ts'
import { StoreError } from '../../errors.ts'
import { RequestIds } from '../../http/request-ids.ts'
import type { RequestWatch, WatchedRequest } from '../../http/request-watch.ts'
import type { HttpBind, HttpClock, HttpDependencies, RequestObserver } from '../../http/server.ts'
import type { TlsListener } from '../../http/tls.ts'
import type { TlsMaterial } from '../../tls-files.ts'
import { FORMAT_PROTOBUF, SOURCE_OTLP_GRPC } from '../batch-frame.ts'
import { REQUEST_ID_HEADER, REQUEST_ID_PREFIX, TENANT_HEADER, identifyCaller, isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import type { IngestCounters } from '../counters.ts'
import type { Ingest, IngestClient } from '../ingest/ingest.ts'
import { ENCODINGS } from '../ingest/messages.ts'
import { bodyTimedOut, exportResponse } from '../replies.ts'
import { REFUSALS, refusal } from '../refusals.ts'
import type { Refusal, RefusalKind } from '../refusals.ts'
import { encodeRpcStatus } from '../rpc-status.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import { EXPORT_METHODS, keepCompressed, onLibraryStatus, onMessageBytes } from './export-methods.ts'

export interface GrpcParts {
  readonly ingest: Pick<Ingest, 'takePlace' | 'giveBackPlace' | 'arriving' | 'arrived' | 'gatherer' | 'submit'>
  readonly policy: () => TenantPolicy
  readonly maxBodyBytes: number
  readonly counters: Pick<IngestCounters, 'refused'>
  readonly clock: HttpClock
  readonly acceptGate?: AcceptGate
  readonly requests?: RequestObserver
  /** Absent or null: requests are not followed one by one. */
  readonly watch?: RequestWatch | null
  readonly random: HttpDependencies['random']
  readonly logger: HttpDependencies['logger']
}

type ExportCall = ServerReadableStream<Buffer, Buffer>
type Reply = sendUnaryData<Buffer>

/**
 * Calls a connection may have open at once. Places refuse calls long before that, with RetryInfo: beyond this number the library resets
 * streams, which clients do not repeat and nothing counts. A call that was refused and whose client goes on sending takes 6 KB, so the
 * number bounds what one connection can take.
 */
const STREAMS_PER_CONNECTION = 2048

/** A connection whose other end is gone is found by pings, so that it does not hold what its calls hold. */
const PING_EVERY_MS = 60_000
const PING_ANSWER_MS = 20_000

/** As long as an HTTP client may take for it. */
const HANDSHAKE_MS = 10_000

/** Kinds of the refusals that the library makes by itself. */
const LIBRARY_REFUSALS: ReadonlyMap<number, RefusalKind> = new Map([
  [Status.RESOURCE_EXHAUSTED, 'payload_too_large'],
  [Status.UNIMPLEMENTED, 'unsupported_content_encoding'],
  [Status.INTERNAL, 'malformed_batch'],
])

export class GrpcFront implements TlsListener {
  readonly host: string
  readonly port: number
  readonly #server: Server
  readonly #listener: Listener
  readonly #clock: HttpClock
  readonly #served: ServedTime
  #closed: Promise<void> | null = null

  /** @throws StoreError that names the setting when the address cannot be bound */
  static async listen(bind: HttpBind, parts: GrpcParts, tls: TlsMaterial | null = null): Promise<GrpcFront> {
    setLogVerbosity(logVerbosity.NONE) // it writes to stderr, metadata values among it: a token must not get into a log
    const server = new Server({
      'grpc.max_receive_message_length': parts.maxBodyBytes,
      'grpc.max_concurrent_streams': STREAMS_PER_CONNECTION,
      'grpc.keepalive_time_ms': PING_EVERY_MS,
      'grpc.keepalive_timeout_ms': PING_ANSWER_MS,
    })
    const ids = new RequestIds(REQUEST_ID_PREFIX, 'visible', parts.random)
    const served = new ServedTime(parts.clock)
    const waited = new WaitedClients<WaitedClient>()
    for (const { signal, definition } of EXPORT_METHODS) {
      const exports = new Exports(signal, definition.path, ids, parts, served, waited)
      const handler = (call: ExportCall, reply: Reply): void => exports.begin(call, reply)
      server.addService({ Export: definition }, { Export: handler })
    }
    const connections = server.createConnectionInjector(ServerCredentials.createInsecure())
    const listener = await listenFor(connections, bind, parts.acceptGate, tls)
    return new GrpcFront(bind.host, listener, server, parts.clock, served)
  }

  private constructor(host: string, listener: Listener, server: Server, clock: HttpClock, served: ServedTime) {
    this.host = host
    this.port = listener.port
    this.#listener = listener
    this.#server = server
    this.#clock = clock
    this.#served = served
  }

  renewTls(material: TlsMaterial): void {
    this.#listener.renewTls(material)
  }

  /** Accepts nothing new, lets what is in flight finish for a while, closes every connection. */
  close(options: { readonly withinMs: number }): Promise<void> {
    return (this.#closed ??= this.#close(options.withinMs))
  }

  #close(withinMs: number): Promise<void> {
    this.#listener.stop()
    return new Promise((resolve) => {
      const stopWaiting = this.#clock.every(withinMs, () => this.#server.forceShutdown()) // ends the shutdown below
      this.#server.tryShutdown(() => {
        stopWaiting()
        this.#served.stop()
        resolve()
      })
    })
  }
}

/**
 * Connections are accepted here and handed to the library: it says nothing of those it accepts itself.
 *
 * @throws StoreError that names the setting when the address cannot be bound
 */
function listenFor(
  connections: ReturnType<Server['createConnectionInjector']>,
  { host, port, setting }: HttpBind,
  acceptGate: AcceptGate | undefined,
  tls: TlsMaterial | null,
): Promise<Listener> {
  const inject = (socket: Socket): void => connections.injectConnection(socket)
  const secure = tls === null ? null : createTlsServer(tlsOptions(tls), inject)
  const listener: TcpServer = secure ?? createServer(inject)
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

/** A certificate of a client is asked for in the handshake: a client without one gets no further. */
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

/** The calls of one export method. */
class Exports {
  readonly #signal: number
  readonly #route: string
  readonly #ids: RequestIds
  readonly #parts: GrpcParts
  readonly #served: ServedTime
  readonly #waited: WaitedClients<WaitedClient>

  constructor(
    signal: number,
    route: string,
    ids: RequestIds,
    parts: GrpcParts,
    served: ServedTime,
    waited: WaitedClients<WaitedClient>,
  ) {
    this.#served = served
    this.#waited = waited
    this.#signal = signal
    this.#route = route
    this.#ids = ids
    this.#parts = parts
  }

  begin(call: ExportCall, answer: Reply): void {
    const { policy, ingest } = this.#parts
    const requestId = this.#ids.of(textOf(call.metadata, REQUEST_ID_HEADER))
    const observed = this.#observe(call, answer, requestId)
    const { reply } = observed
    const caller = identifyCaller(
      policy(),
      textOf(call.metadata, TENANT_HEADER),
      textOf(call.metadata, 'authorization'),
    )
    if (isRefusal(caller)) return this.#refuse(reply, requestId, caller)
    observed.tenant = caller.tenant.id
    const full = ingest.takePlace(caller)
    if (full) return this.#refuse(reply, requestId, full)
    this.#receive(call, observed, requestId, caller)
  }

  /** A call that goes away before its answer counts as aborted; afterwards 'cancelled' says nothing. */
  #observe(call: ExportCall, answer: Reply, id: string): ObservedCall {
    const { clock, requests, counters } = this.#parts
    const watched = this.#watched(call, id)
    const startedMs = clock.nowMs()
    let isOver = false
    const ended = (status: number): void => {
      if (isOver) return
      isOver = true
      const seconds = (clock.nowMs() - startedMs) / 1000
      const { receivedBytes, tenant } = observed
      requests?.ended(this.#route, status, seconds, receivedBytes, 0)
      watched?.ended({ route: this.#route, status, seconds, receivedBytes, sentBytes: 0, tenant, principal: null })
    }
    const answering = onLibraryStatus(call, (code) => {
      const kind = LIBRARY_REFUSALS.get(code)
      if (kind === undefined) return
      counters.refused(kind)
      ended(httpStatusOf(code))
    })
    const observed: ObservedCall = {
      receivedBytes: 0,
      tenant: null,
      reply: (error, response) => {
        answering()
        ended(error ? httpStatusOf(error.code) : 200)
        answer(error, response)
      },
    }
    call.on('cancelled', () => ended(0))
    return observed
  }

  #watched(call: ExportCall, id: string): WatchedRequest | null {
    return (
      this.#parts.watch?.begun({
        id,
        method: 'POST',
        path: this.#route,
        remoteAddress: call.getPeer().replace(/:\d+$/, ''),
        header: (name) => textOf(call.metadata, name),
      }) ?? null
    )
  }

  /** Reads the one message of a call that holds a place. */
  #receive(call: ExportCall, observed: ObservedCall, requestId: string, caller: Caller): void {
    const { reply } = observed
    const { ingest, clock } = this.#parts
    const served = this.#served
    const waited = this.#waited
    const encodingOf = keepCompressed(call, ENCODINGS) // G6
    let message: Buffer | null = null
    let receiving = true
    let heldBytes = 0
    let movedAtMs = served.nowMs
    const pace = new Pace(movedAtMs)
    const client: WaitedClient = {
      slowRate: () => pace.slowRate(served.nowMs),
      giveUp: () => abandon(bodyTimedOut('displaced')),
    }
    const endReceiving = (): void => {
      receiving = false
      stopWaiting()
      ingest.arrived(client)
      waited.remove(link)
      waited.hold(-heldBytes)
    }
    const abandon = (refused: Refusal | null): void => {
      if (!receiving) return
      endReceiving()
      ingest.giveBackPlace(caller) // G2
      if (refused) this.#refuse(reply, requestId, refused)
    }
    const stopWaiting = clock.every(STALLED_CLIENT_SWEEP_MS, () => {
      if (served.nowMs - movedAtMs >= STALLED_CLIENT_MS) abandon(bodyTimedOut('stalled')) // G4
    })
    const link = waited.add(client)
    ingest.arriving(caller, client, null)
    onMessageBytes(call, (bytes) => {
      if (!receiving) return
      movedAtMs = served.nowMs
      pace.moved(bytes, movedAtMs)
      heldBytes += bytes
      waited.hold(bytes)
    })
    call.on('data', (bytes: Buffer) => {
      observed.receivedBytes += bytes.byteLength
      if (message) abandon(NOT_ONE_MESSAGE)
      else message = bytes
    })
    call.on('end', () => {
      if (!receiving) return
      if (message) {
        endReceiving()
        this.#submit(message, encodingOf(), call, reply, requestId, caller)
      } else {
        // A client that went away in the middle looks like this too, but then 'cancelled' follows at once.
        setImmediate(() => abandon(NOT_ONE_MESSAGE))
      }
    })
    call.on('cancelled', () => abandon(null)) // also after every answer
  }

  #submit(message: Buffer, encoding: number, call: ExportCall, reply: Reply, requestId: string, caller: Caller): void {
    const { ingest, logger } = this.#parts
    const client: IngestClient = {
      signal: this.#signal,
      format: FORMAT_PROTOBUF,
      source: SOURCE_OTLP_GRPC,
      accepted: (outcome) => {
        call.sendMetadata(metadataOf(requestId))
        reply(null, exportResponse(outcome))
      },
      refused: (refused) => reply(statusOf(refused, requestId)),
    }
    try {
      const body = ingest.gatherer(message.byteLength)
      if (body.add(message)) return ingest.submit(client, caller, body, encoding)
      ingest.giveBackPlace(caller)
      this.#refuse(
        reply,
        requestId,
        refusal('concurrency_exceeded', 'the gateway is saturated: the body space is full'),
      )
    } catch (error) {
      logger.error({ service: 'logstore', transport: 'grpc', request_id: requestId, err: error }, 'request failed')
      this.#refuse(reply, requestId, refusal('internal_error', 'the request failed; the log of the service says why'))
    }
  }

  /** Ingest counts its own refusals; these are told here. */
  #refuse(reply: Reply, requestId: string, refused: Refusal): void {
    this.#parts.counters.refused(refused.kind)
    reply(statusOf(refused, requestId))
  }
}

/** A call whose end the metrics hear of. */
interface ObservedCall {
  /** Bytes of its message, as it was sent. */
  receivedBytes: number
  /** The caller, once it is known. */
  tenant: string | null
  readonly reply: Reply
}

/** For the metrics, which know classes only: what is the server's fault, and what the client's. */
const httpStatusOf = (code: number | null | undefined): number =>
  code === Status.INTERNAL || code === Status.UNAVAILABLE ? 500 : 400

const NOT_ONE_MESSAGE = refusal('malformed_batch', 'an export call has exactly one message')

/** As the OTLP specification wants it: retryable exactly when the details hold a RetryInfo. */
function statusOf(refused: Refusal, requestId: string): { code: number; details: string; metadata: Metadata } {
  const metadata = metadataOf(requestId)
  metadata.set('grpc-status-details-bin', Buffer.from(encodeRpcStatus(refused)))
  return { code: REFUSALS[refused.kind].grpc, details: `${refused.kind}: ${refused.message}`, metadata }
}

/** G5 */
function metadataOf(requestId: string): Metadata {
  const metadata = new Metadata()
  metadata.set(REQUEST_ID_HEADER, requestId)
  metadata.set('grpc-accept-encoding', ENCODINGS.join(','))
  return metadata
}

/** '' when absent. */
const textOf = (metadata: Metadata, name: string): string => metadata.get(name).join(', ')
