/** The OpenAPI document of the log store: names, parts and examples. The routes supply the rest. */
import { Type } from '../schema.ts'
import { ENDPOINT_HELPER_OPERATIONS, ENDPOINT_HELPER_PATH_PARAMETERS } from '../endpoint-helper/routes.ts'
import { openApiDocument } from '../http/openapi.ts'
import type { DocumentedRoute, OpenApiParts, OperationExample } from '../http/openapi.ts'
import { STANDING_OPERATIONS } from '../http/standing-endpoints.ts'
import { StoredRecordReply } from './query/request.ts'
import { RejectionReply } from './replies.ts'
import { SearchObject } from './search/object.ts'

export const logStoreDocument = (version: string, routes: readonly DocumentedRoute[]): object =>
  openApiDocument({ title: 'trilog log store', version, description: DESCRIPTION }, routes, {
    defaultUrl: 'http://127.0.0.1:4318',
    operations: OPERATIONS,
    tags: TAGS,
    schemas: SCHEMAS,
    examples: EXAMPLES,
    securitySchemes: {
      bearer: { type: 'http', scheme: 'bearer', description: 'a token of the tenant that x-logstore-tenant names' },
    },
    pathParameters: ENDPOINT_HELPER_PATH_PARAMETERS,
  })

const DESCRIPTION =
  'OTLP logs and traces, acknowledged when they are durable, and found by record id, trace id, time and content.'

const TAGS = {
  ingest: 'Ingest of logs and traces',
  query: 'Search for records',
  traces: 'Reading of traces, also by clients of Jaeger',
  endpoints: 'A small store of objects by activation id',
  node: 'The node itself',
}

const OPERATIONS: OpenApiParts['operations'] = {
  ...STANDING_OPERATIONS,
  ...ENDPOINT_HELPER_OPERATIONS,
  'GET /metrics': { id: 'getMetrics', tag: 'node' },
  'POST /v1/otlp/logs': { id: 'ingestJsonLogs', tag: 'ingest' },
  'POST /v1/otlp/traces': { id: 'ingestJsonTraces', tag: 'ingest' },
  'POST /v1/logs': { id: 'ingestLogs', tag: 'ingest' },
  'POST /v1/traces': { id: 'ingestTraces', tag: 'ingest' },
  'POST /v1/query': { id: 'queryRecords', tag: 'query' },
  'GET /v1/datasets': { id: 'listDatasets', tag: 'query' },
  'POST /v1/query/histogram': { id: 'countRecords', tag: 'query' },
  'POST /v1/query/fields': { id: 'listFields', tag: 'query' },
  'POST /v1/export': { id: 'exportRecords', tag: 'query' },
  'GET /v1/tail': { id: 'tailRecords', tag: 'query' },
  'GET /v1/traces/:trace_id': { id: 'getTrace', tag: 'traces' },
  'GET /jaeger/api/services': { id: 'listJaegerServices', tag: 'traces' },
  'GET /jaeger/api/services/:service/operations': { id: 'listJaegerServiceOperations', tag: 'traces' },
  'GET /jaeger/api/operations': { id: 'listJaegerOperations', tag: 'traces' },
  'GET /jaeger/api/traces': { id: 'searchJaegerTraces', tag: 'traces' },
  'GET /jaeger/api/traces/:trace_id': { id: 'getJaegerTrace', tag: 'traces' },
  'GET /jaeger/api/dependencies': { id: 'listJaegerDependencies', tag: 'traces' },
  'GET /v1/endpoint/:activation_id': { id: 'getNewestObject', tag: 'endpoints' },
}

// The members of OTLP JSON that the store reads. It also keeps all others that a sender writes.

