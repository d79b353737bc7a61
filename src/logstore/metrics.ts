/** The log store's metrics. Everything is read when /metrics is asked for. */
import { ACCEPT_PAUSES_HELP } from '../http/accept-gate.ts'
import type { AcceptGate } from '../http/accept-gate.ts'
import type { Log } from '../log/log.ts'
import { bytesIn } from '../log/segment-list.ts'
import type { Health } from '../observability/health.ts'
import { Metrics, restOf } from '../observability/metrics.ts'
import type { Labels } from '../observability/metrics.ts'
import type { ProcessMetrics } from '../observability/process-metrics.ts'
import type { ReadErrors } from '../observability/read-errors.ts'
import type { RequestMetrics } from '../observability/request-metrics.ts'
import type { Arena } from '../pipeline/arena.ts'
import type { BucketStore } from './bucket/bucket-store.ts'
import type { Compactor } from './compact/compactor.ts'
import type { IngestCounters, QueryCounters } from './counters.ts'
import type { DatasetCount, DatasetCounts } from './ingest/dataset-counts.ts'
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
  /** Null: bundles are not compacted. */
  readonly compactor: Pick<
    Compactor,
    'debtBytes' | 'bundles' | 'bytesBefore' | 'bytesAfter' | 'failures' | 'merging' | 'trimmer'
  > | null
  /** The bucket that queries are answered from. */
  readonly bucket: Pick<BucketStore, 'bundles' | 'requests' | 'bytesRead' | 'failures'> | null
  readonly acceptGate: AcceptGate
  readonly health: Pick<Health, 'degradations'>
  readonly readErrors: ReadErrors
  readonly datasets: Pick<DatasetCounts, 'all'>
  readonly requests: Pick<RequestMetrics, 'register'>
  readonly processMetrics: Pick<ProcessMetrics, 'register'>
}

