/** The effect of each rare change on the state: live when its frame is taken, at a start when it is read. No other code has this effect. */
import type { Change } from '../frames/change.ts'
import { eventTimeOf } from '../records/audit-event.ts'
import type { Link, Sites } from './replication-state.ts'
import { AUDIT_STREAM } from './state.ts'
import type { BrokerState, Group, Place, StreamState } from './state.ts'

/** @returns false when the change is about a stream or group whose creation was lost to damage */
export function applyChange(state: BrokerState, change: Change, place: Place): boolean {
  const known = applyFacts(state, change)
  if (!('audit_offset' in change) || change.audit_offset === null) return known
  const isMoved = change.kind === 'audit'
  if (isMoved && state.stream(change.tenant, AUDIT_STREAM) === undefined) return false // its offset is not the last that was given
  return state.applyAudited(change.tenant, change.audit_offset, place, eventTimeOf(change)) && known
}

function applyFacts(state: BrokerState, change: Change): boolean {
  switch (change.kind) {
    case 'init':
      state.secret = Buffer.from(change.secret, 'hex')
      return true
    case 'stream_created': {
      const { stream_number, tenant, stream, default_durability, retention, failure_policy } = change
      const config = { default_durability, retention, failure_policy }
      state.applyStreamCreated(stream_number, tenant, stream, config, change.created_at_ms ?? change.at_ms)
      return true
    }
    case 'stream_updated': {
      const { default_durability, retention, failure_policy } = change
      const config = { default_durability, retention, failure_policy }
      return withStream(state, change, (stream) => (stream.config = config))
    }
    case 'stream_deleted':
      return withStream(state, change, (stream) => state.applyStreamDeleted(stream))
    case 'stream_purged':
      return withStream(state, change, (stream) => state.applyRetained(stream, change.floor, change.removed_bytes))
    case 'group_deleted':
      return withGroup(state, change, (group) => state.applyGroupDeleted(group))
    case 'group_sought':
      return withGroup(state, change, (group) => state.applySought(group, change.offset))
    case 'cursor_deleted':
      return withGroup(state, change, (group) => state.applyCursorDeleted(group, change.cursor))
    case 'group_created': {
      const stream = state.streams[change.stream_number]
      if (stream) state.applyGroupCreated(change.group_number, stream, change.group)
      return stream !== undefined
    }
    case 'cursor_committed':
    case 'cursor_rewound':
      return withGroup(state, change, (group) => state.applyCursor(group, change.cursor, change.offset, change.at_ms))
    case 'observation':
      return withGroup(state, change, (group) =>
        state.applyObservation(group, change.consumer_id, {
          returnedRecords: change.returned_records,
          nextOffset: change.next_offset,
          endOfStream: change.end_of_stream,
          observedAtMs: change.at_ms,
        }),
      )
    case 'retained':
      return withStream(state, change, (stream) => state.applyRetained(stream, change.floor, change.removed_bytes))
    case 'quarantine_acknowledged':
      state.applyIncidentAcknowledged(change.incident_id, {
        atMs: change.at_ms,
        by: change.acknowledged_by,
        note: change.note,
      })
      return true
    case 'delivery_stopped':
      return withGroup(state, change, (group) =>
        state.applyFinished(group, change.offset, change.attempt, 'stopped', change.at_ms, change.reason),
      )
    case 'clock_set':
      state.applyClockSet(change.set_to_ms, change.shift_ms)
      return true
    case 'replication_shipped':
      return withStream(state, change, ({ replication }) =>
        replication.applyShipped(linkOf(change), change.next_offset),
      )
    case 'replication_skipped':
      return withStream(state, change, ({ replication }) =>
        replication.applySkipped(linkOf(change), change.to_offset, change.skipped_records),
      )
    case 'replication_paused':
      return withStream(state, change, ({ replication }) => {
        const { reason, principal, at_ms: atMs } = change
        replication.applyPaused({ sites: sitesOf(change), reason, principal, atMs })
      })
    case 'replication_resumed':
      return withStream(state, change, ({ replication }) => replication.applyResumed(sitesOf(change)))
    case 'replica_skipped':
      return withStream(state, change, ({ replication }) => {
        const { next_expected_offset: next, origin_created_at_ms: createdAtMs } = change
        replication.applyBrought(linkOf(change), { next, count: 0, createdAtMs })
      })
    case 'audit':
      return true
  }
}

interface NamesSites {
  readonly source_site: string
  readonly target_site: string
}

const sitesOf = (change: NamesSites): Sites => ({ sourceSite: change.source_site, targetSite: change.target_site })
const linkOf = (change: NamesSites & { readonly policy: string }): Link => ({
  ...sitesOf(change),
  policy: change.policy,
})

function withStream(
  state: BrokerState,
  change: { readonly stream_number: number },
  apply: (stream: StreamState) => void,
): boolean {
  const stream = state.streams[change.stream_number]
  if (stream) apply(stream)
  return stream !== undefined
}

function withGroup(
  state: BrokerState,
  change: { readonly group_number: number },
  apply: (group: Group) => void,
): boolean {
  const group = state.groups[change.group_number]
  if (group) apply(group)
  return group !== undefined
}
