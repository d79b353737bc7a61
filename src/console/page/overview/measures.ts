/** What the overview shows of each service, by the names of its metrics. */
import type { ServiceName } from '../session.ts'

export interface Measure {
  readonly title: string
  readonly metric: string
  readonly unit: 'count' | 'bytes'
}

export interface ServiceMeasures {
  readonly path: string
  /** In this order; the first three that are counted share a chart. */
  readonly rates: readonly Measure[]
  /** Not in the chart. */
  readonly otherRates?: readonly Measure[]
  /** Totals with the reason as their label. */
  readonly refusals: readonly string[]
  readonly gauges: readonly Measure[]
  /** Bytes of the log on the disk. */
  readonly used: string
  /** Bytes that new work may take. */
  readonly room: string
  readonly readErrors: string
  readonly syncSeconds: string
  readonly syncs: string
  readonly quarantine: string
}

export const PROCESS = {
  memory: 'process_resident_memory_bytes',
  started: 'process_start_time_seconds',
  build: 'trilog_build_info',
} as const

export const MEASURES: Readonly<Record<ServiceName, ServiceMeasures>> = {
  logstore: {
    path: '/metrics',
    rates: [
      { title: 'Records in', metric: 'logstore_ingest_records_total', unit: 'count' },
      { title: 'Requests', metric: 'logstore_http_request_duration_seconds_count', unit: 'count' },
      { title: 'Queries', metric: 'logstore_queries_total', unit: 'count' },
      { title: 'Bytes in', metric: 'logstore_ingest_bytes_total', unit: 'bytes' },
    ],
    refusals: ['logstore_ingest_refusals_total', 'logstore_query_refusals_total'],
    gauges: [
      { title: 'Bundles', metric: 'logstore_bundles', unit: 'count' },
      { title: 'In flight', metric: 'logstore_gateway_requests_in_flight', unit: 'count' },
      { title: 'Records rejected', metric: 'logstore_ingest_rejected_records_total', unit: 'count' },
    ],
    used: 'logstore_wal_size_bytes',
    room: 'logstore_wal_room_bytes',
    readErrors: 'logstore_read_errors_total',
    syncSeconds: 'logstore_wal_sync_seconds_total',
    syncs: 'logstore_wal_syncs_total',
    quarantine: 'logstore_quarantine_incidents',
  },
  objectstore: {
    path: '/v1/metrics',
    rates: [
      { title: 'Requests', metric: 'objstore_http_request_duration_seconds_count', unit: 'count' },
      { title: 'Objects written', metric: 'objstore_objects_written_total', unit: 'count' },
      { title: 'Bytes written', metric: 'objstore_body_bytes_written_total', unit: 'bytes' },
      { title: 'Bytes read', metric: 'objstore_body_bytes_read_total', unit: 'bytes' },
    ],
    refusals: ['objstore_refusals_total'],
    gauges: [
      { title: 'Buckets', metric: 'objstore_buckets', unit: 'count' },
      { title: 'Live data', metric: 'objstore_live_bytes', unit: 'bytes' },
    ],
    used: 'objstore_log_bytes',
    room: 'objstore_log_room_bytes',
    readErrors: 'objstore_read_errors_total',
    syncSeconds: 'objstore_log_sync_seconds_total',
    syncs: 'objstore_log_syncs_total',
    quarantine: 'objstore_log_quarantine_incidents',
  },
  broker: {
    path: '/metrics',
    rates: [
      { title: 'Published', metric: 'mq_publish_records_total', unit: 'count' },
      { title: 'Claims', metric: 'mq_queue_claims_total', unit: 'count' },
      { title: 'Acknowledged', metric: 'mq_queue_acks_total', unit: 'count' },
      { title: 'Bytes in', metric: 'mq_publish_bytes_total', unit: 'bytes' },
    ],
    otherRates: [
      { title: 'Requests', metric: 'mq_http_request_duration_seconds_count', unit: 'count' },
      { title: 'Delivered', metric: 'mq_queue_deliveries_total', unit: 'count' },
    ],
    refusals: ['mq_refusals_total'],
    gauges: [
      { title: 'Streams', metric: 'mq_streams', unit: 'count' },
      { title: 'Groups', metric: 'mq_groups', unit: 'count' },
      { title: 'Leased', metric: 'mq_queue_active_leases', unit: 'count' },
      { title: 'Dead letters', metric: 'mq_group_dead_letters', unit: 'count' },
    ],
    used: 'mq_log_size_bytes',
    room: 'mq_log_room_bytes',
    readErrors: 'mq_read_errors_total',
    syncSeconds: 'mq_log_sync_seconds_total',
    syncs: 'mq_log_syncs_total',
    quarantine: 'mq_log_quarantine_incidents',
  },
}

/** Whether a metric is shown at all. */
export function keeps(service: ServiceName): (name: string) => boolean {
  const {
    rates,
    otherRates = [],
    refusals,
    gauges,
    used,
    room,
    readErrors,
    syncSeconds,
    syncs,
    quarantine,
  } = MEASURES[service]
  const names = [...rates, ...otherRates, ...gauges].map(({ metric }) => metric)
  const others = [used, room, readErrors, syncSeconds, syncs, quarantine, ...Object.values(PROCESS)]
  const all = new Set<string>([...names, ...refusals, ...others])
  return (name) => all.has(name)
}
