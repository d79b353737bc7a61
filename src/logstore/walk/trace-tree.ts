/**
 * A trace as JSON: spans under their parents, children by start time, log records under the span that they name.
 *
 * Where several spans have one id, children and log records stand under the earliest of them.
 *
 * R1  every record is there once. A span is a root when it names no parent, when its parent is missing, when it is the earliest of spans that name each
 *     other in a circle, or when it would be deeper than DEPTH_MAX, as readers of JSON have limits of their own. All other spans are under their parents
 */
import type { Trace, TraceRecord } from './trace-record.ts'

const DEPTH_MAX = 200

/** Why a span is a root. */
type Root = 'no_parent' | 'parent_missing' | 'circle' | 'too_deep'

interface Span {
  readonly record: TraceRecord
  parent: Span | null
  readonly children: Span[]
  readonly logs: TraceRecord[]
  /** null: not written yet. */
  root: Root | null
  isWritten: boolean
}

export function treeText({ tenant, traceId, records, matched, quarantined }: Trace): string {
  const spans = records
    .filter(({ isLog }) => !isLog)
    .map((record): Span => ({ record, parent: null, children: [], logs: [], root: null, isWritten: false }))
  const byId = new Map<string, Span>()
  for (const span of spans) {
    const { spanId } = span.record
    if (spanId !== null && !byId.has(spanId)) byId.set(spanId, span)
  }
  const roots: Span[] = []
  for (const span of spans) {
    const { parentSpanId } = span.record
    const parent = parentSpanId === null ? undefined : byId.get(parentSpanId)
    if (parent !== undefined) {
      span.parent = parent
      parent.children.push(span)
    } else {
      span.root = parentSpanId === null ? 'no_parent' : 'parent_missing'
      roots.push(span)
    }
  }
  const logs = records.filter(({ isLog }) => isLog)
  const loose: TraceRecord[] = []
  for (const log of logs) (byId.get(log.spanId ?? '')?.logs ?? loose).push(log)

  const written = [...writeTrees(roots, spans)]
  const summary = {
    status: 'ok',
    api_version: 'v1',
    tenant_id: tenant,
    trace_id: traceId,
    datasets: [...new Set(records.map(({ dataset }) => dataset))].sort(),
    start_time_unix_nano: String(records.reduce((a, { startTime: b }) => (b < a ? b : a), records[0]!.startTime)),
    end_time_unix_nano: String(records.reduce((a, { endTime: b }) => (b > a ? b : a), records[0]!.endTime)),
    matched_records: matched,
    spans: spans.length,
    log_records: logs.length,
    truncated: matched > records.length,
    ...(quarantined > 0 && { quarantined_records: quarantined }),
  }
  const beside = loose.map(({ json }) => `{"record":${json}}`).join(',')
  return `${JSON.stringify(summary).slice(0, -1)},"roots":[${written.join(',')}],"logs":[${beside}]}`
}

/** Writes the trees of the roots, then the circles and the spans below them, which no root reaches (R1). */
function* writeTrees(roots: readonly Span[], spans: readonly Span[]): Iterable<string> {
  const waiting = [...roots]
  const writeWaiting = function* (): Iterable<string> {
    for (let span = waiting.shift(); span !== undefined; span = waiting.shift()) yield writeTree(span, waiting)
  }
  yield* writeWaiting()
  const places = new Map(spans.map((span, place) => [span, place]))
  for (const span of spans) {
    if (span.isWritten) continue
    const first = firstOfCircle(span, places)
    first.root = 'circle'
    waiting.push(first)
    yield* writeWaiting()
  }
}

/** The earliest span of the circle that a span is in or below. @param places numbers of the spans, by time */
function firstOfCircle(span: Span, places: ReadonlyMap<Span, number>): Span {
  const passed = new Set<Span>()
  const parentOf = (child: Span): Span => child.parent! // a span without a parent is a root, and the spans below it are written
  let at = span
  for (; !passed.has(at); at = parentOf(at)) passed.add(at)
  let first = at
  for (let next = parentOf(at); next !== at; next = parentOf(next)) {
    if (places.get(next)! < places.get(first)!) first = next
  }
  return first
}

/** @param deep receives the spans that are too deep */
function writeTree(root: Span, deep: Span[]): string {
  const texts: string[] = []
  const open: { readonly span: Span; next: number }[] = []
  const begin = (span: Span): void => {
    span.isWritten = true
    texts.push(headOf(span))
    open.push({ span, next: 0 })
  }
  begin(root)
  for (let at = open.at(-1); at !== undefined; at = open.at(-1)) {
    const child = at.span.children[at.next++]
    if (child === undefined) {
      texts.push(']}')
      open.pop()
    } else if (child.isWritten || child.root !== null) continue
    else if (open.length >= DEPTH_MAX) {
      child.root = 'too_deep'
      deep.push(child)
    } else {
      if (!texts.at(-1)!.endsWith('[')) texts.push(',')
      begin(child)
    }
  }
  return texts.join('')
}

/** The JSON of a span, up to its children. */
function headOf({ record, logs, root }: Span): string {
  const { spanId, parentSpanId, name, dataset, startTime, endTime, json } = record
  const head = {
    span_id: spanId,
    parent_span_id: parentSpanId,
    ...(root !== null && { root }),
    name,
    dataset,
    start_time_unix_nano: String(startTime),
    duration_nano: String(endTime - startTime),
  }
  const under = logs.map(({ json }) => `{"record":${json}}`).join(',')
  return `${JSON.stringify(head).slice(0, -1)},"record":${json},"logs":[${under}],"children":[`
}
