/**
 * The HTTP surface of the broker: every route of the specification's "Endpoints", in its order, and our extensions.
 *
 * R1  a caller needs the permission of the row, because only that check gives an endpoint its caller. In `insecure-local` every caller has all
 *     permissions, and requests of foreign web pages are refused on all routes that are not public
 * R2  if requests need credentials, all paths except health and the standing routes check them first, also paths without a route. Each message
 *     of the streaming connection needs the permission of its route (../connection/session.ts C2)
 */
import assert from 'node:assert/strict'
import { leaderUrlOf } from '../../http/cluster.ts'
import type { ClusterView } from '../../http/cluster.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import { documentEndpoint } from '../../http/standing-endpoints.ts'
import type { Endpoint, HttpService, Method, Route, ServiceFront } from '../../http/routes.ts'
import { guardEndpoint } from '../../http/web-guard.ts'
import type { Permission } from '../grants.ts'
import { BrokerError, internalError, notLeading, refuse } from '../refusals.ts'
import { CONNECTION_PATH } from '../wire/connection-frames.ts'
import { denied } from '../denied.ts'
import { streamInPath } from './access.ts'
import type { CredentialHead, Identity } from './access.ts'
import { answerFailure, answerRefusal } from './answers.ts'
import { auditEvents, auditExport } from './audit.ts'
import { connection } from './connection.ts'
import {
  commitCursor,
  cursors,
  delayed,
  deleteCursor,
  deleteGroup,
  describeGroup,
  leases,
  listGroups,
  replayConsumers,
  rewindCursor,
  seekGroup,
} from './groups.ts'
import { health, metrics } from './node.ts'
import type { BrokerHttpParts, RouteParts } from './parts.ts'
import { ack, batchAck, claim, deadLetter, nack, renew, retry } from './queue.ts'
import { brokerDocument } from './openapi.ts'
import { legacyFetch, publish, publishBatch, replay } from './records.ts'
import { applyReplica, pauseWorker, pollWorkers, replicationStatus, resumeWorker } from './replication.ts'
import { acknowledgeQuarantine, archiveManifest, quarantine, retentionDryRun, tieringReadiness } from './storage.ts'
import {
  createStream,
  deleteStream,
  describeStream,
  listStreams,
  purgeStream,
  redrive,
  updateStream,
} from './streams.ts'

type BrokerRoute = readonly [method: Method, path: string, permission: Permission | 'public', endpoint: Endpoint]
type Row = readonly [
  method: Method,
  path: string,
  permission: Permission | 'public',
  make: (parts: RouteParts) => Endpoint,
]

/** Each node of a cluster serves its own metrics. */
const METRICS_PATH = '/metrics'
const GROUP = '/v1/streams/:stream/consumer-groups/:group'
const CURSOR = `${GROUP}/cursors/:cursor`
const DELIVERIES = '/v1/streams/:stream/subscriptions/:subscription/deliveries'
const DELIVERY = `${DELIVERIES}/:delivery`

