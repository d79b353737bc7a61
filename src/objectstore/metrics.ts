/** The object store's metrics in Prometheus' text format. */
import { ACCEPT_PAUSES_HELP } from '../http/accept-gate.ts'
import type { Log } from '../log/log.ts'
import { bytesIn } from '../log/segment-list.ts'
import { Metrics, restOf } from '../observability/metrics.ts'
import type { Labels } from '../observability/metrics.ts'
import type { ProcessMetrics } from '../observability/process-metrics.ts'
import type { RequestMetrics } from '../observability/request-metrics.ts'
import type { StoreCounters } from './counters.ts'
import type { Bucket } from './operations.ts'

type Gauge =
  | 'buckets'
  | 'uploads'
  | 'liveBytes'
  | 'indexBytes'
  | 'arenaBytes'
  | 'readCacheBytes'
  | 'objectCacheBytes'
  | 'acceptPauses'
  | 'degraded'
  | 'readErrors'

/** What a bucket holds. */
export interface BucketUsage {
  /** Null: buckets that have no series of their own, together. */
  readonly name: string | null
  readonly objects: number
  readonly bytes: number
}

/** The part of the state that is needed here. */
interface Usage {
  readonly buckets: Iterable<Bucket>
  readonly bucketCount: number
  readonly index: { readonly keyCount: number; size(bucket: number): number }
  readonly objectBytes: number
  bytesOf(bucket: Bucket): number
}

/** @param max how many buckets, the oldest, have series of their own: the others do not make a scrape longer */
export function bucketUsage(state: Usage, max: number): readonly BucketUsage[] {
  const usage: BucketUsage[] = []
  let objects = state.index.keyCount
  let bytes = state.objectBytes
  for (const bucket of state.buckets) {
    if (usage.length === max) break
    const of = { name: bucket.name, objects: state.index.size(bucket.number), bytes: state.bytesOf(bucket) }
    objects -= of.objects
    bytes -= of.bytes
    usage.push(of)
  }
  return usage.length === state.bucketCount ? usage : [...usage, { name: null, objects, bytes }]
}

export interface StoreMetricSources {
  readonly counters: StoreCounters
  /** Read when the metrics are asked for. */
  readonly gauges: Readonly<Record<Gauge, () => number>>
  readonly log: Pick<Log, 'counters' | 'committed' | 'state' | 'incidents' | 'segments' | 'roomFor' | 'syncSeconds'>
  readonly buckets: () => readonly BucketUsage[]
  readonly requests: Pick<RequestMetrics, 'register'>
  readonly processMetrics: Pick<ProcessMetrics, 'register'>
}

export function storeMetrics(sources: StoreMetricSources): Metrics {
  const { counters, gauges, log, buckets, requests, processMetrics } = sources
  const metrics = new Metrics()
  const counter = (name: string, help: string, read: () => number): void =>
    metrics.counter({ name: `objstore_${name}`, help }, read)
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.gauge({ name: `objstore_${name}`, help }, read)
  counter('objects_written', 'Objects made visible', () => counters.objectsWritten)
  counter('objects_deleted', 'Objects hidden by a delete', () => counters.objectsDeleted)
  counter('parts_written', 'Parts of uploads stored', () => counters.partsWritten)
  counter('body_bytes_written', 'Bytes of bodies stored', () => counters.bodyBytesWritten)
  counter('body_bytes_read', 'Bytes of bodies requested by reads', () => counters.bodyBytesRead)
  counter('damaged_reads', 'Reads that found damage', () => counters.damagedReads)
  counter('uploads_expired', 'Uploads aborted because they were abandoned', () => counters.uploadsExpired)
  counter('segments_cleaned', 'Segments whose live content was moved', () => counters.segmentsCleaned)
  metrics.counterBy({ name: 'objstore_refusals', help: 'Requests refused' }, 'code', () => counters.refusals)
  gauge('buckets', 'Buckets', gauges.buckets)
  gauge('uploads', 'Multipart uploads under way', gauges.uploads)
  gauge('live_bytes', 'Bytes of the log that are needed', gauges.liveBytes)
  gauge('index_bytes', 'Memory of the key index', gauges.indexBytes)
  gauge('arena_bytes', 'Memory of bodies that are not yet written to the disk', gauges.arenaBytes)
  gauge('read_cache_bytes', 'Memory that caches pieces of large objects', gauges.readCacheBytes)
  gauge('object_cache_bytes', 'Memory that caches small objects', gauges.objectCacheBytes)
  counter('accept_pauses', ACCEPT_PAUSES_HELP, gauges.acceptPauses)
  gauge('log_bytes', 'Bytes of the log', () => bytesIn(log.segments))
  gauge('log_committed_position', 'Position in the log below which everything is durable', () => log.committed)
  counter('log_written_bytes', 'Bytes written by the journal', () => log.counters().bytes)
  counter('log_groups', 'Group commits', () => log.counters().groups)
  counter('log_syncs', 'fdatasync calls of the journal', () => log.counters().syncs)
  counter('log_sync_seconds', 'Time spent in fdatasync', () => log.counters().syncNanoseconds / 1e9)
  gauge('log_read_only', '1 when the log failed and accepts nothing until a restart', () =>
    log.state.kind === 'read-only' ? 1 : 0,
  )
  gauge(
    'log_room_bytes',
    'Bytes that new changes may still take on the disk; 0: the disk is full, or the log is read-only',
    () => log.roomFor('admit'),
  )
  gauge('log_quarantine_incidents', 'Damaged ranges found in the log', () => log.incidents.length)
  gauge('degraded', 'Problems at present that do not stop the store: /readyz names them', gauges.degraded)
  counter('read_errors', 'Reads of stored data that failed on the disk', gauges.readErrors)
  const ofBuckets = (name: string, help: string, read: (usage: BucketUsage) => number): void =>
    metrics.gauges({ name: `objstore_bucket_${name}`, help }, () =>
      buckets().map((usage) => [labelsOf(usage), read(usage)]),
    )
  ofBuckets('objects', 'Objects, by bucket', ({ objects }) => objects)
  ofBuckets('bytes', 'Bytes of objects, by bucket', ({ bytes }) => bytes)
  metrics.histograms({ name: 'objstore_log_sync_duration_seconds', help: 'Time of one fdatasync, by directory' }, () =>
    log.syncSeconds.map((histogram, i) => [{ directory: String(i) }, histogram]),
  )
  requests.register(metrics, 'objstore')
  processMetrics.register(metrics)
  return metrics
}

const labelsOf = ({ name }: BucketUsage): Labels => (name === null ? restOf('bucket') : { bucket: name })
