/** The HTTP surface of the log store. */
import type { Exchange, RequestHead } from '../http/exchange.ts'
import { mediaTypeOf } from '../http/media-type.ts'
import { WITHOUT_CERTIFICATE } from '../http/routes.ts'
import type { Endpoint, HttpService, OperationDocument, Route, ServiceFront } from '../http/routes.ts'
import { documentEndpoint, healthEndpoint, metricsEndpoint, standingRoutes } from '../http/standing-endpoints.ts'
import type { ReadinessParts } from '../http/standing-endpoints.ts'
import { JSON_TYPE } from '../http/text-answer.ts'
import { guardEndpoint, guardRoutes } from '../http/web-guard.ts'
import type { WebGuard } from '../http/web-guard.ts'
import { FORMAT_JSON, FORMAT_PROTOBUF, SIGNAL_LOG, SIGNAL_TRACE } from './batch-frame.ts'
import { REQUEST_ID_HEADER, REQUEST_ID_PREFIX, TENANT_HEADER } from './tenants/caller.ts'
import type { Metrics } from '../observability/metrics.ts'
import type { Ingest } from './ingest/ingest.ts'
import { ENCODINGS } from './ingest/messages.ts'
import type { QueryFront } from './query/query-front.ts'
import { QueryReply, QueryRequestBody } from './query/request.ts'
import { readRoutes } from './reads/read-routes.ts'
import type { ReadFronts } from './reads/read-routes.ts'
import { surveyRoutes } from './survey/routes.ts'
import { IngestReply, PROTOBUF_TYPE, RejectionReply, answerRefusal, refusalShape } from './replies.ts'
import type { RefusalShape } from './replies.ts'
import type { Lead } from './lead.ts'
import { jsonBatch, logStoreDocument } from './openapi.ts'
import { permanentRefusal, refusal } from './refusals.ts'

export interface LogStoreRouteParts {
  readonly ingest: Ingest
  readonly queries: QueryFront
  readonly reads: ReadFronts
  readonly endpointHelper: readonly Route[]
  /** Guards the routes that need no credentials. */
  readonly guard: WebGuard
  /** The routes of `logStoreStandingRoutes`. */
  readonly standing: readonly Route[]
  readonly metrics: Metrics
  readonly version: string
  /** Absent: there is no cluster. */
  readonly lead?: Lead
}

export const LOG_STORE_FRONT: ServiceFront = {
  name: 'logstore',
  requestIdHeader: REQUEST_ID_HEADER,
  ownRequestIds: 'visible',
  requestIdPrefix: REQUEST_ID_PREFIX,
  withoutCertificate: (_head, exchange) =>
    answerRefusal(exchange, refusal('missing_credentials', WITHOUT_CERTIFICATE), 'json'),
  malformed: (exchange, message) => answerRefusal(exchange, permanentRefusal('malformed_batch', message), 'json'),
  internalError: (exchange) =>
    answerRefusal(
      exchange,
      refusal('internal_error', 'the service failed to handle the request; its log says more'),
      'json',
    ),
}

/** Refuses a protobuf request in the form that its client reads. */
export const refuseUnopened = (head: RequestHead, exchange: Exchange, message: string): void =>
  answerRefusal(exchange, refusal('wal_unavailable', message), shapeFor(head))

const shapeFor = (head: RequestHead): RefusalShape =>
  refusalShape(head, mediaTypeOf(head.header('content-type')) === PROTOBUF_TYPE)

/** A node of a cluster that does not lead refuses what is asked of the log, before it reads a body. */
function ofLeader({ lead }: LogStoreRouteParts, routes: readonly Route[]): readonly Route[] {
  if (lead === undefined) return routes
  return routes.map((route) => {
    const { endpoint } = route
    const begin: Endpoint['begin'] = (head, exchange) => {
      const { refused } = lead
      if (refused === null) return endpoint.begin(head, exchange)
      answerRefusal(exchange, refused, shapeFor(head), lead.headers)
    }
    return { ...route, endpoint: { ...endpoint, begin } }
  })
}

