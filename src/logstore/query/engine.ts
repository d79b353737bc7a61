/**
 * One query, from task to response body, on a worker thread: choose the segments, scan their indexes, read the page's records.
 *
 * E1  the answer is that of one snapshot: the committed position of the first page, the segments and damaged ranges of the task
 * E2  the snapshot names every segment below the committed position once: sealed ones by the catalog, those whose sidecar is
 *     not published yet, and the one being written, by their index in memory
 * E3  nothing is skipped silently: what cannot be read is a rejection that names the place; what is known to be damaged is counted
 * E4  all pages from a bucket are of the same bundles below the snapshot: when these have changed, the cursor is refused
 */
import { SearchMatcher } from '../search/matcher.ts'
import { timeOfWords } from '../time-words.ts'
import { cursorScope, decodeCursor, encodeCursor } from './cursor.ts'
import type { Cursor } from './cursor.ts'
import { Deadline } from './deadline.ts'
import { PageSelection } from './page-selection.ts'
import { inOrderOfPage } from './page-order.ts'
import { planQuery } from './plan.ts'
import { PartTexts } from './render/record.ts'
import { writeResponse } from './response.ts'
import { renderResult } from './result.ts'
import { SegmentScan } from './scan.ts'
import { seenBundlesForCursor } from './seen-bundles.ts'
import { SegmentReader, refused, usedIndexes } from './segment-reader.ts'
import type { SegmentReaderParts } from './segment-reader.ts'
import type { QueryAnswer, QueryTask } from './task.ts'

/** A page ends early after this much text, with a cursor to the rest: records may be megabytes each. */
const PAGE_CHARACTERS_MAX = 32 * 1024 * 1024

export interface QueryEngineParts extends SegmentReaderParts {
  /** The clock of the tasks' deadlines. */
  readonly nowMs: () => number
}

export class QueryEngine {
  readonly #reader: SegmentReader
  readonly #nowMs: () => number

  constructor({ nowMs, ...parts }: QueryEngineParts) {
    this.#reader = new SegmentReader(parts)
    this.#nowMs = nowMs
  }

  run(task: QueryTask): QueryAnswer {
    return this.#reader.answer(() => this.#answer(task))
  }

  #answer(task: QueryTask): QueryAnswer {
    const { tenant, request, among = null, deadlineAtMs, snapshot, expired } = task
    const { dataset, filter, order, limit } = request
    const deadline = new Deadline(deadlineAtMs, this.#nowMs)
    const scope = cursorScope(tenant, dataset, filter, order)
    const resume = request.cursor === null ? null : decodeCursor(request.cursor, scope)
    if (resume !== null && 'problem' in resume) return refused('invalid_cursor', resume.problem)
    const seenTo = resume?.snapshot ?? snapshot.committed
    const bundles = seenBundlesForCursor(task, seenTo)
    if (resume !== null && resume.bundles !== bundles && bundles !== undefined) {
      return refused(
        'invalid_cursor',
        'page.cursor was given for other bundles than the bucket has now: begin again without a cursor',
      )
    }
    if (resume !== null && (resume.snapshot > snapshot.committed || resume.bundles !== bundles)) {
      return refused('invalid_cursor', 'page.cursor is of another data directory: begin again without a cursor')
    }
    const plan = planQuery(tenant, dataset ?? { among }, filter, order, resume, seenTo, expired)
    const reader = this.#reader
    const sources = reader.sourcesOf(snapshot, plan)
    // Segments that fill the page come first: from the others only the count is needed.
    const walk = inOrderOfPage(sources, plan.descending)
    reader.bundles.expectIndexes(walk.map(([, source]) => source))
    const matcher = plan.search === null ? null : new SearchMatcher(plan.search, () => deadline.check())
    const page = new PageSelection(limit + 1, plan.descending) // one more than shown says whether there is a next page

    let matched = 0
    let quarantined = 0
    let scanned = 0
    for (const [number, source] of walk) {
      deadline.check()
      const scan = reader.scan(
        source,
        plan,
        snapshot,
        (bounds) => new SegmentScan(plan, page, deadline, number, bounds),
      )
      if (scan === null) continue
      if (matcher !== null) reader.search(scan, source, matcher, snapshot)
      matched += scan.matched
      quarantined += scan.quarantined
      scanned++
    }

    const found = page.results()
    const shown = found.slice(0, limit).map((each) => {
      const source = sources[each.source]!
      return { ...each, from: source, base: source.base, ...reader.locate(source, each.entry) }
    })
    reader.bundles.expectFrames(shown)
    const records: string[] = []
    const parts = new PartTexts()
    let characters = 0
    let last: Cursor | null = null
    for (const { from, base, frameOffset, recordNumber, unit, number, id, timeHigh, timeLow } of shown) {
      if (characters > PAGE_CHARACTERS_MAX) break
      deadline.check()
      const batch = reader.readBatch(reader.frames, snapshot.logId, from, unit)
      const record = renderResult(batch, number, id, timeHigh, timeLow, parts)
      records.push(record)
      characters += record.length
      const time = timeOfWords(timeHigh, timeLow)
      last = { position: base + frameOffset, recordNumber, time, snapshot: plan.snapshot, bundles }
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
}
