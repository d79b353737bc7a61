/**
 * Where the records of one stream are: offset → frame. On the main thread, one per stream.
 *
 *   spans    |  0 ..< 900  | 900 ..< 1500 |   | 1700 ..< 9000 |     in order of offsets; a gap: lost to damage
 *   in runs   of segment A   of segment C       of segment B         900 to 1500 were moved behind B, so that an older segment could go
 *
 * X1  spans do not overlap and ascend; each is a part of one run (record-run.ts). An offset that is in none has no record
 * X2  nothing is below the floor: records that retention removed do not come back with an older run
 * X3  the latest place of a record counts: a record that is appended again was moved into a newer segment
 * X4  marks cover 64 records of a run, including dropped and moved ones: they say where a record can be, and only reading tells whether it
 *     is. So searches answer with a range to look at
 *
 * Times are not sorted and retention takes away maxima, so a search goes over the maxima of runs, then over those of one run's marks:
 * 153 and 1024 at most for ten million records.
 */
import type { Places } from './places.ts'
import {
  MARK_EVENT_TIME,
  MARK_INGEST_TIME,
  MARK_PAYLOAD_BYTES,
  RUN_RECORDS_MAX,
  RecordRun,
  WHOLE_FRAME_BYTES,
} from './record-run.ts'

/** About how many bytes a record takes beside its payload, for runs of sidecars that do not hold it. */
const BESIDE_PAYLOAD_BYTES = 150

/** Offsets [from, end) of a run that count (X1). */
interface Span {
  readonly run: RecordRun
  from: number
  end: number
}

export interface OffsetRange {
  readonly from: number
  readonly end: number
}

/** Where a frame is, and how long. */
interface FramePlace {
  readonly segmentBase: number
  readonly place: number
  readonly frameBytes: number
}

/** The part of the stream that one segment holds. */
export interface SegmentShare {
  readonly segmentBase: number
  records: number
  /** Exact except for runs of which a part was dropped or moved: there at most 64 records at each end are estimated. */
  payloadBytes: number
  firstOffset: number
  lastOffset: number
}

export class RecordIndex {
  readonly #spans: Span[] = []
  #floor = 0
  #recordCount = 0

  /** How many records there are. */
  get recordCount(): number {
    return this.#recordCount
  }

  /** The lowest offset that has a record; `end` when there is none. */
  get firstOffset(): number {
    return this.#spans[0]?.from ?? this.#floor
  }

  /** Behind the highest offset that has a record. */
  get end(): number {
    return this.#spans.at(-1)?.end ?? this.#floor
  }

