/** A trace as lists: its spans from the root down, and its log records by time. */
import type { Trace, TraceSpan } from './api.ts'
import type { StoredRecord } from './stored-record.ts'
import { isFailed } from './otlp.ts'

/** Colours of services; style.css has so many. */
const COLORS = 8

export const colorOf = ({ datasets }: Trace, dataset: string): string =>
  `var(--service-${(datasets.indexOf(dataset) % COLORS) + 1})`

export interface FlatSpan {
  readonly spanId: string
  readonly name: string
  readonly dataset: string
  readonly depth: number
  /** Spans below it, at any depth. */
  readonly below: number
  /** Why it stands at the top though it has a parent; null: it has none, or stands below it. */
  readonly lacks: 'its parent is missing' | 'its parents form a cycle' | 'it is nested too deep' | null
  /** From the beginning of the trace, in nanoseconds. */
  readonly offset: number
  readonly duration: number
  readonly isFailed: boolean
  readonly logs: number
  readonly record: StoredRecord
}

const LACKS = {
  no_parent: null,
  parent_missing: 'its parent is missing',
  circle: 'its parents form a cycle',
  too_deep: 'it is nested too deep',
} as const

/** In the order of the waterfall: a span stands before those below it. */
export function spansOf({ roots, start_time_unix_nano: start }: Trace): readonly FlatSpan[] {
  const spans: FlatSpan[] = []
  const began = BigInt(start)
  const add = (span: TraceSpan, depth: number): number => {
    const index = spans.length
    const { record, name, dataset, children, logs } = span
    const flat = {
      spanId: span.span_id ?? record.record_id,
      name,
      dataset,
      depth,
      below: 0,
      lacks: LACKS[span.root ?? 'no_parent'],
      offset: Number(BigInt(span.start_time_unix_nano) - began),
      duration: Number(span.duration_nano),
      isFailed: isFailed(record.raw_payload.record),
      logs: logs.length,
      record,
    }
    spans.push(flat)
    const below = children.reduce((sum, child) => sum + 1 + add(child, depth + 1), 0)
    spans[index] = { ...flat, below }
    return below
  }
  for (const root of roots) add(root, 0)
  return spans
}

/** All log records of the trace, wherever they are in it. */
export function logsOf({ roots, logs }: Trace): readonly StoredRecord[] {
  const found = logs.map(({ record }) => record)
  const add = (span: TraceSpan): void => {
    found.push(...span.logs.map(({ record }) => record))
    span.children.forEach(add)
  }
  roots.forEach(add)
  return found.toSorted((a, b) => (BigInt(a.time_unix_nano) < BigInt(b.time_unix_nano) ? -1 : 1))
}
