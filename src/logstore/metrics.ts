/** The log store's metrics. Everything is read when /metrics is asked for. */
import { ACCEPT_PAUSES_HELP } from '../http/accept-gate.ts'
import type { AcceptGate } from '../http/accept-gate.ts'
import type { Log } from '../log/log.ts'
import type { Health } from '../observability/health.ts'
import { Metrics } from '../observability/metrics.ts'
import type { ReadErrors } from '../observability/read-errors.ts'
import type { Arena } from '../pipeline/arena.ts'
import type { BucketStore } from './bucket/bucket-store.ts'
import type { IngestCounters, QueryCounters } from './counters.ts'
import type { GatewayBudget } from './ingest/gateway-budget.ts'
import type { Ingest } from './ingest/ingest.ts'
import type { SegmentRegistry } from './index/segment-registry.ts'
import type { Sidecars } from './index/sidecars.ts'

export interface MetricSources {
  readonly log: Log
  readonly counters: IngestCounters
  readonly queryCounters: QueryCounters
  readonly gateway: GatewayBudget
  readonly ingest: Ingest
  readonly registry: SegmentRegistry
  readonly sidecars: Sidecars
  readonly arena: Arena
  /** That queries are answered from. */
  readonly bucket: Pick<BucketStore, 'bundles' | 'requests' | 'bytesRead' | 'failures'> | null
  readonly acceptGate: AcceptGate
  readonly health: Pick<Health, 'degradations'>
  readonly readErrors: ReadErrors
}

export function logStoreMetrics(sources: MetricSources): Metrics {
  const { log, counters, queryCounters, gateway, ingest, registry, sidecars, arena, acceptGate, health, readErrors } =
    sources
  const metrics = new Metrics()
  const counter = (name: string, help: string, read: () => number): void =>
    metrics.counter({ name: `logstore_${name}`, help }, read)
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.gauge({ name: `logstore_${name}`, help }, read)

  counter('ingest_batches_total', 'Batches acknowledged', () => counters.acceptedBatches)
  counter('ingest_records_total', 'Records acknowledged', () => counters.acceptedRecords)
  counter('ingest_bytes_total', 'Decompressed bytes acknowledged', () => counters.acceptedBytes)
  counter(
    'ingest_collapsed_records_total',
    'Acknowledged records whose id was stored before: kept once',
    () => counters.collapsedRecords,
  )
  counter(
    'ingest_rejected_records_total',
    'Malformed records dropped from acknowledged batches, and told as partial success',
    () => counters.rejectedRecords,
  )
  metrics.counterBy(
    { name: 'logstore_ingest_refusals_total', help: 'Ingest requests refused' },
    'kind',
    () => counters.refusals,
  )
  counter('queries_total', 'Queries answered', () => queryCounters.answeredQueries)
  counter(
    'query_seconds_total',
    'Time from the headers of a query to its answer',
    () => queryCounters.answeredMs / 1000,
  )
  metrics.counterBy(
    { name: 'logstore_query_refusals_total', help: 'Queries refused' },
    'kind',
    () => queryCounters.refusals,
  )
  gauge('gateway_requests_in_flight', 'Ingest requests in flight', () => ingest.requestsInFlight)
  gauge('gateway_records_in_flight', 'Records between decode and answer', () => gateway.recordsInFlight)
  gauge('gateway_bytes_in_flight', 'Decompressed bytes between decode and answer', () => gateway.bytesInFlight)
  counter('accept_pauses_total', ACCEPT_PAUSES_HELP, () => acceptGate.pauses)
  gauge('body_space_used_bytes', 'Space held by request bodies', () => arena.usedBytes)
  counter('wal_groups_total', 'Group commits', () => log.counters().groups)
  counter('wal_syncs_total', 'fdatasync calls of the journal', () => log.counters().syncs)
  counter('wal_bytes_total', 'Bytes written by the journal', () => log.counters().bytes)
  counter('wal_sync_seconds_total', 'Time spent in fdatasync', () => log.counters().syncNanoseconds / 1e9)
  gauge('wal_committed_position', 'Everything below is durable', () => log.committed)
  gauge('wal_read_only', '1 when nothing is accepted after a failed write', () =>
    log.state.kind === 'read-only' ? 1 : 0,
  )
  gauge('wal_room_bytes', 'Bytes that new work may still take; 0: the disk is full, or the log is read-only', () =>
    log.roomFor('admit'),
  )
  gauge('bundles', 'Sealed bundles', () => registry.bundles.length)
  gauge('sidecars_pending', 'Sealed segments whose sidecar is being built', () => sidecars.pending)
  gauge('quarantine_incidents', 'Damaged ranges found in the log', () => log.incidents.length)
  gauge('wal_replicas_lost', 'Replica directories that are not written to any more', () => log.lostReplicas.length)
  gauge(
    'degraded',
    'Kinds of trouble that the store works in spite of: /readyz names them',
    () => health.degradations().length,
  )
  counter('read_errors_total', 'Reads of stored data that the disk failed', () => readErrors.count)
  const { bucket } = sources
  if (bucket !== null) {
    gauge('query_s3_bundles', 'Bundles in the bucket that queries read', () => bucket.bundles)
    counter('query_s3_requests_total', 'Requests to the object store', () => bucket.requests)
    counter('query_s3_bytes_total', 'Bytes read from the bucket', () => bucket.bytesRead)
    counter('query_s3_failures_total', 'Reads of the bucket that failed for good', () => bucket.failures)
  }
  return metrics
}
