/** What the broker answers about streams and their records. */
import { Type } from '../../schema.ts'
import type { Static } from 'typebox'
import { Acknowledgement, ApiVersion, ErrorDetail, nullable } from './answers.ts'

export const CreateStreamReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  created: Type.Literal(true),
  acknowledgement: Acknowledgement,
})
export type CreateStreamReply = Static<typeof CreateStreamReply>

export const Retention = Type.Object({
  max_age_millis: nullable(Type.Integer()),
  max_bytes: nullable(Type.Integer()),
  min_cursor_name: nullable(Type.String()),
})
const configFields = {
  default_durability: Type.String(),
  retention: Retention,
  failure_policy: nullable(
    Type.Object({
      max_attempts: Type.Integer(),
      retry_delay_millis: Type.Integer(),
      dead_letter_stream: nullable(Type.String()),
      apply_on_expiry: Type.Boolean(),
    }),
  ),
}
export const UpdateStreamReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  updated: Type.Literal(true),
  ...configFields,
  updated_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type UpdateStreamReply = Static<typeof UpdateStreamReply>
export const DeleteStreamReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  deleted: Type.Literal(true),
  removed_records: Type.Integer(),
  removed_bytes: Type.Integer(),
  deleted_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type DeleteStreamReply = Static<typeof DeleteStreamReply>
export const PurgeStreamReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  first_offset: Type.Integer({ description: 'the lowest offset that is left' }),
  previous_first_offset: Type.Integer(),
  removed_records: Type.Integer(),
  removed_bytes: Type.Integer(),
  purged_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type PurgeStreamReply = Static<typeof PurgeStreamReply>

export const RedriveReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String({ description: 'the stream of dead letters' }),
  redriven_count: Type.Integer(),
  results: Type.Array(
    Type.Object({
      dead_letter_offset: Type.Integer(),
      stream: Type.Optional(Type.String({ description: 'the stream that the record was put back into' })),
      offset: Type.Optional(Type.Integer({ description: 'offset of the record there' })),
      error: Type.Optional(ErrorDetail),
    }),
    { description: 'by ascending offset' },
  ),
  next_offset: Type.Integer({
    description: 'every dead letter below this offset was tried: continue with it as start_offset',
  }),
  end_of_stream: Type.Boolean(),
  acknowledgement: Acknowledgement,
})
export type RedriveReply = Static<typeof RedriveReply>

const streamFields = {
  stream: Type.String(),
  ...configFields,
  first_offset: Type.Integer({ description: 'the lowest offset that retention left' }),
  next_offset: Type.Integer(),
  record_count: Type.Integer(),
  payload_bytes: Type.Integer(),
  created_at_ms: Type.Integer(),
}
export const StreamSummary = Type.Object(streamFields)
export type StreamSummary = Static<typeof StreamSummary>
export const StreamReply = Type.Object({ api_version: ApiVersion, ...streamFields })
export type StreamReply = Static<typeof StreamReply>
export const StreamListReply = Type.Object({
  api_version: ApiVersion,
  streams: Type.Array(StreamSummary),
  stream_count: Type.Integer(),
})
export type StreamListReply = Static<typeof StreamListReply>

const publishFields = {
  offset: Type.Integer(),
  next_offset: Type.Integer(),
  message_id: Type.String(),
  ingest_time_ms: Type.Integer(),
  payload_bytes: Type.Integer(),
}
/** What the answer to a publish under a replication policy tells about the target. */
export const ReplicationReceipt = Type.Object({
  policy: Type.String(),
  source_site: Type.String(),
  target_site: Type.String(),
  next_expected_offset: Type.Integer({ description: 'the target has the records below this offset' }),
  target_watermark: Type.Integer({ description: 'next offset of the stream at the target' }),
  acknowledged_at_ms: Type.Integer(),
})
export type ReplicationReceipt = Static<typeof ReplicationReceipt>

export const PublishReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  ...publishFields,
  acknowledgement: Acknowledgement,
  replication_receipt: Type.Optional(ReplicationReceipt),
})
export type PublishReply = Static<typeof PublishReply>

export const PublishBatchReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  next_offset: Type.Integer(),
  published_count: Type.Integer(),
  results: Type.Array(
    Type.Object({
      offset: Type.Optional(Type.Integer()),
      message_id: Type.Optional(Type.String()),
      error: Type.Optional(ErrorDetail),
    }),
    { description: 'in the order of the request' },
  ),
  ingest_time_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
  replication_receipt: Type.Optional(ReplicationReceipt),
})
export type PublishBatchReply = Static<typeof PublishBatchReply>

/** Rendered by the reader threads; the schema is for the document. */
export const RecordReply = Type.Object({
  offset: Type.Integer(),
  message_id: Type.String(),
  payload_hex: Type.String(),
  key_hex: nullable(Type.String()),
  headers: Type.Record(Type.String(), Type.String()),
  event_time_ms: Type.Integer(),
  ingest_time_ms: Type.Integer(),
})
export const ReplayDiagnostics = Type.Object({
  returned_records: Type.Integer(),
  returned_payload_bytes: Type.Integer(),
  max_records: Type.Integer(),
  max_payload_bytes: nullable(Type.Integer()),
  payload_cap_reached: Type.Boolean({ description: 'the page ended because of max_payload_bytes' }),
  first_record_exceeds_cap: Type.Boolean({ description: 'the one record returned is larger than max_payload_bytes' }),
  first_offset: Type.Integer({ description: 'the lowest offset that retention left' }),
  skipped_by_retention: Type.Boolean({ description: 'start_offset was below first_offset' }),
  beyond_end: Type.Boolean({ description: 'start_offset was above the next offset of the stream' }),
  quarantined_records: Type.Integer({ description: 'records left out because they are damaged' }),
})
export type ReplayDiagnostics = Static<typeof ReplayDiagnostics>
export const StreamCreatedAtMs = Type.Integer({
  description: 'extension: a request that repeats it does not find a later stream of the same name',
})
export const ReplayReply = Type.Object({
  api_version: Type.Optional(ApiVersion),
  stream: Type.String(),
  stream_created_at_ms: StreamCreatedAtMs,
  records: Type.Array(RecordReply),
  next_offset: Type.Integer(),
  end_of_stream: Type.Boolean(),
  diagnostics: ReplayDiagnostics,
})
