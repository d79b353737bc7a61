/** What `GET /v1/datasets`, `POST /v1/query/histogram` and `POST /v1/query/fields` take: schemas, and the messages of their violations. */
import { Type } from '../../schema.ts'
import { schemaCheck } from '../../schema-check.ts'
import {
  ABOUT_RECORDS,
  DEADLINE_DEFAULT_MS,
  DEADLINE_MAX_MS,
  NOT_JSON,
  NOT_JSON_PROBLEM,
  Nullable,
  TIME_MAX,
  invalid,
  parseJson,
  recordsAskedFor,
  violationOf,
} from '../query/request.ts'
import type { QueryRequestProblem } from '../query/request.ts'
import { decodeDatasetCursor } from './datasets.ts'
import {
  BUCKETS_DEFAULT,
  BUCKETS_MAX,
  DATASETS_LIMIT_MAX,
  SAMPLE_DEFAULT,
  SAMPLE_MAX,
  TOP_DEFAULT,
  TOP_MAX,
  VALUES_DEFAULT,
  VALUES_MAX,
} from './question.ts'
import type { DatasetsQuestion, FieldsQuestion, HistogramQuestion } from './question.ts'

const NAME_LENGTH_MAX = 1024

export const HistogramRequestBody = Type.Object(
  {
    ...ABOUT_RECORDS,
    interval_nano: Nullable(
      Type.Union([Type.String({ pattern: '^[0-9]{1,20}$' }), Type.Integer({ minimum: 1 })], {
        description: `width of a bucket in nanoseconds; buckets begin at multiples of it, and there are at most ${BUCKETS_MAX}`,
      }),
    ),
    buckets: Nullable(
      Type.Integer({
        minimum: 1,
        maximum: BUCKETS_MAX,
        default: BUCKETS_DEFAULT,
        description: 'number of buckets, instead of interval_nano',
      }),
    ),
    split_by: Nullable(
      Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'severity, or a key as in searches' }),
    ),
    top: Nullable(
      Type.Integer({
        minimum: 1,
        maximum: TOP_MAX,
        default: TOP_DEFAULT,
        description: 'how many of the most frequent values are counted separately',
      }),
    ),
  },
  { additionalProperties: false },
)
const histogramBody = schemaCheck(HistogramRequestBody)

export const FieldsRequestBody = Type.Object(
  {
    ...ABOUT_RECORDS,
    sample_records: Nullable(
      Type.Integer({
        minimum: 1,
        maximum: SAMPLE_MAX,
        default: SAMPLE_DEFAULT,
        description: 'how many records are read at most',
      }),
    ),
    values: Nullable(
      Type.Integer({
        minimum: 0,
        maximum: VALUES_MAX,
        default: VALUES_DEFAULT,
        description: 'how many of the most frequent values are shown for each field',
      }),
    ),
  },
  { additionalProperties: false },
)
const fieldsBody = schemaCheck(FieldsRequestBody)

const HISTOGRAM_RULES = [
  ['/interval_nano', 'interval_nano must be nanoseconds, at least 1: a decimal string or an integer'],
  ['/buckets', `buckets must be an integer from 1 to ${BUCKETS_MAX}`],
  ['/split_by', `split_by must be a string of 1 to ${NAME_LENGTH_MAX} characters`],
  ['/top', `top must be an integer from 1 to ${TOP_MAX}`],
] as const

const FIELDS_RULES = [
  ['/sample_records', `sample_records must be an integer from 1 to ${SAMPLE_MAX}`],
  ['/values', `values must be an integer from 0 to ${VALUES_MAX}`],
] as const

export function parseHistogramRequest(bytes: Uint8Array): HistogramQuestion | QueryRequestProblem {
  const body = parseJson(bytes)
  if (body === NOT_JSON) return invalid(NOT_JSON_PROBLEM)
  if (!histogramBody.accepts(body)) {
    return invalid(violationOf(histogramBody.errors(body), HistogramRequestBody, HISTOGRAM_RULES).message)
  }
  const about = recordsAskedFor(body)
  if ('kind' in about) return about
  const interval = body.interval_nano ?? null
  const buckets = body.buckets ?? null
  if (interval !== null && buckets !== null) return invalid('interval_nano and buckets exclude each other')
  const width = interval === null ? null : BigInt(interval)
  if (width !== null && (width === 0n || width > TIME_MAX)) {
    return invalid(`interval_nano must be from 1 to ${TIME_MAX}`)
  }
  return {
    kind: 'histogram',
    ...about,
    width: width === null ? { buckets: buckets ?? BUCKETS_DEFAULT } : { interval: width },
    splitBy: body.split_by ?? null,
    top: body.top ?? TOP_DEFAULT,
  }
}

export function parseFieldsRequest(bytes: Uint8Array): FieldsQuestion | QueryRequestProblem {
  const body = parseJson(bytes)
  if (body === NOT_JSON) return invalid(NOT_JSON_PROBLEM)
  if (!fieldsBody.accepts(body)) {
    return invalid(violationOf(fieldsBody.errors(body), FieldsRequestBody, FIELDS_RULES).message)
  }
  const about = recordsAskedFor(body)
  if ('kind' in about) return about
  return {
    kind: 'fields',
    ...about,
    sampleMax: body.sample_records ?? SAMPLE_DEFAULT,
    valuesMax: body.values ?? VALUES_DEFAULT,
  }
}

/** Parameters of `GET /v1/datasets`. */
export const DATASETS_PARAMETERS = [
  { name: 'limit', schema: Type.Integer({ minimum: 1, maximum: DATASETS_LIMIT_MAX, default: DATASETS_LIMIT_MAX }) },
  { name: 'cursor', schema: Type.String({ description: 'next_cursor of the previous page' }) },
  {
    name: 'deadline_ms',
    schema: Type.Integer({ minimum: 1, maximum: DEADLINE_MAX_MS, default: DEADLINE_DEFAULT_MS }),
  },
]

