/**
 * Reads records for the main thread: plans what to read by a stream's index, has the reader threads read it, and returns their results.
 *
 * Callers ask only for records that are visible and written. Records that cannot be read are named in `unreadable` and left out; only
 * `damaged` ones are a case for quarantine.
 */
import { StoreError } from '../../errors.ts'
import { Places } from './places.ts'
import {
  PAGE_BEGIN,
  PAGE_CAPPED,
  PAGE_CONSIDERED,
  PAGE_END,
  PAGE_FIRST_EXCEEDS,
  PAGE_PAYLOAD_BYTES,
  PAGE_RETURNED,
  READ_DELIVERIES,
  READ_EVENTS,
  READ_ORIGINS,
  READ_PAGE,
  READ_RAW,
  READ_RECORDS,
  READ_TIMES,
} from './read-protocol.ts'
import { ReadQueue } from './read-queue.ts'
import type { ReadAnswer, ReadQueueOptions } from './read-queue.ts'
import type { IntervalSet } from '../interval-set.ts'
import type { RecordIndex } from './record-index.ts'
import { RecordCursor } from '../frames.ts'
import type { RecordsInMemory } from './records-in-memory.ts'
import type { RenderedRecords, Unreadable } from './rendered-records.ts'
import type { UnreadAnswers } from './unread-answers.ts'

export interface Page {
  /** Records or events, with commas between them or as lines. */
  readonly bytes: Buffer
  /** See `ReadAnswer.textDone`. */
  readonly bytesDone: () => void
  readonly returned: number
  readonly payloadBytes: number
  /** The page ended because of `maxPayloadBytes`. */
  readonly capped: boolean
  /** The first record alone is longer than `maxPayloadBytes`. */
  readonly firstExceedsCap: boolean
  /** There are more records in the range that was asked for, from `nextOffset` on. */
  readonly hasMore: boolean
  readonly nextOffset: number
  readonly unreadable: readonly Unreadable[]
}

/** A record as it stands in its frame, to be written into another one. */
export interface RawRecord {
  readonly offset: number
  readonly bytes: Buffer
  readonly eventTimeMs: number
  readonly ingestTimeMs: number
  readonly payloadBytes: number
}

export type RawRead =
  | { readonly kind: 'record'; readonly record: RawRecord }
  | { readonly kind: 'unreadable'; readonly unreadable: Unreadable }

export interface PageLimits {
  readonly maxRecords: number
  readonly maxPayloadBytes: number | null
}

export type RecordReadsOptions = ReadQueueOptions

export class RecordReads {
  readonly #queue: ReadQueue
  /** Null: threads read everything. */
  inMemory: RecordsInMemory | null = null

  constructor(options: RecordReadsOptions) {
    this.#queue = new ReadQueue(options)
  }

  /** Long answers that their clients have not read yet. */
  get unread(): UnreadAnswers {
    return this.#queue.unread
  }

  /** Requests that wait for a thread. */
  get waiting(): number {
    return this.#queue.waiting
  }

  /** Answers at once when the records are in memory. Not for the audit stream, from which nothing is claimed. */
  deliveries(index: RecordIndex, offsets: readonly number[]): RenderedRecords | Promise<RenderedRecords> {
    const places = placesOf(index, offsets)
    return this.inMemory?.deliveries(places) ?? this.#deliveries(READ_DELIVERIES, places)
  }

  /** The records as they stand in their frames, each behind its ingest time as a u64. */
  storedRecords(index: RecordIndex, offsets: readonly number[]): RenderedRecords | Promise<RenderedRecords> {
    const places = placesOf(index, offsets)
    return this.inMemory?.deliveries(places, true) ?? this.#deliveries(READ_RECORDS, places)
  }

