/** What the broker answers about consumer groups: cursors, leases, delayed records, replay consumers. */
import { Type } from '../../schema.ts'
import type { Static } from 'typebox'
import { Acknowledgement, ApiVersion, LeaseRemaining, nullable } from './answers.ts'

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
  delayed_count: Type.Integer({ description: 'all delayed records, also those that delayed_retries leaves out' }),
  cursors: Type.Array(CursorEntry),
  delayed_retries: Type.Array(DelayedEntry, { description: 'at most 1000' }),
})
export type GroupReply = Static<typeof GroupReply>
export const GroupListReply = Type.Object({
  api_version: ApiVersion,
  stream: Type.String(),
  group_count: Type.Integer(),
  consumer_groups: Type.Array(
    Type.Object({
      consumer_group: Type.String(),
      progress_offset: Type.Integer({ description: 'first offset that is not finished' }),
      lag_messages: Type.Integer({ description: 'records that are not finished' }),
      in_flight_count: Type.Integer({ description: 'active leases' }),
      delayed_count: Type.Integer(),
      cursor_count: Type.Integer(),
      oldest_unfinished_age_millis: nullable(
        Type.Integer({ description: 'age of the first record that is not finished; null: all are finished' }),
      ),
    }),
  ),
})
export type GroupListReply = Static<typeof GroupListReply>
const deletedFields = {
  deleted: Type.Literal(true),
  deleted_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
}
export const GroupDeleteReply = Type.Object({ ...groupFields, ...deletedFields })
export type GroupDeleteReply = Static<typeof GroupDeleteReply>
export const CursorDeleteReply = Type.Object({
  ...groupFields,
  cursor: Type.String(),
  offset: Type.Integer({ description: 'offset of the cursor when it was deleted' }),
  ...deletedFields,
})
export type CursorDeleteReply = Static<typeof CursorDeleteReply>
export const GroupSeekReply = Type.Object({
  ...groupFields,
  offset: Type.Integer({ description: 'records from here on are given out again' }),
  previous_offset: Type.Integer({ description: 'first offset that was not finished before the seek' }),
  reason: Type.String(),
  sought_at_ms: Type.Integer(),
  acknowledgement: Acknowledgement,
})
export type GroupSeekReply = Static<typeof GroupSeekReply>
export const LeaseListReply = Type.Object({
  ...groupFields,
  lease_count: Type.Integer({ description: 'leases in this answer' }),
  leases: Type.Array(
    Type.Object({
      offset: Type.Integer(),
      attempt: Type.Integer(),
      state: Type.String({ description: 'active, expired, released, acked, nacked, dead_lettered or stopped' }),
      subscription_id: nullable(Type.String()),
      delivery_id: Type.String(),
      leased_at_ms: nullable(Type.Integer()),
      lease_expires_at_ms: nullable(Type.Integer()),
      lease_remaining_millis: nullable(LeaseRemaining),
      reason: nullable(
        Type.String({
          description: 'reason given with the last nack, retry or dead-letter of the record, 256 bytes at most',
        }),
      ),
    }),
  ),
  truncated: Type.Boolean(),
})
export type LeaseListReply = Static<typeof LeaseListReply>
export const DelayedListReply = Type.Object({
  ...groupFields,
  delayed_count: Type.Integer({ description: 'all delayed records, also those that this answer leaves out' }),
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
      returned_records: Type.Integer({ description: 'records of the last page' }),
      end_of_stream: Type.Boolean(),
      next_offset: Type.Integer(),
      observed_at_ms: Type.Integer(),
    }),
  ),
})
export type ReplayConsumerListReply = Static<typeof ReplayConsumerListReply>
