/**
 * Plans what retention removes from a stream. Enforcement and dry runs use the same plan.
 *
 * The oldest records go first: those older than the age limit by ingest time (see `RecordReads.firstNotAged` for records of the future, which
 * a wall clock that was wrong once leaves behind), and those beyond the size limit, counted from the newest record. Records that the slowest
 * cursor of `min_cursor_name` has not passed stay, whatever the limits; as long as no group has a cursor of that name, all records stay.
 * Records that are still unsent to another site stay, too (replication-policies P2).
 */
import type { RetentionLimits } from '../operations.ts'
import type { Core } from './core.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { StreamState } from '../state/state.ts'

export interface RetentionPlan {
  readonly maxAgeMs: number | null
  readonly maxBytes: number | null
  readonly minCursorName: string | null
  /** Null: there is no such rule. */
  readonly cursorFloor: number | null
  readonly plannedFloor: number
  /** Offset behind the last record that was looked at. */
  readonly end: number
}

export const hasLimits = (core: Core, stream: StreamState): boolean =>
  maxAgeMsOf(core, stream) !== null || stream.config.retention.max_bytes !== null

/** The age limit of a stream. That of the audit stream is a setting of the node. */
const maxAgeMsOf = (core: Core, { name, config: { retention } }: StreamState): number | null =>
  name === AUDIT_STREAM ? core.auditMaxAgeMs : retention.max_age_millis

/** @param overrides take the place of the stream's own limits */
export async function planRetention(
  core: Core,
  stream: StreamState,
  overrides: RetentionLimits,
): Promise<RetentionPlan> {
  const { retention } = stream.config
  const maxAgeMs = overrides.maxAgeMs ?? maxAgeMsOf(core, stream)
  const maxBytes = overrides.maxBytes ?? retention.max_bytes
  const minCursorName = retention.min_cursor_name
  await core.readable(stream)
  const end = stream.visibleNext
  const audited = stream.name === AUDIT_STREAM
  let planned = stream.floor
  if (maxAgeMs !== null) {
    const nowMs = core.time.wallMs()
    const times = { youngestMs: Math.max(0, nowMs - maxAgeMs), nowMs, end }
    planned = Math.max(planned, await core.reads.firstNotAged(stream.index, times, audited))
  }
  if (maxBytes !== null && !audited) {
    planned = Math.max(planned, await core.reads.firstWithin(stream.index, maxBytes, end)) // events have no payload
  }
  const cursorFloor = cursorFloorOf(stream)
  planned = Math.max(stream.floor, Math.min(planned, cursorFloor ?? Infinity, core.policies.retainedFrom(stream)))
  return { maxAgeMs, maxBytes, minCursorName, cursorFloor, plannedFloor: planned, end }
}

/** Every cursor of `min_cursor_name` has passed the records below this offset; null: there is no such rule. */
export function cursorFloorOf(stream: StreamState): number | null {
  const name = stream.config.retention.min_cursor_name
  if (name === null) return null
  let slowest = Infinity
  for (const group of stream.groups.values()) slowest = Math.min(slowest, group.cursors.get(name)?.offset ?? Infinity)
  return slowest === Infinity ? 0 : slowest
}
