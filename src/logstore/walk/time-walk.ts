/**
 * A walk through the results of a query in their order, in steps of bounded time and memory. A page of a query counts everything that matches, but a step
 * reads only what comes next. So a walk through everything reads everything once.
 *
 * W1  a walk sees one snapshot, that of its first step: every record of it that matches once, in the order of a query's pages
 * W2  a step ends when its visitor has enough, or after the run of candidates in which `stepMs` has passed. Its place is a cursor, so it outlives sealing
 *     and restarts
 */
import { Deadline } from '../query/deadline.ts'
import type { Cursor, Order, QueryFilter } from '../query/cursor.ts'
import type { SegmentReader, Source } from '../query/segment-reader.ts'
import type { FrameReader } from '../query/frame-reader.ts'
import { PageSelection } from '../query/page-selection.ts'
import { inOrderOfPage } from '../query/page-order.ts'
import { planQuery } from '../query/plan.ts'
import type { QueryTask } from '../query/task.ts'
import { SegmentScan } from '../query/scan.ts'
import type { RecordBatch } from '../batch-frame.ts'
import { SearchMatcher } from '../search/matcher.ts'
import { timeOfWords } from '../time-words.ts'

/** What ends a step. */
export interface WalkBounds {
  /** Candidates that are put in order at once: at most 65 535. */
  readonly candidates: number
  /** Candidates of the first run of a step. */
  readonly run: number
  /** A step that has taken this long ends behind the current run. */
  readonly stepMs: number
  /** A step ends once it has written this many characters; the last record may go far beyond. */
  readonly textMax: number
}

export const WALK_BOUNDS: WalkBounds = { candidates: 4096, run: 256, stepMs: 25, textMax: 512 * 1024 }

export interface WalkParts {
  readonly reader: SegmentReader
  readonly frames: FrameReader
  readonly bounds: WalkBounds
  /** The clock of the tasks' deadlines. */
  readonly nowMs: () => number
}

export interface TimeWalkRequest {
  /** null: every dataset that may be read; then the filter has a trace id. */
  readonly dataset: string | null
  readonly filter: QueryFilter
  readonly order: Order
  /** null: the first step. */
  readonly resume: Cursor | null
  readonly deadlineMs: number
}

/** Valid during the call that it is handed to. */
export interface WalkedRecord {
  readonly batch: RecordBatch
  /** Number of the record in the batch. */
  readonly number: number
  readonly id: Uint32Array
  readonly timeHigh: number
  readonly timeLow: number
}

export interface TimeWalkStep {
  /** First step: matching records that the indexes know to be damaged. Later steps: 0. */
  readonly quarantined: number
  /** Where the next step continues; null: the walk is over. */
  readonly resume: Cursor | null
}

interface Candidate {
  readonly source: Source
  readonly base: number
  readonly frameOffset: number
  readonly recordNumber: number
  readonly unit: number
  readonly number: number
  readonly id: Uint32Array
  readonly timeHigh: number
  readonly timeLow: number
}

/** Visits the records of a walk: `make` makes a text of a record, in the order of the file; `take` gets it, in the order of results. */
export interface TimeVisitor {
  make(record: WalkedRecord): string
  /** True: the step ends. */
  take(text: string): boolean
}

export function walkInTime(
  parts: WalkParts,
  { tenant, request, among = null, deadlineAtMs, snapshot, expired }: QueryTask<TimeWalkRequest>,
  visitor: TimeVisitor,
): TimeWalkStep {
  const { reader, bounds, nowMs } = parts
  const { bundles } = reader
  const { dataset, order, resume } = request
  const { search, ...filter } = narrowed(request)
  const stepEndsMs = nowMs() + bounds.stepMs
  const deadline = new Deadline(deadlineAtMs, nowMs)
  const seenTo = resume?.snapshot ?? snapshot.committed
  const plan = planQuery(tenant, dataset ?? { among }, { ...filter, search: null }, order, resume, seenTo, expired)
  const sources = reader.sourcesOf(snapshot, plan)
  // The sources that come next in the order fill the page, so that little is read of the others.
  const ordered = inOrderOfPage(sources, plan.descending)
  bundles.expectIndexes(ordered.map(([, source]) => source))
  const page = new PageSelection(bounds.candidates, plan.descending)
  let damaged = 0
  for (const [number, source] of ordered) {
    deadline.check()
    const scan = reader.scan(source, plan, snapshot, (bounds) => new SegmentScan(plan, page, deadline, number, bounds))
    damaged += scan?.quarantined ?? 0
  }

  const found = page.results()
  const conditions = search === null || search.kind === 'all' ? null : search
  const matcher = conditions === null ? null : new SearchMatcher(conditions, () => deadline.check())
  const quarantined = resume === null ? damaged : 0
  const runs = new Runs(parts, snapshot.logId, matcher, visitor, () => deadline.check())
  // A search reads whole frames for few of their records, so the first run has all candidates.
  const firstLength = matcher === null ? bounds.run : bounds.candidates
  for (let from = 0, length = firstLength; from < found.length; from += length, length = runs.nextLength) {
    const run = found.slice(from, from + length).map((each): Candidate => {
      const source = sources[each.source]!
      return { ...each, source, base: source.base, ...reader.locate(source, each.entry) }
    })
    bundles.expectFrames(run)
    const last = runs.walk(run)
    const place = last ?? run.at(-1)!
    const isAllOfPage = from + length >= found.length
    if (last === null && isAllOfPage && found.length < bounds.candidates) break
    if (last === null && !isAllOfPage && nowMs() < stepEndsMs) continue
    const { base, frameOffset, recordNumber, timeHigh, timeLow } = place
    const time = timeOfWords(timeHigh, timeLow)
    return { quarantined, resume: { position: base + frameOffset, recordNumber, time, snapshot: seenTo } }
  }
  return { quarantined, resume: null }
}

