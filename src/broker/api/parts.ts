/** What the routes are made of. */
import type { ClusterView } from '../../http/cluster.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import type { ServiceHealth } from '../../http/standing-endpoints.ts'
import type { Route } from '../../http/routes.ts'
import type { WebGuard } from '../../http/web-guard.ts'
import type { Logger } from '../../observability/logger.ts'
import type { BrokerCounters } from '../counters.ts'
import type { BrokerMetrics } from '../metrics.ts'
import type { Connections } from '../connection/connections.ts'
import type { Permission } from '../grants.ts'
import type { BrokerOperations } from '../operations.ts'
import type { UnreadAnswers } from '../records/unread-answers.ts'
import type { BrokerError } from '../refusals.ts'
import type { Access, Identity } from './access.ts'

export interface BrokerHttpParts {
  readonly operations: BrokerOperations
  readonly node: NodeIdentity
  readonly storage: () => StorageHealth
  readonly health: ServiceHealth
  /** Without one the node is alone. */
  readonly cluster?: (() => ClusterView) | null
  /** Routes that answer before the broker is open. */
  readonly standing: readonly Route[]
  readonly clock: () => ClockHealth
  /** Null: not exposed. */
  readonly metrics: Pick<BrokerMetrics, 'contentType' | 'text'> | null
  /** Refused requests are counted here. */
  readonly counters: Pick<BrokerCounters, 'refused'>
  /** Long answers that their clients have not read yet. */
  readonly unread: Pick<UnreadAnswers, 'hold'>
  /** Longest body of a publish. */
  readonly maxBodyBytes: number
  readonly access: Access
  readonly connections: Connections
  /** Hears of callers that were refused for want of a permission. */
  readonly onRefused: (identity: Identity, refused: BrokerError, stream: string | null) => void
  /** Called when a request brings no credentials, or unknown ones, with the address of its connection. */
  readonly onUnidentified: (refused: BrokerError, remoteAddress: string) => void
  /** Where requests need no credentials; null: they do. */
  readonly guard: WebGuard | null
  /** Resolves when others had their turn of main. */
  readonly turn: () => Promise<void>
  readonly logger: Pick<Logger, 'error'>
}

/** What the handler of one route gets. */
export interface RouteParts extends BrokerHttpParts {
  /** The caller, when it may do what the route needs. @throws BrokerError */
  readonly admit: (head: RequestHead, exchange: Exchange) => Identity
  /** What a body asks for besides. @throws BrokerError authorization_denied */
  readonly demand: (identity: Identity, permission: Permission, stream: string) => void
}

/** What a node says of itself in its health. */
interface NodeIdentity {
  readonly nodeId: string
  readonly version: string
  readonly httpBind: () => string
  readonly authMode: string
  readonly metricsExposure: 'http' | 'disabled'
}

export interface ClockHealth {
  /** How far broker time is ahead of the wall clock. */
  readonly offset_ms: number
  readonly message?: string
}

export interface StorageHealth {
  readonly status: 'ok' | 'degraded' | 'read-only'
  /** What is wrong. */
  readonly message?: string
}
