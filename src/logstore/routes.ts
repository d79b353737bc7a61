/** The HTTP surface of the log store. */
import { Type } from 'typebox'
import type { Endpoint, HttpService, OperationDocument, Route } from '../http/routes.ts'
import { openApiDocument } from '../http/openapi.ts'
import type { Exchange } from '../http/exchange.ts'
import { FORMAT_JSON, FORMAT_PROTOBUF, SIGNAL_LOG, SIGNAL_TRACE } from './batch-frame.ts'
import type { Metrics } from '../observability/metrics.ts'
import type { Ingest } from './ingest/ingest.ts'
import type { QueryFront } from './query-front.ts'
import { QueryReply, QueryRequestBody } from './query/request.ts'
import { IngestReply, JSON_TYPE, PROTOBUF_TYPE, RejectionReply, answerRefusal } from './replies.ts'
import { permanentRefusal, refusal } from './refusals.ts'

export interface LogStoreRouteParts {
  readonly ingest: Ingest
  readonly queries: QueryFront
  readonly endpointHelper: readonly Route[]
  /** Why the service cannot take or answer requests; empty when it is well. */
  readonly problems: () => readonly string[]
  readonly metrics: Metrics
  readonly version: string
}

export function logStoreService(parts: LogStoreRouteParts): HttpService {
  const routes = logStoreRoutes(parts)
  return {
    name: 'logstore',
    requestIdHeader: 'x-request-id',
    requestIdPrefix: 'req-',
    routes,
    notFound: (_head, exchange) =>
      answerRefusal(exchange, permanentRefusal('not_found', 'there is no such route'), 'json'),
    methodNotAllowed: (_head, exchange, allow) => {
      const refused = permanentRefusal('method_not_allowed', `this route takes ${allow.join(', ')}`)
      answerRefusal(exchange, refused, 'json', [['allow', allow.join(', ')]])
    },
    internalError: (exchange) =>
      answerRefusal(
        exchange,
        refusal('internal_error', 'the service failed to handle the request; its log says more'),
        'json',
      ),
  }
}

function logStoreRoutes(parts: LogStoreRouteParts): readonly Route[] {
  const { ingest, queries, endpointHelper } = parts
  const routes: Route[] = [
    { method: 'GET', path: '/health', endpoint: health(parts) },
    { method: 'POST', path: '/v1/otlp/logs', endpoint: ingest.endpoint(SIGNAL_LOG, FORMAT_JSON, jsonIngest('logs')) },
    {
      method: 'POST',
      path: '/v1/otlp/traces',
      endpoint: ingest.endpoint(SIGNAL_TRACE, FORMAT_JSON, jsonIngest('traces')),
    },
    {
      method: 'POST',
      path: '/v1/logs',
      endpoint: ingest.endpoint(SIGNAL_LOG, FORMAT_PROTOBUF, protobufIngest('logs')),
    },
    {
      method: 'POST',
      path: '/v1/traces',
      endpoint: ingest.endpoint(SIGNAL_TRACE, FORMAT_PROTOBUF, protobufIngest('traces')),
    },
    { method: 'POST', path: '/v1/query', endpoint: queries.endpoint(queryDocument) },
    ...endpointHelper,
    { method: 'GET', path: '/metrics', endpoint: metrics(parts) },
  ]
  const document = JSON.stringify(openApiDocument({ title: 'trilog log store', version: parts.version }, routes))
  const openApi: Endpoint = { begin: (_head, exchange) => exchange.answer(200, JSON_TYPE, document) }
  return [...routes, { method: 'GET', path: '/openapi.json', endpoint: openApi }]
}

const health = ({ problems }: LogStoreRouteParts): Endpoint => ({
  document: {
    summary: 'Whether the service takes and answers requests',
    replies: [
      { status: 200, description: 'it does', mediaType: JSON_TYPE, schema: Type.Literal('Healthy') },
      { status: 503, description: 'what is wrong', mediaType: JSON_TYPE, schema: Type.String() },
    ],
  },
  begin: (_head, exchange) => {
    const found = problems()
    if (found.length === 0) exchange.answer(200, JSON_TYPE, '"Healthy"')
    else exchange.answer(503, JSON_TYPE, JSON.stringify(`Unhealthy: ${found.join('; ')}`))
  },
})

const metrics = ({ metrics }: LogStoreRouteParts): Endpoint => ({
  begin: (_head, exchange) => void answerMetrics(exchange, metrics),
})

async function answerMetrics(exchange: Exchange, metrics: Metrics): Promise<void> {
  exchange.answer(200, metrics.contentType, await metrics.text())
}

const rejected = { status: 'default', description: 'rejected', mediaType: JSON_TYPE, schema: RejectionReply } as const

const jsonIngest = (what: string): OperationDocument => ({
  summary: `Ingest OTLP JSON ${what}; answered when they are durable`,
  requestBody: { mediaTypes: [JSON_TYPE] },
  replies: [{ status: 200, description: 'stored', mediaType: JSON_TYPE, schema: IngestReply }, rejected],
})

const protobufIngest = (what: string): OperationDocument => ({
  summary: `Ingest OTLP protobuf ${what}; answered when they are durable`,
  requestBody: { mediaTypes: [PROTOBUF_TYPE] },
  replies: [
    { status: 200, description: 'stored: an empty Export…ServiceResponse', mediaType: PROTOBUF_TYPE },
    { status: 'default', description: 'rejected: google.rpc.Status', mediaType: PROTOBUF_TYPE },
  ],
})

const queryDocument: OperationDocument = {
  summary: 'Search retained records by dataset, record id, trace id and time',
  requestBody: { mediaTypes: [JSON_TYPE], schema: QueryRequestBody },
  replies: [{ status: 200, description: 'a page of records', mediaType: JSON_TYPE, schema: QueryReply }, rejected],
}
