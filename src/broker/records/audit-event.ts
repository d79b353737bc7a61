/**
 * The audit event of a frame. It is made from the frame alone, so it never changes.
 *
 * U1  the id of an event is the position of the frame that it was first in; an event that is moved keeps its id
 * U2  no event holds a payload, a key or a header
 */
import { FRAME_CHANGE, FRAME_DEAD_LETTER, FRAME_REDRIVE, decodeDeadLetter, decodeRedrive } from '../frames.ts'
import type { Change } from '../frames/change.ts'

export interface AuditEvent {
  readonly event_id: string
  readonly kind: string
  readonly at_ms: number
  readonly tenant: string
  readonly principal: string
  readonly stream: string | null
  readonly detail: Readonly<Record<string, unknown>>
  readonly offset: number
}

type EventFacts = Omit<AuditEvent, 'event_id'>

/** Null when the frame is not an audited one. */
export function auditEventOf(type: number, position: number, payload: Buffer): AuditEvent | null {
  if (type === FRAME_DEAD_LETTER) return named(position, deadLettered(payload))
  if (type === FRAME_REDRIVE) return named(position, redriven(payload))
  if (type !== FRAME_CHANGE) return null
  const change = JSON.parse(payload.toString()) as Change // it was checked before its place got into the index
  const eventId = change.kind === 'audit' ? change.event_id : null
  return named(position, factsOf(change), eventId)
}

function named(position: number, facts: EventFacts | null, eventId: string | null = null): AuditEvent | null {
  return facts && { event_id: eventId ?? `evt-${position.toString(16).padStart(12, '0')}`, ...facts }
}

function deadLettered(payload: Buffer): EventFacts | null {
  const deadLetter = decodeDeadLetter(payload)
  if (deadLetter === null) return null
  const { eventAtMs, tenant, principal, sourceStream, auditOffset } = deadLetter
  return {
    kind: 'delivery_dead_lettered',
    at_ms: eventAtMs,
    tenant,
    principal,
    stream: sourceStream,
    detail: {
      consumer_group: deadLetter.consumerGroup,
      offset: deadLetter.offset,
      attempt: deadLetter.attempt,
      cause: deadLetter.cause,
      reason: deadLetter.reason,
      dead_letter_stream: deadLetter.targetStream,
      dead_letter_offset: deadLetter.targetOffset,
    },
    offset: auditOffset,
  }
}

function redriven(payload: Buffer): EventFacts | null {
  const redrive = decodeRedrive(payload)
  if (redrive === null) return null
  const { ingestTimeMs: at_ms, tenant, principal, dead_letter_stream: stream, auditOffset: offset } = redrive
  return {
    kind: 'dead_letters_redriven',
    at_ms,
    tenant,
    principal,
    stream,
    detail: {
      dead_letter_offsets: redrive.offsets,
      source_stream: redrive.stream,
      first_source_offset: redrive.firstOffset,
      reason: redrive.reason,
    },
    offset,
  }
}

function factsOf(change: Change): EventFacts | null {
  switch (change.kind) {
    case 'stream_created': {
      const { audit_offset: offset, default_durability, retention, failure_policy } = change
      if (offset === null) return null
      return facts({ ...change, audit_offset: offset }, change.kind, {
        default_durability,
        retention,
        failure_policy,
      })
    }
    case 'stream_updated': {
      const { default_durability, retention, failure_policy } = change
      return facts(change, change.kind, { default_durability, retention, failure_policy })
    }
    case 'stream_deleted': {
      const { next_offset, removed_records, removed_bytes, forced } = change
      return facts(change, change.kind, { next_offset, removed_records, removed_bytes, forced })
    }
    case 'stream_purged': {
      const { floor: first_offset, previous_floor: previous_first_offset, removed_bytes, reason, forced } = change
      return facts(change, change.kind, { first_offset, previous_first_offset, removed_bytes, reason, forced })
    }
    case 'group_deleted': {
      const { group: consumer_group, forced } = change
      return facts(change, change.kind, { consumer_group, forced })
    }
    case 'group_sought': {
      const { group: consumer_group, offset, previous_offset, reason } = change
      return facts(change, change.kind, { consumer_group, offset, previous_offset, reason })
    }
    case 'cursor_deleted': {
      const { group: consumer_group, cursor, offset, forced } = change
      return facts(change, change.kind, { consumer_group, cursor, offset, forced })
    }
    case 'cursor_rewound': {
      const { group: consumer_group, cursor, offset, previous_offset, reason } = change
      return facts(change, change.kind, { consumer_group, cursor, offset, previous_offset, reason })
    }
    case 'quarantine_acknowledged': {
      const { incident_id, acknowledged_by, note } = change
      return facts(change, change.kind, { incident_id, acknowledged_by, note })
    }
    case 'delivery_stopped': {
      const { group: consumer_group, offset, attempt, reason } = change
      return facts({ ...change, at_ms: eventTimeOf(change) }, change.kind, { consumer_group, offset, attempt, reason })
    }
    case 'clock_set': {
      const { shift_ms } = change
      return facts({ ...change, stream: null }, change.kind, { shift_ms })
    }
    case 'replication_skipped': {
      const { source_site, target_site, policy, from_offset, to_offset, skipped_records } = change
      return facts(change, change.kind, { source_site, target_site, policy, from_offset, to_offset, skipped_records })
    }
    case 'replication_paused':
    case 'replication_resumed': {
      const { source_site, target_site, reason } = change
      return facts(change, change.kind, { source_site, target_site, reason })
    }
    case 'audit':
      return facts(change, change.event_kind, change.detail)
    case 'init':
    case 'group_created':
    case 'cursor_committed':
    case 'observation':
    case 'retained':
    case 'replication_shipped':
    case 'replica_skipped':
      return null
  }
}

/** Wall-clock time of a change; broker time in old frames (frames/change.ts). */
export const eventTimeOf = (change: Change): number =>
  change.kind === 'delivery_stopped' ? (change.wall_ms ?? change.at_ms) : change.at_ms

interface Audited {
  readonly at_ms: number
  readonly tenant: string
  readonly principal: string
  readonly stream: string | null
  readonly audit_offset: number
}

function facts(change: Audited, kind: string, detail: AuditEvent['detail']): EventFacts {
  const { at_ms, tenant, principal, stream, audit_offset: offset } = change
  return { kind, at_ms, tenant, principal, stream, detail, offset }
}
