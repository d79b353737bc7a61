/**
 * Bodies of the broker's requests, as schemas: they validate, give the types and document.
 *
 * An optional field that is null counts as absent, and unknown fields are refused. Sources: specification "Resources and their fields",
 * "Shared queue", contract "Broker". What is ours, beside the specification: `records/batch`, `batch-ack`, `wait_millis`.
 */
import { Type } from '../../schema.ts'
import type { Static, TSchema } from 'typebox'
import { LongString } from '../../../native-free-codecs/json-reader.ts'
import {
  BATCH_RECORDS_MAX,
  CLAIM_MESSAGES_MAX,
  CLAIM_WAIT_MS_MAX,
  DEAD_LETTER_HEADERS_BYTES_MAX,
  DEAD_LETTER_HEADERS_MAX,
  DURATION_MS_MAX,
  HEADERS_BYTES_MAX,
  HEADERS_MAX,
  OFFSET_MAX,
  REDRIVE_RECORDS_MAX,
  REPLICA_APPLY_RECORDS_MAX,
  REPLICA_APPLY_WAIT_MS_MAX,
  REPLICATION_SITES_MAX,
} from '../limits.ts'
import {
  HEADERS_SIZE_RULE,
  NAME_RULE,
  REASON_RULE,
  REMARK_RULE,
  STREAM_NAME_RULE,
  TOKEN_RULE,
  fitHeaders,
  isHex,
  isName,
  isRemark,
  isStreamName,
  isText,
  isToken,
} from '../names.ts'

const closed = { additionalProperties: false }
const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const text = (rule: string, isValid: (text: string) => boolean) =>
  Type.Refine(Type.String({ description: rule }), isValid, () => rule)
const Name = text(NAME_RULE, isName)
const StreamName = text(STREAM_NAME_RULE, isStreamName)
const Remark = text(REMARK_RULE, isRemark)
const Reason = text(REASON_RULE, (reason) => reason !== '' && isRemark(reason))
const HEX_RULE = 'must be an even count of hex digits'
const Hex = text(HEX_RULE, isHex)
const HEADERS_RULE = `must be strings, whose names are not blank and have no control characters; they ${HEADERS_SIZE_RULE}`
const headersThat = (fit: (headers: Record<string, string>) => boolean) =>
  Type.Refine(
    Type.Record(Type.String(), Type.String()),
    (headers) => fit(headers) && Object.entries(headers).every(([name, value]) => isName(name) && isText(value)),
    () => HEADERS_RULE,
  )
const Headers = headersThat((headers) => fitHeaders(headers))
/** Headers of a record that another site stored: it may be a dead-letter copy. */
const StoredHeaders = headersThat((headers) =>
  fitHeaders(headers, HEADERS_MAX + DEAD_LETTER_HEADERS_MAX, HEADERS_BYTES_MAX + DEAD_LETTER_HEADERS_BYTES_MAX),
)
const Unsigned = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const DurationMs = Type.Integer({ minimum: 0, maximum: DURATION_MS_MAX })
const PositiveDurationMs = Type.Integer({ minimum: 1, maximum: DURATION_MS_MAX })
const Offset = Type.Integer({ minimum: 0, maximum: OFFSET_MAX })

const RecordDurability = Type.Union([
  Type.Literal('volatile'),
  Type.Literal('local-append'),
  Type.Literal('local-sync'),
])

// Bodies

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
export const POLICY_DURABILITY = 'replication-policy:'
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

