/**
 * Quarantine incidents of the log, by stream: which records a damaged range held.
 *
 * A range belongs to the streams whose index has records there. If there are none, it belongs to the streams with missing offsets whose
 * neighbours are before and behind the range. A range of no known stream is shown with the audit stream, so that no damage goes unseen.
 */
import { incidentIdOf } from '../../log/quarantine.ts'
import type { QuarantineIncident } from '../../log/quarantine.ts'
import { Places } from '../records/places.ts'
import type { IncidentEntry } from '../wire/storage-answers.ts'
import type { Core } from '../engine/core.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { StreamState } from '../state/state.ts'

/** How a segment is named to people. */
export const segmentId = (base: number): string => base.toString(16).padStart(16, '0')

interface Lost {
  readonly first: number
  readonly last: number
}

export function incidentsOf(core: Core, stream: StreamState): IncidentEntry[] {
  const streams = core.state.streams.filter((each) => each !== undefined)
  return core.log.incidents.flatMap((incident) => {
    const find = [indexedIn, missingIn].find((finds) => streams.some((each) => finds(each, incident) !== null))
    const lost = find?.(stream, incident) ?? null
    const isUnassigned = find === undefined && stream.name === AUDIT_STREAM
    return lost !== null || isUnassigned ? [entryOf(core, stream, incident, lost)] : []
  })
}

function entryOf(core: Core, stream: StreamState, incident: QuarantineIncident, lost: Lost | null): IncidentEntry {
  const id = incidentIdOf(incident)
  const acknowledged = core.state.acknowledgedIncidents.get(id)
  return {
    incident_id: id,
    stream: stream.name,
    state: acknowledged ? 'acknowledged' : 'open',
    segment: segmentId(incident.segmentBase),
    first_offset: lost?.first ?? null,
    last_offset: lost?.last ?? null,
    damaged_bytes: incident.to - incident.from,
    reason: incident.reason,
    acknowledged_at_ms: acknowledged?.atMs ?? null,
    acknowledged_by: acknowledged?.by ?? null,
    note: acknowledged?.note ?? null,
  }
}

/** Records that the index has there: found damaged when they were read. */
function indexedIn(stream: StreamState, { segmentBase, from, to }: QuarantineIncident): Lost | null {
  const ranges = stream.index.offsetsAt(segmentBase, from - segmentBase, to - segmentBase)
  const first = ranges[0]
  const last = ranges.at(-1)
  return first && last ? { first: first.from, last: last.end - 1 } : null
}

/** Records that no index has, with neighbours before and behind the range. */
function missingIn(stream: StreamState, { from, to }: QuarantineIncident): Lost | null {
  for (const [holeFrom, holeEnd] of stream.holes.entries()) {
    for (const [first, end] of stream.index.gaps(holeFrom, holeEnd)) {
      const before = positionOf(stream, first - 1) ?? -Infinity
      const behind = positionOf(stream, end) ?? Infinity
      if (before < from && behind >= to) return { first, last: end - 1 }
    }
  }
  return null
}

function positionOf(stream: StreamState, offset: number): number | null {
  const place = new Places(1)
  return offset >= 0 && stream.index.find(offset, place) ? place.segmentBase(0) + place.place(0) : null
}
