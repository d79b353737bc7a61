import type { RefusalCode } from './refusals.ts'

/** What the object store has done since it was started, for its metrics. */
export class StoreCounters {
  objectsWritten = 0
  objectsDeleted = 0
  partsWritten = 0
  bodyBytesWritten = 0
  bodyBytesRead = 0
  /** Reads that found damage. */
  damagedReads = 0
  uploadsExpired = 0
  /** Segments whose live content was moved. */
  segmentsCleaned = 0
  readonly refusals = new Map<RefusalCode, number>()

  refused(code: RefusalCode): void {
    this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1)
  }
}
