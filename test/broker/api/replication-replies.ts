/** The test broker's answers to operators of replication. */
import type { ReplicationControlReply, ReplicationWorkerEntry } from '../../../src/broker/wire/node-answers.ts'

const worker: ReplicationWorkerEntry = {
  tenant: 'local',
  stream: 'orders',
  source_site: 'a',
  target_site: 'b',
  policy: 'dr',
  state: 'idle',
  lagging: false,
  lag_records: 0,
  lag_millis: 0,
  max_lag_records: null,
  shipped_records: 2,
  shipped_batches: 1,
  last_shipped_at_ms: 5,
  attempts: 0,
  last_error: null,
  paused: null,
}

const controlled: ReplicationControlReply = {
  api_version: 'v1',
  control: {
    tenant: 'local',
    stream: 'orders',
    source_site: 'a',
    target_site: 'b',
    state: 'resumed',
    reason: null,
    changed_by: 'tester',
    changed_at_ms: 7,
  },
  summary: { message: 'the stream is shipped again', lag_records: 0, workers: [worker] },
  acknowledgement: { durability: 'local-sync', durable: true, replicas: 1 },
}

export const replicationReplies = {
  replicationStatus: {
    api_version: 'v1' as const,
    status: 'not_configured',
    node_id: 'node-1',
    runtime_boundary: 'single-node',
    scheduler: { state: 'stopped' },
    transport: { state: 'none' },
    workers: [],
    checkpoints: [],
    targets: [
      {
        tenant: 'local',
        stream: 'orders',
        source_site: 'a',
        target_site: 'b',
        policy: 'dr',
        next_expected_offset: 1,
        target_watermark: 1,
        skipped_records: 0,
      },
    ],
  },
  pollReplication: {
    api_version: 'v1' as const,
    polled_workers: 1,
    shipped_batches: 1,
    shipped_records: 2,
    failed_workers: 0,
    workers: [worker],
    transport: { state: 'ok', last_error: null },
  },
  pauseReplication: { ...controlled, control: { ...controlled.control, state: 'paused' } },
  resumeReplication: controlled,
}
