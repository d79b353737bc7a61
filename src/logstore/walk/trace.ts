/**
 * The records of one trace over every dataset that may be read, as a tree or as Jaeger has it.
 *
 * T1  the answer is bounded in records and in characters: a larger trace is cut behind its earliest records, and the answer says so
 */
import { SIGNAL_LOG } from '../batch-frame.ts'
import { Deadline } from '../query/deadline.ts'
import { PageSelection } from '../query/page-selection.ts'
import { planQuery } from '../query/plan.ts'
import { PartTexts } from '../query/render/record.ts'
import { renderResult } from '../query/result.ts'
import type { QueryTask } from '../query/task.ts'
import { SegmentScan } from '../query/scan.ts'
import type { Value } from '../search/values.ts'
import { timeOfWords } from '../time-words.ts'
import { jaegerTrace } from './jaeger-trace.ts'
import { RecordViews } from './record-views.ts'
import { EMPTY_BODY } from './tasks.ts'
import type { TraceRequest, WalkBody } from './tasks.ts'
import type { WalkParts } from './time-walk.ts'
import type { Trace, TraceRecord } from './trace-record.ts'
import { treeText } from './trace-tree.ts'

const TRACE_RECORDS_MAX = 10_000
const TRACE_CHARACTERS_MAX = 16 * 1024 * 1024

const encoder = new TextEncoder() // its result has its own buffer, which can be handed to another thread

/** An empty text: no record of the trace is stored. */
export function traceText(parts: WalkParts, task: QueryTask<TraceRequest>): WalkBody {
  const trace = traceOf(parts, task)
  const { quarantined, matched } = trace
  if (matched === 0) return { ...EMPTY_BODY, quarantined }
  const text = task.request.form === 'tree' ? treeText(trace) : jaegerTrace(trace)
  return { ...EMPTY_BODY, quarantined, records: trace.records.length, text: encoder.encode(text) }
}

function traceOf(
  { reader, frames, nowMs }: WalkParts,
  { tenant, request, among = null, deadlineAtMs, snapshot, expired }: QueryTask<TraceRequest>,
): Trace {
  const { traceId } = request
  const deadline = new Deadline(deadlineAtMs, nowMs)
  const filter = { recordId: null, traceId, startTime: null, endTime: null, search: null }
  const plan = planQuery(tenant, { among }, filter, 'asc', null, snapshot.committed, expired)
  const { bundles } = reader
  const sources = reader.sourcesOf(snapshot, plan)
  bundles.expectIndexes(sources)
  const page = new PageSelection(TRACE_RECORDS_MAX, false)
  let matched = 0
  let quarantined = 0
  for (const [number, source] of sources.entries()) {
    deadline.check()
    const scan = reader.scan(source, plan, snapshot, (bounds) => new SegmentScan(plan, page, deadline, number, bounds))
    matched += scan?.matched ?? 0
    quarantined += scan?.quarantined ?? 0
  }
  const found = page.results().map((each) => {
    const source = sources[each.source]!
    return { ...each, from: source, base: source.base, ...reader.locate(source, each.entry) }
  })
  bundles.expectFrames(found)
  const texts = new PartTexts()
  const views = new RecordViews()
  const records: TraceRecord[] = []
  let characters = 0
  for (const { from, unit, number, id, timeHigh, timeLow } of found) {
    if (characters > TRACE_CHARACTERS_MAX) break
    deadline.check()
    const batch = reader.readBatch(frames, snapshot.logId, from, unit)
    const json = renderResult(batch, number, id, timeHigh, timeLow, texts)
    const view = views.of(batch, number)
    const startTime = timeOfWords(timeHigh, timeLow)
    records.push({
      json,
      isLog: batch.envelopeOf(number).signal === SIGNAL_LOG,
      dataset: batch.record(number).dataset,
      spanId: textOf(view.field('span_id')) || null,
      parentSpanId: textOf(view.field('parent_span_id')) || null,
      name: textOf(view.field('name')),
      startTime,
      endTime: endOf(view.field('end_time_unix_nano'), startTime),
    })
    characters += json.length
  }
  return { tenant, traceId, records, matched, quarantined }
}

export const textOf = (value: Value): string => (typeof value === 'string' ? value : '')

/** A span whose end is 0 has none yet, and a clock that was set back may end one before it starts: such a span takes no time. */
function endOf(value: Value, startTime: bigint): bigint {
  const endTime = typeof value === 'number' || typeof value === 'bigint' ? BigInt(value) : 0n
  return endTime < startTime ? startTime : endTime
}
