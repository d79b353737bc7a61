/** What a service of the process is given, and what it is while it is open. */
import type { ClusterSettings } from './config/cluster.ts'
import type { AcceptGate } from './http/accept-gate.ts'
import type { ClusterView } from './http/cluster.ts'
import type { RequestWatch } from './http/request-watch.ts'
import type { Closable } from './lifecycle.ts'
import type { AuditLog } from './observability/audit-log.ts'
import type { Logger } from './observability/logger.ts'
import type { ProcessMetrics } from './observability/process-metrics.ts'
import type { BeginSpan } from './spans.ts'

export interface ServiceDependencies {
  readonly logger: Logger
  readonly random: (bytes: Uint8Array) => void
  readonly version: string
  /** The gate of the process. */
  readonly acceptGate: AcceptGate
  readonly processMetrics: ProcessMetrics
  /** How many datasets, buckets, or consumer groups of a tenant may have series of their own. */
  readonly metricsSeriesMax: number
  /** Resolves when the event loop had its turn; tests hold a start with it. */
  readonly turn?: () => Promise<void>
  /** Follows single requests; absent or null: tracing and the access log are off. */
  readonly watch?: RequestWatch | null
  /** Shows how long work for a request takes. Absent or null: tracing is off. */
  readonly beginSpan?: BeginSpan | null
  /** Absent: there is no audit log. */
  readonly audit?: AuditLog
  /** Absent or null: the log is in no cluster. */
  readonly cluster?: ClusterSettings | null
}

export interface OpenService extends Closable {
  /** host:port of the listener. */
  readonly http: string
  /** The listeners speak TLS. */
  readonly isSecure: boolean
  /** Reads again the files that its settings name, and which incidents are acknowledged. A fault in a file is logged, and changes nothing. */
  reload(): void
  /** Reports that it is not ready, and goes on serving. */
  drain(): void
  /** Null: it is in no cluster. */
  readonly cluster: { readonly view: () => ClusterView; handOver(to: string | null): void } | null
}
