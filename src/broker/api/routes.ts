/**
 * The HTTP surface of the broker: every route of the specification's "Endpoints", in its order, and our extensions.
 *
 * The permission is what a caller needs in the authenticated modes. `insecure-local`, the one mode so far, grants them all, and keeps web pages
 * away from everything that is not public.
 */
import { openApiDocument } from '../../http/openapi.ts'
import { documentEndpoint, readyEndpoint } from '../../http/standing-endpoints.ts'
import type { Endpoint, HttpService, Method, Route } from '../../http/routes.ts'
import { guarded } from '../../http/web-guard.ts'
import { internalError, refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import { answerRefusal } from './answers.ts'
import { auditEvents, auditExport } from './audit.ts'
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
import type { BrokerHttpParts } from './parts.ts'
import { ack, batchAck, claim, deadLetter, nack, renew, retry } from './queue.ts'
import { legacyFetch, publish, publishBatch, replay } from './records.ts'
import { applyReplica, pauseWorker, pollWorkers, replicationStatus, resumeWorker } from './replication.ts'
import { PATH_PARAMETERS } from './request.ts'
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

type Permission =
  | 'public'
  | 'tenant.administer'
  | 'tenant.inspect'
  | 'create_stream'
  | 'stream.inspect'
  | 'stream.publish'
  | 'stream.consume'
  | 'stream.ack'

type BrokerRoute = readonly [method: Method, path: string, permission: Permission, endpoint: Endpoint]

const GROUP = '/v1/streams/:stream/consumer-groups/:group'
const CURSOR = `${GROUP}/cursors/:cursor`
const DELIVERIES = '/v1/streams/:stream/subscriptions/:subscription/deliveries'
const DELIVERY = `${DELIVERIES}/:delivery`

// oxfmt-ignore
export const brokerRoutes = (parts: BrokerHttpParts): readonly BrokerRoute[] => [
  // method, path, permission, endpoint
  ['GET',  '/health',                                           'public',            health(parts)],

  ['PUT',  '/v1/streams/:stream',                               'create_stream',     createStream(parts)],
  ['GET',  '/v1/streams',                                       'tenant.inspect',    listStreams(parts)],
  ['GET',  '/v1/streams/:stream',                               'stream.inspect',    describeStream(parts)],
  ['PATCH', '/v1/streams/:stream',                              'tenant.administer', updateStream(parts)],
  ['DELETE', '/v1/streams/:stream',                             'tenant.administer', deleteStream(parts)],
  ['POST', '/v1/streams/:stream/purge',                         'tenant.administer', purgeStream(parts)],
  ['POST', '/v1/streams/:stream/dead-letters/redrive',          'tenant.administer', redrive(parts)],
  ['POST', '/v1/streams/:stream/records',                       'stream.publish',    publish(parts)],
  ['POST', '/v1/streams/:stream/records/batch',                 'stream.publish',    publishBatch(parts)],
  ['GET',  '/v1/streams/:stream/records',                       'stream.consume',    replay(parts)],
  ['GET',  '/streams/:stream/records',                          'stream.consume',    legacyFetch(parts)],

  ['GET',  '/v1/streams/:stream/consumer-groups',               'stream.consume',    listGroups(parts)],
  ['DELETE', GROUP,                                             'tenant.administer', deleteGroup(parts)],
  ['POST', `${GROUP}/seek`,                                     'tenant.administer', seekGroup(parts)],
  ['DELETE', CURSOR,                                            'tenant.administer', deleteCursor(parts)],
  ['GET',  GROUP,                                               'stream.consume',    describeGroup(parts)],
  ['GET',  `${GROUP}/leases`,                                   'stream.consume',    leases(parts)],
  ['GET',  `${GROUP}/delayed`,                                  'stream.consume',    delayed(parts)],
  ['GET',  `${GROUP}/replay-consumers`,                         'stream.consume',    replayConsumers(parts)],
  ['GET',  `${GROUP}/cursors`,                                  'stream.consume',    cursors(parts)],
  ['PUT',  CURSOR,                                              'stream.ack',        commitCursor(parts)],
  ['POST', `${CURSOR}/rewind`,                                  'stream.ack',        rewindCursor(parts)],

  ['POST', `${GROUP}/claims`,                                   'stream.consume',    claim(parts)],
  ['POST', `${DELIVERY}/ack`,                                   'stream.consume',    ack(parts)],
  ['POST', `${DELIVERIES}/batch-ack`,                           'stream.consume',    batchAck(parts)],
  ['POST', `${DELIVERY}/nack`,                                  'stream.consume',    nack(parts)],
  ['POST', `${DELIVERY}/renew`,                                 'stream.consume',    renew(parts)],
  ['POST', `${DELIVERY}/retry`,                                 'stream.consume',    retry(parts)],
  ['POST', `${DELIVERY}/dead-letter`,                           'stream.consume',    deadLetter(parts)],

  ['GET',  '/v1/replication/status',                            'tenant.inspect',    replicationStatus(parts)],
  ['POST', '/v1/replication/workers/poll',                      'tenant.administer', pollWorkers(parts)],
  ['POST', '/v1/replication/workers/pause',                     'tenant.administer', pauseWorker(parts)],
  ['POST', '/v1/replication/workers/resume',                    'tenant.administer', resumeWorker(parts)],
  ['POST', '/v1/replication/target/apply',                      'tenant.administer', applyReplica(parts)],

  ['GET',  '/v1/audit/events',                                  'tenant.administer', auditEvents(parts)],
  ['GET',  '/v1/audit/export',                                  'tenant.administer', auditExport(parts)],
  ['GET',  '/metrics',                                          'tenant.inspect',    metrics(parts)],
  ['GET',  '/streams/:stream/retention/dry-run',                'stream.inspect',    retentionDryRun(parts)],
  ['GET',  '/streams/:stream/tiering/readiness',                'stream.inspect',    tieringReadiness(parts)],
  ['GET',  '/streams/:stream/tiering/archive-manifest',         'stream.inspect',    archiveManifest(parts)],
  ['GET',  '/streams/:stream/quarantine',                       'stream.inspect',    quarantine(parts)],
  ['POST', '/streams/:stream/quarantine/:incident/acknowledge', 'tenant.administer', acknowledgeQuarantine(parts)],
]

export function brokerService(parts: BrokerHttpParts): HttpService {
  const { guard } = parts
  const kept = (endpoint: Endpoint): Endpoint =>
    guard === null
      ? endpoint
      : guarded(guard, endpoint, (exchange, problem) => answerRefusal(parts, exchange, foreignPage(problem)))
  const routes = brokerRoutes(parts).map(([method, path, permission, endpoint]): Route => ({
    method,
    path,
    endpoint: permission === 'public' ? endpoint : kept(endpoint),
  }))
  routes.push({ method: 'GET', path: '/readyz', endpoint: readyEndpoint(parts.health) })
  const document = openApiDocument({ title: 'trilog broker', version: parts.node.version }, routes, {
    pathParameters: PATH_PARAMETERS,
  })
  return {
    name: 'broker',
    requestIdHeader: 'x-request-id',
    ownRequestIds: 'visible',
    requestIdPrefix: 'req-',
    routes: [...routes, { method: 'GET', path: '/openapi.json', endpoint: kept(documentEndpoint(document)) }],
    notFound: (_head, exchange) => answerRefusal(parts, exchange, refuse('not_found', 'there is no such route')),
    methodNotAllowed: (_head, exchange, allow) => {
      const refused = refuse('method_not_allowed', `this route takes ${allow.join(', ')}`)
      answerRefusal(parts, exchange, refused, [['allow', allow.join(', ')]])
    },
    malformed: (exchange, message) => answerRefusal(parts, exchange, refuse('invalid_request', message)),
    internalError: (exchange) => answerRefusal(parts, exchange, internalError()),
  }
}

const foreignPage = (problem: string): BrokerError =>
  refuse('authorization_denied', problem, { action: 'Use the address of the node, or change TRILOG_ALLOWED_HOSTS.' })
