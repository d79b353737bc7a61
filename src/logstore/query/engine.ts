/**
 * One query, from task to response body, on a worker thread: choose the segments, scan their indexes, read the page's records.
 *
 * E1  the answer is that of one snapshot: the committed position of the first page, the segments and damaged ranges of the task
 * E2  the snapshot names every segment below the committed position once: sealed ones by the catalog, those whose sidecar is
 *     not published yet, and the one being written, by their index in memory
 * E3  nothing is skipped silently: what cannot be read is a rejection with the place; what is known to be damaged is counted
 */
import { StoreError } from '../../errors.ts'
import { ActiveIndex } from '../index/active-index.ts'
import type { StoredBatch } from '../batch-frame.ts'
import type { ExpectedIndex } from '../index/reader.ts'
import { SearchMatcher } from '../search/matcher.ts'
import { timeOfWords } from '../time-words.ts'
import { PartTexts } from './render/record.ts'
import { Catalog } from '../index/catalog.ts'
import { cursorScope, decodeCursor, encodeCursor } from './cursor.ts'
import type { Cursor, QueryFilter } from './cursor.ts'
import { Deadline } from './deadline.ts'
import { DamagedFrameError } from './frame-reader.ts'
import type { FrameReader } from './frame-reader.ts'
import type { OpenBundles } from './open-bundles.ts'
import { PageSelection } from './page-selection.ts'
import { overlaps, planQuery } from './plan.ts'
import type { QueryPlan } from './plan.ts'
import { writeResponse } from './response.ts'
import { renderResult } from './result.ts'
import { SegmentScan, scanActive, scanBundle } from './scan.ts'
import { ActivePlaces, searchRecords } from './search-scan.ts'
import { scanActiveOfSeveral, scanBundleOfSeveral } from './several-scan.ts'
import type { QueryAnswer, QueryIncident, QueryRefusal, QuerySnapshot, QueryTask } from './task.ts'

/** A page ends early after this much text, with a cursor to the rest: records may be megabytes each. */
const PAGE_CHARACTERS_MAX = 32 * 1024 * 1024

export interface QueryEngineParts {
  readonly bundles: OpenBundles
  readonly frames: FrameReader
  /** For searches, which read everything once: the batches of pages stay where they are. */
  readonly scans: FrameReader
  /** The clock of the tasks' deadlines. */
  readonly nowMs: () => number
}

/** A segment of the snapshot that may hold results, in the order of positions. */
export type Source =
  | { readonly kind: 'bundle'; readonly base: number; readonly expected: ExpectedIndex }
  | { readonly kind: 'active'; readonly base: number; readonly index: ActiveIndex }

export class QueryEngine {
  readonly #parts: QueryEngineParts

  constructor(parts: QueryEngineParts) {
    this.#parts = parts
  }

