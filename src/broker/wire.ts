/**
 * Bodies of the broker's requests and answers, as schemas: they validate, give the types, serialise and document.
 *
 * In requests an optional field that is null counts as absent, and unknown fields are refused. Sources: specification "Resources and
 * their fields", "Shared queue", contract "Broker". What is ours, beside the specification: `records/batch`, `batch-ack`, `wait_millis`.
 */
import { Type } from 'typebox'
import type { Static, TSchema } from 'typebox'
import {
  BATCH_RECORDS_MAX,
  CLAIM_MESSAGES_MAX,
  CLAIM_WAIT_MS_MAX,
  DURATION_MS_MAX,
  OFFSET_MAX,
  REPLICA_APPLY_RECORDS_MAX,
} from './limits.ts'
import {
  NAME_RULE,
  REASON_RULE,
  REMARK_RULE,
  STREAM_NAME_RULE,
  isHex,
  isName,
  isRemark,
  isStreamName,
  isText,
} from './names.ts'

// Pieces of requests

const closed = { additionalProperties: false }
const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const text = (rule: string, isValid: (text: string) => boolean) =>
  Type.Refine(Type.String({ description: rule }), isValid, () => rule)
const Name = text(NAME_RULE, isName)
const StreamName = text(STREAM_NAME_RULE, isStreamName)
const Remark = text(REMARK_RULE, isRemark)
const Reason = text(REASON_RULE, (reason) => reason !== '' && isRemark(reason))
const Hex = text('must be an even count of hex digits', isHex)
const HEADERS_RULE = 'must be strings, whose names are not blank and have no control characters'
const Headers = Type.Refine(
  Type.Record(Type.String(), Type.String()),
  (headers) => Object.entries(headers).every(([name, value]) => isName(name) && isText(value)),
  () => HEADERS_RULE,
)
const Unsigned = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const DurationMs = Type.Integer({ minimum: 0, maximum: DURATION_MS_MAX })
const PositiveDurationMs = Type.Integer({ minimum: 1, maximum: DURATION_MS_MAX })
const Offset = Type.Integer({ minimum: 0, maximum: OFFSET_MAX })

export const RECORD_DURABILITIES = ['volatile', 'local-append', 'local-sync'] as const
export type RecordDurability = (typeof RECORD_DURABILITIES)[number]
const RecordDurability = Type.Union([
  Type.Literal('volatile'),
  Type.Literal('local-append'),
  Type.Literal('local-sync'),
])

// Requests

const RetentionBody = Type.Object(
  { max_age_millis: optional(Unsigned), max_bytes: optional(Unsigned), min_cursor_name: optional(Name) },
  closed,
)
const FailurePolicyBody = Type.Object(
  {
    max_attempts: Type.Integer({ minimum: 1, maximum: 4_294_967_295 }),
    retry_delay_millis: optional(DurationMs),
    dead_letter_stream: optional(StreamName),
    apply_on_expiry: optional(Type.Boolean()),
  },
  closed,
)
const POLICY_DURABILITY = 'replication-policy:'
const DURABILITY_RULE = `must be memory, local-disk, local-quorum or ${POLICY_DURABILITY}<name>`
const isDefaultDurability = (text: string): boolean =>
  ['memory', 'local-disk', 'local-quorum'].includes(text) ||
  (text.startsWith(POLICY_DURABILITY) && !text.includes('\\') && isName(text.slice(POLICY_DURABILITY.length)))

export const CreateStreamBody = Type.Object(
  {
    default_durability: optional(text(DURABILITY_RULE, isDefaultDurability)),
    retention: optional(RetentionBody),
    failure_policy: optional(FailurePolicyBody),
  },
  closed,
)
export type CreateStreamBody = Static<typeof CreateStreamBody>

export const PublishBody = Type.Object(
  {
    message_id: Name,
    payload: optional(Type.String()),
    payload_hex: optional(Hex),
    key: optional(Type.String()),
    key_hex: optional(Hex),
    event_time_ms: optional(Unsigned),
    headers: optional(Headers),
    durability_mode: optional(RecordDurability),
  },
  closed,
)
export type PublishBody = Static<typeof PublishBody>