  async #deliveries(kind: typeof READ_DELIVERIES | typeof READ_RECORDS, places: Places): Promise<RenderedRecords> {
    const { text, textDone, numbers, unreadable } = await this.#ask(kind, false, 0, places)
    const begin = numbers[0] ?? 0
    const end = numbers.at(-1) ?? 0
    return {
      bytes: text.subarray(begin, end),
      bytesDone: textDone,
      unreadable: unreadableOf(unreadable, places),
      start: (number) => numbers[number]! - begin,
      end: (number) => numbers[number + 1]! - begin,
    }
  }

  /** The first records in [start, end). @param holes offsets known to be unreadable, which are skipped */
  async page(
    index: RecordIndex,
    start: number,
    end: number,
    { maxRecords, maxPayloadBytes }: PageLimits,
    audited = false,
    holes: IntervalSet | null = null,
  ): Promise<Page> {
    const plan = planOf(index, start, end, maxRecords, holes)
    const answer = await this.#ask(READ_PAGE, audited, maxPayloadBytes ?? Infinity, plan, maxRecords)
    return pageOf(start, plan, answer)
  }

  /** The first events of an audit stream in [start, end), as `AuditEventReply` says. @param holes as for `page` */
  async auditPage(
    index: RecordIndex,
    start: number,
    end: number,
    maxRecords: number,
    format: 'json' | 'ndjson',
    holes: IntervalSet | null = null,
  ): Promise<Page> {
    const plan = planOf(index, start, end, maxRecords, holes)
    const answer = await this.#ask(READ_EVENTS, true, format === 'ndjson' ? 1 : 0, plan, maxRecords)
    return pageOf(start, plan, answer)
  }

  /** A page as another site takes it: see `ReplicatedRecord`. */
  async originsPage(
    index: RecordIndex,
    start: number,
    end: number,
    { maxRecords, maxPayloadBytes }: PageLimits,
    holes: IntervalSet,
  ): Promise<Page> {
    const plan = planOf(index, start, end, maxRecords, holes)
    const answer = await this.#ask(READ_ORIGINS, false, maxPayloadBytes ?? Infinity, plan, maxRecords)
    return pageOf(start, plan, answer)
  }

  async raw(index: RecordIndex, offset: number): Promise<RawRead> {
    const { records, unreadable } = await this.rawRecords(index, offset, offset + 1, 1)
    if (records[0] !== undefined) return { kind: 'record', record: records[0] }
    return { kind: 'unreadable', unreadable: unreadable[0] ?? unknownRecord(offset) }
  }

  /** The first records in [from, end) as they stand in their frames; those that would make the answer too long are 'withheld'. */
  async rawRecords(
    index: RecordIndex,
    from: number,
    end: number,
    max: number,
  ): Promise<{ readonly records: readonly RawRecord[]; readonly unreadable: readonly Unreadable[] }> {
    const places = new Places(Math.min(max, index.recordsBetween(from, end)))
    index.collect(from, end, max, places)
    const { text, numbers, unreadable } = await this.#ask(READ_RAW, false, 0, places)
    const cursor = new RecordCursor()
    const records: RawRecord[] = []
    for (let number = 0; number < places.count; number++) {
      const bytes = text.subarray(numbers[number], numbers[number + 1])
      if (!cursor.read(bytes, 0)) continue // it is among the unreadable
      const { eventTimeMs, payloadBytes } = cursor
      const ingestTimeMs = numbers[1 + places.count + number]!
      records.push({ offset: places.offset(number), bytes, eventTimeMs, ingestTimeMs, payloadBytes })
    }
    return { records, unreadable: unreadableOf(unreadable, places) }
  }

  /** The lowest offset below `end` whose record has a time at or above `timeMs`; `end` when there is none. */
  async firstAtOrAbove(
    index: RecordIndex,
    by: 'event' | 'ingest',
    timeMs: number,
    end: number,
    audited = false,
  ): Promise<number> {
    for (let from = 0; ;) {
      const range = index.candidates(by, timeMs, from)
      if (range === null || range.from >= end) return end
      const rangeEnd = Math.min(range.end, end)
      const { places, eventTimesMs, ingestTimesMs } = await this.#times(index, range.from, rangeEnd, audited)
      const times = by === 'event' ? eventTimesMs : ingestTimesMs
      const found = times.findIndex((time) => time >= timeMs)
      if (found >= 0) return places.offset(found)
      from = range.end
    }
  }

  /**
   * The lowest offset below `end` that an age limit keeps; `end` when there is none. A record is kept when its ingest time is between
   * `youngestMs` and `nowMs`. The age of a record of the future is unknown: it goes only if a record behind it is too old. At most
   * DOUBTFUL_READS_MAX marks with records of the future are read in one search; the next search finds the rest.
   */
  async firstNotAged(
    index: RecordIndex,
    { youngestMs, nowMs, end }: { readonly youngestMs: number; readonly nowMs: number; readonly end: number },
    audited: boolean,
  ): Promise<number> {
    let kept: number | null = null // first record of the future since the last one that is too old
    let reads = 0
    const ranges = index.ingestTimes(youngestMs, end)
    for (const { from, end: rangeEnd, latestMs } of ranges) {
      if (latestMs < youngestMs) {
        kept = null
        continue
      }
      if (latestMs > nowMs && ++reads > DOUBTFUL_READS_MAX) {
        for (const behind of ranges) {
          if (behind.latestMs < youngestMs) return from // all records below were looked at
          if (behind.latestMs <= nowMs) break
        }
        return kept ?? from
      }
      const { places, ingestTimesMs } = await this.#times(index, from, rangeEnd, audited)
      for (const [number, timeMs] of ingestTimesMs.entries()) {
        if (timeMs < youngestMs) kept = null
        else if (timeMs <= nowMs) return kept ?? places.offset(number)
        else if (timeMs > nowMs) kept ??= places.offset(number)
      }
    }
    return kept ?? end
  }

  /** The lowest offset that can stay when the newest records below `end` are kept, up to `maxBytes` of payload. */
  async firstWithin(index: RecordIndex, maxBytes: number, end: number): Promise<number> {
    let bytes = 0
    for (let before = end; ;) {
      const range = index.candidatesByBytes(maxBytes, before, bytes)
      if (range === null) return Math.min(index.firstOffset, end)
      const { places, payloadBytes } = await this.#times(index, range.from, range.end, false)
      bytes = range.bytesAfter
      for (let number = places.count - 1; number >= 0; number--) {
        const ofRecord = payloadBytes[number]!
        if (bytes + ofRecord > maxBytes) return places.offset(number) + 1
        if (!Number.isNaN(ofRecord)) bytes += ofRecord
      }
      before = range.from
    }
  }

  /** When a record came in; NaN when it is damaged, or not there any more. */
  async ingestTimeOf(index: RecordIndex, offset: number): Promise<number> {
    if (index.recordsBetween(offset, offset + 1) === 0) return Number.NaN
    const { ingestTimesMs } = await this.#times(index, offset, offset + 1, false)
    return ingestTimesMs[0] ?? Number.NaN
  }

  /** Payload bytes of the records in [from, end) that can be read. */
  async payloadBytesBetween(index: RecordIndex, from: number, end: number): Promise<number> {
    const { bytes, parts } = index.payloadBytesIn(from, end)
    let sum = bytes
    for (const part of parts) {
      const { payloadBytes } = await this.#times(index, part.from, part.end, false)
      for (const ofRecord of payloadBytes) if (!Number.isNaN(ofRecord)) sum += ofRecord
    }
    return sum
  }

  /** Times and payload bytes of records; NaN for damaged ones. Records that were moved meanwhile are looked up again, so that none is missed. */
  async #times(index: RecordIndex, from: number, end: number, audited: boolean) {
    for (let attempt = 1; ; attempt += 1) {
      const places = new Places(end - from)
      index.collect(from, end, end - from, places)
      const { textDone, numbers, unreadable } = await this.#ask(READ_TIMES, audited, 0, places)
      textDone()
      const missing = unreadable.find(({ cause }) => cause !== 'damaged')
      if (missing?.cause === 'dropped' && attempt < READ_ATTEMPTS_MAX) continue
      if (missing !== undefined) throw new StoreError('unavailable', 'records_unavailable', missing.reason)
      const { count } = places
      return {
        places,
        eventTimesMs: numbers.subarray(0, count),
        ingestTimesMs: numbers.subarray(count, 2 * count),
        payloadBytes: numbers.subarray(2 * count, 3 * count),
      }
    }
  }

  #ask(
    kind: Parameters<ReadQueue['ask']>[0]['kind'],
    audited: boolean,
    argument: number,
    places: Places,
    max = places.count,
  ): Promise<ReadAnswer> {
    const count = Math.min(max, places.count)
    if (count === 0) return Promise.resolve(NOTHING)
    return this.#queue.ask({ kind, audited, argument, places, count })
  }
}

