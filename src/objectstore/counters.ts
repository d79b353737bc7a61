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
}
