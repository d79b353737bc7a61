/** Records of a log store for people: one a line, and a trace as a tree. */
import type { Static } from 'typebox'
import { Type } from '../schema.ts'
import { isOf } from '../schema-check.ts'
import { columns } from './columns.ts'
import { visible } from './style.ts'
import type { Style } from './style.ts'
import { shownDuration, shownNanoseconds } from './time-text.ts'

/** The part of a record that is shown; the store sends more. */
export const ShownRecord = Type.Object({
  record_id: Type.String(),
  signal: Type.String(),
  dataset: Type.String(),
  time_unix_nano: Type.String({ pattern: '^[0-9]{1,20}$' }),
  trace_id: Type.Union([Type.String(), Type.Null()]),
  severity_number: Type.Optional(Type.Integer()),
  raw_payload: Type.Object({ record: Type.Record(Type.String(), Type.Unknown()) }),
})
export type ShownRecord = Static<typeof ShownRecord>

type Unknown = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const textOr = (value: unknown, fallback: string): string => (typeof value === 'string' ? value : fallback)

/** An AnyValue of OTLP JSON as people write it. */
function shownValue(value: unknown): string {
  if (!isObject(value)) return ''
  const { stringValue, boolValue, intValue, doubleValue, bytesValue, arrayValue, kvlistValue } = value
  if (typeof stringValue === 'string') return stringValue
  if (isObject(arrayValue)) return `[${listOf(arrayValue['values']).map(shownValue).join(', ')}]`
  if (isObject(kvlistValue)) return `{${shownPairs(kvlistValue['values']).join(', ')}}`
  const other = boolValue ?? intValue ?? doubleValue ?? bytesValue // null stands for an absent member
  return typeof other === 'string' || typeof other === 'number' || typeof other === 'boolean' ? String(other) : ''
}

const shownPairs = (pairs: unknown): readonly string[] =>
  listOf(pairs).flatMap((pair) => (isObject(pair) ? [`${textOr(pair['key'], '')}=${shownValue(pair['value'])}`] : []))

/** First number of each severity, and its name. */
const SEVERITIES = ['TRACE', 'DEBUG', 'INFO', 'WARN', 'ERROR', 'FATAL'] as const
const SEVERITY_WIDTH = 5

function severityOf(number: number, style: Style): string {
  const name = SEVERITIES[Math.floor((number - 1) / 4)] ?? ''
  const shown = name.padEnd(SEVERITY_WIDTH)
  if (number >= 17) return style.bad(shown)
  return number >= 13 ? style.warning(shown) : number >= 9 ? shown : style.quiet(shown)
}

/** @param isNamed with its dataset */
export function recordLine(record: ShownRecord, style: Style, isNamed: boolean): string {
  const { raw_payload, time_unix_nano, dataset, signal, severity_number, trace_id } = record
  const { record: sent } = raw_payload
  const attributes = shownPairs(sent['attributes'])
  const what = signal === 'log' ? logWords(sent, severity_number ?? 0, style) : spanWords(sent, style)
  return [
    style.quiet(shownNanoseconds(time_unix_nano)),
    ...(isNamed ? [style.heading(visible(dataset))] : []),
    ...what,
    ...(attributes.length > 0 ? [style.quiet(visible(attributes.join(' ')))] : []),
    ...(trace_id === null ? [] : [style.quiet(`trace_id=${visible(trace_id)}`)]),
  ].join('  ')
}

function logWords(sent: Unknown, severity: number, style: Style): readonly string[] {
  const given = textOr(sent['severityText'], '')
  const shown = severity === 0 ? visible(given).padEnd(SEVERITY_WIDTH) : severityOf(severity, style)
  return [shown, visible(shownValue(sent['body']))]
}

const STATUS_ERROR = 2
const isFailed = (sent: Unknown): boolean => {
  const { code } = isObject(sent['status']) ? sent['status'] : {}
  return code === STATUS_ERROR || code === 'STATUS_CODE_ERROR'
}