/** The records are checked one by one: a bad one is refused in its result. */
export const PublishBatchBody = Type.Object(
  { records: Type.Array(Type.Unknown(), { minItems: 1, maxItems: BATCH_RECORDS_MAX }) },
  closed,
)
export type PublishBatchBody = Static<typeof PublishBatchBody>

export const CursorCommitBody = Type.Object({ offset: Offset }, closed)
export type CursorCommitBody = Static<typeof CursorCommitBody>
export const CursorRewindBody = Type.Object({ offset: Offset, reason: Reason }, closed)
export type CursorRewindBody = Static<typeof CursorRewindBody>

export const ClaimBody = Type.Object(
  {
    start_offset: optional(Offset),
    max_messages: optional(Type.Integer({ minimum: 1, maximum: CLAIM_MESSAGES_MAX })),
    lease_timeout_millis: optional(PositiveDurationMs),
    wait_millis: optional(Type.Integer({ minimum: 0, maximum: CLAIM_WAIT_MS_MAX })),
  },
  closed,
)
export type ClaimBody = Static<typeof ClaimBody>
export const AckBody = Type.Object({}, closed)
export const NackBody = Type.Object({ reason: Name, requeue: Type.Boolean() }, closed)
export type NackBody = Static<typeof NackBody>
export const RenewBody = Type.Object({ extend_by_millis: PositiveDurationMs }, closed)
export type RenewBody = Static<typeof RenewBody>
export const RetryBody = Type.Object({ reason: Remark, delay_millis: DurationMs }, closed)
export type RetryBody = Static<typeof RetryBody>
export const DeadLetterBody = Type.Object({ dead_letter_stream: StreamName, reason: Remark }, closed)
export type DeadLetterBody = Static<typeof DeadLetterBody>
export const BatchAckBody = Type.Object(
  { delivery_ids: Type.Array(Type.String(), { minItems: 1, maxItems: CLAIM_MESSAGES_MAX }) },
  closed,
)
export type BatchAckBody = Static<typeof BatchAckBody>

export const QuarantineAcknowledgeBody = Type.Object(
  { acknowledged_by: optional(Remark), note: optional(Remark) },
  closed,
)
export type QuarantineAcknowledgeBody = Static<typeof QuarantineAcknowledgeBody>

export const ReplicationControlBody = Type.Object(
  { stream: StreamName, source_site: Name, target_site: Name, tenant: optional(Name), reason: optional(Remark) },
  closed,
)
export type ReplicationControlBody = Static<typeof ReplicationControlBody>

const ReplicatedRecordBody = Type.Object(
  {
    origin_offset: Offset,
    message_id: Name,
    payload_hex: Hex,
    key_hex: optional(Hex),
    headers: optional(Headers),
    event_time_ms: Unsigned,
    ingest_time_ms: Unsigned,
  },
  closed,
)
export const ReplicaApplyBody = Type.Object(
  {
    source_site: Name,
    target_site: Name,
    policy: Name,
    tenant: optional(Name),
    stream: StreamName,
    records: Type.Array(ReplicatedRecordBody, { minItems: 1, maxItems: REPLICA_APPLY_RECORDS_MAX }),
  },
  closed,
)
export type ReplicaApplyBody = Static<typeof ReplicaApplyBody>

// Pieces of answers. Names and ids that were checked when they came in may still need escaping: only what we made ourselves does not.

const ApiVersion = Type.Literal('v1')
const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export const Acknowledgement = Type.Object({
  durability: Type.String({ description: 'volatile, local-append, local-sync or local-quorum' }),
  durable: Type.Boolean({ description: 'synced to disk before this answer' }),
  replicas: Type.Integer({ description: 'directories that hold it, at least' }),
})
export type Acknowledgement = Static<typeof Acknowledgement>

const ErrorDetail = Type.Object({
  code: Type.String(),
  message: Type.String(),
  action: Type.String({ description: 'what to do about it' }),
  retryable: Type.Boolean(),
})
export const ErrorReply = Type.Object({ api_version: ApiVersion, error: ErrorDetail })
export type ErrorReply = Static<typeof ErrorReply>

// Streams and records

export const CreateStreamReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  created: Type.Literal(true),
  acknowledgement: Acknowledgement,
})
export type CreateStreamReply = Static<typeof CreateStreamReply>