const open = { additionalProperties: true }
const Attribute = Type.Object({ key: Type.String(), value: Type.Object({}, open) }, open)
const Resource = Type.Object({ attributes: Type.Optional(Type.Array(Attribute)) }, open)
const Nanoseconds = Type.Union([Type.String({ pattern: '^[0-9]+$' }), Type.Integer({ minimum: 0 })])
const LogRecord = Type.Object(
  {
    timeUnixNano: Type.Optional(Nanoseconds),
    observedTimeUnixNano: Type.Optional(Nanoseconds),
    severityNumber: Type.Optional(Type.Integer()),
    severityText: Type.Optional(Type.String()),
    body: Type.Optional(Type.Object({}, open)),
    attributes: Type.Optional(Type.Array(Attribute)),
    traceId: Type.Optional(Type.String()),
    spanId: Type.Optional(Type.String()),
  },
  open,
)
const Span = Type.Object(
  {
    traceId: Type.String(),
    spanId: Type.String(),
    parentSpanId: Type.Optional(Type.String()),
    name: Type.Optional(Type.String()),
    kind: Type.Optional(Type.Integer()),
    startTimeUnixNano: Type.Optional(Nanoseconds),
    endTimeUnixNano: Type.Optional(Nanoseconds),
    attributes: Type.Optional(Type.Array(Attribute)),
  },
  open,
)
const scope = Type.Optional(Type.Object({}, open))
const resource = Type.Optional(Resource)
const BATCHES = {
  logs: Type.Object(
    {
      resourceLogs: Type.Array(
        Type.Object(
          { resource, scopeLogs: Type.Array(Type.Object({ scope, logRecords: Type.Array(LogRecord) }, open)) },
          open,
        ),
      ),
    },
    open,
  ),
  traces: Type.Object(
    {
      resourceSpans: Type.Array(
        Type.Object({ resource, scopeSpans: Type.Array(Type.Object({ scope, spans: Type.Array(Span) }, open)) }, open),
      ),
    },
    open,
  ),
}

/** Schemas of the JSON batches, for the document. */
export const jsonBatch = (what: keyof typeof BATCHES): object => BATCHES[what]

const SCHEMAS = {
  Record: StoredRecordReply,
  Refusal: RejectionReply,
  Search: SearchObject,
  OtlpAttribute: Attribute,
  OtlpLogRecord: LogRecord,
  OtlpResource: Resource,
  OtlpSpan: Span,
}

const attribute = (key: string, value: string): object => ({ key, value: { stringValue: value } })
const sent = { attributes: [attribute('service.name', 'checkout'), attribute('tenant_id', 'local')] }
const time = '1790000000000000000'
const traceId = '5b8efff798038103d269b633813fc60c'
const spanId = 'eee19b7ec3c1b174'
const recordId = 'logstore_1f0a0ed40bb3a0a0b7ac0f4f9e3a2d11'
const log = { timeUnixNano: time, severityNumber: 9, body: { stringValue: 'order placed' }, traceId, spanId }

const EXAMPLES: Readonly<Record<string, OperationExample>> = {
  ingestJsonLogs: {
    request: { resourceLogs: [{ resource: sent, scopeLogs: [{ logRecords: [log] }] }] },
    reply: { status: 'accepted', signal: 'log', accepted_records: 1, duplicate_records: 0, record_ids: [recordId] },
  },
  ingestJsonTraces: {
    request: {
      resourceSpans: [
        {
          resource: sent,
          scopeSpans: [{ spans: [{ traceId, spanId, name: 'POST /orders', startTimeUnixNano: time }] }],
        },
      ],
    },
  },
  queryRecords: {
    request: { dataset: 'checkout', filter: { search: 'order severity>=INFO' }, order: 'desc', page: { limit: 100 } },
    reply: {
      status: 'ok',
      api_version: 'v1',
      tenant_id: 'local',
      dataset: 'checkout',
      matched_records: 1,
      results: [
        {
          record: {
            record_id: recordId,
            source: 'v1.otlp_http',
            signal: 'log',
            tenant_id: 'local',
            dataset: 'checkout',
            time_unix_nano: time,
            trace_id: traceId,
            span_id: spanId,
            severity_number: 9,
            raw_payload: { resource: sent, scope: {}, record: log },
          },
        },
      ],
      page: { limit: 100, cursor: null, next_cursor: null },
      used_indexes: ['dataset_time'],
      scanned_bundles: 1,
    },
  },
}