// oxfmt-ignore
const ROWS: readonly Row[] = [
  // method, path, permission, endpoint
  ['GET',  '/health',                                           'public',            health],

  ['PUT',  '/v1/streams/:stream',                               'create_stream',     createStream],
  ['GET',  '/v1/streams',                                       'tenant.inspect',    listStreams],
  ['GET',  '/v1/streams/:stream',                               'stream.inspect',    describeStream],
  ['PATCH', '/v1/streams/:stream',                              'tenant.administer', updateStream],
  ['DELETE', '/v1/streams/:stream',                             'tenant.administer', deleteStream],
  ['POST', '/v1/streams/:stream/purge',                         'tenant.administer', purgeStream],
  ['POST', '/v1/streams/:stream/dead-letters/redrive',          'tenant.administer', redrive],
  ['POST', '/v1/streams/:stream/records',                       'stream.publish',    publish],
  ['POST', '/v1/streams/:stream/records/batch',                 'stream.publish',    publishBatch],
  ['GET',  '/v1/streams/:stream/records',                       'stream.consume',    replay],
  ['GET',  '/streams/:stream/records',                          'stream.consume',    legacyFetch],

  ['GET',  '/v1/streams/:stream/consumer-groups',               'stream.consume',    listGroups],
  ['DELETE', GROUP,                                             'tenant.administer', deleteGroup],
  ['POST', `${GROUP}/seek`,                                     'tenant.administer', seekGroup],
  ['DELETE', CURSOR,                                            'tenant.administer', deleteCursor],
  ['GET',  GROUP,                                               'stream.consume',    describeGroup],
  ['GET',  `${GROUP}/leases`,                                   'stream.consume',    leases],
  ['GET',  `${GROUP}/delayed`,                                  'stream.consume',    delayed],
  ['GET',  `${GROUP}/replay-consumers`,                         'stream.consume',    replayConsumers],
  ['GET',  `${GROUP}/cursors`,                                  'stream.consume',    cursors],
  ['PUT',  CURSOR,                                              'stream.ack',        commitCursor],
  ['POST', `${CURSOR}/rewind`,                                  'stream.ack',        rewindCursor],

  ['POST', `${GROUP}/claims`,                                   'stream.consume',    claim],
  ['POST', `${DELIVERY}/ack`,                                   'stream.consume',    ack],
  ['POST', `${DELIVERIES}/batch-ack`,                           'stream.consume',    batchAck],
  ['POST', `${DELIVERY}/nack`,                                  'stream.consume',    nack],
  ['POST', `${DELIVERY}/renew`,                                 'stream.consume',    renew],
  ['POST', `${DELIVERY}/retry`,                                 'stream.consume',    retry],
  ['POST', `${DELIVERY}/dead-letter`,                           'stream.consume',    deadLetter],

  ['GET',  '/v1/replication/status',                            'tenant.inspect',    replicationStatus],
  ['POST', '/v1/replication/workers/poll',                      'tenant.administer', pollWorkers],
  ['POST', '/v1/replication/workers/pause',                     'tenant.administer', pauseWorker],
  ['POST', '/v1/replication/workers/resume',                    'tenant.administer', resumeWorker],
  ['POST', '/v1/replication/target/apply',                      'tenant.administer', applyReplica],

  ['GET',  '/v1/audit/events',                                  'tenant.administer', auditEvents],
  ['GET',  '/v1/audit/export',                                  'tenant.administer', auditExport],
  ['GET',  METRICS_PATH,                                        'tenant.inspect',    metrics],
  ['GET',  '/streams/:stream/retention/dry-run',                'stream.inspect',    retentionDryRun],
  ['GET',  '/streams/:stream/tiering/readiness',                'stream.inspect',    tieringReadiness],
  ['GET',  '/streams/:stream/tiering/archive-manifest',         'stream.inspect',    archiveManifest],
  ['GET',  '/streams/:stream/quarantine',                       'stream.inspect',    quarantine],
  ['POST', '/streams/:stream/quarantine/:incident/acknowledge', 'tenant.administer', acknowledgeQuarantine],
]

export const brokerRoutes = (parts: BrokerHttpParts): readonly BrokerRoute[] =>
  ROWS.map(([method, path, permission, make]) => [method, path, permission, make(partsOf(parts, path, permission))])

/** R1 */
function partsOf(parts: BrokerHttpParts, path: string, permission: Permission | 'public'): RouteParts {
  const isOfStream = path.includes('/:stream')
  const demanded = (identity: Identity, permission: Permission, stream: string | null): void => {
    if (identity.grants.allow(permission, stream)) return
    const refused = denied(permission)
    parts.onRefused(identity, refused, stream)
    throw refused
  }
  return {
    ...parts,
    admit(head, exchange) {
      assert(permission !== 'public', 'a public route has no caller')
      const identity = identify(parts, head, exchange)
      exchange.tenant = identity.tenant
      exchange.principal = identity.principal
      demanded(identity, permission, isOfStream ? streamInPath(head) : null)
      return identity
    },
    demand: demanded,
  }
}

