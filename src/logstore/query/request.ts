/**
 * The body of `POST /v1/query`: its schema, and what each violation is called.
 *
 * null stands for absent in every optional field. Times are u64 nanoseconds and stay exact: as decimal strings, or as JSON
 * integers, which `parseJson` turns into strings of their own digits before the check, so that they never pass through a double.
 */
import { Type } from '../../schema.ts'
import type { Static, TSchema } from 'typebox'
import { schemaCheck } from '../../schema-check.ts'
import type { TLocalizedValidationError } from 'typebox/error'
import { describeProblem } from '../../validation.ts'
import { isInexactInteger, parseWithSource } from '../json-source.ts'
import { SEARCH_LENGTH_MAX, SearchError } from '../search/expression.ts'
import type { Search } from '../search/expression.ts'
import { SearchObject, searchOfObject } from '../search/object.ts'
import { parseSearch } from '../search/parse.ts'
import type { Order, QueryFilter } from './cursor.ts'

const PAGE_LIMIT_DEFAULT = 100
const PAGE_LIMIT_MAX = 500
export const DEADLINE_DEFAULT_MS = 10_000
export const DEADLINE_MAX_MS = 60_000
/** No dataset in the store has a longer name (see NAME_BYTES_MAX), so longer ones are refused for their size. */
const DATASET_LENGTH_MAX = 1024
export const TIME_MAX = (1n << 64n) - 1n

export const Nullable = <Schema extends TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]))

const Time = (bound: string) =>
  Type.Optional(
    Type.Union([Type.String({ pattern: '^[0-9]{1,20}$' }), Type.Integer({ minimum: 0 }), Type.Null()], {
      description: `${bound}; nanoseconds since the Unix epoch`,
    }),
  )

const FilterBody = Type.Object(
  {
    record_id: Nullable(Type.String({ description: 'exact' })),
    trace_id: Nullable(Type.String({ pattern: '^[0-9a-fA-F]{32}$', description: 'exact, 32 hexadecimal digits' })),
    start_time_unix_nano: Time('inclusive'),
    end_time_unix_nano: Time('exclusive'),
    search: Nullable(
      Type.Union([Type.String({ maxLength: SEARCH_LENGTH_MAX }), SearchObject], {
        description:
          'search for records: an expression as in docs/search.md, or an object whose conditions must all hold',
      }),
    ),
  },
  { additionalProperties: false },
)

/** Members of every question about the records of one dataset. */
export const ABOUT_RECORDS = {
  dataset: Type.String({ minLength: 1, maxLength: DATASET_LENGTH_MAX }),
  filter: Nullable(FilterBody),
  deadline_ms: Nullable(Type.Integer({ minimum: 1, maximum: DEADLINE_MAX_MS, default: DEADLINE_DEFAULT_MS })),
}

export const QueryRequestBody = Type.Object(
  {
    dataset: Nullable(
      Type.String({
        minLength: 1,
        maxLength: DATASET_LENGTH_MAX,
        description:
          'required, except with filter.trace_id: then every dataset that the credential may read is searched',
      }),
    ),
    filter: ABOUT_RECORDS.filter,
    order: Nullable(
      Type.Union([Type.Literal('asc'), Type.Literal('desc')], { default: 'asc', description: 'desc: newest first' }),
    ),
    page: Nullable(
      Type.Object(
        {
          limit: Nullable(Type.Integer({ minimum: 1, maximum: PAGE_LIMIT_MAX, default: PAGE_LIMIT_DEFAULT })),
          cursor: Nullable(Type.String({ minLength: 1, description: 'next_cursor of the previous page' })),
        },
        { additionalProperties: false },
      ),
    ),
    deadline_ms: ABOUT_RECORDS.deadline_ms,
  },
  { additionalProperties: false },
)
const requestBody = schemaCheck(QueryRequestBody)

const OtlpObject = (description: string) => Type.Object({}, { additionalProperties: true, description })
const Id = (digits: number) => Type.Union([Type.String({ pattern: `^[0-9a-f]{${digits}}$` }), Type.Null()])
/** As `renderRecord` writes it: this schema is for the document. */
export const StoredRecordReply = Type.Object({
  record_id: Type.String({ pattern: '^logstore_[0-9a-f]{32}$' }),
  source: Type.String({ description: 'how the record arrived: v1.otlp_http, v1.otlp_http_protobuf or v1.otlp_grpc' }),
  signal: Type.Union([Type.Literal('log'), Type.Literal('trace')]),
  tenant_id: Type.String(),
  dataset: Type.String(),
  time_unix_nano: Type.String({ pattern: '^[0-9]+$', description: 'nanoseconds since the Unix epoch' }),
  trace_id: Id(32),
  span_id: Id(16),
  severity_number: Type.Optional(Type.Integer({ description: 'severity of a log record; 0: the sender gave none' })),
  raw_payload: Type.Object(
    {
      resource: OtlpObject('Resource'),
      resourceSchemaUrl: Type.Optional(Type.String()),
      scope: OtlpObject('InstrumentationScope'),
      scopeSchemaUrl: Type.Optional(Type.String()),
      record: OtlpObject('LogRecord or Span'),
    },
    { description: 'what was sent, in OTLP JSON' },
  ),
})