export function logStoreMetrics(sources: MetricSources): Metrics {
  const { log, counters, queryCounters, gateway, ingest, registry, sidecars, arena, acceptGate, health, readErrors } =
    sources
  const { datasets, requests, processMetrics } = sources
  const metrics = new Metrics()
  const counter = (name: string, help: string, read: () => number): void =>
    metrics.counter({ name: `logstore_${name}`, help }, read)
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.gauge({ name: `logstore_${name}`, help }, read)

  counter('ingest_batches', 'Batches acknowledged', () => counters.acceptedBatches)
  counter('ingest_records', 'Records acknowledged', () => counters.acceptedRecords)
  counter('ingest_bytes', 'Decompressed bytes acknowledged', () => counters.acceptedBytes)
  counter(
    'ingest_collapsed_records',
    'Acknowledged records whose id was stored before: kept once',
    () => counters.collapsedRecords,
  )
  counter(
    'ingest_rejected_records',
    'Malformed records dropped from acknowledged batches, and reported as partial success',
    () => counters.rejectedRecords,
  )
  metrics.counterBy(
    { name: 'logstore_ingest_refusals', help: 'Ingest requests refused' },
    'kind',
    () => counters.refusals,
  )
  counter('queries', 'Queries answered', () => queryCounters.answeredQueries)
  counter('query_seconds', 'Time from the headers of a query to its answer', () => queryCounters.answeredMs / 1000)
  metrics.counterBy({ name: 'logstore_query_refusals', help: 'Queries refused' }, 'kind', () => queryCounters.refusals)
  gauge('gateway_requests_in_flight', 'Ingest requests in flight', () => ingest.requestsInFlight)
  gauge('gateway_records_in_flight', 'Records between decode and answer', () => gateway.recordsInFlight)
  gauge('gateway_bytes_in_flight', 'Decompressed bytes between decode and answer', () => gateway.bytesInFlight)
  counter('accept_pauses', ACCEPT_PAUSES_HELP, () => acceptGate.pauses)
  gauge('body_space_used_bytes', 'Space held by request bodies', () => arena.usedBytes)
  counter('wal_groups', 'Group commits', () => log.counters().groups)
  counter('wal_syncs', 'fdatasync calls of the journal', () => log.counters().syncs)
  counter('wal_bytes', 'Bytes written by the journal', () => log.counters().bytes)
  counter('wal_sync_seconds', 'Time spent in fdatasync', () => log.counters().syncNanoseconds / 1e9)
  gauge('wal_size_bytes', 'Bytes of the log', () => bytesIn(log.segments))
  gauge('wal_committed_position', 'Position in the log below which everything is durable', () => log.committed)
  gauge('wal_read_only', '1 when the log failed and accepts nothing until a restart', () =>
    log.state.kind === 'read-only' ? 1 : 0,
  )
  gauge(
    'wal_room_bytes',
    'Bytes that new changes may still take on the disk; 0: the disk is full, or the log is read-only',
    () => log.roomFor('admit'),
  )
  gauge('bundles', 'Sealed bundles', () => registry.bundles.length)
  gauge('sidecars_pending', 'Sealed segments whose sidecar is being built', () => sidecars.pending)
  const { compactor } = sources
  if (compactor !== null) {
    gauge('compaction_debt_bytes', 'Bytes of bundles that are still to be compacted', () => compactor.debtBytes)
    counter('compacted_bundles', 'Bundles compacted since the start', () => compactor.bundles)
    counter(
      'compaction_bytes_before',
      'Bytes of the files of compacted bundles before compaction',
      () => compactor.bytesBefore,
    )
    counter(
      'compaction_bytes_after',
      'Bytes of the files of compacted bundles after compaction',
      () => compactor.bytesAfter,
    )
    counter('compaction_failures', 'Failed attempts to compact a bundle', () => compactor.failures)
    const { merging, trimmer } = compactor
    counter('trimmed_bundles', 'Bundles written again without expired records', () => trimmer.bundles)
    counter(
      'trim_bytes_before',
      'Bytes of the files of trimmed bundles before expired records were removed',
      () => trimmer.bytesBefore,
    )
    counter(
      'trim_bytes_after',
      'Bytes of the files of trimmed bundles after expired records were removed',
      () => trimmer.bytesAfter,
    )
    counter('trim_failures', 'Failed attempts to write a bundle again without expired records', () => trimmer.failures)
    if (merging !== null) {
      gauge('merge_debt_bytes', 'Bytes of the log in bundles that are still to be merged', () => merging.debtBytes)
      counter('merges', 'Merges of neighbouring bundles into one since the start', () => merging.merges)
      counter('merged_bundles', 'How many fewer bundles there are because of merges', () => merging.bundles)
      counter('merge_bytes_before', 'Bytes of the files of merged bundles before the merge', () => merging.bytesBefore)
      counter('merge_bytes_after', 'Bytes of the files of merged bundles after the merge', () => merging.bytesAfter)
      counter('merge_failures', 'Failed attempts to merge bundles', () => merging.failures)
    }
  }
  gauge('quarantine_incidents', 'Damaged ranges found in the log', () => log.incidents.length)
  gauge('wal_replicas_lost', 'Replica directories that are not written to any more', () => log.lostReplicas.length)
  gauge(
    'degraded',
    'Problems at present that do not stop the store: /readyz names them',
    () => health.degradations().length,
  )
  counter('read_errors', 'Reads of stored data that failed on the disk', () => readErrors.count)
  const ofDatasets = (name: string, help: string, read: (count: DatasetCount) => number): void =>
    metrics.counters({ name: `logstore_dataset_${name}`, help }, () =>
      datasets.all().map((count) => [labelsOf(count), read(count)]),
    )
  ofDatasets('records', 'Records accepted, by tenant and dataset', ({ records }) => records)
  ofDatasets('bytes', 'Decompressed bytes accepted, by tenant and dataset', ({ bytes }) => bytes)
  metrics.histograms(
    {
      name: 'logstore_query_duration_seconds',
      help: 'Time from the headers of a query to its answer, by what it looks for',
    },
    () => Object.entries(queryCounters.seconds).map(([kind, histogram]) => [{ kind }, histogram]),
  )
  metrics.histograms(
    { name: 'logstore_wal_sync_duration_seconds', help: 'Time of one fdatasync, by directory; 0: the data directory' },
    () => log.syncSeconds.map((histogram, i) => [{ directory: String(i) }, histogram]),
  )
  requests.register(metrics, 'logstore')
  processMetrics.register(metrics)
  if (sources.bucket !== null) registerBucket(metrics, sources.bucket)
  return metrics
}

export function registerBucket(metrics: Metrics, bucket: NonNullable<MetricSources['bucket']>): void {
  const named = (name: string, help: string) => ({ name: `logstore_query_s3_${name}`, help })
  metrics.gauge(named('bundles', 'Bundles in the bucket that queries read'), () => bucket.bundles)
  metrics.counter(named('requests', 'Requests to the object store'), () => bucket.requests)
  metrics.counter(named('bytes', 'Bytes read from the bucket'), () => bucket.bytesRead)
  metrics.counter(named('failures', 'Reads of the bucket that failed for good'), () => bucket.failures)
}

const labelsOf = ({ name }: DatasetCount): Labels =>
  name === null ? restOf('tenant', 'dataset') : { tenant: name[0], dataset: name[1] }
