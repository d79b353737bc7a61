/**
 * Ingest on the main thread: who may send, where the body goes, when the answer is due.
 *
 *   headers ── admission ──► body into the arena ──► decode lane ──► outcome ──► the log is committed past it ──► answer
 *
 * No queue here is longer than the number of requests in flight, which admission slots, arena and ring bound. What does not fit is refused as retryable.
 * Before that, a slow sender loses its slot (tenants/admission-slots.ts).
 *
 * T1  no request is answered 200 before the log says that everything up to the outcome's position, in the outcome's generation, is stored; in a cluster
 *     only while this node is sure to lead
 * T2  a request's admission slot, gateway booking and arena space are given back exactly once, however it ends. A client that
 *     goes away while its body arrives ends the request; one that goes away later only misses the answer
 */
import type { Log } from '../../log/log.ts'
import type { BeginSpan } from '../../spans.ts'
import type { Position } from '../../log/log-writer.ts'
import type { Endpoint, OperationDocument } from '../../http/routes.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import { slowestOf } from '../../http/slow-clients.ts'
import type { WaitedClient } from '../../http/slow-clients.ts'
import type { Arena } from '../../pipeline/arena.ts'
import {
  FORMAT_JSON,
  FORMAT_PROTOBUF,
  SOURCE_OTLP_HTTP,
  SOURCE_OTLP_HTTP_PROTOBUF,
  signalName,
} from '../batch-frame.ts'
import type { Senders } from '../senders.ts'
import { TENANT_HEADER, callerIn, identifyCaller, isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import type { IngestCounters } from '../counters.ts'
import { mediaTypeOf } from '../../http/media-type.ts'
import { JSON_TYPE } from '../../http/text-answer.ts'
import { AdmissionSlots } from '../tenants/admission-slots.ts'
import { PROTOBUF_TYPE, answerRefusal, bodyTimedOut, exportResponse, ingestReply, refusalShape } from '../replies.ts'
import type { RefusalShape } from '../replies.ts'
import { REFUSAL_KINDS, REFUSALS, permanentRefusal, refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import { BodyGatherer } from './body-gatherer.ts'
import type { DecodeLane } from './decode-lane.ts'
import type { GatewayBudget } from './gateway-budget.ts'
import { Queue } from '../../queue.ts'
import { InFlightTable } from './in-flight.ts'
import { ACCEPTED, ENCODINGS } from './messages.ts'
import type { OutcomeHead } from './messages.ts'

export interface IngestParts {
  readonly log: Pick<Log, 'outcome' | 'released' | 'state' | 'mayAnswer'>
  readonly arena: Arena
  readonly gateway: GatewayBudget
  readonly maxGatewayRequests: number
  readonly maxBodyBytes: number
  readonly counters: IngestCounters
  readonly policy: () => TenantPolicy
  /** The lane at work; null while it is being replaced. */
  readonly lane: () => Pick<DecodeLane, 'trySubmit'> | null
  /** Monotonic. */
  readonly nowMs: () => number
  readonly senders: Pick<Senders, 'sent'>
  /** Nanoseconds since the Unix epoch. */
  readonly nowNs: () => bigint
  /** Shows how long batches take to be stored. Absent or null: it is not measured. */
  readonly beginSpan?: BeginSpan | null
}

export interface AcceptedOutcome {
  readonly records: number
  /** Records that were stored before. */
  readonly collapsed: number
  /** 16 bytes a record; none for routes that do not answer with them. */
  readonly ids: Buffer
  /** Malformed records that were dropped, and what was wrong with the first; '' when there are none. */
  readonly rejected: number
  readonly rejectedBecause: string
}

/** One ingest request past its headers, and how it is answered. */
export interface IngestClient {
  readonly signal: number
  readonly format: number
  readonly source: number
  accepted(outcome: AcceptedOutcome): void
  refused(refused: Refusal): void
}

interface InFlight {
  /** Null: its time is not measured. */
  readonly endSpan: (() => void) | null
  readonly client: IngestClient
  readonly caller: Caller
  /** Where the body stands in the arena; -1: there is none, or it was freed. */
  arenaOffset: number
  readonly encoding: number
}

interface Accepted extends InFlight, AcceptedOutcome {
  readonly position: number
  readonly generation: number
  readonly bytes: number
}

const NO_IDS = Buffer.alloc(0)
const IDENTITY = 0

export class Ingest {
  readonly #parts: IngestParts
  readonly #slots: AdmissionSlots
  /** Bodies that are arriving, by the client that sends them. */
  readonly #gathering = new Map<WaitedClient, BodyGatherer>()
  readonly #decoding = new InFlightTable<InFlight>()
  /** Accepted by the lane, waiting for the log; in the order of their positions. */
  readonly #waiting = new Queue<Accepted>()
  /** Answered, but a replica of the log still reads the body from the arena; in the order of their positions. */
  readonly #lent = new Queue<{ readonly position: number; readonly arenaOffset: number }>()

  constructor(parts: IngestParts) {
    this.#parts = parts
    this.#slots = new AdmissionSlots(parts.maxGatewayRequests, parts.nowMs)
  }

  get requestsInFlight(): number {
    return this.#slots.taken
  }

  /** The endpoint of one ingest route. */
  endpoint(signal: number, format: number, document: OperationDocument): Endpoint {
    return { document, begin: (head, exchange) => this.#begin(head, exchange, signal, format) }
  }

  /** Answers the requests that the log has committed, and fails those that it never will. Call when the log or the lane has news. */
  progress(): void {
    const { log } = this.#parts
    for (let next = this.#waiting.peek(); next; next = this.#waiting.peek()) {
      const outcome = log.outcome(next.position, next.generation)
      if (outcome === 'waiting') break
      this.#waiting.shift()
      this.#finish(next)
      if (outcome === 'stored' && log.mayAnswer) {
        next.endSpan?.()
        this.#parts.counters.accepted(next.records, next.bytes, next.collapsed, next.rejected)
        next.client.accepted(next)
      } else {
        const lost = log.state.kind === 'read-only' ? 'the disk failed' : 'the log was recovered'
        this.#refuse(next.client, unavailable(outcome === 'lost' ? lost : 'this node leads its cluster no more'))
      }
    }
    if (log.state.kind === 'closed') this.#failWaiting('the service was stopped')
    for (let next = this.#lent.peek(); next && next.position <= log.released; next = this.#lent.peek()) {
      this.#lent.shift()
      this.#parts.arena.free(next.arenaOffset)
    }
  }

  /** The decode lane decided a request. */
  onOutcome(outcome: OutcomeHead, tail: Buffer): void {
    const request = this.#decoding.remove(outcome.request)
    if (outcome.kind === ACCEPTED) {
      if (request.encoding !== IDENTITY) this.#freeBody(request)
      const { position, generation, records, bytes, collapsed, rejected } = outcome
      const idBytes = request.client.source === SOURCE_OTLP_HTTP ? 16 * records : 0
      const ids = idBytes === 0 ? NO_IDS : Buffer.from(tail.subarray(0, idBytes))
      const rejectedBecause = rejected === 0 ? '' : tail.toString('utf8', idBytes)
      this.#waiting.push({
        ...request,
        position,
        generation,
        records,
        bytes,
        collapsed,
        ids,
        rejected,
        rejectedBecause,
      })
    } else {
      this.#freeBody(request)
      this.#releaseSlot(request)
      const kind = REFUSAL_KINDS[outcome.refusal]!
      const message = tail.toString()
      const { retryAfterSeconds } = outcome
      this.#refuse(
        request.client,
        REFUSALS[kind].retryable && retryAfterSeconds === 0
          ? permanentRefusal(kind, message)
          : refusal(kind, message, retryAfterSeconds),
      )
    }
  }

  /** The lane died; what it had accepted was reported. Fails the other requests, which the clients send again. */
  onLaneDeath(): void {
    for (const request of this.#decoding.clear()) {
      this.#freeBody(request)
      this.#releaseSlot(request)
      this.#refuse(request.client, unavailable('a worker failed'))
    }
    this.#parts.gateway.clear()
    for (const { records, bytes } of this.#waiting.items()) {
      this.#parts.gateway.tryBook({ records: Infinity, bytes: Infinity }, records, bytes)
    }
    this.progress() // what it had accepted may be stored already, and then no other call need follow
  }

  /**
   * Fails the accepted requests behind `tail`, where the next lane will append. Called while there is no lane: what the dead one accepted there was
   * never published (N1 of batch-intake.ts), or a recovery of the log gave it up. Other frames will get these positions, so no request may wait for them.
   */
  failAcceptedFrom(tail: Position): void {
    const accepted = this.#waiting.items()
    while (this.#waiting.shift());
    for (const request of accepted) {
      if (request.position <= tail) this.#waiting.push(request)
      else {
        this.#finish(request)
        this.#refuse(request.client, unavailable('a worker failed'))
      }
    }
    const lent = this.#lent.items()
    while (this.#lent.shift());
    for (const each of lent) {
      if (each.position <= tail) this.#lent.push(each)
      else this.#parts.arena.free(each.arenaOffset) // no reader is left: its frame is gone
    }
  }

  /** Takes an admission slot for a caller whose headers are in order. @returns the refusal when there is none */
  takeSlot(caller: Caller): Refusal | null {
    switch (this.#slots.tryTake(caller.tenant.id, caller.tenant.limits.concurrentRequests)) {
      case 'taken':
        return null
      case 'all':
        return refusal('concurrency_exceeded', 'the gateway has too many requests in flight')
      case 'tenant':
        return refusal('concurrency_exceeded', 'the tenant has too many requests in flight')
    }
  }

  releaseSlot(caller: Caller): void {
    this.#slots.release(caller.tenant.id)
  }

  /** The body of a request that holds a slot begins to arrive: until `arrived` its client may be given up for another one. */
  arriving(caller: Caller, client: WaitedClient, body: BodyGatherer | null): void {
    this.#slots.arriving(caller.tenant.id, client)
    if (body) this.#gathering.set(client, body)
  }

  arrived(client: WaitedClient): void {
    this.#slots.arrived(client)
    this.#gathering.delete(client)
  }

  /** Gathers the body of a request that holds a slot. @param declaredBytes -1: unknown */
  gatherer(declaredBytes: number): BodyGatherer {
    return new BodyGatherer(this.#parts.arena, declaredBytes, () => this.#giveUpSlowest())
  }

  /** Gives up the slowest client that holds arena space. False when none of them is slow. */
  #giveUpSlowest(): boolean {
    const holders = [...this.#gathering].filter(([, body]) => body.hasArenaSpace)
    const slowest = slowestOf(holders.map(([client]) => client))
    slowest?.giveUp()
    return slowest !== null
  }

  /** Hands the whole body of a request that holds a slot to the lane. The client is answered exactly once. */
  submit(client: IngestClient, caller: Caller, body: BodyGatherer, encoding: number): void {
    const refused = this.#trySubmit(client, caller, body, encoding)
    if (!refused) return
    body.discard()
    this.releaseSlot(caller)
    this.#refuse(client, refused)
  }

  #trySubmit(client: IngestClient, admitted: Caller, body: BodyGatherer, encoding: number): Refusal | null {
    const caller = callerIn(this.#parts.policy(), admitted) // the policy may have been reloaded while the body came
    if (isRefusal(caller)) return caller
    const gathered = body.finish()
    if (!gathered) return overloaded('the body space is full')
    if (gathered.bytes === 0) return refusal('empty_batch', 'the body is empty')
    const lane = this.#parts.lane()
    if (!lane) return unavailable('a worker is being replaced')
    const receivedAt = this.#parts.nowNs()
    this.#parts.senders.sent(caller.tenant.id)
    const endSpan = this.#parts.beginSpan?.('commit') ?? null
    const request = this.#decoding.add({ endSpan, client, caller, arenaOffset: gathered.offset, encoding })
    const submitted = lane.trySubmit({
      request,
      policyGeneration: caller.policy.generation,
      tenant: caller.tenantNumber,
      credential: caller.credentialNumber,
      signal: client.signal,
      format: client.format,
      source: client.source,
      encoding,
      bodyOffset: gathered.offset,
      bodyBytes: gathered.bytes,
      receivedAtLow: Number(receivedAt & 0xffff_ffffn),
      receivedAtHigh: Number(receivedAt >> 32n),
    })
    if (submitted) return null
    this.#decoding.remove(request)
    return overloaded('the decode ring is full')
  }

  #begin(head: RequestHead, exchange: Exchange, signal: number, format: number): void {
    const shape = refusalShape(head, format === FORMAT_PROTOBUF)
    const admitted = this.#admit(head, format)
    if (isRefusal(admitted)) {
      this.#parts.counters.refused(admitted.kind)
      answerRefusal(exchange, admitted, shape)
      return
    }
    exchange.tenant = admitted.caller.tenant.id
    const client = httpClient(exchange, signal, format, shape)
    this.#readBody(exchange, client, admitted.caller, admitted.encoding, this.gatherer(head.contentLength))
  }

  #admit(head: RequestHead, format: number): { caller: Caller; encoding: number } | Refusal {
    const caller = identifyCaller(this.#parts.policy(), head.header(TENANT_HEADER), head.header('authorization'))
    if (isRefusal(caller)) return caller
    const contentType = head.header('content-type')
    const wanted = format === FORMAT_JSON ? JSON_TYPE : PROTOBUF_TYPE
    if (mediaTypeOf(contentType) !== wanted) return wrongContentType(format)
    const encodingName = head.header('content-encoding').trim().toLowerCase() || 'identity'
    const encoding = ENCODINGS.findIndex((name) => name === encodingName)
    if (encoding < 0) {
      return refusal('unsupported_content_encoding', `content-encoding is one of ${ENCODINGS.join(', ')}`)
    }
    if (head.contentLength > this.#parts.maxBodyBytes) return tooLarge(this.#parts.maxBodyBytes)
    return this.takeSlot(caller) ?? { caller, encoding }
  }

  #readBody(exchange: Exchange, client: IngestClient, caller: Caller, encoding: number, body: BodyGatherer): void {
    let reading = true
    const endReading = (): void => {
      reading = false
      this.arrived(exchange)
    }
    const abandon = (refused: Refusal | null): void => {
      if (!reading) return
      endReading()
      body.discard()
      this.releaseSlot(caller)
      if (refused) this.#refuse(client, refused)
    }
    this.arriving(caller, exchange, body)
    exchange.onEnd(() => abandon(null))
    exchange.readBody(this.#parts.maxBodyBytes, {
      chunk: (bytes, isLast) => {
        if (!reading) return
        if (!body.add(bytes)) return abandon(overloaded('the body space is full'))
        if (!isLast) return
        endReading()
        this.submit(client, caller, body, encoding)
      },
      tooLarge: () => abandon(tooLarge(this.#parts.maxBodyBytes)),
      timedOut: (why) => abandon(bodyTimedOut(why)),
    })
  }

  #failWaiting(reason: string): void {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      this.#finish(next)
      this.#refuse(next.client, unavailable(reason))
    }
  }

  /** Gives back what an accepted request held (T2). */
  #finish(request: Accepted): void {
    if (request.arenaOffset >= 0 && request.position > this.#parts.log.released) {
      this.#lent.push({ position: request.position, arenaOffset: request.arenaOffset })
    } else this.#freeBody(request)
    this.#parts.gateway.release(request.records, request.bytes)
    this.#releaseSlot(request)
  }

  #freeBody(request: InFlight): void {
    if (request.arenaOffset >= 0) this.#parts.arena.free(request.arenaOffset)
    request.arenaOffset = -1
  }

  #releaseSlot({ caller }: InFlight): void {
    this.releaseSlot(caller)
  }

  #refuse(client: IngestClient, refused: Refusal): void {
    this.#parts.counters.refused(refused.kind)
    client.refused(refused)
  }
}