export const QueryReply = Type.Object({
  status: Type.Literal('ok'),
  api_version: Type.Literal('v1'),
  tenant_id: Type.String(),
  dataset: Type.Union([Type.String(), Type.Null()], { description: 'null: the query named none' }),
  matched_records: Type.Integer({ description: 'number of matching records on all pages' }),
  results: Type.Array(Type.Object({ record: StoredRecordReply })),
  page: Type.Object({
    limit: Type.Integer(),
    cursor: Type.Union([Type.String(), Type.Null()]),
    next_cursor: Type.Union([Type.String(), Type.Null()]),
  }),
  used_indexes: Type.Array(Type.String()),
  scanned_bundles: Type.Integer({ description: 'segments whose index was searched' }),
  quarantined_records: Type.Optional(
    Type.Integer({ description: 'matching records left out because they are damaged' }),
  ),
  quarantined_ranges: Type.Optional(
    Type.Integer({
      description: 'damaged ranges of the log, which may have held any records; present if there are some',
    }),
  ),
})

export interface QueryRequest {
  /** null: every dataset that may be read; then the filter has a trace id. */
  readonly dataset: string | null
  readonly filter: QueryFilter
  readonly order: Order
  readonly limit: number
  /** The request says which page it wants. */
  readonly hasPage: boolean
  /** null: the first page. */
  readonly cursor: string | null
  readonly deadlineMs: number
}

export interface QueryRequestProblem {
  readonly kind: 'invalid_query' | 'invalid_page_limit' | 'invalid_cursor'
  readonly message: string
}

export function parseQueryRequest(bytes: Uint8Array): QueryRequest | QueryRequestProblem {
  const body = parseJson(bytes)
  if (body === NOT_JSON) return invalid(NOT_JSON_PROBLEM)
  if (!requestBody.accepts(body)) return problemOf(body)
  const dataset = body.dataset ?? null
  const about = recordsAskedFor({ ...body, dataset: dataset ?? '' })
  if ('kind' in about) return about
  if (dataset === null && about.filter.traceId === null) return invalid(DATASET_RULE)
  const page = body.page ?? {}
  return {
    ...about,
    dataset: dataset === null ? null : about.dataset,
    order: body.order ?? 'asc',
    limit: page.limit ?? PAGE_LIMIT_DEFAULT,
    hasPage: (body.page ?? null) !== null,
    cursor: page.cursor ?? null,
  }
}

/** What the members of ABOUT_RECORDS say, in a body that its schema accepts. */
export function recordsAskedFor(
  body: Pick<Static<typeof QueryRequestBody>, keyof typeof ABOUT_RECORDS> & { readonly dataset: string },
): (Pick<QueryRequest, 'filter' | 'deadlineMs'> & { readonly dataset: string }) | QueryRequestProblem {
  const dataset = body.dataset.toWellFormed() // as datasets are stored, in UTF-8
  const filter = body.filter ?? {}
  const startTime = timeOf(filter.start_time_unix_nano ?? null)
  const endTime = timeOf(filter.end_time_unix_nano ?? null)
  if (startTime === 'beyond' || endTime === 'beyond') {
    const field = startTime === 'beyond' ? 'start_time_unix_nano' : 'end_time_unix_nano'
    return invalid(`filter.${field} must be at most ${TIME_MAX}`)
  }
  let search: Search | null
  try {
    search = searchOf(filter.search ?? null)
  } catch (error) {
    if (error instanceof SearchError) return invalid(`filter.search: ${error.message}`)
    throw error
  }
  const recordId = filter.record_id ?? null
  const traceId = filter.trace_id?.toLowerCase() ?? null
  return {
    dataset,
    filter: { recordId, traceId, startTime, endTime, search },
    deadlineMs: body.deadline_ms ?? DEADLINE_DEFAULT_MS,
  }
}

function searchOf(given: string | Static<typeof SearchObject> | null): Search | null {
  if (given === null) return null
  return typeof given === 'string' ? parseSearch(given) : searchOfObject(given)
}

