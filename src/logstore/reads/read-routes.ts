/** The routes of reads other than queries: exports, tails, traces, and what Jaeger's clients ask for. */
import { Type } from '../../schema.ts'
import type { TSchema } from 'typebox'
import type { OperationDocument, Route } from '../../http/routes.ts'
import { JSON_TYPE } from '../../http/text-answer.ts'
import { QueryRequestBody } from '../query/request.ts'
import { TENANT_HEADER } from '../tenants/caller.ts'
import { RejectionReply } from '../replies.ts'
import { NDJSON_TYPE } from './export-front.ts'
import type { ExportFront } from './export-front.ts'
import { TRACE_SEARCH_PARAMETERS } from './jaeger-query.ts'
import type { JaegerFront } from './jaeger-front.ts'
import { EVENT_STREAM_TYPE, LAST_EVENT_ID_HEADER } from './tail-front.ts'
import type { TailFront } from './tail-front.ts'
import type { TraceFront } from './trace-front.ts'

export interface ReadFronts {
  readonly exports: ExportFront
  readonly tails: TailFront
  readonly traces: TraceFront
  readonly jaeger: JaegerFront
}

export function readRoutes({ exports, tails, traces, jaeger }: ReadFronts): readonly Route[] {
  const get = (path: string, endpoint: Route['endpoint']): Route => ({ method: 'GET', path, endpoint })
  return [
    { method: 'POST', path: '/v1/export', endpoint: exports.endpoint(exportDocument) },
    get('/v1/tail', tails.endpoint(tailDocument)),
    get('/v1/traces/:trace_id', traces.endpoint(traceDocument)),
    get('/jaeger/api/services', jaeger.services(servicesDocument)),
    get('/jaeger/api/services/:service/operations', jaeger.operations(operationsDocument, 'path')),
    get('/jaeger/api/operations', jaeger.operations(operationsOfDocument, 'parameter')),
    get('/jaeger/api/traces', jaeger.traces(searchDocument)),
    get('/jaeger/api/traces/:trace_id', jaeger.trace(jaegerTraceDocument)),
    get('/jaeger/api/dependencies', jaeger.dependencies(dependenciesDocument)),
  ]
}

const forTenants = {
  security: ['bearer'],
  headers: [{ name: TENANT_HEADER, required: true, schema: { type: 'string', minLength: 1 } }],
} as const
const rejected = { status: 'default', description: 'rejected', mediaType: JSON_TYPE, schema: RejectionReply } as const
const text = { type: 'string' }

const reading = (summary: string, description: string, mediaType: string, schema?: TSchema): OperationDocument => ({
  ...forTenants,
  summary,
  replies: [{ status: 200, description, mediaType, ...(schema && { schema }) }, rejected],
})

const exportDocument: OperationDocument = {
  ...reading(
    'Every record that a filter matches, one a line',
    'records as in the results of a query; a complete export ends with the line {"export":{"status":"complete",…}}',
    NDJSON_TYPE,
  ),
  requestBody: { mediaTypes: [JSON_TYPE], schema: QueryRequestBody },
}

const tailDocument: OperationDocument = {
  ...reading('Records as they are stored', 'server-sent events: records, missed, end', EVENT_STREAM_TYPE),
  query: [
    { name: 'dataset', schema: text },
    { name: 'search', schema: text },
  ],
  headers: [...forTenants.headers, { name: LAST_EVENT_ID_HEADER, required: false, schema: text }],
}

const AnyRecord = Type.Object({}, { additionalProperties: true })
const Held = Type.Object({ record: AnyRecord })
const Span = Type.Object({
  span_id: Type.Union([Type.String(), Type.Null()]),
  parent_span_id: Type.Union([Type.String(), Type.Null()]),
  root: Type.Optional(
    Type.Union(
      ['no_parent', 'parent_missing', 'circle', 'too_deep'].map((why) => Type.Literal(why)),
      { description: 'why the span is a root' },
    ),
  ),
  name: Type.String(),
  dataset: Type.String(),
  start_time_unix_nano: Type.String(),
  duration_nano: Type.String(),
  record: AnyRecord,
  logs: Type.Array(Held, { description: 'log records that name the span' }),
  children: Type.Array(Type.Object({}, { additionalProperties: true }), {
    description: 'child spans in the same form, by time',
  }),
})

