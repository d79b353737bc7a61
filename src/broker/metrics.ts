/**
 * The broker's metrics in Prometheus' text format. Each has an OpenTelemetry name (`mq.publish.records`) and the one that every scraper
 * takes (`mq_publish_records_total`); a comment line before each metric, `# OTEL <safe name> <OpenTelemetry name>`, gives both.
 *
 * A caller sees the metrics of the process and those of its own tenant's groups.
 */
import { ACCEPT_PAUSES_HELP } from '../http/accept-gate.ts'
import type { ClusterStatus } from '../cluster-membership.ts'
import type { Log } from '../log/log.ts'
import { bytesIn } from '../log/segment-list.ts'
import { Metrics } from '../observability/metrics.ts'
import type { ProcessMetrics } from '../observability/process-metrics.ts'
import type { RequestMetrics } from '../observability/request-metrics.ts'
import type { BrokerCounters, BrokerGauges } from './counters.ts'
import type { GroupSample, GroupSeries } from './operations/group-series.ts'

export interface BrokerMetricSources {
  readonly counters: BrokerCounters
  readonly gauges: BrokerGauges
  readonly log: Pick<
    Log,
    'counters' | 'committed' | 'state' | 'incidents' | 'lostReplicas' | 'roomFor' | 'segments' | 'syncSeconds'
  >
  readonly groups: Pick<GroupSeries, 'of' | 'catchUp'>
  readonly requests: Pick<RequestMetrics, 'register'>
  readonly process: Pick<ProcessMetrics, 'register'>
  /** Null: there is no cluster. */
  readonly cluster: Pick<ClusterStatus, 'registerMetrics' | 'view'> | null
}

export class BrokerMetrics {
  readonly #metrics = new Metrics<readonly GroupSample[]>({ showsAliases: true })
  readonly #groups: BrokerMetricSources['groups']
  readonly #cluster: BrokerMetricSources['cluster']

