/** All quarantine incidents of an open log, and their list on disk (quarantine.ts). */
import { isDeepStrictEqual } from 'node:util'
import type { Files } from './files.ts'
import { incidentIdOf, readAcknowledged, readIncidents, writeIncidents } from './quarantine.ts'
import type { QuarantineIncident } from './quarantine.ts'

export class IncidentList {
  readonly #files: Files
  readonly #directory: string
  readonly #onAdded: (incident: QuarantineIncident) => void
  #all: readonly QuarantineIncident[] = []

  /** @param directory of the log, where the list is */
  constructor(files: Files, directory: string, onAdded: (incident: QuarantineIncident) => void) {
    this.#files = files
    this.#directory = directory
    this.#onAdded = onAdded
  }

  /** Never changed in place: who took it keeps what it saw. */
  get all(): readonly QuarantineIncident[] {
    return this.#all
  }

  add(incident: QuarantineIncident): void {
    const { segmentBase, from, to } = incident
    if (this.#all.some((known) => known.segmentBase === segmentBase && known.from === from && known.to === to)) return
    this.#all = [...this.#all, incident]
    this.#onAdded(incident)
  }

  /** Those of segments before a position, which are not there any more: nothing but the list tells of them. */
  addForgotten(before: number): void {
    const known = readIncidents(this.#files, this.#directory).filter(({ to }) => to <= before)
    if (known.length === 0) return
    const acknowledged = readAcknowledged(this.#files, this.#directory)
    for (const incident of known) if (!acknowledged.has(incidentIdOf(incident))) this.add(incident)
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
