/** What a rare change does to the state: live when its frame was taken, at a start when it is read. There is no other place for it. */
import type { Change } from '../frames/change.ts'
import { eventTimeOf } from '../records/audit-event.ts'
import { AUDIT_STREAM } from './state.ts'
import type { BrokerState, Group, Place, StreamState } from './state.ts'

/** @returns false when it is about a stream or group whose creation was lost to damage */
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
      const { stream_number, tenant, stream, default_durability, retention, failure_policy, at_ms } = change
      const config = { default_durability, retention, failure_policy }
      state.applyStreamCreated(stream_number, tenant, stream, config, at_ms)
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
    case 'audit':
      return true
  }
}

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
