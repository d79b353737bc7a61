/**
 * A walk through the results of a query in their order, in steps of bounded time and memory. Where a page of a query counts everything that
 * matches, a step looks only at what comes next, so that a walk through everything reads everything once.
 *
 * W1  a walk sees one snapshot, that of its first step: every record of it that matches once, in the order of a query's pages
 * W2  a step ends after a run of candidates: when its visitor has enough, or after `stepMs`. Its place is that of a cursor, so it outlives
 *     sealing and restarts
 */
import { Deadline } from '../query/deadline.ts'
import type { Cursor, Order, QueryFilter } from '../query/cursor.ts'
import { sourcesOf } from '../query/engine.ts'
import type { QueryEngine, Source } from '../query/engine.ts'
import type { FrameReader } from '../query/frame-reader.ts'
import type { OpenBundles } from '../query/open-bundles.ts'
import { PageSelection } from '../query/page-selection.ts'
import { planQuery } from '../query/plan.ts'
import type { ThreadTask } from '../query/task.ts'
import { Catalog } from '../index/catalog.ts'
import type { StoredBatch } from '../batch-frame.ts'
import { SearchMatcher } from '../search/matcher.ts'
import { timeOfWords } from '../time-words.ts'

/** What ends a step. */
export interface WalkBounds {
  /** Candidates that are put in order at once: at most 65 535. */
  readonly candidates: number
  /** Those of them that are read in a row. */
  readonly run: number
  /** A step that took so long ends behind a run, or a frame. */
  readonly stepMs: number
  /** A step that wrote so many characters has enough; one record more may be long. */
  readonly textMax: number
}

export const WALK_BOUNDS: WalkBounds = { candidates: 8192, run: 256, stepMs: 25, textMax: 256 * 1024 }

export interface WalkParts {
  readonly engine: QueryEngine
  readonly bundles: OpenBundles
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
  readonly batch: StoredBatch
  readonly recordNumber: number
  readonly id: Uint32Array
  readonly timeHigh: number
  readonly timeLow: number
}

export interface TimeWalkStep {
  /** Of the first step: matching records that are known to be damaged, as far as indexes say. Later ones: 0. */
  readonly quarantined: number
  /** Where the next step goes on; null: the walk is over. */
  readonly resume: Cursor | null
}

interface Candidate {
  readonly source: Source
  readonly base: number
  readonly frameOffset: number
  readonly recordNumber: number
  readonly id: Uint32Array
  readonly timeHigh: number
  readonly timeLow: number
}

/** @param visit of each record in order; true: it has enough */
export function walkInTime(
  { engine, bundles, frames, bounds, nowMs }: WalkParts,
  { tenant, request, among = null, deadlineAtMs, snapshot }: ThreadTask<TimeWalkRequest>,
  visit: (record: WalkedRecord) => boolean,
): TimeWalkStep {
  const { dataset, order, resume } = request
  const { search, ...filter } = narrowed(request)
  const { candidates, run: runLength, stepMs } = bounds
  const stepEndsMs = nowMs() + stepMs
  const deadline = new Deadline(deadlineAtMs, nowMs)
  const seenTo = resume?.snapshot ?? snapshot.committed
  const plan = planQuery(tenant, dataset ?? { among }, { ...filter, search: null }, order, resume, seenTo)
  const catalog = new Catalog(snapshot.catalog)
  bundles.keepOnly(catalog, snapshot.indexed)
  const sources = sourcesOf(snapshot, catalog, plan)
  bundles.expectIndexes(sources)
  const page = new PageSelection(candidates, plan.descending)
  let quarantined = 0
  for (const [number, source] of sources.entries()) {
    deadline.check()
    const scan = engine.scan(source, number, plan, page, deadline, snapshot)
    quarantined += scan?.quarantined ?? 0
  }

  const found = page.results()
  const conditions = search === null || search.kind === 'all' ? null : search
  const matcher = conditions === null ? null : new SearchMatcher(conditions, () => deadline.check())
  const place = ({ base, frameOffset, recordNumber, timeHigh, timeLow }: Candidate): Cursor => ({
    position: base + frameOffset,
    recordNumber,
    time: timeOfWords(timeHigh, timeLow),
    snapshot: seenTo,
  })
  const ofFirst = resume === null ? quarantined : 0
  for (let from = 0; from < found.length; from += runLength) {
    const run = found.slice(from, from + runLength).map((each): Candidate => {
      const source = sources[each.source]!
      return { ...each, source, base: source.base, ...engine.locate(source, each.entry) }
    })
    bundles.expectFrames(run)
    const read = ({ base, frameOffset }: Candidate): StoredBatch =>
      engine.readBatch(frames, snapshot.logId, base, frameOffset)
    const matching = matcher === null ? null : matchingOf(run, matcher, read)
    for (const candidate of run) {
      if (matching !== null && !matching.has(candidate)) continue
      deadline.check()
      const hasEnough = visit({ ...candidate, batch: read(candidate) })
      if (hasEnough) return { quarantined: ofFirst, resume: place(candidate) }
    }
    const isAllOfPage = from + runLength >= found.length
    if (isAllOfPage && found.length < candidates) break
    if (isAllOfPage || nowMs() >= stepEndsMs) return { quarantined: ofFirst, resume: place(run.at(-1)!) }
  }
  return { quarantined: ofFirst, resume: null }
}

/** What lies before the place of a later step need not be looked at. */
function narrowed({ filter, order, resume }: TimeWalkRequest): QueryFilter {
  if (resume === null) return filter
  const { time } = resume
  const { startTime, endTime } = filter
  if (order === 'asc') return { ...filter, startTime: startTime !== null && startTime > time ? startTime : time }
  return { ...filter, endTime: endTime !== null && endTime <= time ? endTime : time + 1n }
}

/** Frames are read in the order of the file, each once. */
function matchingOf(
  run: readonly Candidate[],
  matcher: SearchMatcher,
  read: (candidate: Candidate) => StoredBatch,
): ReadonlySet<Candidate> {
  const matching = new Set<Candidate>()
  const ordered = run.toSorted(
    (a, b) => a.base + a.frameOffset - b.base - b.frameOffset || a.recordNumber - b.recordNumber,
  )
  const numbers = new Uint16Array(run.length)
  for (let first = 0; first < ordered.length;) {
    const { base, frameOffset } = ordered[first]!
    const begin = first
    for (; first < ordered.length; first++) {
      const each = ordered[first]!
      if (each.base !== base || each.frameOffset !== frameOffset) break
      numbers[first - begin] = each.recordNumber
    }
    matcher.run(read(ordered[begin]!), numbers, first - begin, (at) => void matching.add(ordered[begin + at]!))
  }
  return matching
}
