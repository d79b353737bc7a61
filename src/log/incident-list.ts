/** All quarantine incidents of an open log, and their list on disk (quarantine.ts). */
import { isDeepStrictEqual } from 'node:util'
import type { Files } from './files.ts'
import { incidentIdOf, readAcknowledged, readIncidents, writeIncidents, writeQuarantine } from './quarantine.ts'
import type { QuarantineIncident } from './quarantine.ts'
import type { DamagedRange } from './read.ts'
import type { SegmentInfo } from './segment-list.ts'

export class IncidentList {
  readonly #files: Files
  readonly #directory: string
  readonly #onAdded: (incident: QuarantineIncident) => void
  #all: readonly QuarantineIncident[] = []
  #acknowledged: ReadonlySet<string>

  /** @param directory of the log, where the list is */
  constructor(files: Files, directory: string, onAdded: (incident: QuarantineIncident) => void) {
    this.#files = files
    this.#directory = directory
    this.#onAdded = onAdded
    this.#acknowledged = readAcknowledged(files, directory)
  }

  /** Never changed in place: a caller may keep it. */
  get all(): readonly QuarantineIncident[] {
    return this.#all
  }

  /** Those that no operator has acknowledged. */
  get open(): readonly QuarantineIncident[] {
    return this.#all.filter((incident) => !this.#acknowledged.has(incidentIdOf(incident)))
  }

  /** Reads again which incidents the operator has acknowledged. @throws what the file system throws */
  readAcknowledged(): void {
    this.#acknowledged = readAcknowledged(this.#files, this.#directory)
  }

  add(incident: QuarantineIncident): void {
    const { segmentBase, from, to } = incident
    if (this.#all.some((known) => known.segmentBase === segmentBase && known.from === from && known.to === to)) return
    this.#all = [...this.#all, incident]
    this.#onAdded(incident)
  }

  /** A reader found damage: writes it down beside the segment. */
  report({ base, directory }: SegmentInfo, range: DamagedRange): void {
    const known = this.#all.filter((incident) => incident.segmentBase === base)
    if (known.some((incident) => incident.from <= range.from && incident.to >= range.to)) return
    this.add({ segmentBase: base, ...range })
    try {
      writeQuarantine(this.#files, directory, [...known, range])
    } catch {
      // On a failing disk it stays in memory: the next reader finds it again.
    }
    this.keep()
  }

  /** Adds the incidents of segments before a position. These segments are gone, so only the list on disk knows of them. */
  addForgotten(before: number): void {
    for (const incident of readIncidents(this.#files, this.#directory)) {
      if (incident.to <= before && !this.#acknowledged.has(incidentIdOf(incident))) this.add(incident)
    }
  }

  /** False when the list could not be written. */
  keep(): boolean {
    try {
      const known = readIncidents(this.#files, this.#directory)
      if (!isDeepStrictEqual(known, this.#all)) writeIncidents(this.#files, this.#directory, this.#all)
      return true
    } catch {
      return false
    }
  }
}
