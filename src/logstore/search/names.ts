/**
 * The names that a search knows besides those of attributes, and how their values are written.
 *
 *   severity            trace … fatal, or a number; a record without a number has the one that its severity_text names; unspecified: another number, or none
 *   signal              log or trace
 *   duration            of a span: nanoseconds, or a number with ns, us, ms, s, m or h
 *   kind, status.code   by their OTLP names (server, error) or numbers; `status` is short for status.code
 *   body, body.a.b      the body of a log, or what stands under these keys in it
 *   FIELDS              fields of logs, spans and scopes by their OTLP names
 *   attributes.KEY, resource.attributes.KEY, scope.attributes.KEY    attributes of the record, its resource, its scope
 *
 * Every other name is that of an attribute of the record, its scope or its resource.
 */
import { SearchError, numberOf, severityOf } from './expression.ts'
import type { Comparison, Search } from './expression.ts'
import { fold } from './words.ts'

/** Fields that a view gives, by the names that a search gives them. */
const FIELDS = [
  'severity_number',
  'severity_text',
  'event_name',
  'time_unix_nano',
  'observed_time_unix_nano',
  'flags',
  'trace_id',
  'span_id',
  'parent_span_id',
  'trace_state',
  'name',
  'kind',
  'start_time_unix_nano',
  'end_time_unix_nano',
  'duration',
  'status.code',
  'status.message',
  'scope.name',
  'scope.version',
] as const
export type FieldName = (typeof FIELDS)[number]

const SEVERITY_MAX = 2 ** 31 - 1
/** What surveys call a severity without another name, see `nameOfSeverity`. */
export const UNSPECIFIED = 'unspecified'
const UNSPECIFIED_SEVERITIES: readonly Search[] = [
  { kind: 'severity', min: -Infinity, max: 0 },
  { kind: 'severity', min: 25, max: Infinity },
]
const KINDS = [UNSPECIFIED, 'internal', 'server', 'client', 'producer', 'consumer']
const STATUS_CODES = ['unset', 'ok', 'error']
const NANOSECONDS: Readonly<Record<string, number>> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 }

/** `name:value`. @throws SearchError without a column */
export function namedCondition(
  name: string,
  given: { readonly kind: 'exists' } | { readonly kind: 'equals' | 'begins'; readonly text: string },
): Search {
  if (given.kind === 'exists') {
    if (name === 'signal') return { kind: 'all' }
    if (name === 'severity') return { kind: 'signal', signal: 'log' } // a log without a severity has `unspecified`
    return { kind: 'name', name: fieldOf(name), value: given }
  }
  const text = fold(given.text)
  if (name === 'severity' || name === 'signal') {
    if (given.kind === 'begins') throw new SearchError(`${name} takes a whole value, without *`)
    return name === 'severity' ? severityEquals(text) : signalEquals(text)
  }
  const field = fieldOf(name)
  if (given.kind === 'begins') return { kind: 'name', name: field, value: { kind: 'begins', text } }
  const named = numberOfName(field, text)
  return { kind: 'name', name: field, value: { kind: 'equals', text, number: named ?? numberOf(text) } }
}

/** `name:>value` and its like. @throws SearchError without a column */
export function comparedCondition(name: string, by: Comparison, text: string): Search {
  if (name === 'severity') return severityCompared(by, text)
  const field = fieldOf(name)
  const number = (field === 'duration' ? durationOf(text) : null) ?? numberOf(text)
  if (number === null) throw new SearchError(`a number is expected after ${by}`)
  return { kind: 'name', name: field, value: { kind: 'compare', by, number } }
}

/** The name without its short form. */
export const fieldOf = (name: string): string => (name === 'status' ? 'status.code' : name)

function severityEquals(text: string): Search {
  if (text === UNSPECIFIED) return { kind: 'or', of: UNSPECIFIED_SEVERITIES }
  const range = severityOf(text) ?? wholeSeverity(text)
  if (range === null)
    throw new SearchError('a severity is trace, debug, info, warn, error, fatal, unspecified or a number')
  return { kind: 'severity', ...range }
}

function wholeSeverity(text: string): { readonly min: number; readonly max: number } | null {
  const number = numberOf(text)
  return typeof number === 'number' ? { min: number, max: number } : null
}

function severityCompared(by: Comparison, text: string): Search {
  const range = severityOf(text) ?? wholeSeverity(text)
  if (range === null) throw new SearchError(`a severity is expected after ${by}: trace … fatal, or a number`)
  const { min, max } = range
  if (by === '>=') return { kind: 'severity', min, max: SEVERITY_MAX }
  if (by === '>') return { kind: 'severity', min: max + 1, max: SEVERITY_MAX }
  // A record without a severity is not below any severity.
  return { kind: 'severity', min: 1, max: by === '<=' ? max : min - 1 }
}

function signalEquals(text: string): Search {
  if (text !== 'log' && text !== 'trace') throw new SearchError('signal is log or trace')
  return { kind: 'signal', signal: text }
}

function numberOfName(field: string, text: string): number | null {
  if (field === 'duration') return durationOf(text)
  const names = field === 'kind' ? KINDS : field === 'status.code' ? STATUS_CODES : null
  const number = names?.indexOf(text) ?? -1
  return number < 0 ? null : number
}

/** OTLP's name for this number of the field, in lower case. Null: it has no name. */
export const enumName = (field: FieldName, number: number): string | null =>
  (field === 'kind' ? KINDS : field === 'status.code' ? STATUS_CODES : [])[number] ?? null

function durationOf(text: string): number | null {
  const [, digits, unit] = /^([0-9]{1,20}(?:\.[0-9]{1,20})?)(ns|us|µs|ms|s|m|h)$/.exec(text) ?? []
  if (digits === undefined || unit === undefined) return null
  return Number(digits) * NANOSECONDS[unit === 'µs' ? 'us' : unit]!
}

/** What a name stands for. */
export type Named =
  | { readonly kind: 'field'; readonly field: FieldName }
  /** Keys from the body down, joined by dots; null: the body itself. */
  | { readonly kind: 'body'; readonly path: string | null }
  | { readonly kind: 'attribute'; readonly of: readonly AttributePlace[]; readonly key: string }

export type AttributePlace = 'record' | 'scope' | 'resource'

const PLACES: readonly (readonly [prefix: string, place: AttributePlace])[] = [
  ['attributes.', 'record'],
  ['scope.attributes.', 'scope'],
  ['resource.attributes.', 'resource'],
]

export function resolveName(name: string): Named {
  const field = FIELDS.find((field) => field === name)
  if (field !== undefined) return { kind: 'field', field }
  if (name === 'body') return { kind: 'body', path: null }
  if (name.startsWith('body.')) return { kind: 'body', path: name.slice('body.'.length) }
  for (const [prefix, place] of PLACES) {
    if (name.startsWith(prefix)) return { kind: 'attribute', of: [place], key: name.slice(prefix.length) }
  }
  return { kind: 'attribute', of: ['record', 'scope', 'resource'], key: name }
}