const streamFields = {
  stream: Type.String(),
  default_durability: Type.String(),
  retention: Type.Object({
    max_age_millis: nullable(Type.Integer()),
    max_bytes: nullable(Type.Integer()),
    min_cursor_name: nullable(Type.String()),
  }),
  failure_policy: nullable(
    Type.Object({
      max_attempts: Type.Integer(),
      retry_delay_millis: Type.Integer(),
      dead_letter_stream: nullable(Type.String()),
      apply_on_expiry: Type.Boolean(),
    }),
  ),
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
export const PublishReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  ...publishFields,
  acknowledgement: Acknowledgement,
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
})
export type PublishBatchReply = Static<typeof PublishBatchReply>

/** Rendered by the reader threads; the schema is for the document. */
const RecordReply = Type.Object({
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
  quarantined_records: Type.Integer({ description: 'records left out because they are damaged' }),
})
export type ReplayDiagnostics = Static<typeof ReplayDiagnostics>
export const ReplayReply = Type.Object({
  api_version: Type.Optional(ApiVersion),
  stream: Type.String(),
  records: Type.Array(RecordReply),
  next_offset: Type.Integer(),
  end_of_stream: Type.Boolean(),
  diagnostics: ReplayDiagnostics,
})

// Shared queue

const deliveryFields = {
  api_version: ApiVersion,
  stream: Type.String(),
  consumer_group: Type.String(),
  subscription_id: Type.String(),
  delivery_id: Type.String(),
}
/** Assembled from rendered records; the schema is for the document. */
export const ClaimReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  consumer_group: Type.String(),
  subscription_id: Type.String(),
  deliveries: Type.Array(
    Type.Object({
      delivery_id: Type.String(),
      subscription_id: Type.String(),
      offset: Type.Integer(),
      attempt: Type.Integer(),
      leased_at_ms: Type.Integer(),
      lease_expires_at_ms: Type.Integer(),
      record: RecordReply,
    }),
  ),
  next_offset: Type.Integer({ description: 'behind the last offset that was given out' }),
  delivery_count: Type.Integer(),
})
export const AckReply = Type.Object({
  ...deliveryFields,
  offset: Type.Integer(),
  attempt: Type.Integer(),
  acknowledged_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type AckReply = Static<typeof AckReply>
export const BatchAckReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  subscription_id: Type.String(),
  acknowledged_count: Type.Integer(),
  acknowledged_at_ms: Type.Integer(),
  results: Type.Array(
    Type.Object({
      delivery_id: Type.String(),
      offset: Type.Optional(Type.Integer()),
      attempt: Type.Optional(Type.Integer()),
      error: Type.Optional(ErrorDetail),
    }),
    { description: 'in the order of the request' },
  ),
  acknowledgement: Acknowledgement,
})
export type BatchAckReply = Static<typeof BatchAckReply>
const PolicyAction = Type.Union([
  Type.Literal('none'),
  Type.Literal('redeliver_now'),
  Type.Literal('scheduled_retry'),
  Type.Literal('dead_lettered'),
  Type.Literal('stopped'),
])
export const NackReply = Type.Object({
  ...deliveryFields,
  offset: Type.Integer(),
  attempt: Type.Integer(),
  will_redeliver: Type.Boolean(),
  policy_action: PolicyAction,
  available_at_ms: Type.Optional(Type.Integer()),
  dead_letter_stream: Type.Optional(Type.String()),
  dead_letter_offset: Type.Optional(Type.Integer()),
  acknowledgement: Acknowledgement,
})
export type NackReply = Static<typeof NackReply>
export const RenewReply = Type.Object({
  ...deliveryFields,
  lease: Type.Object({
    consumer_group: Type.String(),
    offset: Type.Integer(),
    attempt: Type.Integer(),
    state: Type.Literal('active'),
    leased_at_ms: Type.Integer(),
    lease_expires_at_ms: Type.Integer(),
  }),
  acknowledgement: Acknowledgement,
})
export type RenewReply = Static<typeof RenewReply>
export const RetryReply = Type.Object({
  ...deliveryFields,
  offset: Type.Integer(),
  attempt: Type.Integer(),
  available_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type RetryReply = Static<typeof RetryReply>
export const DeadLetterReply = Type.Object({
  ...deliveryFields,
  source_offset: Type.Integer(),
  dead_letter_stream: Type.String(),
  dead_letter_offset: Type.Integer(),
  attempt: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type DeadLetterReply = Static<typeof DeadLetterReply>

// Cursors and inspection

const groupFields = { api_version: ApiVersion, stream: Type.String(), consumer_group: Type.String() }
const CursorEntry = Type.Object({
  cursor: Type.String(),
  offset: Type.Integer(),
  updated_at_ms: Type.Integer(),
})
const DelayedEntry = Type.Object({
  offset: Type.Integer(),
  attempt: Type.Integer(),
  available_at_ms: Type.Integer(),
})
export const CursorCommitReply = Type.Object({
  ...groupFields,
  cursor: Type.String(),
  offset: Type.Integer(),
  committed_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type CursorCommitReply = Static<typeof CursorCommitReply>
export const CursorRewindReply = Type.Object({
  ...groupFields,
  cursor: Type.String(),
  offset: Type.Integer(),
  previous_offset: nullable(Type.Integer()),
  reason: Type.String(),
  rewound_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type CursorRewindReply = Static<typeof CursorRewindReply>
export const CursorListReply = Type.Object({
  ...groupFields,
  cursor_count: Type.Integer(),
  cursors: Type.Array(CursorEntry),
})
export type CursorListReply = Static<typeof CursorListReply>
export const GroupReply = Type.Object({
  ...groupFields,
  mode: Type.Literal('shared_queue'),
  highest_next_offset: Type.Integer(),
  progress_offset: Type.Integer({ description: 'first offset that is not finished' }),
  lag_messages: Type.Integer({ description: 'records that are not finished' }),
  in_flight_count: Type.Integer({ description: 'active leases' }),
  delayed_count: Type.Integer({ description: 'all of them' }),
  cursors: Type.Array(CursorEntry),
  delayed_retries: Type.Array(DelayedEntry, { description: 'at most 1000' }),
})
export type GroupReply = Static<typeof GroupReply>
export const LeaseListReply = Type.Object({
  ...groupFields,
  lease_count: Type.Integer({ description: 'those of this answer' }),
  leases: Type.Array(
    Type.Object({
      offset: Type.Integer(),
      attempt: Type.Integer(),
      state: Type.String({ description: 'active, expired, acked, nacked, dead_lettered or stopped' }),
      subscription_id: nullable(Type.String()),
      delivery_id: Type.String(),
      leased_at_ms: nullable(Type.Integer()),
      lease_expires_at_ms: nullable(Type.Integer()),
    }),
  ),
  truncated: Type.Boolean(),
})
export type LeaseListReply = Static<typeof LeaseListReply>
export const DelayedListReply = Type.Object({
  ...groupFields,
  delayed_count: Type.Integer({ description: 'all of them, shown or not' }),
  delayed: Type.Array(DelayedEntry),
  truncated: Type.Boolean(),
})
export type DelayedListReply = Static<typeof DelayedListReply>
export const ReplayConsumerListReply = Type.Object({
  ...groupFields,
  replay_consumer_count: Type.Integer(),
  replay_consumers: Type.Array(
    Type.Object({
      consumer_id: Type.String(),
      returned_records: Type.Integer({ description: 'of the last page' }),
      end_of_stream: Type.Boolean(),
      next_offset: Type.Integer(),
      observed_at_ms: Type.Integer(),
    }),
  ),
})
export type ReplayConsumerListReply = Static<typeof ReplayConsumerListReply>

// Audit

export const AuditEventReply = Type.Object({
  event_id: Type.String(),
  kind: Type.String(),
  at_ms: Type.Integer(),
  tenant: Type.String(),
  principal: Type.String(),
  stream: nullable(Type.String()),
  detail: Type.Record(Type.String(), Type.Unknown()),
  offset: Type.Integer(),
})
/** Rendered by the reader threads; the schema is for the document. */
export const AuditPageReply = Type.Object({
  api_version: ApiVersion,
  events: Type.Array(AuditEventReply),
  event_count: Type.Integer(),
  next_offset: Type.Integer(),
  end_of_stream: Type.Boolean(),
})

// Storage administration

export const RetentionPlanReply = Type.Object({
  stream: Type.String(),
  dry_run: Type.Literal(true),
  evaluated_at_ms: Type.Integer(),
  policy: Type.Object({
    max_age_millis: nullable(Type.Integer()),
    max_bytes: nullable(Type.Integer()),
    min_cursor_name: nullable(Type.String()),
  }),
  first_offset: Type.Integer(),
  next_offset: Type.Integer(),
  planned_first_offset: Type.Integer({ description: 'first_offset after enforcement' }),
  cursor_floor_offset: nullable(
    Type.Integer({ description: 'records from here on are kept for the cursor of min_cursor_name' }),
  ),
  removable_records: Type.Integer(),
  removable_bytes: Type.Integer(),
  retained_records: Type.Integer(),
  retained_bytes: Type.Integer(),
})
export type RetentionPlanReply = Static<typeof RetentionPlanReply>

const SegmentEntry = Type.Object({
  segment: Type.String(),
  sealed: Type.Boolean(),
  records: Type.Integer({ description: 'of this stream' }),
  payload_bytes: Type.Integer({ description: 'of this stream' }),
  first_offset: Type.Integer(),
  last_offset: Type.Integer(),
})
export const TieringReadinessReply = Type.Object({
  stream: Type.String(),
  evaluated_at_ms: Type.Integer(),
  ready: Type.Boolean({ description: 'there is something that could be moved' }),
  eligible_segments: Type.Array(SegmentEntry),
  eligible_records: Type.Integer(),
  eligible_bytes: Type.Integer(),
  blocked: Type.Array(Type.Object({ segment: Type.String(), reason: Type.String() })),
})
export type TieringReadinessReply = Static<typeof TieringReadinessReply>
export const ArchiveManifestReply = Type.Object({
  schema: Type.Literal('broker.archive_manifest.v1'),
  stream: Type.String(),
  created_at_ms: Type.Integer(),
  first_offset: Type.Integer(),
  next_offset: Type.Integer(),
  segments: Type.Array(
    Type.Object({
      segment: Type.String(),
      file: Type.String(),
      file_bytes: Type.Integer(),
      records: Type.Integer(),
      payload_bytes: Type.Integer(),
      first_offset: Type.Integer(),
      last_offset: Type.Integer(),
    }),
  ),
})
export type ArchiveManifestReply = Static<typeof ArchiveManifestReply>

const incidentFields = {
  incident_id: Type.String(),
  stream: Type.String(),
  state: Type.Union([Type.Literal('open'), Type.Literal('acknowledged')]),
  segment: Type.String(),
  first_offset: nullable(Type.Integer({ description: 'of the records that cannot be read; null: unknown' })),
  last_offset: nullable(Type.Integer()),
  damaged_bytes: Type.Integer(),
  reason: Type.String(),
  acknowledged_at_ms: nullable(Type.Integer()),
  acknowledged_by: nullable(Type.String()),
  note: nullable(Type.String()),
}
export const IncidentEntry = Type.Object(incidentFields)
export type IncidentEntry = Static<typeof IncidentEntry>
export const QuarantineListReply = Type.Object({
  stream: Type.String(),
  incident_count: Type.Integer(),
  incidents: Type.Array(IncidentEntry),
})
export type QuarantineListReply = Static<typeof QuarantineListReply>
export const QuarantineAcknowledgeReply = Type.Object({ ...incidentFields, acknowledgement: Acknowledgement })
export type QuarantineAcknowledgeReply = Static<typeof QuarantineAcknowledgeReply>

// Replication

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

// Health

export const HealthReply = Type.Object({
  status: Type.String(),
  service: Type.Literal('mq'),
  version: Type.String(),
  node_id: Type.String(),
  http_bind: Type.String(),
  storage: Type.Object({ status: Type.String({ description: 'ok, read-only or degraded' }) }),
  security: Type.Object({ auth_mode: Type.String() }),
  audit: Type.Object({ status: Type.String() }),
  metrics: Type.Object({ exposure: Type.String({ description: 'http or disabled' }) }),
  release: Type.Object({ channel: Type.String(), version: Type.String() }),
})
export type HealthReply = Static<typeof HealthReply>