function timeOf(given: string | number | null): bigint | null | 'beyond' {
  if (given === null) return null
  const time = BigInt(given)
  return time > TIME_MAX ? 'beyond' : time
}

export const NOT_JSON = Symbol('not JSON')
export const NOT_JSON_PROBLEM = 'the body is not JSON in UTF-8'
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Integers of TIME_FIELDS, and those in `attributes` that a double may not hold, become the text they were written as. */
export function parseJson(bytes: Uint8Array): unknown {
  const inexact = new Map<unknown, [name: string, source: string][]>() // by the object that has them, which the reviver gets after its members
  try {
    return parseWithSource(utf8.decode(bytes), function (key, value, { source }) {
      if (key === 'attributes' && inexact.has(value)) return withTexts(value as object, inexact.get(value)!) // an object, as it has members
      if (typeof value !== 'number') return value
      if (TIME_FIELDS.has(key)) return source
      if (isInexactInteger(value, source)) {
        const others = inexact.get(this)
        if (others === undefined) inexact.set(this, [[key, source]])
        else others.push([key, source])
      }
      return value
    })
  } catch {
    return NOT_JSON
  }
}

const withTexts = (members: object, texts: readonly [name: string, text: string][]): unknown =>
  Array.isArray(members) ? members : { ...members, ...Object.fromEntries(texts) }

const TIME_FIELDS: ReadonlySet<string> = new Set([
  'start_time_unix_nano',
  'end_time_unix_nano',
  'min_duration_nano',
  'interval_nano',
])

const DATASET_RULE = `dataset is required, unless filter.trace_id is given: a string of 1 to ${DATASET_LENGTH_MAX} characters`

type Rules = readonly (readonly [path: string, rule: string])[]

/** The part of a request that ABOUT_RECORDS describes. */
const RECORDS_RULES: Rules = [
  ['/dataset', `dataset is required: a string of 1 to ${DATASET_LENGTH_MAX} characters`],
  ['/filter/record_id', 'filter.record_id must be a string'],
  ['/filter/trace_id', 'filter.trace_id must be a string of 32 hexadecimal digits'],
  [
    '/filter/start_time_unix_nano',
    'filter.start_time_unix_nano must be nanoseconds since the Unix epoch: a decimal string or an integer',
  ],
  [
    '/filter/end_time_unix_nano',
    'filter.end_time_unix_nano must be nanoseconds since the Unix epoch: a decimal string or an integer',
  ],
  [
    '/filter/search',
    `filter.search must be a text of at most ${SEARCH_LENGTH_MAX} characters or an object with the members that docs/search.md lists`,
  ],
  ['/filter', 'filter must be an object'],
]
const DEADLINE_RULE = ['/deadline_ms', `deadline_ms must be an integer from 1 to ${DEADLINE_MAX_MS}`] as const

const PAGE_RULES: Rules = [
  ['/order', 'order must be asc or desc'],
  ['/page/limit', `page.limit must be an integer from 1 to ${PAGE_LIMIT_MAX}`],
  ['/page/cursor', 'page.cursor must be the next_cursor of the previous page, or null for the first'],
  ['/page', 'page must be an object'],
]

function problemOf(body: unknown): QueryRequestProblem {
  const errors = requestBody.errors(body)
  const problem = violationOf(errors, QueryRequestBody, PAGE_RULES)
  if (problem.path === '/page/limit') return { kind: 'invalid_page_limit', message: problem.message }
  if (problem.path === '/page/cursor') return { kind: 'invalid_cursor', message: problem.message }
  return invalid(problem.message)
}

/**
 * The first violation in a fixed order: fields that do not exist, then those of ABOUT_RECORDS, then the rules as listed.
 *
 * @param rules for the other members, the inner ones first
 */
export function violationOf(
  errors: readonly TLocalizedValidationError[],
  schema: TSchema,
  rules: Rules,
): { readonly path: string | null; readonly message: string } {
  const unknown = errors.find(({ keyword }) => keyword === 'boolean')
  if (unknown) return { path: null, message: describeProblem([unknown], schema) }
  const paths = new Set(errors.map(({ instancePath }) => instancePath))
  for (const [path, rule] of [...RECORDS_RULES, ...rules, DEADLINE_RULE]) {
    const broken = paths.has(path) || (path === '/dataset' && errors.some(({ keyword }) => keyword === 'required'))
    if (broken) return { path, message: rule }
  }
  return { path: null, message: 'the body must be a JSON object' }
}

export const invalid = (message: string): QueryRequestProblem => ({ kind: 'invalid_query', message })
