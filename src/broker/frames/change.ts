/**
 * Payload of CHANGE: everything rare, as JSON in UTF-8. A field that is added later is optional here, so that older logs stay readable.
 *
 * `at_ms` is wall-clock time, except in `delivery_stopped`: there it is broker time, and `wall_ms` is the wall clock's. Older frames have
 * broker time everywhere.
 *
 * H1  a change with an `audit_offset` is at the same time the audit event at this offset of its tenant's audit stream
 */
import { Type } from '../../schema.ts'
import type { Static, TProperties, TSchema } from 'typebox'
import { schemaCheck } from '../../schema-check.ts'

const Integer = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Text = Type.String()
const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
const change = <Kind extends string, Fields extends TProperties>(kind: Kind, fields: Fields) =>
  Type.Object({ kind: Type.Literal(kind), at_ms: Integer, ...fields })

/** A stream, replicated from one site to another under a policy. */
const link = { stream_number: Integer, source_site: Text, target_site: Text, policy: Text }
/** An operator's command to the workers of a stream between two sites. */
const workerControl = {
  stream_number: Integer,
  stream: Text,
  source_site: Text,
  target_site: Text,
  reason: nullable(Text),
}

/** Fields of an audited change (H1). */
const audited = { tenant: Text, principal: Text, audit_offset: Integer }

const Retention = Type.Object({
  max_age_millis: nullable(Integer),
  max_bytes: nullable(Integer),
  min_cursor_name: nullable(Text),
})
const FailurePolicy = nullable(
  Type.Object({
    max_attempts: Integer,
    retry_delay_millis: Integer,
    dead_letter_stream: nullable(Text),
    apply_on_expiry: Type.Boolean(),
  }),
)

const Change = Type.Union([
  /** The first frame of a log. */
  change('init', { secret: Text }),
  change('stream_created', {
    ...audited,
    /** Null: the broker itself created the stream, which makes no event. */
    audit_offset: nullable(Integer),
    stream_number: Integer,
    stream: Text,
    default_durability: Text,
    retention: Retention,
    failure_policy: FailurePolicy,
    /** When the stream counts as created (state S6); absent: at `at_ms`. */
    created_at_ms: Type.Optional(Integer),
  }),
  /** The fields are the whole new configuration. */
  change('stream_updated', {
    ...audited,
    stream_number: Integer,
    stream: Text,
    default_durability: Text,
    retention: Retention,
    failure_policy: FailurePolicy,
  }),
  /** The stream's records, groups and cursors go with it. Neither its number nor those of its groups are given again. */
  change('stream_deleted', {
    ...audited,
    stream_number: Integer,
    stream: Text,
    next_offset: Integer,
    removed_records: Integer,
    removed_bytes: Integer,
    forced: Type.Boolean(),
  }),
  /** An operator removed the records below `floor`. */
  change('stream_purged', {
    ...audited,
    stream_number: Integer,
    stream: Text,
    floor: Integer,
    previous_floor: Integer,
    removed_bytes: Integer,
    reason: nullable(Text),
    forced: Type.Boolean(),
  }),
  change('group_deleted', { ...audited, group_number: Integer, stream: Text, group: Text, forced: Type.Boolean() }),
  /** The group processes its stream again from an offset on. */
  change('group_sought', {
    ...audited,
    group_number: Integer,
    stream: Text,
    group: Text,
    offset: Integer,
    /** First offset that was not finished. */
    previous_offset: Integer,
    reason: Text,
  }),
  change('cursor_deleted', {
    ...audited,
    group_number: Integer,
    stream: Text,
    group: Text,
    cursor: Text,
    /** Where the cursor was. */
    offset: Integer,
    forced: Type.Boolean(),
  }),
  change('group_created', { group_number: Integer, stream_number: Integer, group: Text }),
  change('cursor_committed', { group_number: Integer, cursor: Text, offset: Integer }),
  change('cursor_rewound', {
    ...audited,
    stream: Text,
    group: Text,
    group_number: Integer,
    cursor: Text,
    offset: Integer,
    /** Null: the cursor is new. */
    previous_offset: nullable(Integer),
    reason: Text,
  }),
  /** A replay by a named consumer. */
  change('observation', {
    group_number: Integer,
    consumer_id: Text,
    returned_records: Integer,
    next_offset: Integer,
    end_of_stream: Type.Boolean(),
  }),
  /** Retention removed the records below `floor`. */
  change('retained', { stream_number: Integer, floor: Integer, removed_bytes: Integer }),
  change('quarantine_acknowledged', {
    ...audited,
    stream: Text,
    stream_number: Integer,
    incident_id: Text,
    acknowledged_by: nullable(Text),
    note: nullable(Text),
  }),
  /** A nack at the last attempt that could not be dead-lettered: terminal. */
  change('delivery_stopped', {
    ...audited,
    stream: Text,
    group: Text,
    group_number: Integer,
    offset: Integer,
    attempt: Integer,
    reason: Text,
    /** Wall-clock time of the event; `at_ms` is the time for the lease. */
    wall_ms: Type.Optional(Integer),
  }),
  /** An operator had broker time set: leases and delays moved by the same shift. */
  change('clock_set', {
    ...audited,
    /** Broker time after the change. */
    set_to_ms: Integer,
    shift_ms: Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
  }),
  /** At the source: the records below `next_offset` are at the target. */
  change('replication_shipped', { ...link, next_offset: Integer }),
  /** At the source: records of [from_offset, to_offset) were removed before they were sent. */
  change('replication_skipped', {
    ...audited,
    ...link,
    stream: Text,
    from_offset: Integer,
    to_offset: Integer,
    skipped_records: Integer,
  }),
  change('replication_paused', { ...audited, ...workerControl }),
  change('replication_resumed', { ...audited, ...workerControl }),
  /** At the target: records below `next_expected_offset` that have not come never will, as the source does not have them. */
  change('replica_skipped', { ...link, next_expected_offset: Integer, origin_created_at_ms: nullable(Integer) }),
  /** An audit event that changes nothing else. */
  change('audit', {
    ...audited,
    event_kind: Text,
    /** Id of an event that was moved from an older segment; null: the id follows from the position of this frame. */
    event_id: nullable(Text),
    stream: nullable(Text),
    detail: Type.Record(Text, Type.Unknown()),
  }),
])
export type Change = Static<typeof Change>

const changeCheck = schemaCheck(Change)

export const encodeChange = (value: Change): Buffer => Buffer.from(JSON.stringify(value))

export function decodeChange(payload: Buffer): Change | null {
  try {
    const value: unknown = JSON.parse(payload.toString('utf8'))
    return changeCheck.accepts(value) ? value : null
  } catch {
    return null
  }
}