const READ_ATTEMPTS_MAX = 3
const DOUBTFUL_READS_MAX = 64
/** Base of a segment that never was: below every readable position. */
const NOWHERE = -1
const NOTHING: ReadAnswer = { text: Buffer.alloc(0), textDone: () => {}, numbers: new Float64Array(), unreadable: [] }

function placesOf(index: RecordIndex, offsets: readonly number[]): Places {
  const places = new Places(offsets.length)
  for (const offset of offsets) if (!index.find(offset, places)) places.add(offset, NOWHERE, 0)
  return places
}

/** Plans one place more than the page takes, which tells whether there are more. */
function planOf(index: RecordIndex, start: number, end: number, maxRecords: number, holes: IntervalSet | null): Places {
  const max = maxRecords + 1
  const places = new Places(max)
  for (let at = start; at < end && places.count < max;) {
    const from = holes?.firstGap(at) ?? at
    const to = Math.min(end, holes?.nextCovered(from) ?? end)
    index.collect(from, to, max - places.count, places)
    at = Math.max(from, to)
  }
  return places
}

function pageOf(start: number, plan: Places, { text, textDone, numbers, unreadable }: ReadAnswer): Page {
  const considered = numbers[PAGE_CONSIDERED] ?? 0
  return {
    bytes: text.subarray(numbers[PAGE_BEGIN] ?? 0, numbers[PAGE_END] ?? 0),
    bytesDone: textDone,
    returned: numbers[PAGE_RETURNED] ?? 0,
    payloadBytes: numbers[PAGE_PAYLOAD_BYTES] ?? 0,
    capped: numbers[PAGE_CAPPED] === 1,
    firstExceedsCap: numbers[PAGE_FIRST_EXCEEDS] === 1,
    hasMore: considered < plan.count,
    nextOffset: considered === 0 ? start : plan.offset(considered - 1) + 1,
    unreadable: unreadableOf(unreadable, plan),
  }
}

function unreadableOf(unreadable: ReadAnswer['unreadable'], places: Places): Unreadable[] {
  return unreadable.map(({ number, cause, reason, frameBytes }) => ({
    offset: places.offset(number),
    segmentBase: places.segmentBase(number),
    place: places.place(number),
    cause,
    reason,
    frameBytes,
  }))
}

const unknownRecord = (offset: number): Unreadable => ({
  offset,
  segmentBase: NOWHERE,
  place: 0,
  cause: 'dropped',
  reason: 'there is no such record',
  frameBytes: 0,
})
