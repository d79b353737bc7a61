/**
 * One export call, from its headers to its status: the same admission, slots, lane and refusals as a request over HTTP.
 *
 *   headers ── admission ──► message, as it was sent, into the arena ──► Ingest.submit ──► status
 *
 * A message stays as it was sent. The decode lane decompresses it, as it does bodies over HTTP.
 *
 * G1  a call is admitted by its headers, before its message is read
 * G2  the slot of an admitted call is given back exactly once: by the call when it ends before its message is whole, by Ingest
 *     after `submit`
 * G3  a call is answered at most once; what comes after the answer, or after the client went away, is ignored
 * G4  a message may take as long as any of it still arrives, like a body over HTTP (slow-clients.ts)
 * G5  an answer carries the request id in its first headers. A refusal has only these headers, with the status in them: clients that have a retry
 *     policy do not repeat a call once they have headers before its status
 */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import type { CollectedMemory } from '../../free-memory.ts'
import { STALLED_CLIENT_MS } from '../../http/limits.ts'
import type { RequestIds } from '../../http/request-ids.ts'
import type { RequestWatch, WatchedRequest } from '../../http/request-watch.ts'
import type { HttpClock, HttpDependencies, RequestObserver } from '../../http/server.ts'
import { Pace } from '../../http/slow-clients.ts'
import type { ServedTime, WaitedClient, WaitedClients } from '../../http/slow-clients.ts'
import { NOT_OPEN } from '../../http/standing-endpoints.ts'
import type { Link } from '../../linked-list.ts'
import { FORMAT_PROTOBUF, SOURCE_OTLP_GRPC } from '../batch-frame.ts'
import type { IngestCounters } from '../counters.ts'
import type { BodyGatherer } from '../ingest/body-gatherer.ts'
import type { AcceptedOutcome, Ingest, IngestClient } from '../ingest/ingest.ts'
import { ENCODINGS } from '../ingest/messages.ts'
import type { Lead } from '../lead.ts'
import { REFUSALS, refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import { bodyTimedOut, exportResponse } from '../replies.ts'
import { encodeRpcStatus } from '../rpc-status.ts'
import { REQUEST_ID_HEADER, TENANT_HEADER, identifyCaller, isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import type { AnsweredStreams } from './answered-streams.ts'
import type { ExportMethod } from './export-methods.ts'
import { GRPC_TYPE, MessageHead, framedMessage, statusText, timeoutMs } from './grpc-wire.ts'

export interface ExportParts {
  readonly ingest: Pick<Ingest, 'takeSlot' | 'releaseSlot' | 'arriving' | 'arrived' | 'gatherer' | 'submit'>
  readonly policy: () => TenantPolicy
  readonly maxBodyBytes: number
  readonly counters: Pick<IngestCounters, 'refused'>
  readonly clock: HttpClock
  readonly requests?: RequestObserver
  /** Absent or null: single requests are not followed. */
  readonly watch?: RequestWatch | null
  readonly logger: HttpDependencies['logger']
  /** Absent: there is no cluster. */
  readonly lead?: Pick<Lead, 'refused' | 'headers'>
}

/** What the calls of a front share. */
export interface CallContext {
  readonly parts: ExportParts
  readonly ids: RequestIds
  readonly answered: AnsweredStreams
  readonly served: ServedTime
  readonly waited: WaitedClients<WaitedClient>
  /** HTTP/2 of Node hands over memory that is garbage at once. */
  readonly memory: CollectedMemory
  /** The call was answered, or its client went away. */
  readonly onEnd: (call: ExportCall) => void
}

/** Codes of google.rpc.Code. */
const OK = '0'
const DEADLINE_EXCEEDED = 4
const UNIMPLEMENTED = 12
const INTERNAL = 13
const UNAVAILABLE = 14

const ENCODING_NAMES = ENCODINGS.join(',')
const EMPTY_MESSAGE = framedMessage(new Uint8Array())
const NOT_ONE_MESSAGE = refusal('malformed_batch', 'an export call has exactly one message')
const NO_FLAG = refusal('malformed_batch', 'a message begins with a flag that is 0 or 1')

export class ExportCall implements IngestClient, WaitedClient {
  readonly format = FORMAT_PROTOBUF
  readonly source = SOURCE_OTLP_GRPC
  readonly signal: number
  readonly #route: string
  readonly #context: CallContext
  readonly #stream: ServerHttp2Stream
  readonly #id: string
  readonly #watched: WatchedRequest | null
  readonly #startedMs: number
  readonly #deadlineMs: number
  /** Index in ENCODINGS; -1: none of them. */
  readonly #encoding: number
  readonly #head = new MessageHead()
  #caller: Caller | null = null
  #body: BodyGatherer | null = null
  /** This call among the clients that are waited for; null: its message is whole, or not wanted. */
  #waiting: { readonly link: Link<WaitedClient>; readonly pace: Pace } | null = null
  #heldBytes = 0
  #movedAtMs = 0
  /** How much of the message has arrived, in the form in which it was sent. */
  #receivedBytes = 0
  #isOver = false
  /** Headers that tell where the leader is, if another node leads. */
  #leaderHeaders: Readonly<Record<string, string>> = {}

  constructor(method: ExportMethod, stream: ServerHttp2Stream, headers: IncomingHttpHeaders, context: CallContext) {
    const { parts, ids } = context
    this.signal = method.signal
    this.#route = method.path
    this.#context = context
    this.#stream = stream
    this.#id = ids.of(textOf(headers, REQUEST_ID_HEADER))
    this.#startedMs = parts.clock.nowMs()
    this.#deadlineMs = this.#startedMs + timeoutMs(textOf(headers, 'grpc-timeout'))
    const encoding = textOf(headers, 'grpc-encoding')
    this.#encoding = encoding === '' ? 0 : ENCODINGS.findIndex((name) => name === encoding)
    this.#watched =
      parts.watch?.watch({
        id: this.#id,
        method: 'POST',
        path: method.path,
        remoteAddress: stream.session?.socket.remoteAddress ?? '',
        header: (name) => textOf(headers, name),
      }) ?? null
    stream.on('close', () => this.#closed())
  }

  /** G1 */
  begin(headers: IncomingHttpHeaders): void {
    const { policy, ingest, lead } = this.#context.parts
    const led = lead?.refused ?? null
    if (led !== null) {
      this.#leaderHeaders = Object.fromEntries(lead!.headers)
      return this.#refuseAndCount(led)
    }
    const caller = identifyCaller(policy(), textOf(headers, TENANT_HEADER), textOf(headers, 'authorization'))
    if (isRefusal(caller)) return this.#refuseAndCount(caller)
    this.#caller = caller
    const full = ingest.takeSlot(caller)
    if (full) return this.#refuseAndCount(full)
    this.#receive(caller)
  }

  /** Ends the call if its message stalled or its deadline has passed. Called now and then while the call is open. */
  look(nowMs: number): void {
    if (this.#waiting && this.#context.served.nowMs - this.#movedAtMs >= STALLED_CLIENT_MS) {
      this.#abandon(bodyTimedOut('stalled')) // G4
    }
    if (nowMs < this.#deadlineMs || this.#isOver) return
    this.#stopReceiving()
    this.#end(DEADLINE_EXCEEDED, 'the deadline of the call has passed', null)
  }

  slowRate(): number | null {
    return this.#waiting?.pace.slowRate(this.#context.served.nowMs) ?? null
  }

  giveUp(): void {
    this.#abandon(bodyTimedOut('displaced'))
  }

  accepted(outcome: AcceptedOutcome): void {
    if (this.#isOver) return // G3
    this.#tellEnd(200)
    const response = exportResponse(outcome)
    const stream = this.#stream
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': OK }))
    stream.respond(this.#headers(), { waitForTrailers: true })
    stream.end(response.byteLength === 0 ? EMPTY_MESSAGE : framedMessage(response))
  }

  /** Ingest counts its own refusals. */
  refused(refused: Refusal): void {
    this.#refuse(refused, REFUSALS[refused.kind].grpc)
  }

  /** Reads the one message of a call that holds a slot. */
  #receive(caller: Caller): void {
    const { parts, served, waited } = this.#context
    this.#movedAtMs = served.nowMs
    this.#waiting = { link: waited.add(this), pace: new Pace(this.#movedAtMs) }
    this.#body = parts.ingest.gatherer(-1)
    parts.ingest.arriving(caller, this, this.#body)
    const stream = this.#stream
    stream.on('data', (bytes: Buffer) => this.#chunk(bytes))
    stream.on('end', () => this.#whole())
  }

  #chunk(chunk: Buffer): void {
    this.#context.memory.received(chunk.byteLength)
    const waiting = this.#waiting
    if (!waiting) return
    this.#movedAtMs = this.#context.served.nowMs
    waiting.pace.moved(chunk.byteLength, this.#movedAtMs)
    let bytes = chunk
    if (!this.#head.isWhole) {
      bytes = chunk.subarray(this.#head.add(chunk))
      if (!this.#head.isWhole) return
      const refused = this.#beginMessage()
      if (refused) return this.#abandon(refused)
    }
    if (bytes.byteLength === 0) return
    this.#receivedBytes += bytes.byteLength
    if (this.#receivedBytes > this.#head.messageBytes) return this.#abandon(NOT_ONE_MESSAGE)
    const body = this.#body!
    if (!body.add(bytes)) return this.#abandon(NO_ROOM)
    if (body.hasArenaSpace) return
    this.#heldBytes += bytes.byteLength
    this.#context.waited.hold(bytes.byteLength)
  }

  /** The head of the message is whole. */
  #beginMessage(): Refusal | null {
    const { isCompressed, messageBytes } = this.#head
    const { maxBodyBytes } = this.#context.parts
    if (isCompressed === null) return NO_FLAG
    if (isCompressed && this.#encoding < 0) {
      return refusal('unsupported_content_encoding', `grpc-encoding is one of ${ENCODING_NAMES}`)
    }
    if (messageBytes > maxBodyBytes) {
      return refusal('payload_too_large', `a message has at most ${maxBodyBytes} bytes, this one has ${messageBytes}`)
    }
    this.#body!.declare(messageBytes)
    return null
  }

  #whole(): void {
    if (!this.#waiting) return
    const { isWhole, messageBytes, isCompressed } = this.#head
    if (!isWhole || this.#receivedBytes < messageBytes) {
      // A client that went away in the middle looks the same, but then 'close' follows at once.
      setImmediate(() => this.#abandon(NOT_ONE_MESSAGE))
      return
    }
    this.#endWaiting()
    const { ingest, logger } = this.#context.parts
    try {
      ingest.submit(this, this.#caller!, this.#body!, isCompressed === true ? this.#encoding : 0) // G2
    } catch (error) {
      logger.error({ service: 'logstore', transport: 'grpc', request_id: this.#id, err: error }, 'request failed')
      this.#refuseAndCount(refusal('internal_error', 'the request failed; the log of the service says why'))
    }
  }

  #endWaiting(): void {
    const { parts, waited } = this.#context
    waited.remove(this.#waiting!.link)
    waited.hold(-this.#heldBytes)
    this.#waiting = null
    parts.ingest.arrived(this)
  }

  /** The message is not wanted any more. */
  #stopReceiving(): void {
    if (!this.#waiting) return
    this.#endWaiting()
    this.#body!.discard()
    this.#context.parts.ingest.releaseSlot(this.#caller!) // G2
  }

  #abandon(refused: Refusal): void {
    if (!this.#waiting) return
    this.#stopReceiving()
    this.#refuseAndCount(refused)
  }

  /** The client may have gone away before its answer. */
  #closed(): void {
    this.#stopReceiving()
    this.#tellEnd(0)
  }

  #refuseAndCount(refused: Refusal): void {
    this.#context.parts.counters.refused(refused.kind)
    // The protocol has a code of its own for an encoding that is none of those the server names.
    this.#refuse(refused, refused.kind === 'unsupported_content_encoding' ? UNIMPLEMENTED : REFUSALS[refused.kind].grpc)
  }

  /** As the OTLP specification wants it: retryable exactly when the details hold a RetryInfo. */
  #refuse(refused: Refusal, code: number): void {
    this.#end(code, `${refused.kind}: ${refused.message}`, encodeRpcStatus(refused))
  }

  /** G3, G5 */
  #end(code: number, message: string, details: Uint8Array | null): void {
    if (this.#isOver) return
    this.#tellEnd(code === INTERNAL || code === UNAVAILABLE ? 500 : 400)
    endWithStatus(this.#stream, this.#headers(), code, message, details)
    this.#context.answered.drop(this.#stream)
  }

  #tellEnd(status: number): void {
    if (this.#isOver) return
    this.#isOver = true
    const { parts, onEnd } = this.#context
    const seconds = (parts.clock.nowMs() - this.#startedMs) / 1000
    const receivedBytes = this.#receivedBytes
    const tenant = this.#caller?.tenant.id ?? null
    parts.requests?.ended(this.#route, status, seconds, receivedBytes, 0)
    this.#watched?.ended({
      route: this.#route,
      status,
      seconds,
      receivedBytes,
      sentBytes: 0,
      tenant,
      principal: null,
    })
    onEnd(this)
  }

  #headers(): Record<string, string | number> {
    return { ...ANSWER_HEADERS, ...this.#leaderHeaders, [REQUEST_ID_HEADER]: this.#id }
  }
}

const ANSWER_HEADERS = {
  ':status': 200,
  'content-type': `${GRPC_TYPE}+proto`,
  'grpc-accept-encoding': ENCODING_NAMES,
}

const NO_ROOM = refusal('concurrency_exceeded', 'the gateway is saturated: the body space is full')

type Front = Pick<CallContext, 'ids' | 'answered'>

const idHeader = ({ ids }: Front, headers: IncomingHttpHeaders) => ({
  [REQUEST_ID_HEADER]: ids.of(textOf(headers, REQUEST_ID_HEADER)),
})

/** Answers a request that is not a gRPC call. */
export function answerForeign(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, front: Front): void {
  stream.respond({ ':status': 415, ...idHeader(front, headers) }, { endStream: true })
  front.answered.drop(stream)
}

/** Answers a call of a method that is not served. */
export function answerUnserved(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, front: Front): void {
  const answerHeaders = { ...ANSWER_HEADERS, ...idHeader(front, headers) }
  endWithStatus(stream, answerHeaders, UNIMPLEMENTED, 'the log store has no such method', null)
  front.answered.drop(stream)
}

/** Answers an export before the store is open. Clients repeat it. */
export function answerUnopened(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, front: Front): void {
  const refused = refusal('wal_unavailable', NOT_OPEN)
  const answerHeaders = { ...ANSWER_HEADERS, ...idHeader(front, headers) }
  endWithStatus(stream, answerHeaders, UNAVAILABLE, `${refused.kind}: ${refused.message}`, encodeRpcStatus(refused))
  front.answered.drop(stream)
}

/** A status without a message before it. */
function endWithStatus(
  stream: ServerHttp2Stream,
  headers: Record<string, string | number>,
  code: number,
  message: string,
  details: Uint8Array | null,
): void {
  if (stream.destroyed || stream.closed) return
  stream.respond(
    {
      ...headers,
      'grpc-status': String(code),
      'grpc-message': statusText(message),
      ...(details !== null && { 'grpc-status-details-bin': Buffer.from(details).toString('base64') }),
    },
    { endStream: true },
  )
}

/** '' when absent. */
const textOf = (headers: IncomingHttpHeaders, name: string): string => {
  const value = headers[name]
  return value === undefined ? '' : Array.isArray(value) ? value.join(', ') : value
}
