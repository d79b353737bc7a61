/**
 * The broker's metrics in Prometheus' text format. Each has an OpenTelemetry name (`mq.publish.records`) and the one that every scraper
 * takes (`mq_publish_records_total`); a comment line before each metric, `# OTEL <safe name> <OpenTelemetry name>`, gives both.
 */
import { ACCEPT_PAUSES_HELP } from '../http/accept-gate.ts'
import type { Log } from '../log/log.ts'
import { Metrics } from '../observability/metrics.ts'
import type { BrokerCounters, BrokerGauges } from './counters.ts'

export interface BrokerMetricSources {
  readonly counters: BrokerCounters
  readonly gauges: BrokerGauges
  readonly log: Pick<Log, 'counters' | 'committed' | 'state' | 'incidents' | 'lostReplicas' | 'roomFor'>
}

export class BrokerMetrics {
  readonly #metrics = new Metrics()
  /** By safe name. */
  readonly #openTelemetryNames = new Map<string, string>()

  constructor({ counters, gauges, log }: BrokerMetricSources) {
    this.#counter('mq.publish.records', 'Records published', () => counters.publishedRecords)
    this.#counter('mq.publish.bytes', 'Payload bytes published', () => counters.publishedBytes)
    this.#counter('mq.replay.pages', 'Pages replayed', () => counters.replays)
    this.#counter('mq.replay.records', 'Records replayed', () => counters.replayedRecords)
    this.#counter('mq.queue.claims', 'Claims answered, empty ones included', () => counters.claims)
    this.#counter('mq.queue.deliveries', 'Records given out by claims', () => counters.deliveries)
    this.#counter('mq.queue.acks', 'Deliveries acknowledged', () => counters.acks)
    this.#counter('mq.queue.nacks', 'Deliveries given back as failed', () => counters.nacks)
    this.#counter('mq.queue.renewals', 'Leases extended', () => counters.renewals)
    this.#counter('mq.queue.retries', 'Deliveries given back for a retry', () => counters.retries)
    this.#counter('mq.queue.dead_letters', 'Records copied to a dead-letter stream', () => counters.deadLetters)
    this.#counter(
      'mq.queue.redriven_dead_letters',
      'Dead letters put back into their source',
      () => counters.redrivenDeadLetters,
    )
    this.#counter('mq.queue.expired_leases', 'Leases that ended by time', () => counters.expiredLeases)
    this.#counter(
      'mq.replication.shipped_records',
      'Records that arrived at other sites',
      () => counters.shippedRecords,
    )
    this.#counter('mq.replication.shipped_bytes', 'Bytes of the batches that brought them', () => counters.shippedBytes)
    this.#counter('mq.replication.failures', 'Batches to other sites that failed', () => counters.shipFailures)
    this.#counter(
      'mq.replication.skipped_records',
      'Records that were removed before they were sent',
      () => counters.unshippedRecords,
    )
    this.#counter('mq.replication.applied_records', 'Records of other sites', () => counters.appliedRecords)
    this.#gauge('mq.replication.workers', 'Streams times policies that ship them', () => gauges.replication.workers)
    this.#gauge('mq.replication.paused_workers', 'Workers that are paused', () => gauges.replication.paused)
    this.#gauge('mq.replication.failing_workers', 'Workers whose last batch failed', () => gauges.replication.failing)
    this.#gauge(
      'mq.replication.lagging_workers',
      'Workers that are further behind than their policy allows',
      () => gauges.replication.lagging,
    )
    this.#gauge('mq.replication.lag_records', 'Records that are to be sent', () => gauges.replication.lagRecords)
    this.#gauge(
      'mq.replication.lag_seconds',
      'How long the record that waits longest does',
      () => gauges.replication.lagMs / 1000,
    )
    this.#counterBy('mq.refusals', 'Requests refused', 'code', () => counters.refusals)
    this.#counter('mq.accept_pauses', ACCEPT_PAUSES_HELP, () => gauges.acceptPauses)
    this.#gauge('mq.connections', 'Streaming connections that are open', () => gauges.connections)
    this.#gauge('mq.queue.waiting_claims', 'Claims that wait for a record', () => gauges.waitingClaims)
    this.#gauge('mq.queue.active_leases', 'Deliveries with an active lease', () => gauges.activeLeases)
    this.#gauge('mq.queue.delayed_retries', 'Records that wait for their time', () => gauges.delayedRetries)
    this.#gauge('mq.streams', 'Streams', () => gauges.streams)
    this.#gauge('mq.groups', 'Consumer groups', () => gauges.groups)
    this.#gauge(
      'mq.clock.offset_ms',
      'Milliseconds that broker time is ahead of the wall clock',
      () => gauges.clockOffsetMs,
    )
    this.#counter('mq.clock.slept_seconds', 'Time the machine slept', () => gauges.sleptMs / 1000)
    this.#gauge('mq.log.frames_in_flight', 'Frames appended and not yet stored', () => gauges.framesInFlight)
    this.#gauge('mq.log.committed_position', 'Everything below is durable', () => log.committed)
    this.#counter('mq.log.bytes', 'Bytes written by the journal', () => log.counters().bytes)
    this.#counter('mq.log.groups', 'Group commits', () => log.counters().groups)
    this.#counter('mq.log.syncs', 'fdatasync calls of the journal', () => log.counters().syncs)
    this.#counter('mq.log.sync_seconds', 'Time spent in fdatasync', () => log.counters().syncNanoseconds / 1e9)
    this.#gauge('mq.log.read_only', '1 when nothing is accepted after a failed write', () =>
      log.state.kind === 'read-only' ? 1 : 0,
    )
    this.#gauge(
      'mq.log.room_bytes',
      'Bytes that new work may still take; 0: the disk is full, or the log is read-only',
      () => log.roomFor('admit'),
    )
    this.#gauge('mq.log.quarantine_incidents', 'Damaged ranges found in the log', () => log.incidents.length)
    this.#gauge(
      'mq.log.replicas_lost',
      'Replica directories that are not written to any more',
      () => log.lostReplicas.length,
    )
    this.#gauge(
      'mq.degraded',
      'Kinds of trouble that the node works in spite of: /readyz names them',
      () => gauges.degraded,
    )
    this.#counter('mq.read_errors', 'Reads of stored data that the disk failed', () => gauges.readErrors)
  }

  /** Of `text`. */
  get contentType(): string {
    return this.#metrics.contentType
  }

  async text(): Promise<string> {
    const text = await this.#metrics.text()
    return text.replaceAll(
      /^# HELP (\S+)/gm,
      (line, name: string) => `# OTEL ${name} ${this.#openTelemetryNames.get(name)}\n${line}`,
    )
  }

  #counter(name: string, help: string, read: () => number): void {
    this.#metrics.counter({ name: this.#safe(name, '_total'), help }, read)
  }

  #counterBy(name: string, help: string, label: string, read: () => Iterable<readonly [string, number]>): void {
    this.#metrics.counterBy({ name: this.#safe(name, '_total'), help }, label, read)
  }

  #gauge(name: string, help: string, read: () => number): void {
    this.#metrics.gauge({ name: this.#safe(name, ''), help }, read)
  }

  #safe(name: string, suffix: string): string {
    const safe = name.replaceAll('.', '_') + suffix
    this.#openTelemetryNames.set(safe, name)
    return safe
  }
}