/** Routes that answer before the store is open. */
export const logStoreStandingRoutes = (parts: ReadinessParts): readonly Route[] => [
  { method: 'GET', path: '/health', endpoint: healthEndpoint(parts.health, parts.cluster) },
  ...standingRoutes(parts),
]

export function logStoreService(parts: LogStoreRouteParts): HttpService {
  const routes = logStoreRoutes(parts)
  return {
    ...LOG_STORE_FRONT,
    routes,
    notFound: (_head, exchange) =>
      answerRefusal(exchange, permanentRefusal('not_found', 'there is no such route'), 'json'),
    methodNotAllowed: (_head, exchange, allow) => {
      const refused = permanentRefusal('method_not_allowed', `this route takes ${allow.join(', ')}`)
      answerRefusal(exchange, refused, 'json', [['allow', allow.join(', ')]])
    },
  }
}

function logStoreRoutes(parts: LogStoreRouteParts): readonly Route[] {
  const { ingest, queries, reads, endpointHelper, guard } = parts
  const ofLog: readonly Route[] = [
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
    ...readRoutes(reads),
    ...surveyRoutes(queries, forTenants, rejected),
    ...guardRoutes(guard, endpointHelper),
  ]
  const routes = [
    ...parts.standing,
    ...ofLeader(parts, ofLog),
    ...guardRoutes(guard, [
      { method: 'GET', path: '/metrics', endpoint: { ...metricsEndpoint(parts.metrics), document: metricsDocument } },
    ]),
  ]
  const document = documentEndpoint(() => logStoreDocument(parts.version, routes))
  return [...routes, { method: 'GET', path: '/openapi.json', endpoint: guardEndpoint(guard, document) }]
}

const rejected = { status: 'default', description: 'rejected', mediaType: JSON_TYPE, schema: RejectionReply } as const

const tenantHeader = { name: TENANT_HEADER, required: true, schema: { type: 'string', minLength: 1 } }
const encodingHeader = {
  name: 'content-encoding',
  required: false,
  schema: { type: 'string', enum: ENCODINGS, default: 'identity' },
}
const forTenants = { security: ['bearer'], headers: [tenantHeader] }
const forIngest = { security: ['bearer'], headers: [tenantHeader, encodingHeader] }

const jsonIngest = (what: 'logs' | 'traces'): OperationDocument => ({
  ...forIngest,
  summary: `Ingest OTLP JSON ${what}; answered when they are durable`,
  requestBody: { mediaTypes: [JSON_TYPE], schema: jsonBatch(what) },
  replies: [{ status: 200, description: 'stored', mediaType: JSON_TYPE, schema: IngestReply }, rejected],
})

const protobufIngest = (what: string): OperationDocument => ({
  ...forIngest,
  summary: `Ingest OTLP protobuf ${what}; answered when they are durable`,
  requestBody: { mediaTypes: [PROTOBUF_TYPE] },
  replies: [
    { status: 200, description: 'stored: an empty Export…ServiceResponse', mediaType: PROTOBUF_TYPE },
    { status: 'default', description: 'rejected: google.rpc.Status', mediaType: PROTOBUF_TYPE },
  ],
})

const queryDocument: OperationDocument = {
  ...forTenants,
  summary: 'Search retained records by dataset, record id, trace id and time',
  requestBody: { mediaTypes: [JSON_TYPE], schema: QueryRequestBody },
  replies: [{ status: 200, description: 'a page of records', mediaType: JSON_TYPE, schema: QueryReply }, rejected],
}

const metricsDocument: OperationDocument = {
  summary: 'Metrics, in the text format of Prometheus',
  replies: [{ status: 200, description: 'the metrics at present', mediaType: 'text/plain' }],
}