export const TraceReply = Type.Object({
  status: Type.Literal('ok'),
  api_version: Type.Literal('v1'),
  tenant_id: Type.String(),
  trace_id: Type.String(),
  datasets: Type.Array(Type.String()),
  start_time_unix_nano: Type.String(),
  end_time_unix_nano: Type.String(),
  matched_records: Type.Integer({ description: 'stored records of the trace that can be read' }),
  spans: Type.Integer({ description: 'spans in this answer' }),
  log_records: Type.Integer({ description: 'log records in this answer' }),
  truncated: Type.Boolean({ description: 'true: the trace has too many records, and the latest are left out' }),
  quarantined_records: Type.Optional(Type.Integer()),
  roots: Type.Array(Span),
  logs: Type.Array(Held, { description: 'log records that name no span of the trace' }),
})

const traceDocument = reading(
  'The spans and log records of a trace, from every dataset that the credential may read',
  'a tree',
  JSON_TYPE,
  TraceReply,
)

// What Jaeger's clients read. Source: the JSON that Jaeger serves to its user interface.

const data = <Schema extends TSchema>(of: Schema) =>
  Type.Object({
    data: Type.Array(of),
    total: Type.Integer(),
    limit: Type.Integer(),
    offset: Type.Integer(),
    errors: Type.Null(),
  })
const Tag = Type.Object({
  key: Type.String(),
  type: Type.Union(['string', 'bool', 'int64', 'float64', 'binary'].map((type) => Type.Literal(type))),
  value: Type.Union([Type.String(), Type.Boolean(), Type.Number()]),
})
const Warnings = Type.Union([Type.Array(Type.String()), Type.Null()])
const JaegerTrace = Type.Object({
  traceID: Type.String(),
  spans: Type.Array(
    Type.Object({
      traceID: Type.String(),
      spanID: Type.String(),
      flags: Type.Integer(),
      operationName: Type.String(),
      references: Type.Array(
        Type.Object({
          refType: Type.Union([Type.Literal('CHILD_OF'), Type.Literal('FOLLOWS_FROM')]),
          traceID: Type.String(),
          spanID: Type.String(),
        }),
      ),
      startTime: Type.Integer({ description: 'microseconds since the Unix epoch' }),
      duration: Type.Integer({ description: 'microseconds' }),
      tags: Type.Array(Tag),
      logs: Type.Array(Type.Object({ timestamp: Type.Integer(), fields: Type.Array(Tag) })),
      processID: Type.String(),
      warnings: Warnings,
    }),
  ),
  processes: Type.Record(Type.String(), Type.Object({ serviceName: Type.String(), tags: Type.Array(Tag) })),
  warnings: Warnings,
})

export const JaegerNames = data(Type.String())
export const JaegerOperations = data(Type.Object({ name: Type.String(), spanKind: Type.String() }))
export const JaegerTraces = data(JaegerTrace)

const servicesDocument = reading('Jaeger: datasets that have spans', 'names', JSON_TYPE, JaegerNames)
const operationsDocument = reading('Jaeger: names of the spans of a service', 'names', JSON_TYPE, JaegerNames)
const operationsOfDocument: OperationDocument = {
  ...reading('Jaeger: names and kinds of the spans of a service', 'operations', JSON_TYPE, JaegerOperations),
  query: [
    { name: 'service', schema: text },
    { name: 'spanKind', schema: text },
  ],
}
const searchDocument: OperationDocument = {
  ...reading('Jaeger: traces with a span that matches the parameters', 'traces', JSON_TYPE, JaegerTraces),
  query: TRACE_SEARCH_PARAMETERS.map((name) => ({ name, schema: text })),
}
const jaegerTraceDocument = reading('Jaeger: a trace', 'one trace', JSON_TYPE, JaegerTraces)
const dependenciesDocument = reading('Jaeger: which service calls which', 'always none', JSON_TYPE, data(AnyRecord))