const httpClient = (exchange: Exchange, signal: number, format: number, shape: RefusalShape): IngestClient => ({
  signal,
  format,
  source: format === FORMAT_JSON ? SOURCE_OTLP_HTTP : SOURCE_OTLP_HTTP_PROTOBUF,
  accepted: (outcome) => {
    if (format === FORMAT_JSON) exchange.answer(200, JSON_TYPE, ingestReply(signalName(signal), outcome))
    else exchange.answer(200, PROTOBUF_TYPE, exportResponse(outcome))
  },
  refused: (refused) => answerRefusal(exchange, refused, shape),
})

const wrongContentType = (format: number): Refusal =>
  refusal(
    'unsupported_content_type',
    format === FORMAT_JSON
      ? `this route takes ${JSON_TYPE}; send ${PROTOBUF_TYPE} to /v1/logs and /v1/traces`
      : `this route takes ${PROTOBUF_TYPE}; send ${JSON_TYPE} to /v1/otlp/logs and /v1/otlp/traces`,
  )

const tooLarge = (maxBytes: number): Refusal => refusal('payload_too_large', `a body holds at most ${maxBytes} bytes`)

const overloaded = (what: string): Refusal => refusal('concurrency_exceeded', `the gateway is saturated: ${what}`)

const unavailable = (what: string): Refusal =>
  refusal(
    'wal_unavailable',
    `it is not known whether the batch is stored: ${what}; send it again, it is stored only once`,
  )
