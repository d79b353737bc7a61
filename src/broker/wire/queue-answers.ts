/** What the broker answers to claims, and to calls about a delivery. */
import { Type } from '../../schema.ts'
import type { Static } from 'typebox'
import { Acknowledgement, ApiVersion, ErrorDetail, LeaseRemaining } from './answers.ts'
import { RecordReply, StreamCreatedAtMs } from './record-answers.ts'

const deliveryFields = {
  api_version: ApiVersion,
  stream: Type.String(),
  consumer_group: Type.String(),
  subscription_id: Type.String(),
  delivery_id: Type.String(),
}
/** Assembled from rendered records; this schema and the next are for the document. */
export const DeliveryReply = Type.Object({
  delivery_id: Type.String(),
  subscription_id: Type.String(),
  offset: Type.Integer(),
  attempt: Type.Integer(),
  leased_at_ms: Type.Integer(),
  lease_expires_at_ms: Type.Integer(),
  lease_remaining_millis: LeaseRemaining,
  fencing_token: Type.Integer({ description: 'extension: higher than that of every earlier claim of the group' }),
  record: RecordReply,
})
export const ClaimReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  stream_created_at_ms: StreamCreatedAtMs,
  consumer_group: Type.String(),
  subscription_id: Type.String(),
  deliveries: Type.Array(DeliveryReply),
  next_offset: Type.Integer({ description: 'offset after the last record that was given out' }),
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
    lease_remaining_millis: LeaseRemaining,
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
