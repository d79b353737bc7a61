import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerCounters } from '../../../src/broker/counters.ts'
import type { BrokerGauges } from '../../../src/broker/counters.ts'
import { BrokerMetrics } from '../../../src/broker/metrics.ts'
import type { BrokerMetricSources } from '../../../src/broker/metrics.ts'
import type { GroupSample } from '../../../src/broker/operations/group-series.ts'
import { RequestMetrics } from '../../../src/observability/request-metrics.ts'
import { Exposition } from '../../support/exposition.ts'
import { TestBroker, assertRefused } from './support.ts'

const gauges: BrokerGauges = {
  acceptPauses: () => 1,
  streams: () => 2,
  groups: () => 3,
  activeLeases: () => 4,
  delayedRetries: () => 5,
  waitingClaims: () => 6,
  connections: () => 11,
  framesInFlight: () => 7,
  degraded: () => 1,
  replication: () => ({ workers: 0, paused: 0, failing: 0, lagging: 0, lagRecords: 0, lagMs: 0 }),
  readErrors: () => 8,
  clockOffsetMs: () => 8,
  sleptMs: () => 9500,
}
const log = {
  counters: () => ({ groups: 1, syncs: 2, bytes: 3, syncNanoseconds: 4e9 }),
  committed: 4096,
  state: { kind: 'ok' },
  incidents: [],
  lostReplicas: [],
  roomFor: () => 0,
  segments: [
    { base: 4096, end: 8192, sealed: true, directory: '', recordsPath: '' },
    { base: 8192, end: 9000, sealed: false, directory: '', recordsPath: '' },
  ],
  syncSeconds: [],
} as const
const group: GroupSample = {
  labels: { stream: 'orders', group: 'workers' },
  lag: 9,
  oldestAgeMs: 1500,
  inFlight: 3,
  delayed: 2,
  deadLetters: 1,
}
const metricsOf = (counters: BrokerCounters, cluster: BrokerMetricSources['cluster'] = null): BrokerMetrics => {
  const groups = { of: async (tenant: string) => (tenant === 'local' ? [group] : []), catchUp: async () => {} }
  const requests = new RequestMetrics()
  return new BrokerMetrics({ counters, gauges, log, groups, requests, process: { register() {} }, cluster })
}

describe('GET /metrics', () => {
  it('is metrics_disabled unless exposed, and takes no query', async () => {
    const broker = await TestBroker.start()
    const answer = await broker.ask('GET', '/metrics')
    assertRefused(
      answer,
      404,
      'metrics_disabled',
      /MQ_METRICS_EXPOSURE=http .*mq --metrics-exposure http, trilog start --mq-metrics-exposure http/,
    )
    assertRefused(await broker.ask('GET', '/metrics?x'), 400, 'invalid_query')
    await broker.stop()
  })

  it('shows every counter and gauge under its safe name, with the OpenTelemetry name in a comment', async () => {
    const counters = new BrokerCounters()
    const metrics = metricsOf(counters)
    const broker = await TestBroker.start({ metrics, counters })
    counters.published(3, 600)
    counters.claimed(2)
    counters.expired(5)
    await broker.ask('GET', '/nothing')
    const { status, headers, text } = await broker.ask('GET', '/metrics')
    await broker.stop()
    assert.equal(status, 200)
    assert.match(headers['content-type']!, /^text\/plain; version=/)
    assert(
      text.includes('\n# OTEL mq_publish_bytes_total mq.publish.bytes\n# HELP mq_publish_bytes_total Payload bytes'),
    )
    for (const line of [
      'mq_publish_records_total 3',
      'mq_publish_bytes_total 600',
      'mq_queue_claims_total 1',
      'mq_queue_deliveries_total 2',
      'mq_queue_expired_leases_total 5',
      'mq_refusals_total{code="not_found"} 1',
      'mq_accept_pauses_total 1',
      'mq_queue_active_leases 4',
      'mq_queue_delayed_retries 5',
      'mq_queue_waiting_claims 6',
      'mq_connections 11',
      'mq_streams 2',
      'mq_groups 3',
      'mq_log_frames_in_flight 7',
      'mq_clock_offset_seconds 0.008',
      'mq_clock_slept_seconds_total 9.5',
      'mq_log_committed_position 4096',
      'mq_log_bytes_total 3',
      'mq_log_size_bytes 4904',
      'mq_log_syncs_total 2',
      'mq_log_sync_seconds_total 4',
      'mq_log_read_only 0',
      'mq_log_quarantine_incidents 0',
      'mq_group_lag{stream="orders",group="workers"} 9',
      'mq_group_oldest_unfinished_seconds{stream="orders",group="workers"} 1.5',
      'mq_group_in_flight{stream="orders",group="workers"} 3',
      'mq_group_delayed{stream="orders",group="workers"} 2',
      'mq_group_dead_letters{stream="orders",group="workers"} 1',
    ])
      assert(text.split('\n').includes(line), line)
  })

  it('is text that a strict scraper parses, with an OpenTelemetry name for each metric', async () => {
    const { families } = new Exposition(await metricsOf(new BrokerCounters()).text('local'))
    assert(families.size > 50)
    for (const { name, alias } of families.values()) {
      assert.equal(alias?.replaceAll('.', '_'), name.replace(/_total$/, ''))
    }
  })

  it('shows groups to their tenant only', async () => {
    const { families } = new Exposition(await metricsOf(new BrokerCounters()).text('another'))
    assert.deepEqual(families.get('mq_group_lag')?.samples, [])
  })

  it('shows groups on the leader of a cluster only', async () => {
    const groupsShown = async (leads: boolean): Promise<number> => {
      const view = () => ({ name: 'shop', node: 'a', leads, nodes: [] })
      const metrics = metricsOf(new BrokerCounters(), { view, registerMetrics() {} })
      return new Exposition(await metrics.text('local')).labelsOf('mq_group_lag').length
    }
    assert.deepEqual([await groupsShown(false), await groupsShown(true)], [0, 1])
  })
})