  constructor({ counters, gauges, log, groups, requests, process, cluster }: BrokerMetricSources) {
    this.#groups = groups
    this.#cluster = cluster
    const metrics = this.#metrics
    const counter = (name: string, help: string, read: () => number): void => metrics.counter({ name, help }, read)
    const gauge = (name: string, help: string, read: () => number): void => metrics.gauge({ name, help }, read)
    const ofGroups = (name: string, help: string, read: (sample: GroupSample) => number): void =>
      metrics.gauges({ name: `mq.group.${name}`, help }, (samples) =>
        samples.map((sample) => [sample.labels, read(sample)]),
      )

    counter('mq.publish.records', 'Records published', () => counters.publishedRecords)
    counter('mq.publish.bytes', 'Payload bytes published', () => counters.publishedBytes)
    counter('mq.replay.pages', 'Pages replayed', () => counters.replays)
    counter('mq.replay.records', 'Records replayed', () => counters.replayedRecords)
    counter('mq.queue.claims', 'Claims answered, empty ones included', () => counters.claims)
    counter('mq.queue.deliveries', 'Records given out by claims', () => counters.deliveries)
    counter('mq.queue.acks', 'Deliveries acknowledged', () => counters.acks)
    counter('mq.queue.nacks', 'Deliveries given back as failed', () => counters.nacks)
    counter('mq.queue.renewals', 'Leases extended', () => counters.renewals)
    counter('mq.queue.retries', 'Deliveries given back for a retry', () => counters.retries)
    counter('mq.queue.dead_letters', 'Records copied to a dead-letter stream', () => counters.deadLetters)
    counter(
      'mq.queue.redriven_dead_letters',
      'Dead letters put back into their source',
      () => counters.redrivenDeadLetters,
    )
    counter('mq.queue.expired_leases', 'Leases that ended by time', () => counters.expiredLeases)
    counter('mq.replication.shipped_records', 'Records that arrived at other sites', () => counters.shippedRecords)
    counter(
      'mq.replication.shipped_bytes',
      'Bytes of the batches that arrived at other sites',
      () => counters.shippedBytes,
    )
    counter('mq.replication.failures', 'Batches to other sites that failed', () => counters.shipFailures)
    counter(
      'mq.replication.skipped_records',
      'Records that were removed here before they were sent',
      () => counters.unshippedRecords,
    )
    counter(
      'mq.replication.applied_records',
      'Records from other sites that were appended here',
      () => counters.appliedRecords,
    )
    gauge(
      'mq.replication.workers',
      'Replication workers: one for each stream and policy',
      () => gauges.replication().workers,
    )
    gauge('mq.replication.paused_workers', 'Workers that are paused', () => gauges.replication().paused)
    gauge('mq.replication.failing_workers', 'Workers whose last batch failed', () => gauges.replication().failing)
    gauge(
      'mq.replication.lagging_workers',
      'Workers that are further behind than their policy allows',
      () => gauges.replication().lagging,
    )
    gauge(
      'mq.replication.lag_records',
      'Records that still have to be sent to other sites',
      () => gauges.replication().lagRecords,
    )
    gauge(
      'mq.replication.lag_seconds',
      'About how long the oldest record that is not yet sent has waited',
      () => gauges.replication().lagMs / 1000,
    )
    metrics.counterBy({ name: 'mq.refusals', help: 'Requests refused' }, 'code', () => counters.refusals)
    counter('mq.accept_pauses', ACCEPT_PAUSES_HELP, gauges.acceptPauses)
    gauge('mq.connections', 'Streaming connections that are open', gauges.connections)
    gauge('mq.queue.waiting_claims', 'Claims that wait for a record', gauges.waitingClaims)
    gauge('mq.queue.active_leases', 'Deliveries with an active lease', gauges.activeLeases)
    gauge('mq.queue.delayed_retries', 'Records given back that wait for their delay to pass', gauges.delayedRetries)
    gauge('mq.streams', 'Streams', gauges.streams)
    gauge('mq.groups', 'Consumer groups', gauges.groups)
    gauge(
      'mq.clock.offset_seconds',
      'Seconds that broker time is ahead of the wall clock',
      () => gauges.clockOffsetMs() / 1000,
    )
    counter('mq.clock.slept_seconds', 'Time the machine slept', () => gauges.sleptMs() / 1000)
    gauge('mq.log.frames_in_flight', 'Frames appended and not yet stored', gauges.framesInFlight)
    gauge('mq.log.committed_position', 'Position in the log below which everything is durable', () => log.committed)
    counter('mq.log.bytes', 'Bytes written by the journal', () => log.counters().bytes)
    counter('mq.log.groups', 'Group commits', () => log.counters().groups)
    counter('mq.log.syncs', 'fdatasync calls of the journal', () => log.counters().syncs)
    counter('mq.log.sync_seconds', 'Time spent in fdatasync', () => log.counters().syncNanoseconds / 1e9)
    gauge('mq.log.read_only', '1 when the log failed and accepts nothing until a restart', () =>
      log.state.kind === 'read-only' ? 1 : 0,
    )
    gauge(
      'mq.log.room_bytes',
      'Bytes that new changes may still take on the disk; 0: the disk is full, or the log is read-only',
      () => log.roomFor('admit'),
    )
    gauge('mq.log.quarantine_incidents', 'Damaged ranges found in the log', () => log.incidents.length)
    gauge('mq.log.size_bytes', 'Bytes of the log', () => bytesIn(log.segments))
    gauge('mq.log.replicas_lost', 'Replica directories that are not written to any more', () => log.lostReplicas.length)
    gauge('mq.degraded', 'Problems at present that do not stop the node: /readyz names them', gauges.degraded)
    counter('mq.read_errors', 'Reads of stored data that failed on the disk', gauges.readErrors)
    metrics.histogram(
      { name: 'mq.publish.duration_seconds', help: 'Time from a publish to its answer, batches included' },
      counters.publishSeconds,
    )
    metrics.histogram(
      { name: 'mq.queue.claim_to_ack_seconds', help: 'Time from the last claim of a delivery to its acknowledgement' },
      counters.claimToAckSeconds,
    )
    metrics.histograms(
      { name: 'mq.log.sync_duration_seconds', help: 'Time of one fdatasync, by directory; 0: the data directory' },
      () => log.syncSeconds.map((histogram, i) => [{ directory: String(i) }, histogram]),
    )
    ofGroups('lag', 'Records of the stream that the group has not finished', ({ lag }) => lag)
    ofGroups(
      'oldest_unfinished_seconds',
      'Age of the oldest record that the group has not finished; 0: there is none',
      ({ oldestAgeMs }) => oldestAgeMs / 1000,
    )
    ofGroups('in_flight', 'Deliveries with an active lease', ({ inFlight }) => inFlight)
    ofGroups('delayed', 'Records given back that wait for their delay to pass', ({ delayed }) => delayed)
    ofGroups(
      'dead_letters',
      'Records that the group moved to a dead-letter stream and that retention has not removed from their own stream',
      ({ deadLetters }) => deadLetters,
    )
    requests.register(metrics, 'mq')
    process.register(metrics)
    cluster?.registerMetrics(metrics, 'broker')
  }

  /** Media type of `text`. */
  get contentType(): string {
    return this.#metrics.contentType
  }

  /** Metrics of the process and of one tenant's groups. In a cluster only the leader shows groups, so that sums over its nodes count them once. */
  async text(tenant: string): Promise<string> {
    const showsGroups = this.#cluster === null || this.#cluster.view().leads
    if (showsGroups) return this.#metrics.text(await this.#groups.of(tenant))
    await this.#groups.catchUp()
    return this.#metrics.text([])
  }
}