function spanWords(sent: Unknown, style: Style): readonly string[] {
  const [start, end] = [sent['startTimeUnixNano'], sent['endTimeUnixNano']].map((time) => textOr(time, String(time)))
  const isKnown = [start, end].every((time) => /^\d{1,20}$/.test(time!)) && BigInt(end!) > 0n // 0: it has no end yet
  const tookNanoseconds = isKnown ? BigInt(end!) - BigInt(start!) : 0n
  const took = isKnown ? [shownDuration(String(tookNanoseconds < 0n ? 0n : tookNanoseconds))] : []
  const shown = 'SPAN'.padEnd(SEVERITY_WIDTH)
  return [isFailed(sent) ? style.bad(shown) : style.good(shown), visible(textOr(sent['name'], '')), ...took]
}

const TraceSpan = Type.Cyclic(
  {
    Span: Type.Object({
      name: Type.String(),
      dataset: Type.String(),
      start_time_unix_nano: Type.String(),
      duration_nano: Type.String(),
      root: Type.Optional(Type.String()),
      record: ShownRecord,
      logs: Type.Array(Type.Object({ record: ShownRecord })),
      children: Type.Array(Type.Ref('Span')),
    }),
  },
  'Span',
)

const TraceAnswer = Type.Object({
  trace_id: Type.String(),
  datasets: Type.Array(Type.String()),
  start_time_unix_nano: Type.String(),
  end_time_unix_nano: Type.String(),
  spans: Type.Integer(),
  log_records: Type.Integer(),
  matched_records: Type.Integer(),
  truncated: Type.Boolean(),
  roots: Type.Array(TraceSpan),
  logs: Type.Array(Type.Object({ record: ShownRecord })),
})

interface Span {
  readonly name: string
  readonly dataset: string
  readonly start_time_unix_nano: string
  readonly duration_nano: string
  readonly root?: string
  readonly record: ShownRecord
  readonly logs: readonly { readonly record: ShownRecord }[]
  readonly children: readonly Span[]
}

/** Null: the answer has a form that this version does not know. */
export function traceLines(answer: unknown, style: Style): readonly string[] | null {
  if (!isOf(TraceAnswer, answer)) return null
  const {
    start_time_unix_nano: start,
    end_time_unix_nano: end,
    spans,
    log_records,
    matched_records,
    truncated,
  } = answer
  const head = ['', 'after', 'took', 'what'].map(style.heading)
  const rows: string[][] = []
  const after = (time: string): string => shownDuration(String(BigInt(time) - BigInt(start)))
  const addLog = ({ record }: { readonly record: ShownRecord }, indent: string): void => {
    const words = logWords(record.raw_payload.record, record.severity_number ?? 0, style)
    rows.push([visible(record.dataset), after(record.time_unix_nano), '', `${indent}${words.join(' ')}`])
  }
  const addSpan = (span: Span, indent: string): void => {
    const failed = isFailed(span.record.raw_payload.record) ? [style.bad('ERROR')] : []
    const why = span.root === undefined || span.root === 'no_parent' ? [] : [style.quiet(`(${visible(span.root)})`)]
    const what = [visible(span.name), ...failed, ...why].join('  ')
    rows.push([
      visible(span.dataset),
      after(span.start_time_unix_nano),
      shownDuration(span.duration_nano),
      indent + what,
    ])
    for (const log of span.logs) addLog(log, `${indent}· `)
    for (const child of span.children) addSpan(child, `${indent}  `)
  }
  for (const root of answer.roots as readonly Span[]) addSpan(root, '') // which the schema has checked
  for (const log of answer.logs) addLog(log, '· ')
  return [
    `trace ${visible(answer.trace_id)}: ${spans} spans, ${log_records} log records, ${shownDuration(String(BigInt(end) - BigInt(start)))}, from ${shownNanoseconds(start)} on`,
    ...columns([head, ...rows]),
    ...(truncated ? [style.quiet(`the earliest of ${matched_records} records are shown`)] : []),
  ]
}
