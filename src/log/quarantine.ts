/**
 * Damage that was found, so that every later start reports it too.
 *
 *   <segment>/quarantine.json   damaged ranges of the segment, because sealed segments are not read again. The bytes stay where they are, so that
 *                               they can be repaired
 *   incidents.json              in the data directory: all incidents of the log. It is the only source for positions before the beginning of
 *                               the log; for all others the segments count
 *   acknowledged-incidents      in the data directory, written by an operator: a line that begins with the id of an incident
 *                               acknowledges it
 */
import { decodeCheckedJson, encodeCheckedJson } from './checked-json.ts'
import { publishFile, readWhole } from './files.ts'
import type { Files } from './files.ts'
import type { DamagedRange } from './read.ts'

export const QUARANTINE_NAME = 'quarantine.json'

/** A range of positions that failed its checksum or is missing: reported, kept, everything else is served. */
export interface QuarantineIncident extends DamagedRange {
  readonly segmentBase: number
}

/** The id of an incident, for people: the same at every start, as positions are never used twice. */
export const incidentIdOf = ({ from }: QuarantineIncident): string => `inc-${from.toString(16).padStart(12, '0')}`

/** What is known about a segment; 'unreadable' when the list itself is damaged: the segment has to be read through. */
export function readQuarantine(files: Files, segmentDirectory: string): readonly DamagedRange[] | 'unreadable' {
  const bytes = readWhole(files, `${segmentDirectory}/${QUARANTINE_NAME}`)
  return bytes === null ? [] : decodeQuarantine(bytes)
}

export function decodeQuarantine(bytes: Buffer): readonly DamagedRange[] | 'unreadable' {
  const decoded = decodeCheckedJson(bytes)
  return decoded === null ? 'unreadable' : (decoded.content as DamagedRange[]) // the checksum says we wrote it
}

export function writeQuarantine(files: Files, segmentDirectory: string, ranges: readonly DamagedRange[]): void {
  const content = encodeCheckedJson(ranges.map(({ from, to, reason }) => ({ from, to, reason })))
  publishFile(files, segmentDirectory, QUARANTINE_NAME, [content])
}

const INCIDENTS_NAME = 'incidents.json'

/** All incidents ever written down; none when the list is damaged. */
export function readIncidents(files: Files, directory: string): readonly QuarantineIncident[] {
  const bytes = readWhole(files, `${directory}/${INCIDENTS_NAME}`)
  const decoded = bytes && decodeCheckedJson(bytes)
  return decoded ? (decoded.content as QuarantineIncident[]) : [] // the checksum says we wrote it
}

export function writeIncidents(files: Files, directory: string, incidents: readonly QuarantineIncident[]): void {
  const content = incidents.map(({ segmentBase, from, to, reason }) => ({ segmentBase, from, to, reason }))
  publishFile(files, directory, INCIDENTS_NAME, [encodeCheckedJson(content)])
}

export const ACKNOWLEDGED_NAME = 'acknowledged-incidents'

/** Ids of the incidents that an operator has acknowledged. */
export function readAcknowledged(files: Files, directory: string): ReadonlySet<string> {
  const text = readWhole(files, `${directory}/${ACKNOWLEDGED_NAME}`)?.toString('utf8') ?? ''
  return new Set(text.split('\n').flatMap((line) => /^\s*(inc-[0-9a-f]{12,})(?=\s|$)/.exec(line)?.[1] ?? []))
}