/** Narrows the time range to what comes at or behind the place of the step. */
function narrowed({ filter, order, resume }: TimeWalkRequest): QueryFilter {
  if (resume === null) return filter
  const { time } = resume
  const { startTime, endTime } = filter
  if (order === 'asc') return { ...filter, startTime: startTime !== null && startTime > time ? startTime : time }
  return { ...filter, endTime: endTime !== null && endTime <= time ? endTime : time + 1n }
}

/** Walks runs of candidates in the order of results. The frames and blocks of a run are read in the order of the file, each once. */
class Runs {
  readonly #parts: WalkParts
  readonly #logId: number
  readonly #matcher: SearchMatcher | null
  readonly #visitor: TimeVisitor
  readonly #check: () => void
  readonly #numbers: Uint16Array
  #candidates = 0
  #characters = 0

  constructor(parts: WalkParts, logId: number, matcher: SearchMatcher | null, visitor: TimeVisitor, check: () => void) {
    this.#parts = parts
    this.#logId = logId
    this.#matcher = matcher
    this.#visitor = visitor
    this.#check = check
    this.#numbers = new Uint16Array(parts.bounds.candidates)
  }

  /** As many candidates as probably fill a step, by those before them: texts that are made and not taken are made again in the next step. */
  get nextLength(): number {
    const { run, candidates, textMax } = this.#parts.bounds
    const each = this.#characters / this.#candidates
    return Math.max(run >> 4, Math.min(candidates, Math.floor(textMax / Math.max(1, each)))) || 1
  }

  /** The candidate at which the visitor had enough; null: it takes more. */
  walk(run: readonly Candidate[]): Candidate | null {
    const made = this.#make(run)
    this.#candidates += run.length
    for (const candidate of run) {
      const text = made.get(candidate)
      if (text === undefined) continue
      if (this.#visitor.take(text ?? this.#makeOne(candidate, this.#read(candidate)))) return candidate
    }
    return null
  }

  /** The texts of the candidates that match; null: made when it is taken, as the texts of the run are long. */
  #make(run: readonly Candidate[]): ReadonlyMap<Candidate, string | null> {
    const made = new Map<Candidate, string | null>()
    const ordered = run.toSorted((a, b) => a.base - b.base || a.unit - b.unit || a.number - b.number)
    let characters = 0
    for (let first = 0; first < ordered.length;) {
      const { base, unit } = ordered[first]!
      const begin = first
      for (; first < ordered.length; first++) {
        const each = ordered[first]!
        if (each.base !== base || each.unit !== unit) break
        this.#numbers[first - begin] = each.number
      }
      this.#check()
      const batch = this.#read(ordered[begin]!)
      const matched = (at: number): void => {
        const candidate = ordered[begin + at]!
        const text = characters > 2 * this.#parts.bounds.textMax ? null : this.#makeOne(candidate, batch)
        characters += text?.length ?? 0
        made.set(candidate, text)
      }
      if (this.#matcher !== null) this.#matcher.run(batch, this.#numbers, first - begin, matched)
      else for (let at = 0; at < first - begin; at++) matched(at)
    }
    this.#characters += characters
    return made
  }

  #makeOne(candidate: Candidate, batch: RecordBatch): string {
    return this.#visitor.make({ ...candidate, batch })
  }

  #read({ source, unit }: Candidate): RecordBatch {
    const { reader, frames } = this.#parts
    return reader.readBatch(frames, this.#logId, source, unit)
  }
}
