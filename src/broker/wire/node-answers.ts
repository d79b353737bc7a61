/** What the broker answers about itself and its part in replication. */
import { Type } from '../../schema.ts'
import type { Static } from 'typebox'
import { Acknowledgement, ApiVersion, nullable } from './answers.ts'

const workerFields = {
  tenant: Type.String(),
  stream: Type.String(),
  source_site: Type.String(),
  target_site: Type.String(),
  policy: Type.String(),
}
const ReplicationError = nullable(Type.Object({ code: Type.String(), message: Type.String(), at_ms: Type.Integer() }))

export const ReplicationWorkerEntry = Type.Object({
  ...workerFields,
  state: Type.String({ description: 'idle, shipping, failing, throttled or paused' }),
  lagging: Type.Boolean({
    description: 'more records behind than max_lag_records: retention no longer waits for this worker',
  }),
  lag_records: Type.Integer({ description: 'records that still have to be sent' }),
  lag_millis: Type.Integer({ description: 'about how long the oldest of them has waited' }),
  max_lag_records: nullable(Type.Integer()),
  shipped_records: Type.Integer({
    description: 'since the node was started, like shipped_batches and last_shipped_at_ms',
  }),
  shipped_batches: Type.Integer(),
  last_shipped_at_ms: nullable(Type.Integer()),
  attempts: Type.Integer({ description: 'failures since the last success' }),
  last_error: ReplicationError,
  paused: nullable(Type.Object({ reason: nullable(Type.String()), by: Type.String(), at_ms: Type.Integer() })),
})
export type ReplicationWorkerEntry = Static<typeof ReplicationWorkerEntry>

const transport = { state: Type.String({ description: 'idle, ok or failing' }) }

export const ReplicationStatusReply = Type.Object({
  api_version: ApiVersion,
  status: Type.String({ description: 'not_configured without a binding; running, paused, lagging or failing' }),
  node_id: Type.String(),
  runtime_boundary: Type.String(),
  scheduler: Type.Object({
    state: Type.String(),
    batches_under_way: Type.Optional(Type.Integer()),
    batches_max: Type.Optional(Type.Integer()),
  }),
  transport: Type.Object({ ...transport, last_error: Type.Optional(ReplicationError) }),
  workers: Type.Array(ReplicationWorkerEntry),
  checkpoints: Type.Array(
    Type.Object({
      ...workerFields,
      next_offset: Type.Integer({ description: 'the target has the records below this offset' }),
      skipped_records: Type.Integer({ description: 'records that were removed here before they were sent' }),
    }),
  ),
  targets: Type.Array(
    Type.Object({
      ...workerFields,
      next_expected_offset: Type.Integer(),
      target_watermark: Type.Integer(),
      skipped_records: Type.Integer({ description: 'records that the source did not send' }),
    }),
  ),
})
export type ReplicationStatusReply = Static<typeof ReplicationStatusReply>

export const ReplicationPollReply = Type.Object({
  api_version: ApiVersion,
  polled_workers: Type.Integer(),
  shipped_batches: Type.Integer(),
  shipped_records: Type.Integer(),
  failed_workers: Type.Integer(),
  workers: Type.Array(ReplicationWorkerEntry),
  transport: Type.Object({ ...transport, last_error: ReplicationError }),
})
export type ReplicationPollReply = Static<typeof ReplicationPollReply>

export const ReplicationControlReply = Type.Object({
  api_version: ApiVersion,
  control: Type.Object({
    tenant: Type.String(),
    stream: Type.String(),
    source_site: Type.String(),
    target_site: Type.String(),
    state: Type.String({ description: 'paused or resumed' }),
    reason: nullable(Type.String()),
    changed_by: Type.String(),
    changed_at_ms: Type.Integer(),
  }),
  summary: Type.Object({
    message: Type.String(),
    lag_records: Type.Integer(),
    workers: Type.Array(ReplicationWorkerEntry),
  }),
  acknowledgement: Acknowledgement,
})
export type ReplicationControlReply = Static<typeof ReplicationControlReply>

export const ReplicaApplyReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  applied: Type.Integer(),
  skipped: Type.Integer({ description: 'records that had been applied before' }),
  next_expected_offset: Type.Integer({ description: 'origin offset of the next record' }),
  target_watermark: Type.Integer({ description: 'next offset of the stream at this site' }),
  applied_origin_offsets: Type.Array(Type.Integer()),
  acknowledgement: Acknowledgement,
})
export type ReplicaApplyReply = Static<typeof ReplicaApplyReply>

/** The part of the health that callers without credentials get. */
export const AnonymousHealthReply = Type.Object({
  status: Type.String(),
  service: Type.Literal('mq'),
  version: Type.String(),
})

export const HealthReply = Type.Object({
  status: Type.String(),
  service: Type.Literal('mq'),
  version: Type.String(),
  node_id: Type.String(),
  http_bind: Type.String(),
  storage: Type.Object({
    status: Type.String({ description: 'ok, read-only or degraded' }),
    message: Type.Optional(Type.String({ description: 'what is wrong with the log' })),
  }),
  clock: Type.Object({
    offset_ms: Type.Integer({
      description: 'how far broker time, by which leases expire, is ahead of the wall clock',
    }),
    message: Type.Optional(Type.String({ description: 'present when the difference is more than a second' })),
  }),
  security: Type.Object({ auth_mode: Type.String() }),
  audit: Type.Object({ status: Type.String() }),
  metrics: Type.Object({ exposure: Type.String({ description: 'http or disabled' }) }),
  release: Type.Object({ channel: Type.String(), version: Type.String() }),
})
export type HealthReply = Static<typeof HealthReply>
