/**
 * `GET /v1/tail`: records as they are stored, as server-sent events.
 *
 * A tail keeps its place and the text of one step in memory. What its client does not take stays in the log.
 *
 * E1  only what is committed is sent, in the order of the log, each record once. An event's id is the place behind its record: a client
 *     that comes back with it continues there, also after a crash, as committed positions are never used again
 * E2  a tail that was at the end of the log once and then falls LAG_BYTES behind skips to the end and says how many records it missed. Until it has
 *     been at the end, as after a Last-Event-ID, it skips nothing, however long that takes
 * E4  records that retention removed, or that are damaged, are reported as missed as well
 */
import type { AnswerSource, Exchange, RequestHead } from '../../http/exchange.ts'
import type { Endpoint, OperationDocument } from '../../http/routes.ts'
import { freeMemory } from '../../free-memory.ts'
import type { Log } from '../../log/log.ts'
import { SEGMENT_FOOTER_BYTES } from '../../log/segment-format.ts'
import { SEARCH_LENGTH_MAX, SearchError } from '../search/expression.ts'
import type { Search } from '../search/expression.ts'
import { parseSearch } from '../search/parse.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import { AdmissionSlots } from '../tenants/admission-slots.ts'
import { callerIn, isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import { eventId, parseEventId } from '../walk/event-id.ts'
import type { LogPlace, TailRequest, WalkBody } from '../walk/tasks.ts'
import { piecesOf, queryParameters } from './readers.ts'
import type { Readers } from './readers.ts'

export const EVENT_STREAM_TYPE = 'text/event-stream'
export const LAST_EVENT_ID_HEADER = 'last-event-id'
/** Tails at a time in the service. */
const TAILS_MAX = 256
const LAG_BYTES = 16 * 1024 * 1024
const HEARTBEAT_MS = 10_000
/** Delay between the first new record and the steps that look for it: longer when there are more tails. */
const WAKE_MS = 10
const WAKE_MS_PER_TAIL = 1
const STEP_DEADLINE_MS = 10_000
/** Milliseconds after which a client that lost its connection comes back. */
const COME_BACK_MS = 1000

export type TailLog = Pick<Log, 'committed' | 'id' | 'segments' | 'onProgress'>

export class TailFront {
  readonly #readers: Readers
  readonly #log: TailLog
  /** Why there are no tails; null: there are. */
  readonly #unavailable: string | null
  readonly #slots = new AdmissionSlots(TAILS_MAX)
  readonly #tails = new Set<Tail>()
  readonly #stopTicking: () => void
  #wakes = false

  /** @param unavailable why there are no tails; null: there are */
  constructor(readers: Readers, log: TailLog, unavailable: string | null) {
    this.#readers = readers
    this.#log = log
    this.#unavailable = unavailable
    this.#stopTicking = readers.parts.clock.every(HEARTBEAT_MS / 4, () => this.#wakeAll())
    log.onProgress(() => this.#wakeSoon())
  }

  endpoint(document: OperationDocument): Endpoint {
    return { document, begin: (head, exchange) => this.#begin(head, exchange) }
  }

  /** Ends every tail behind the last event that it sent: its client comes back with that event's id. */
  async close(): Promise<void> {
    this.#stopTicking()
    for (const tail of this.#tails) tail.close()
  }

  #begin(head: RequestHead, exchange: Exchange): void {
    const readers = this.#readers
    const caller = readers.admit(head, exchange, this.#slots)
    if (caller === null) return
    const wanted = this.#wanted(head, caller)
    if (isRefusal(wanted)) return void readers.refuse(exchange, wanted)
    const tail = new Tail(readers, this.#log, caller, wanted)
    this.#tails.add(tail)
    exchange.onEnd(() => this.#tails.delete(tail))
    exchange.answerStream(200, EVENT_STREAM_TYPE, tail, [
      ['cache-control', 'no-store'],
      ['x-accel-buffering', 'no'], // proxies that know this header do not buffer
    ])
  }

  #wanted(head: RequestHead, caller: Caller): WantedTail | Refusal {
    if (this.#unavailable !== null) return refusal('tail_unavailable', this.#unavailable)
    const given = queryParameters(head.query, ['dataset', 'search'])
    if (isRefusal(given)) return given
    const { dataset = null, search = null } = given as { dataset?: string; search?: string }
    if (dataset === '')
      return refusal(
        'invalid_query',
        'dataset must not be empty: leave it out to read every dataset that the credential allows',
      )
    const refused = this.#readers.problemOf(caller, dataset)
    if (refused !== null) return refused
    const lastId = head.header(LAST_EVENT_ID_HEADER)
    const from = lastId === '' ? { position: this.#log.committed, recordNumber: 0 } : this.#placeOf(lastId)
    if (isRefusal(from)) return from
    try {
      return { dataset, search: search === null ? null : searchOf(search), from, isAtEnd: lastId === '' }
    } catch (error) {
      if (error instanceof SearchError) return refusal('invalid_query', `search: ${error.message}`)
      throw error
    }
  }

  #placeOf(lastId: string): LogPlace | Refusal {
    const place = parseEventId(lastId)
    if (place === null)
      return refusal('invalid_cursor', `${LAST_EVENT_ID_HEADER} must be exactly the id of an event of a tail`)
    if (place.logId !== this.#log.id || place.position > this.#log.committed) {
      return refusal('invalid_cursor', `${LAST_EVENT_ID_HEADER} is of another data directory: begin again without it`)
    }
    return { position: place.position, recordNumber: place.recordNumber }
  }

  #wakeSoon(): void {
    if (this.#wakes || this.#tails.size === 0) return
    this.#wakes = true
    this.#readers.parts.clock.after(WAKE_MS + WAKE_MS_PER_TAIL * this.#tails.size, () => {
      this.#wakes = false
      this.#wakeAll()
    })
  }

  #wakeAll(): void {
    for (const tail of this.#tails) tail.wake()
  }
}

function searchOf(text: string): Search {
  if (text.length > SEARCH_LENGTH_MAX) throw new SearchError(`at most ${SEARCH_LENGTH_MAX} characters`)
  return parseSearch(text)
}

interface WantedTail {
  readonly dataset: string | null
  readonly search: Search | null
  readonly from: LogPlace
  readonly isAtEnd: boolean
}

/** The tail of one client. */
class Tail implements AnswerSource {
  readonly #readers: Readers
  readonly #log: TailLog
  readonly #caller: Caller
  readonly #wanted: WantedTail
  readonly #events: AsyncGenerator<Uint8Array, void>
  #place: LogPlace
  /** E2 */
  #hasBeenAtEnd: boolean
  #isClosed = false
  #sentAtMs = 0
  #wake: () => void = () => {}

  constructor(readers: Readers, log: TailLog, caller: Caller, wanted: WantedTail) {
    this.#readers = readers
    this.#log = log
    this.#caller = caller
    this.#wanted = wanted
    this.#place = wanted.from
    this.#hasBeenAtEnd = wanted.isAtEnd
    this.#events = this.#pieces()
  }

  async next(): Promise<Uint8Array | null> {
    const { value } = await this.#events.next()
    this.#sentAtMs = this.#readers.parts.clock.nowMs()
    return value ?? null
  }

  close(): void {
    this.#isClosed = true
    this.#wake()
  }

  wake(): void {
    this.#wake()
  }

  async *#pieces(): AsyncGenerator<Uint8Array, void> {
    yield Buffer.from(`retry: ${COME_BACK_MS}\n${this.#idLine}\n\n`)
    while (!this.#isClosed) {
      const caller = callerIn(this.#readers.parts.policy(), this.#caller)
      if (isRefusal(caller)) return yield ended(caller)
      const led = this.#readers.parts.ask.lead?.refused ?? null
      if (led !== null) return yield ended(led)
      const oldest = this.#log.segments[0]?.base ?? 0
      if (this.#isRemoved(oldest)) {
        this.#place = { position: oldest, recordNumber: 0 }
        yield this.#missed(null, 'retention')
      } else if (this.#isAtEnd) {
        const isDue = this.#readers.parts.clock.nowMs() - this.#sentAtMs >= HEARTBEAT_MS
        if (isDue) yield Buffer.from(`: heartbeat\n${this.#idLine}\n\n`)
        else await new Promise<void>((resolve) => (this.#wake = resolve))
      } else if (this.#hasBeenAtEnd && this.#log.committed - this.#place.position > LAG_BYTES) {
        const refused = yield* this.#skip()
        if (refused !== null) return yield ended(refused)
      } else {
        const step = await this.#step(null, false)
        if (isRefusal(step)) return yield ended(step)
        if (this.#isRemoved(this.#log.segments[0]?.base ?? 0)) continue // while the step was under way
        yield* this.#takeStep(step)
      }
    }
  }

  *#takeStep({ text, next, isAtEnd, quarantined }: WalkBody): Iterable<Uint8Array> {
    this.#place = next
    this.#hasBeenAtEnd ||= isAtEnd
    yield* piecesOf(text)
    freeMemory(text)
    if (quarantined > 0) yield this.#missed(quarantined, 'damaged')
  }

  /** E2 */
  async *#skip(): AsyncGenerator<Uint8Array, Refusal | null> {
    const end = this.#log.committed
    let records = 0
    let damaged = 0
    while (this.#place.position < end && !this.#isClosed) {
      const oldest = this.#log.segments[0]?.base ?? 0
      if (this.#isRemoved(oldest)) break
      const step = await this.#step(end, true)
      if (isRefusal(step)) return step
      if (this.#isRemoved(this.#log.segments[0]?.base ?? 0)) break
      records += step.records
      damaged += step.quarantined
      this.#place = step.next
      if (step.isAtEnd) break
    }
    if (records > 0) yield this.#missed(records, 'slow_reader')
    if (damaged > 0) yield this.#missed(damaged, 'damaged')
    return null
  }

  #step(to: number | null, isCounted: boolean): Promise<WalkBody | Refusal> {
    const { dataset, search } = this.#wanted
    const request: TailRequest = {
      kind: 'tail',
      dataset,
      search,
      from: this.#place,
      to,
      isCounted,
      deadlineMs: STEP_DEADLINE_MS,
    }
    return this.#readers.stepWithRetries(this.#caller, request)
  }

  get #isAtEnd(): boolean {
    return this.#place.position >= this.#log.committed
  }

  /** E4. Between the frames of two segments there is a footer, which is not counted as a loss. */
  #isRemoved(oldest: number): boolean {
    return this.#place.position < oldest - SEGMENT_FOOTER_BYTES
  }

  get #idLine(): string {
    return `id: ${eventId(this.#log.id, this.#place)}`
  }

  /** @param records null: the number is unknown */
  #missed(records: number | null, reason: 'slow_reader' | 'retention' | 'damaged'): Uint8Array {
    return Buffer.from(`event: missed\n${this.#idLine}\ndata: ${JSON.stringify({ records, reason })}\n\n`)
  }
}

/** The last event of a tail that the service ends. Not called `error`: that is what browsers call a lost connection. */
const ended = ({ kind, message, retryable }: Refusal): Uint8Array =>
  Buffer.from(`event: end\ndata: ${JSON.stringify({ status: 'rejected', retryable, error: { kind, message } })}\n\n`)
