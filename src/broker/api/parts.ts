/** The parts from which the routes are made. */
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
  /** Absent or null: the node is in no cluster. */
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
  /** Called when a caller is refused because it lacks a permission. */
  readonly onRefused: (identity: Identity, refused: BrokerError, stream: string | null) => void
  /** Called when a request brings no credentials, or unknown ones, with the address of its connection. */
  readonly onUnidentified: (refused: BrokerError, remoteAddress: string) => void
  /** For nodes whose requests need no credentials; null: they need them. */
  readonly guard: WebGuard | null
  /** Resolves when other work had its turn on the main thread. */
  readonly turn: () => Promise<void>
  readonly logger: Pick<Logger, 'error'>
}

/** What the handler of one route gets. */
export interface RouteParts extends BrokerHttpParts {
  /** Returns the caller, if it has the permission of the route. @throws BrokerError */
  readonly admit: (head: RequestHead, exchange: Exchange) => Identity
  /** Checks a further permission that the body calls for. @throws BrokerError authorization_denied */
  readonly demand: (identity: Identity, permission: Permission, stream: string) => void
}

/** What a node says about itself in its health. */
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
