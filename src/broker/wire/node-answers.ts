/** What the broker answers about itself and its part in replication. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { Acknowledgement, ApiVersion } from './answers.ts'

export const ReplicationStatusReply = Type.Object({
  api_version: ApiVersion,
  status: Type.String({ description: 'not_configured without a binding' }),
  node_id: Type.String(),
  runtime_boundary: Type.String(),
  scheduler: Type.Object({ state: Type.String() }),
  transport: Type.Object({ state: Type.String() }),
  workers: Type.Array(Type.Unknown()),
  checkpoints: Type.Array(Type.Unknown()),
  targets: Type.Array(
    Type.Object({
      tenant: Type.String(),
      stream: Type.String(),
      source_site: Type.String(),
      target_site: Type.String(),
      policy: Type.String(),
      next_expected_offset: Type.Integer(),
      target_watermark: Type.Integer(),
    }),
  ),
})
export type ReplicationStatusReply = Static<typeof ReplicationStatusReply>
export const ReplicaApplyReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  applied: Type.Integer(),
  skipped: Type.Integer({ description: 'records that had been applied before' }),
  next_expected_offset: Type.Integer({ description: 'origin offset of the next record' }),
  target_watermark: Type.Integer({ description: 'next offset of the stream here' }),
  applied_origin_offsets: Type.Array(Type.Integer()),
  acknowledgement: Acknowledgement,
})
export type ReplicaApplyReply = Static<typeof ReplicaApplyReply>

/** What everybody is told of the health. */
export const StrangerHealthReply = Type.Object({
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
      description: 'how far broker time, which leases are told in, is ahead of the wall clock',
    }),
    message: Type.Optional(Type.String({ description: 'when that is more than a second' })),
  }),
  security: Type.Object({ auth_mode: Type.String() }),
  audit: Type.Object({ status: Type.String() }),
  metrics: Type.Object({ exposure: Type.String({ description: 'http or disabled' }) }),
  release: Type.Object({ channel: Type.String(), version: Type.String() }),
})
export type HealthReply = Static<typeof HealthReply>