function identify(
  { access, onUnidentified }: BrokerHttpParts,
  head: CredentialHead,
  exchange: Pick<Exchange, 'remoteAddress' | 'clientCertificate'>,
): Identity {
  try {
    return access.identify(head, exchange)
  } catch (error) {
    if (error instanceof BrokerError) onUnidentified(error, exchange.remoteAddress)
    throw error
  }
}

export function brokerService(parts: BrokerHttpParts): HttpService {
  const { guard } = parts
  const guardedAgainstPages = (endpoint: Endpoint): Endpoint =>
    guard === null
      ? endpoint
      : guardEndpoint(guard, endpoint, (exchange, problem) => answerRefusal(parts, exchange, foreignPage(problem)))
  const kept = (endpoint: Endpoint): Endpoint =>
    guardedAgainstPages(parts.cluster ? ofLeader(parts, parts.cluster, endpoint) : endpoint)
  /** R2 */
  const isIdentified = (head: RequestHead, exchange: Exchange): boolean => {
    try {
      identify(parts, head, exchange)
      return true
    } catch (error) {
      answerFailure(parts, exchange, error)
      return false
    }
  }
  const identified = (endpoint: Endpoint): Endpoint => ({
    ...endpoint,
    begin: (head, exchange) => isIdentified(head, exchange) && endpoint.begin(head, exchange),
  })
  const routes = brokerRoutes(parts).map(([method, path, permission, endpoint]): Route => ({
    method,
    path,
    endpoint:
      permission === 'public' ? endpoint : path === METRICS_PATH ? guardedAgainstPages(endpoint) : kept(endpoint),
  }))
  const streaming = connection(parts, (head, exchange) => identify(parts, head, exchange))
  routes.push({ method: 'GET', path: CONNECTION_PATH, endpoint: kept(streaming) })
  routes.push(...parts.standing)
  const openApi = kept(identified(documentEndpoint(() => brokerDocument(parts.node.version, routes))))
  return {
    ...brokerFront(parts),
    routes: [...routes, { method: 'GET', path: '/openapi.json', endpoint: openApi }],
    notFound(head, exchange) {
      if (isIdentified(head, exchange)) answerRefusal(parts, exchange, refuse('not_found', 'there is no such route'))
    },
    methodNotAllowed(head, exchange, allow) {
      if (!isIdentified(head, exchange)) return
      const refused = refuse('method_not_allowed', `this route takes ${allow.join(', ')}`)
      answerRefusal(parts, exchange, refused, [['allow', allow.join(', ')]])
    },
  }
}

/** The same endpoint, which only the leader of the cluster serves; the other nodes refuse. */
function ofLeader(parts: BrokerHttpParts, view: () => ClusterView, endpoint: Endpoint): Endpoint {
  const { webSocket } = endpoint
  const refuseUnlessLeading = (exchange: Exchange): boolean => {
    const cluster = view()
    if (cluster.leads) return false
    answerRefusal(parts, exchange, notLeading(leaderUrlOf(cluster)))
    return true
  }
  return {
    ...endpoint,
    begin: (head, exchange) => refuseUnlessLeading(exchange) || endpoint.begin(head, exchange),
    ...(webSocket && {
      webSocket: {
        ...webSocket,
        accept: (head, exchange) => (refuseUnlessLeading(exchange) ? null : webSocket.accept(head, exchange)),
      },
    }),
  }
}

export const brokerFront = (parts: Pick<BrokerHttpParts, 'counters'>): ServiceFront => ({
  name: 'broker',
  requestIdHeader: 'x-request-id',
  ownRequestIds: 'visible',
  requestIdPrefix: 'req-',
  malformed: (exchange, message) => answerRefusal(parts, exchange, refuse('invalid_request', message)),
  internalError: (exchange) => answerRefusal(parts, exchange, internalError()),
})

/** Refuses requests before the broker is open. */
export const refuseUnopened =
  (parts: Pick<BrokerHttpParts, 'counters'>) =>
  (_head: RequestHead, exchange: Exchange, message: string): void =>
    answerRefusal(parts, exchange, refuse('node_recovering', message))

const foreignPage = (problem: string): BrokerError =>
  refuse('authorization_denied', problem, { action: 'Use the address of the node, or change TRILOG_ALLOWED_HOSTS.' })