  /** Bytes of the records in the log, with their keys, headers and frames. For runs that count only in part it is an estimate. */
  get storedBytes(): number {
    let bytes = 0
    this.#eachPart(0, Infinity, (run, first, last) => {
      bytes += estimatedBytes(run, first, last) + (besidePayload(run) * (last - first)) / run.count
    })
    return bytes
  }

  /**
   * Adds the records of one frame.
   *
   * @param frameBytes its whole length; 0 when it counts elsewhere
   * @param eventTimeMsOf, payloadBytesOf by number of the record in the frame
   */
  append(
    { segmentBase, place, frameBytes }: FramePlace,
    firstOffset: number,
    count: number,
    ingestTimeMs: number,
    eventTimeMsOf: (number: number) => number,
    payloadBytesOf: (number: number) => number,
  ): void {
    for (let number = 0; number < count; number++) {
      const offset = firstOffset + number
      if (offset < this.#floor) continue // X2
      const span = this.#spanToAppend(segmentBase, offset)
      span.run.append(place, eventTimeMsOf(number), ingestTimeMs, payloadBytesOf(number), frameBytes / count)
      span.end += 1
      this.#recordCount += 1
    }
  }

  /** Adds a run of a sealed segment, read from its sidecar. Segments come in the order of the log (X3). */
  adopt(run: RecordRun): void {
    const from = Math.max(run.firstOffset, this.#floor)
    if (from >= run.end) return
    this.#spans.splice(this.#clear(from, run.end), 0, { run, from, end: run.end })
    this.#recordCount += run.end - from
  }

  /** Adds the place of a record to `out`; false when there is no such record. */
  find(offset: number, out: Places): boolean {
    const span = this.#spans[this.#spanEndingAfter(offset)]
    if (span === undefined || span.from > offset) return false
    out.add(offset, span.run.segmentBase, span.run.place(offset))
    return true
  }

  /** The run that a record is in; null when there is no such record. */
  runAt(offset: number): RecordRun | null {
    const span = this.#spans[this.#spanEndingAfter(offset)]
    return span === undefined || span.from > offset ? null : span.run
  }

  /** Offsets whose records have their places in [from, to) of a segment. */
  offsetsAt(segmentBase: number, from: number, to: number): OffsetRange[] {
    return this.#spans.flatMap((span) => {
      if (span.run.segmentBase !== segmentBase) return []
      const first = firstPlacedFrom(span, from)
      const end = firstPlacedFrom(span, to)
      return first < end ? [{ from: first, end }] : []
    })
  }

  /** Adds the places of the first `max` records in [from, end) to `out`. */
  collect(from: number, end: number, max: number, out: Places): void {
    let left = max
    for (let i = this.#spanEndingAfter(from); i < this.#spans.length && left > 0; i++) {
      const span = this.#spans[i]!
      const { run } = span
      const first = Math.max(from, span.from)
      const last = Math.min(span.end, end, first + left)
      for (let offset = first; offset < last; offset++) out.add(offset, run.segmentBase, run.place(offset))
      left -= Math.max(0, last - first)
    }
  }

  /** Offsets of [from, end) that have no record, as half-open intervals. */
  gaps(from: number, end: number): (readonly [from: number, end: number])[] {
    const gaps: [number, number][] = []
    let at = from
    this.#eachPart(from, end, (_, first, last) => {
      if (first > at) gaps.push([at, first])
      at = last
    })
    if (at < end) gaps.push([at, end])
    return gaps
  }

  /** Records in [from, end). */
  recordsBetween(from: number, end: number): number {
    let records = 0
    this.#eachPart(from, end, (_, first, last) => (records += last - first))
    return records
  }

  /**
   * Payload bytes of the records in [from, end): the sum for marks that are wholly in it, and the ranges of the others, which have to be
   * read (X4). As long as nothing was moved, there are two such ranges at most.
   */
  payloadBytesIn(from: number, end: number): { readonly bytes: number; readonly parts: readonly OffsetRange[] } {
    const parts: OffsetRange[] = []
    let bytes = 0
    this.#eachPart(from, end, (run, first, last) => {
      for (let mark = run.markOf(first); run.markBegin(mark) < last; mark++) {
        const part = { from: Math.max(first, run.markBegin(mark)), end: Math.min(last, run.markEnd(mark)) }
        if (isWhole(run, mark, part)) bytes += run.mark(mark, MARK_PAYLOAD_BYTES)
        else parts.push(part)
      }
    })
    return { bytes, parts }
  }

  /**
   * Where to look for the first record at or after offset `from` whose time is at or above `timeMs`: it is in this range, or behind it
   * (X4). Null: there is none.
   */
  candidates(by: 'event' | 'ingest', timeMs: number, from = 0): OffsetRange | null {
    const number = by === 'event' ? MARK_EVENT_TIME : MARK_INGEST_TIME
    for (let i = this.#spanEndingAfter(from); i < this.#spans.length; i++) {
      const span = this.#spans[i]!
      const { run } = span
      if (run.whole[number]! < timeMs) continue
      const first = Math.max(from, span.from)
      for (let mark = run.markOf(first); run.markBegin(mark) < span.end; mark++) {
        if (run.mark(mark, number) < timeMs) continue
        return { from: Math.max(first, run.markBegin(mark)), end: Math.min(span.end, run.markEnd(mark)) }
      }
    }
    return null
  }

  /**
   * Ranges of the records below `end`, in their order, each with the latest ingest time in it (X4): one for a whole run if that time is
   * below `youngestMs`, else one for each of its marks.
   */
  *ingestTimes(youngestMs: number, end: number): Generator<OffsetRange & { readonly latestMs: number }, void> {
    for (const span of this.#spans.slice()) {
      const { run } = span
      const last = Math.min(span.end, end)
      if (span.from >= last) return
      if (run.whole[MARK_INGEST_TIME]! < youngestMs) {
        yield { from: span.from, end: last, latestMs: run.whole[MARK_INGEST_TIME]! }
        continue
      }
      for (let mark = run.markOf(span.from); run.markBegin(mark) < last; mark++) {
        const latestMs = run.mark(mark, MARK_INGEST_TIME)
        yield { from: Math.max(span.from, run.markBegin(mark)), end: Math.min(last, run.markEnd(mark)), latestMs }
      }
    }
  }

  /** When a record came in, as far as marks say it (X4): between these two. Null: there is no such record. */
  ingestTimeRange(offset: number): { readonly earliestMs: number; readonly latestMs: number } | null {
    const place = this.#spanEndingAfter(offset)
    const span = this.#spans[place]
    if (span === undefined || span.from > offset) return null
    const { run } = span
    const mark = run.markOf(offset)
    const latestMs = run.mark(mark, MARK_INGEST_TIME)
    if (run.markEnd(mark) - run.markBegin(mark) === 1) return { earliestMs: latestMs, latestMs }
    const before = this.#spans[place - 1]?.run.whole[MARK_INGEST_TIME] ?? 0
    const earliestMs = mark > 0 ? run.mark(mark - 1, MARK_INGEST_TIME) : before
    return { earliestMs: Math.min(earliestMs, latestMs), latestMs }
  }

  /**
   * Where to look for the lowest offset that can stay when the newest records are kept, up to `maxBytes` of payload: it is in this range. If
   * the whole range fits, it is before the range: ask again with the range's begin and the bytes from there on (X4). Null: all can stay.
   *
   * @param end         offset behind the newest record to count
   * @param bytesAfter  payload bytes from `end` on
   * @returns the range, and the payload bytes behind it
   */
  candidatesByBytes(
    maxBytes: number,
    end = this.end,
    bytesAfter = 0,
  ): (OffsetRange & { readonly bytesAfter: number }) | null {
    let bytes = bytesAfter
    for (let i = this.#spans.length - 1; i >= 0; i--) {
      const { run, from, end: spanEnd } = this.#spans[i]!
      if (from >= end) continue
      const last = Math.min(spanEnd, end)
      if (from === run.firstOffset && last === run.end && bytes + run.whole[MARK_PAYLOAD_BYTES]! <= maxBytes) {
        bytes += run.whole[MARK_PAYLOAD_BYTES]!
        continue
      }
      for (let mark = run.markOf(last - 1); mark >= 0 && run.markEnd(mark) > from; mark--) {
        const ofMark = run.mark(mark, MARK_PAYLOAD_BYTES)
        const range = { from: Math.max(from, run.markBegin(mark)), end: Math.min(last, run.markEnd(mark)) }
        if (bytes + ofMark > maxBytes || !isWhole(run, mark, range)) return { ...range, bytesAfter: bytes }
        bytes += ofMark
      }
    }
    return null
  }

  /** Shares of all segments that have records of the stream, in the order of the log. */
  segments(): SegmentShare[] {
    const shares = new Map<number, SegmentShare>()
    this.#eachPart(0, Infinity, (run, first, last) => {
      const { segmentBase } = run
      const share = shares.get(segmentBase)
      const payloadBytes = estimatedBytes(run, first, last)
      if (share === undefined) {
        const records = last - first
        shares.set(segmentBase, { segmentBase, records, payloadBytes, firstOffset: first, lastOffset: last - 1 })
      } else {
        share.records += last - first
        share.payloadBytes += payloadBytes
        share.lastOffset = last - 1
      }
    })
    return [...shares.values()].sort((a, b) => a.segmentBase - b.segmentBase)
  }

  /** Base of the oldest segment that has records of the stream; null when there are none. */
  get oldestSegment(): number | null {
    let oldest = Infinity
    for (const { run } of this.#spans) oldest = Math.min(oldest, run.segmentBase)
    return oldest === Infinity ? null : oldest
  }

  /** The runs of one segment, as its sidecar holds them (R2). */
  runsIn(segmentBase: number): RecordRun[] {
    return this.runsFrom(segmentBase).filter((run) => run.segmentBase === segmentBase)
  }

  /** The runs of segments whose base is at or behind a position. */
  runsFrom(position: number): RecordRun[] {
    const runs = new Set<RecordRun>()
    for (const { run } of this.#spans) if (run.segmentBase >= position) runs.add(run)
    return [...runs]
  }

  /** Removes the records below, for retention (X2). */
  dropBelow(offset: number): void {
    if (offset <= this.#floor) return
    this.#floor = offset
    this.#clear(0, offset)
  }

  /** Removes the records of a segment that is gone. */
  dropSegment(segmentBase: number): void {
    for (let i = this.#spans.length - 1; i >= 0; i--) {
      const { run, from, end } = this.#spans[i]!
      if (run.segmentBase !== segmentBase) continue
      this.#spans.splice(i, 1)
      this.#recordCount -= end - from
    }
  }

  /** A span, free behind its end, whose run can take the record at `offset`. */
  #spanToAppend(segmentBase: number, offset: number): Span {
    const { length } = this.#spans
    const last = this.#spans[length - 1]
    let next = length
    if (last !== undefined && offset < last.end) next = this.#clear(offset, offset + 1) // X3
    const before = this.#spans[next - 1]
    if (before !== undefined && before.end === offset && takes(before.run, segmentBase, offset)) return before
    before?.run.settle()
    const span = { run: RecordRun.begin(segmentBase, offset), from: offset, end: offset }
    this.#spans.splice(next, 0, span)
    return span
  }

  /** Removes the records of [from, end). @returns the index at which a span for them belongs */
  #clear(from: number, end: number): number {
    const index = this.#spanEndingAfter(from)
    let covered = 0
    const rest: Span[] = []
    for (let i = index; i < this.#spans.length && this.#spans[i]!.from < end; i++) {
      const { run, from: spanFrom, end: spanEnd } = this.#spans[i]!
      if (spanFrom < from) rest.push({ run, from: spanFrom, end: from })
      if (spanEnd > end) rest.push({ run, from: end, end: spanEnd })
      this.#recordCount -= Math.min(spanEnd, end) - Math.max(spanFrom, from)
      covered += 1
    }
    if (covered > 0) this.#spans.splice(index, covered, ...rest)
    return index + (rest[0] !== undefined && rest[0].from < from ? 1 : 0)
  }

  /** Index of the first span that ends behind an offset. */
  #spanEndingAfter(offset: number): number {
    let low = 0
    let high = this.#spans.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#spans[middle]!.end <= offset) low = middle + 1
      else high = middle
    }
    return low
  }

  #eachPart(from: number, end: number, visit: (run: RecordRun, first: number, last: number) => void): void {
    for (let i = this.#spanEndingAfter(from); i < this.#spans.length && this.#spans[i]!.from < end; i++) {
      const span = this.#spans[i]!
      visit(span.run, Math.max(from, span.from), Math.min(end, span.end))
    }
  }
}

