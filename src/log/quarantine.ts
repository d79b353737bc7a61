/**
 * Damage that was found in a segment, written beside it as `quarantine.json`, so that every later start reports it too although sealed
 * segments are not read again. The bytes stay where they are, for whoever can repair them.
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

/** What is known about a segment; 'unreadable' when the list itself is damaged: the segment has to be read through. */
export function readQuarantine(files: Files, segmentDirectory: string): readonly DamagedRange[] | 'unreadable' {
  const bytes = readWhole(files, `${segmentDirectory}/${QUARANTINE_NAME}`)
  if (bytes === null) return []
  const decoded = decodeCheckedJson(bytes)
  return decoded === null ? 'unreadable' : (decoded.content as DamagedRange[]) // the checksum says we wrote it
}

export function writeQuarantine(files: Files, segmentDirectory: string, ranges: readonly DamagedRange[]): void {
  const content = encodeCheckedJson(ranges.map(({ from, to, reason }) => ({ from, to, reason })))
  publishFile(files, segmentDirectory, QUARANTINE_NAME, [content])
}
