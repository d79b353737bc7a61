/**
 * Replay of records and of audit events. Neither claims work nor moves a cursor.
 *
 * A page is planned here, from the index, and rendered by a reader thread. Only visible records are planned, so everything in a page is durable
 * in its class and stays.
 */
import type { Answer, Decision, Waiting } from '../../engine/decision.ts'
import type { Turn } from '../../engine/engine.ts'
import { StoreError } from '../../errors.ts'
import type { Change } from '../frames/change.ts'
import type { AbandonedSignal, AuditRequest, Caller, RenderedJson, ReplayRequest, StreamPin } from '../operations.ts'
import type { Page } from '../records/record-reads.ts'
import { refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import type { ReplayDiagnostics } from '../wire/record-answers.ts'
import { NOT_STORED } from '../engine/core.ts'
import type { Core } from '../engine/core.ts'
import { groupOf, pinned } from './groups.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { Observation, StreamState } from '../state/state.ts'

const READ_ATTEMPTS_MAX = 3

/** What a page showed. */
type Seen = Omit<Observation, 'observedAtMs'>

export class Reading {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** With `waitMs` an empty page waits for a record, as a claim does. When too many requests wait, the answer is the empty page. */
  replay(
    answer: Answer<RenderedJson>,
    caller: Caller,
    name: string,
    request: ReplayRequest,
    abandonedSignal: AbandonedSignal = NEVER_ABANDONED,
  ): void {
    const { engine, time } = this.#core
    const untilMs = time.nowMs() + (request.waitMs ?? 0)
    const waitFor = ({ number }: StreamState): Waiting => ({
      kind: 'wait',
      place: { number, queue: REPLAYS },
      waitMs: Math.max(0, untilMs - time.nowMs()),
      takesAny: false, // each has its own start
      onAbandoned: (listener) => abandonedSignal.onAbandoned(listener),
    })
    const pin: StreamPin = { number: null, createdAtMs: request.streamCreatedAtMs ?? null }
    const decide = (turn: Turn): Decision<RenderedJson, Change> => {
      const mayWait = turn !== 'last' && untilMs > time.nowMs() && !engine.parked.isFull
      const named = this.#core.anyStream(caller, name)
      const stream = named instanceof Error ? named : pinned(pin, named, 'stream_not_found')
      if (stream instanceof Error) return stream
      return this.#page(stream, request, turn, mayWait ? waitFor : null, () => decide('again'))
    }
    engine.run(decide, answer, NOT_STORED.internal_error)
  }

  /** @param waitFor null: the page is given even if it is empty */
  #page(
    stream: StreamState,
    request: ReplayRequest,
    turn: Turn,
    waitFor: ((stream: StreamState) => Waiting) | null,
    again: () => Decision<RenderedJson, Change>,
  ): Decision<RenderedJson, Change> {
    const core = this.#core
    const from = request.start.by === 'offset' ? request.start.offset : 0
    const isKnownToEnd = turn === 'again' && request.start.by === 'offset' && from >= stream.visibleNext
    if (waitFor && isKnownToEnd) return waitFor(stream)
    return {
      kind: 'read',
      read: async () => {
        const { body, seen } = await this.#replay(stream, request)
        return () => {
          if (waitFor && seen.returnedRecords === 0 && seen.endOfStream) {
            const isMore = stream.visibleNext > Math.max(seen.nextOffset, from)
            return isMore || !core.isCurrent(stream) ? again() : waitFor(stream)
          }
          core.counters.replayed(seen.returnedRecords)
          if (request.consumer && stream.name !== AUDIT_STREAM) this.#observe(stream, request.consumer, seen)
          return shown(body)
        }
      },
    }
  }

  async #replay(
    stream: StreamState,
    request: ReplayRequest,
  ): Promise<{ readonly body: RenderedJson; readonly seen: Seen }> {
    const core = this.#core
    await core.readable(stream)
    const end = stream.visibleNext
    const asked = await this.#startOf(stream, request.start, end)
    const start = Math.max(asked, stream.floor)
    const page = await this.#records(stream, start, end, request)
    const nextOffset = nextOf(page, start, end)
    const endOfStream = nextOffset >= end
    const diagnostics: ReplayDiagnostics = {
      returned_records: page.returned,
      returned_payload_bytes: page.payloadBytes,
      max_records: request.maxRecords,
      max_payload_bytes: request.maxPayloadBytes,
      payload_cap_reached: page.capped,
      first_record_exceeds_cap: page.firstExceedsCap,
      first_offset: stream.floor,
      skipped_by_retention: request.start.by === 'offset' && asked < stream.floor,
      beyond_end: request.start.by === 'offset' && asked > end,
      quarantined_records: stream.holes.coveredBetween(start, Math.max(start, Math.min(nextOffset, end))),
    }
    const head = request.legacy ? '{' : '{"api_version":"v1",'
    const body = Buffer.concat([
      Buffer.from(
        `${head}"stream":${JSON.stringify(stream.name)},"stream_created_at_ms":${stream.createdAtMs},"records":[`,
      ),
      page.bytes,
      Buffer.from(
        `],"next_offset":${nextOffset},"end_of_stream":${endOfStream},"diagnostics":${JSON.stringify(diagnostics)}}`,
      ),
    ])
    page.bytesDone()
    await core.answerable(stream)
    return { body, seen: { returnedRecords: page.returned, nextOffset, endOfStream } }
  }

  audit(caller: Caller, request: AuditRequest): Decision<RenderedJson, Change> {
    const stream = this.#core.auditStream(caller.tenant)
    if (stream instanceof Error) return stream
    return {
      kind: 'read',
      read: async () => {
        const body = await this.#audit(stream, request)
        return () => shown(body)
      },
    }
  }

  async #audit(stream: StreamState, { startOffset, maxRecords, format }: AuditRequest): Promise<RenderedJson> {
    const core = this.#core
    const end = stream.visibleNext
    const start = Math.max(startOffset, stream.floor)
    await core.readable(stream)
    const page = await this.#readable(stream, () =>
      core.reads.auditPage(stream.index, start, end, maxRecords, format, stream.holes),
    )
    const nextOffset = nextOf(page, start, end)
    const head = '{"api_version":"v1","events":['
    const tail = `],"event_count":${page.returned},"next_offset":${nextOffset},"end_of_stream":${nextOffset >= end}}`
    const parts = format === 'ndjson' ? [page.bytes] : [Buffer.from(head), page.bytes, Buffer.from(tail)]
    const body = Buffer.concat(parts) // a copy in any case, as other pages share the memory of this one
    page.bytesDone()
    await core.answerable(stream)
    return body
  }

  async #records(stream: StreamState, start: number, end: number, request: ReplayRequest): Promise<Page> {
    const limits = { maxRecords: request.maxRecords, maxPayloadBytes: request.maxPayloadBytes }
    return this.#readable(stream, () =>
      this.#core.reads.page(
        stream.index,
        Math.max(start, stream.floor),
        end,
        limits,
        stream.name === AUDIT_STREAM,
        stream.holes,
      ),
    )
  }

  /**
   * Reads a page that lacks only damaged records: records that were moved or removed meanwhile are looked up again. A page of nothing but
   * newly found damage is read again, too, and then skips it.
   */
  async #readable(stream: StreamState, read: () => Promise<Page>): Promise<Page> {
    if (this.#core.reads.unread.isFull) throw notNow()
    for (let attempt = 1; ; attempt += 1) {
      const page = await read()
      if (page.unreadable.some(({ cause }) => cause === 'withheld')) throw notNow()
      this.#core.reportUnreadable(stream, page.unreadable)
      const isMissing = page.unreadable.some(({ cause }) => cause !== 'damaged')
      const isLast = attempt === READ_ATTEMPTS_MAX
      if (!isMissing && (page.returned > 0 || !page.hasMore || isLast)) return page
      if (isMissing && isLast) throw notNow()
      await this.#core.readable(stream)
    }
  }

  /** By time: the first offset whose record has a time at or above it. */
  async #startOf(stream: StreamState, start: ReplayRequest['start'], end: number): Promise<number> {
    if (start.by === 'offset') return start.offset
    const column = start.by === 'event_time' ? 'event' : 'ingest'
    const { reads } = this.#core
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await reads.firstAtOrAbove(stream.index, column, start.timeMs, end, stream.name === AUDIT_STREAM)
      } catch (error) {
        if (!(error instanceof StoreError) || error.code !== 'records_unavailable') throw error
        if (attempt === READ_ATTEMPTS_MAX) throw notNow()
        await this.#core.readable(stream) // records are being moved
      }
    }
  }

  /** Notes that a consumer read a page. The page is the answer even if the log does not take the note. */
  #observe(stream: StreamState, consumer: { readonly group: string; readonly id: string }, seen: Seen): void {
    const core = this.#core
    if (!core.isCurrent(stream)) return
    const { number, before } = groupOf(core, stream, consumer.group)
    const change = {
      kind: 'observation',
      group_number: number,
      consumer_id: consumer.id,
      returned_records: seen.returnedRecords,
      next_offset: seen.nextOffset,
      end_of_stream: seen.endOfStream,
      at_ms: core.time.wallMs(),
    } as const
    core.engine.appendSilently([...before, { ...core.changeFrame(change, 'admit'), durability: 'append' }])
  }
}

/** Where replays wait: no group has this name. */
const REPLAYS = ''

const NEVER_ABANDONED: AbandonedSignal = { onAbandoned: () => {} }

/** A page shows visible records, which are stored in their class, so it need not wait for frames that were appended meanwhile. */
const shown = (body: RenderedJson): Decision<RenderedJson, Change> => ({
  kind: 'reply',
  reply: body,
  isToldAtOnce: true,
})

export const notNow = (): BrokerError =>
  refuse('internal_error', 'the records cannot be read at present: repeat the request', { retryable: true })

/** Where the next page begins: behind what was returned, or behind the end when nothing is left. */
function nextOf(page: Page, start: number, end: number): number {
  return page.hasMore ? page.nextOffset : Math.max(start, end)
}
