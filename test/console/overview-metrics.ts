/** Metrics that the overview of the console shows. */
import assert from 'node:assert/strict'

const PROCESS = [['Memory', 'process_resident_memory_bytes']] as const
/** For each service: what the overview shows and the metric of it, and the code of a refusal that the service has made. */
export const OVERVIEW_METRICS = [
  [
    'Log store',
    '/logstore/metrics',
    [
      ['Records in', 'logstore_ingest_records_total'],
      ['Requests', 'logstore_http_request_duration_seconds_count'],
      ['Queries', 'logstore_queries_total'],
      ['Bytes in', 'logstore_ingest_bytes_total'],
      ['Disk used', 'logstore_wal_size_bytes'],
      ['Disk free', 'logstore_wal_room_bytes'],
      ['Bundles', 'logstore_bundles'],
      ['In flight', 'logstore_gateway_requests_in_flight'],
      ['Records rejected', 'logstore_ingest_rejected_records_total'],
      ['Damaged ranges', 'logstore_quarantine_incidents'],
      ['Failed reads', 'logstore_read_errors_total'],
      ...PROCESS,
    ],
    null,
  ],
  [
    'Object store',
    '/objectstore/v1/metrics',
    [
      ['Requests', 'objstore_http_request_duration_seconds_count'],
      ['Objects written', 'objstore_objects_written_total'],
      ['Bytes written', 'objstore_body_bytes_written_total'],
      ['Bytes read', 'objstore_body_bytes_read_total'],
      ['Disk used', 'objstore_log_bytes'],
      ['Disk free', 'objstore_log_room_bytes'],
      ['Buckets', 'objstore_buckets'],
      ['Live data', 'objstore_live_bytes'],
      ['Damaged ranges', 'objstore_log_quarantine_incidents'],
      ['Failed reads', 'objstore_read_errors_total'],
      ...PROCESS,
    ],
    null,
  ],
  [
    'Broker',
    '/broker/metrics',
    [
      ['Published', 'mq_publish_records_total'],
      ['Claims', 'mq_queue_claims_total'],
      ['Acknowledged', 'mq_queue_acks_total'],
      ['Delivered', 'mq_queue_deliveries_total'],
      ['Requests', 'mq_http_request_duration_seconds_count'],
      ['Bytes in', 'mq_publish_bytes_total'],
      ['Disk used', 'mq_log_size_bytes'],
      ['Disk free', 'mq_log_room_bytes'],
      ['Streams', 'mq_streams'],
      ['Groups', 'mq_groups'],
      ['Leased', 'mq_queue_active_leases'],
      ['Damaged ranges', 'mq_log_quarantine_incidents'],
      ['Failed reads', 'mq_read_errors_total'],
      ...PROCESS,
    ],
    'stream_already_exists',
  ],
] as const

/** Sum over all series of a metric, of which there must be one. */
export function valueOf(text: string, metric: string): number {
  const lines = text.split('\n').filter((line) => line.startsWith(`${metric} `) || line.startsWith(`${metric}{`))
  assert.ok(lines.length > 0, metric)
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
}

/** The same metrics later: every counter has grown by `by`. */
export const grown = (text: string, by: number): string =>
  text.replaceAll(
    /^(\w+(?:_total|_count)(?:\{.*\})?) (\S+)$/gm,
    (_line, name: string, value: string) => `${name} ${Number(value) + by}`,
  )
