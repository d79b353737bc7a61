/** Routes beside the gateway, which go before every bucket: health, capabilities, endpoint helper. They need no credentials. */
import type { Static } from 'typebox'
import { Type } from '../../schema.ts'
import type { EndpointHelper } from '../../endpoint-helper/endpoint-helper.ts'
import { endpointHelperRoutes } from '../../endpoint-helper/routes.ts'
import type { EndpointRefusal, EndpointService } from '../../http/endpoint.ts'
import { routesOfLeader } from '../../http/cluster.ts'
import type { ClusterView } from '../../http/cluster.ts'
import { healthEndpoint, standingRoutes } from '../../http/standing-endpoints.ts'
import type { ReadinessParts } from '../../http/standing-endpoints.ts'
import type { Endpoint, Route } from '../../http/routes.ts'
import { JSON_TYPE, answerLine, answerText } from '../../http/text-answer.ts'
import { guardRoutes } from '../../http/web-guard.ts'
import type { WebGuard } from '../../http/web-guard.ts'
import type { Logger } from '../../observability/logger.ts'

/** Where the service runs, and what its disk can do. */
const PlatformCapabilities = Type.Object({
  runtime: Type.String(),
  dataDirectory: Type.String(),
  freeSpace: Type.Integer({ description: 'bytes' }),
  device: Type.String(),
  atomicRename: Type.Boolean(),
  flushBehavior: Type.String(),
  directIo: Type.Boolean(),
})
type PlatformCapabilities = Static<typeof PlatformCapabilities>

export interface ManagementParts {
  readonly capabilities: () => PlatformCapabilities
  readonly helper: Pick<EndpointHelper, 'store' | 'newest' | 'newestFirst'>
  /** The routes of `objectStoreStandingRoutes`. */
  readonly standing: readonly Route[]
  /** Guards all routes but health and readiness, which load balancers ask for under any name. */
  readonly guard: WebGuard
  readonly logger: Pick<Logger, 'error'>
  /** Absent or null: the node is in no cluster. */
  readonly cluster?: (() => ClusterView) | null
}

/** Routes that answer before the store is open. */
export const objectStoreStandingRoutes = (parts: ReadinessParts): readonly Route[] => [
  { method: 'GET', path: '/health', endpoint: healthEndpoint(parts.health, parts.cluster) },
  ...standingRoutes(parts),
]

export const managementRoutes = (parts: ManagementParts): readonly Route[] => [
  ...parts.standing,
  ...guardRoutes(parts.guard, [
    { method: 'GET', path: '/v1/platform/capabilities', endpoint: capabilities(parts) },
    ...routesOfLeader(
      parts.cluster ?? null,
      endpointHelperRoutes({
        helper: parts.helper,
        recentPath: '/v1/endpoint/:activation_id/recent',
        service: endpointService(parts.logger),
      }),
    ),
  ]),
]

const capabilities = (parts: ManagementParts): Endpoint => ({
  document: {
    summary: 'The platform of the service, and what its disk guarantees',
    replies: [{ status: 200, description: 'as found', mediaType: JSON_TYPE, schema: PlatformCapabilities }],
  },
  begin: (_head, exchange) => answerLine(exchange, 200, JSON.stringify(parts.capabilities())),
})

const STATUSES: Readonly<Record<EndpointRefusal['reason'], number>> = {
  mediaType: 415,
  contentEncoding: 415,
  bodyTooLarge: 413,
  bodyTimedOut: 408,
  bodyMalformed: 400,
  bodyInvalid: 400,
}

const endpointService = (logger: ManagementParts['logger']): EndpointService => ({
  errorSchema: Type.String(),
  refuse: (exchange, { reason, message }) => answerText(exchange, STATUSES[reason], message),
  fail(exchange, error) {
    logger.error({ request_id: exchange.id, err: error }, 'request failed')
    answerText(exchange, 500, 'Nothing was stored: send the object again later')
  },
})