const isWhole = (run: RecordRun, mark: number, { from, end }: OffsetRange): boolean =>
  from === run.markBegin(mark) && end === run.markEnd(mark)

const takes = (run: RecordRun, segmentBase: number, offset: number): boolean =>
  run.segmentBase === segmentBase && run.end === offset && run.count < RUN_RECORDS_MAX

/** The lowest offset of a span whose place is at or behind `place`; its end when there is none. Places ascend in a run. */
function firstPlacedFrom({ run, from, end }: Span, place: number): number {
  let low = from
  let high = end
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (run.place(middle) < place) low = middle + 1
    else high = middle
  }
  return low
}

function besidePayload({ whole, count }: RecordRun): number {
  const frameBytes = whole[WHOLE_FRAME_BYTES]!
  return frameBytes === 0 ? BESIDE_PAYLOAD_BYTES * count : frameBytes - whole[MARK_PAYLOAD_BYTES]!
}

/** Bytes of the records [from, end) of a run: exact for whole marks, and the records' share of the mark for others. */
function estimatedBytes(run: RecordRun, from: number, end: number): number {
  if (from === run.firstOffset && end === run.end) return run.whole[MARK_PAYLOAD_BYTES]!
  let bytes = 0
  for (let mark = run.markOf(from); run.markBegin(mark) < end; mark++) {
    const begin = run.markBegin(mark)
    const markEnd = run.markEnd(mark)
    const records = Math.min(end, markEnd) - Math.max(from, begin)
    bytes += Math.round((run.mark(mark, MARK_PAYLOAD_BYTES) * records) / (markEnd - begin))
  }
  return bytes
}