/** Absent fields stay as they are, null fields become the default. A new policy needs `max_attempts`. */
export const UpdateStreamBody = Type.Object(
  {
    default_durability: CreateStreamBody.properties.default_durability,
    retention: CreateStreamBody.properties.retention,
    failure_policy: optional(
      Type.Object(
        {
          ...FailurePolicyBody.properties,
          max_attempts: Type.Optional(FailurePolicyBody.properties.max_attempts),
        },
        closed,
      ),
    ),
  },
  { ...closed, minProperties: 1 },
)
export type UpdateStreamBody = Static<typeof UpdateStreamBody>
export const PurgeStreamBody = Type.Object({ offset: Offset, reason: optional(Reason) }, closed)
export type PurgeStreamBody = Static<typeof PurgeStreamBody>
/** Either `offsets`, or all dead letters from `start_offset` on. */
export const RedriveBody = Type.Object(
  {
    offsets: optional(Type.Array(Offset, { minItems: 1, maxItems: REDRIVE_RECORDS_MAX })),
    start_offset: optional(Offset),
    max_records: optional(Type.Integer({ minimum: 1, maximum: REDRIVE_RECORDS_MAX })),
    reason: optional(Reason),
  },
  closed,
)
export type RedriveBody = Static<typeof RedriveBody>
/** Exactly one of the first three must be given. */
export const SeekBody = Type.Object(
  { offset: optional(Offset), event_time_ms: optional(Unsigned), ingest_time_ms: optional(Unsigned), reason: Reason },
  closed,
)
export type SeekBody = Static<typeof SeekBody>

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

const ClaimId = text(TOKEN_RULE, isToken)
export const ClaimBody = Type.Object(
  {
    start_offset: optional(Offset),
    max_messages: optional(Type.Integer({ minimum: 1, maximum: CLAIM_MESSAGES_MAX })),
    lease_timeout_millis: optional(PositiveDurationMs),
    claim_id: optional(ClaimId),
    wait_millis: optional(Type.Integer({ minimum: 0, maximum: CLAIM_WAIT_MS_MAX })),
    /** Creation time of the stream that is meant: a later one of the same name is not found. */
    stream_created_at_ms: optional(Unsigned),
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

const replicatedRecord = <Bytes extends TSchema>(Bytes: Bytes) =>
  Type.Object(
    {
      origin_offset: Offset,
      message_id: Name,
      payload_hex: Bytes,
      key_hex: optional(Bytes),
      headers: optional(StoredHeaders),
      event_time_ms: Unsigned,
      ingest_time_ms: Unsigned,
    },
    closed,
  )
const RANGE_RULE = 'must be [from, to) pairs of offsets, from below to'
const Range = Type.Refine(
  Type.Array(Offset, { minItems: 2, maxItems: 2, description: RANGE_RULE }),
  ([from, to]) => from! < to!, // there are two
  () => RANGE_RULE,
)
const applying = <Item extends TSchema>(Item: Item) =>
  Type.Object(
    {
      source_site: Name,
      target_site: Name,
      policy: Name,
      tenant: optional(Name),
      stream: StreamName,
      origin_first_offset: optional(Offset),
      skipped_ranges: optional(Type.Array(Range, { maxItems: REPLICA_APPLY_RECORDS_MAX })),
      /** When the stream was created at the source: a later one of the same name is another stream, whose offsets begin anew. */
      origin_created_at_ms: optional(Unsigned),
      /** Sites that the records passed through before the source. */
      via_sites: optional(Type.Array(Name, { maxItems: REPLICATION_SITES_MAX })),
      /** How long the batch waits for batches before it that are under way. */
      wait_millis: optional(Type.Integer({ minimum: 0, maximum: REPLICA_APPLY_WAIT_MS_MAX })),
      records: Type.Array(Item, { maxItems: REPLICA_APPLY_RECORDS_MAX }),
    },
    closed,
  )
export const ReplicaApplyBody = applying(replicatedRecord(Hex))

/** The body as the body reader gives it: its records are still to be checked, one by one, and long hex strings are bytes already. */
export const ReplicaApplyEnvelope = applying(Type.Unknown())
export const ReplicatedRecord = replicatedRecord(
  Type.Unsafe<string | LongString>(
    Type.Refine(
      Type.Unknown(),
      (value) => (value instanceof LongString ? value.isValid : typeof value === 'string' && isHex(value)),
      () => HEX_RULE,
    ),
  ),
)
export type ReplicatedRecord = Static<typeof ReplicatedRecord>
export interface ReplicaApply extends Omit<Static<typeof ReplicaApplyEnvelope>, 'records'> {
  readonly records: readonly ReplicatedRecord[]
}