/**
 * @param query    of the URL, raw
 * @param datasets that the credential may read; null: all
 */
export function parseDatasetsRequest(
  query: string,
  datasets: readonly string[] | null,
): DatasetsQuestion | QueryRequestProblem {
  const given = new URLSearchParams(query)
  const known = DATASETS_PARAMETERS.map(({ name }) => name)
  const names = [...given.keys()]
  if (names.some((name) => !known.includes(name)) || new Set(names).size < names.length) {
    return invalid(`the query has parameters that are unknown or there twice; known are ${known.join(', ')}`)
  }
  const limit = wholeNumber(given.get('limit'), DATASETS_LIMIT_MAX, DATASETS_LIMIT_MAX)
  if (limit === null) {
    return { kind: 'invalid_page_limit', message: `limit must be an integer from 1 to ${DATASETS_LIMIT_MAX}` }
  }
  const deadlineMs = wholeNumber(given.get('deadline_ms'), DEADLINE_DEFAULT_MS, DEADLINE_MAX_MS)
  if (deadlineMs === null) return invalid(`deadline_ms must be an integer from 1 to ${DEADLINE_MAX_MS}`)
  const cursor = given.get('cursor')
  const after = cursor === null ? null : decodeDatasetCursor(cursor)
  if (cursor !== null && after === null) {
    return { kind: 'invalid_cursor', message: 'cursor must be the next_cursor of the previous page' }
  }
  return { kind: 'datasets', datasets, limit, after, deadlineMs }
}

/** A whole number from 1 to `max`; null: the text is none. */
function wholeNumber(text: string | null, absent: number, max: number): number | null {
  if (text === null) return absent
  const number = /^[0-9]{1,9}$/.test(text) ? Number(text) : 0
  return number >= 1 && number <= max ? number : null
}

const Count = (description: string) => Type.Integer({ minimum: 0, description })
const Time = (description: string) => Type.String({ pattern: '^[0-9]{1,20}$', description })
const QUARANTINED = {
  quarantined_records: Type.Optional(Count('matching records left out because they are damaged')),
  quarantined_ranges: Type.Optional(
    Count('damaged ranges of the log, which may have held any records; present if there are some'),
  ),
}
const ABOUT_ANSWER = {
  status: Type.Literal('ok'),
  api_version: Type.Literal('v1'),
  tenant_id: Type.String(),
}
const RECORDS_ANSWER = {
  ...ABOUT_ANSWER,
  dataset: Type.String(),
  matched_records: Count('exact'),
  used_indexes: Type.Array(Type.String()),
  scanned_bundles: Count('segments whose index was searched'),
  ...QUARANTINED,
}
const Cursor = Type.Union([Type.String(), Type.Null()])
const Unknown = (description: string) => Type.Union([Time(description), Type.Null()])

export const DatasetsReply = Type.Object({
  ...ABOUT_ANSWER,
  datasets: Type.Array(
    Type.Object({
      dataset: Type.String(),
      records: Count('exact'),
      bytes: Type.Union([Count('bytes of the records as they were sent, without resources and scopes'), Type.Null()]),
      first_time_unix_nano: Unknown('time of the earliest record'),
      last_time_unix_nano: Unknown('time of the latest record'),
      signals: Type.Union([Type.Array(Type.Union([Type.Literal('log'), Type.Literal('trace')])), Type.Null()]),
      quarantined_records: Type.Optional(Count('records left out because they are damaged')),
    }),
  ),
  page: Type.Object({ limit: Type.Integer(), cursor: Cursor, next_cursor: Cursor }),
  quarantined_ranges: QUARANTINED.quarantined_ranges,
})

export const HistogramReply = Type.Object({
  ...RECORDS_ANSWER,
  interval_nano: Time('width of a bucket'),
  buckets: Type.Array(
    Type.Object({
      start_time_unix_nano: Time('time at which the bucket begins'),
      records: Count('records in the bucket'),
    }),
  ),
  split_by: Type.Optional(Type.String()),
  series: Type.Optional(
    Type.Array(
      Type.Object({
        kind: Type.Union([Type.Literal('value'), Type.Literal('other'), Type.Literal('none')], {
          description:
            'value: records with this value; other: records with any other value; none: records without a value',
        }),
        value: Type.Optional(Type.String()),
        value_is_cut: Type.Optional(Type.Literal(true)),
        records: Count('records in all buckets'),
        counts: Type.Array(Type.Integer(), { description: 'records in each bucket' }),
      }),
    ),
  ),
  top_is_certain: Type.Optional(
    Type.Literal(false, {
      description:
        'present if there are so many values that one of `other` may be more frequent than one of those shown',
    }),
  ),
})

export const FieldsReply = Type.Object({
  ...RECORDS_ANSWER,
  sampled: Type.Boolean({ description: 'true: only some of the matching records were read' }),
  sampled_records: Count('records that were read: all counts below refer to them'),
  fields: Type.Array(
    Type.Object({
      name: Type.String({ description: 'name of the field, as in searches and split_by' }),
      of: Type.Union(['resource', 'scope', 'record', 'field'].map((of) => Type.Literal(of))),
      records: Count('records that have the field'),
      distinct_values: Count('different values in these records'),
      values: Type.Array(
        Type.Object({
          value: Type.String(),
          value_is_cut: Type.Optional(Type.Literal(true)),
          records: Count('records that have the value'),
        }),
      ),
    }),
  ),
  left_out_fields: Type.Optional(Count('fields that are not shown, because the fewest records have them')),
})