  run(task: QueryTask): QueryAnswer {
    return this.refusing(() => this.#answer(task))
  }

  /** What cannot be read is refused, and so is what takes too long (E3). */
  refusing<Answer>(answer: () => Answer): Answer | QueryRefusal {
    try {
      return answer()
    } catch (error) {
      if (error instanceof SegmentReadError)
        return refused(this.#parts.bundles.failure, `${error.message}; retry later`, error.incident)
      if (error instanceof StoreError && error.code === 'deadline_exceeded')
        return refused('deadline_exceeded', error.message)
      throw error
    }
  }

  #answer({ tenant, request, among = null, deadlineAtMs, snapshot }: QueryTask): QueryAnswer {
    const { dataset, filter, order, limit } = request
    const deadline = new Deadline(deadlineAtMs, this.#parts.nowMs)
    const scope = cursorScope(tenant, dataset, filter, order)
    const resume = request.cursor === null ? null : decodeCursor(request.cursor, scope)
    if (resume !== null && 'problem' in resume) return refused('invalid_cursor', resume.problem)
    if (resume !== null && resume.snapshot > snapshot.committed) {
      return refused('invalid_cursor', 'page.cursor is of another data directory: begin again without a cursor')
    }
    const plan = planQuery(tenant, dataset ?? { among }, filter, order, resume, resume?.snapshot ?? snapshot.committed)
    const catalog = new Catalog(snapshot.catalog)
    this.#parts.bundles.keepOnly(catalog, snapshot.indexed)
    const sources = sourcesOf(snapshot, catalog, plan)
    this.#parts.bundles.expectIndexes(sources)
    const matcher = plan.search === null ? null : new SearchMatcher(plan.search, () => deadline.check())
    const page = new PageSelection(limit + 1, plan.descending) // one more than shown says whether there is a next page

    let matched = 0
    let quarantined = 0
    let scanned = 0
    for (const [number, source] of sources.entries()) {
      deadline.check()
      const scan = this.scan(source, number, plan, page, deadline, snapshot)
      if (scan === null) continue
      if (matcher !== null) this.#search(scan, source, matcher, snapshot.logId)
      matched += scan.matched
      quarantined += scan.quarantined
      scanned++
    }

    const found = page.results()
    const shown = found.slice(0, limit).map((each) => {
      const source = sources[each.source]!
      return { ...each, base: source.base, ...this.locate(source, each.entry) }
    })
    this.#parts.bundles.expectFrames(shown)
    const records: string[] = []
    const parts = new PartTexts()
    let characters = 0
    let last: Cursor | null = null
    for (const { base, frameOffset, recordNumber, id, timeHigh, timeLow } of shown) {
      if (characters > PAGE_CHARACTERS_MAX) break
      deadline.check()
      const batch = this.readBatch(this.#parts.frames, snapshot.logId, base, frameOffset)
      const record = renderResult(batch, recordNumber, id, timeHigh, timeLow, parts)
      records.push(record)
      characters += record.length
      const time = timeOfWords(timeHigh, timeLow)
      last = { position: base + frameOffset, recordNumber, time, snapshot: plan.snapshot }
    }
    const body = writeResponse({
      tenant,
      dataset,
      matched,
      quarantined,
      quarantinedRanges: snapshot.quarantined.length,
      records,
      limit,
      cursor: request.cursor,
      nextCursor: last !== null && found.length > records.length ? encodeCursor(last, scope) : null,
      usedIndexes: usedIndexes(filter),
      scanned,
    })
    return { kind: 'ok', body }
  }

  /** Null when the segment was ruled out by its filter or its partitions. */
  scan(
    source: Source,
    number: number,
    plan: QueryPlan,
    page: PageSelection,
    deadline: Deadline,
    { quarantined }: QuerySnapshot,
  ): SegmentScan | null {
    if (source.kind === 'active') {
      const { index } = source
      const placed = { entriesBefore: (offset: number, record: number) => activeEntriesBefore(index, offset, record) }
      const scan = new SegmentScan(plan, page, deadline, number, source.base, placed, quarantined)
      const isSearched =
        plan.several === null ? scanActive(scan, index) : scanActiveOfSeveral(scan, index, plan.several)
      return isSearched ? scan : null
    }
    return this.inBundle(source.base, () => {
      const index = this.#parts.bundles.index(source.expected)
      const scan = new SegmentScan(plan, page, deadline, number, source.base, index, quarantined)
      const isSearched =
        plan.several === null ? scanBundle(scan, index) : scanBundleOfSeveral(scan, index, plan.several)
      return isSearched ? scan : null
    })
  }

  /** Finds among the candidates of a scan those whose records match. */
  #search(scan: SegmentScan, source: Source, matcher: SearchMatcher, logId: number): void {
    const read = (frameOffset: number) => this.readBatch(this.#parts.scans, logId, source.base, frameOffset)
    if (source.kind === 'active') return searchRecords(scan, new ActivePlaces(source.index), matcher, read)
    this.inBundle(source.base, () => searchRecords(scan, this.#parts.bundles.index(source.expected), matcher, read))
  }

  /** Where the record of an entry stands. */
  locate(source: Source, entry: number): { frameOffset: number; recordNumber: number; id: Uint32Array } {
    if (source.kind === 'active') {
      const { frameOffset, recordNumber, idWords } = source.index
      return {
        frameOffset: frameOffset[entry]!,
        recordNumber: recordNumber[entry]!,
        id: idWords.slice(4 * entry, 4 * entry + 4),
      }
    }
    return this.inBundle(source.base, () => {
      const index = this.#parts.bundles.index(source.expected)
      index.seekEntry(entry)
      const { frameOffset, recordNumber } = index
      return { frameOffset, recordNumber, id: index.idOf(entry) }
    })
  }

  /** A frame through one of the readers. @throws with the place of what is damaged */
  readBatch(frames: FrameReader, logId: number, base: number, frameOffset: number): StoredBatch {
    try {
      return frames.read(logId, base, frameOffset)
    } catch (error) {
      if (!(error instanceof StoreError) || error.code === 'deadline_exceeded') throw error
      const { position } = error instanceof DamagedFrameError ? error : { position: null }
      throw new SegmentReadError(error, position === null ? null : { kind: 'frame', base, position })
    }
  }

  /** Runs something that reads a bundle's index, and says of a failure which bundle it was. */
  inBundle<Result>(base: number, read: () => Result): Result {
    try {
      return read()
    } catch (error) {
      const isOfIndex = error instanceof StoreError && !(error instanceof SegmentReadError)
      if (!isOfIndex || error.code === 'deadline_exceeded') throw error
      this.#parts.bundles.forget(base)
      throw new SegmentReadError(error, error.kind === 'corrupt' ? { kind: 'index', base } : null)
    }
  }
}

/** A segment could not be read. */
class SegmentReadError extends StoreError {
  readonly incident: QueryIncident | null

  constructor(cause: StoreError, incident: QueryIncident | null) {
    super(cause.kind, 'bundle_read_failed', cause.message, { cause })
    this.incident = incident
  }
}

function refused(kind: QueryRefusal['kind'], message: string, incident: QueryIncident | null = null): QueryRefusal {
  return { kind, message, incident }
}

/** The segments that the catalog does not rule out. */
export function sourcesOf({ indexed }: QuerySnapshot, catalog: Catalog, plan: QueryPlan): readonly Source[] {
  if (plan.impossible) return []
  const sources: Source[] = []
  for (let row = 0; row < catalog.length; row++) {
    const base = catalog.base(row)
    const mayMatch =
      base < plan.snapshot &&
      catalog.records(row) > 0 &&
      overlaps(
        plan,
        catalog.minTimeHigh(row),
        catalog.minTimeLow(row),
        catalog.maxTimeHigh(row),
        catalog.maxTimeLow(row),
      )
    if (!mayMatch) continue
    sources.push({ kind: 'bundle', base, expected: { base, end: catalog.end(row), identity: catalog.identity(row) } })
  }
  for (const { base, index } of indexed) {
    if (base < plan.snapshot) sources.push({ kind: 'active', base, index: ActiveIndex.attach(index) })
  }
  return sources.sort((a, b) => a.base - b.base)
}

function usedIndexes({ recordId, traceId }: QueryFilter): readonly string[] {
  const used: string[] = []
  if (recordId !== null) used.push('record_id')
  if (traceId !== null) used.push('identity.trace_id')
  return used.length > 0 ? used : ['dataset_time']
}

/** As BundleIndex.entriesBefore. */
function activeEntriesBefore(active: ActiveIndex, frameOffset: number, recordNumber: number): number {
  let entry = active.countBefore(frameOffset)
  const { count } = active
  while (entry < count && active.frameOffset[entry] === frameOffset && active.recordNumber[entry]! < recordNumber)
    entry++
  return entry
}
