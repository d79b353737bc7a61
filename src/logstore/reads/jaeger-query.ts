/**
 * The parameters of Jaeger's trace search as a filter. Times are microseconds since the Unix epoch, durations are as Go writes them.
 *
 *   tags  what a span, its scope or its resource has as an attribute; `error`, `span.kind`, `otel.status_code`, `otel.status_description`,
 *         `otel.scope.name` and `otel.scope.version` are the fields that Jaeger shows under these names
 */
import type { QueryFilter } from '../query/cursor.ts'
import { SEARCH_CONDITIONS_MAX, SEARCH_LENGTH_MAX } from '../search/expression.ts'
import type { Search } from '../search/expression.ts'
import { namedCondition } from '../search/names.ts'
import { searchOfObject } from '../search/object.ts'
import { isInexactInteger, parseWithSource } from '../json-source.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import { isRefusal } from '../tenants/caller.ts'
import { queryParameters } from './readers.ts'

const TRACES_DEFAULT = 20
const TRACES_MAX = 200

export const TRACE_SEARCH_PARAMETERS = [
  'service',
  'operation',
  'tags',
  'start',
  'end',
  'minDuration',
  'maxDuration',
  'limit',
  'lookback',
] as const

export interface TraceSearch {
  readonly service: string
  readonly filter: QueryFilter
  readonly limit: number
}

export function traceSearchOf(query: string): TraceSearch | Refusal {
  const given = queryParameters(query, TRACE_SEARCH_PARAMETERS)
  if (isRefusal(given)) return given
  const { service = '', operation = '', tags = '', start, end, minDuration = '', maxDuration = '', limit } = given
  if (service === '') return invalid('service is required: the name of a dataset')
  const of: Search[] = [{ kind: 'signal', signal: 'trace' }]
  if (operation !== '') of.push(equals('name', operation))
  const conditions = tagConditions(tags)
  if (conditions === null) return invalid('tags is a JSON object of texts, such as {"http.status_code":"500"}')
  of.push(...conditions)
  for (const [name, text, by] of [
    ['minDuration', minDuration, '>='],
    ['maxDuration', maxDuration, '<='],
  ] as const) {
    if (text === '') continue
    const number = nanosecondsOf(text)
    if (number === null) return invalid(`${name} is a duration such as 1.2s, 100ms or 500us`)
    of.push({ kind: 'name', name: 'duration', value: { kind: 'compare', by, number } })
  }
  const startTime = timeOf(start)
  const endTime = timeOf(end)
  if (startTime === 'none' || endTime === 'none') return invalid('start and end are microseconds since the Unix epoch')
  const count = limit === undefined || limit === '' ? TRACES_DEFAULT : Number(limit)
  if (!Number.isInteger(count) || count < 1) return invalid('limit is a whole number from 1 on')
  const filter = {
    recordId: null,
    traceId: null,
    startTime,
    endTime: endTime === null ? null : endTime + 1000n, // up to the end of that microsecond
    search: { kind: 'and', of } as const,
  }
  return { service, filter, limit: Math.min(count, TRACES_MAX) }
}

const invalid = (message: string): Refusal => refusal('invalid_query', message)

const equals = (name: string, text: string): Search => namedCondition(name, { kind: 'equals', text })

const FIELDS: ReadonlyMap<string, string> = new Map([
  ['span.kind', 'kind'],
  ['otel.status_code', 'status.code'],
  ['otel.status_description', 'status.message'],
  ['otel.scope.name', 'scope.name'],
  ['otel.scope.version', 'scope.version'],
])

function tagConditions(text: string): Search[] | null {
  if (text === '') return []
  let tags: unknown
  try {
    tags = parseWithSource(text, (_, value, { source }) =>
      typeof value === 'number' && isInexactInteger(value, source) ? source : value,
    )
  } catch {
    return null
  }
  if (typeof tags !== 'object' || tags === null || Array.isArray(tags)) return null
  const entries = Object.entries(tags)
  const isFine = ([key, value]: readonly [string, unknown]): boolean =>
    ['string', 'number', 'boolean'].includes(typeof value) && key.length + String(value).length <= SEARCH_LENGTH_MAX
  if (entries.length > SEARCH_CONDITIONS_MAX || !entries.every(isFine)) return null
  return entries.map(([key, value]) => tagCondition(key, String(value)))
}

function tagCondition(key: string, value: string): Search {
  const field = FIELDS.get(key)
  if (field !== undefined) return equals(field, value)
  const attribute = searchOfObject({ attributes: { [key]: value } })
  if (key !== 'error') return attribute
  const isError = equals('status.code', 'error')
  return { kind: 'or', of: [attribute, value === 'true' ? isError : { kind: 'not', of: isError }] }
}

const NANOSECONDS: Readonly<Record<string, number>> = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 }

/** Null: the text is not a duration. */
function nanosecondsOf(text: string): number | null {
  if (text.length > 64 || !/^(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+$/.test(text)) return null
  let sum = 0
  for (const [, digits, unit] of text.matchAll(/([0-9.]+)(ns|us|µs|ms|s|m|h)/g))
    sum += Number(digits) * NANOSECONDS[unit!]!
  return sum
}

/** Nanoseconds; null: not given. */
function timeOf(text: string | undefined): bigint | null | 'none' {
  if (text === undefined || text === '') return null
  return /^[0-9]{1,16}$/.test(text) ? BigInt(text) * 1000n : 'none'
}
