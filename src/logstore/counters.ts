/** What a log store counted since it started; exposed at /metrics. */
import type { RefusalKind } from './refusals.ts'

class Refusals {
  readonly refusals = new Map<RefusalKind, number>()

  refused(kind: RefusalKind): void {
    this.refusals.set(kind, (this.refusals.get(kind) ?? 0) + 1)
  }
}

export class IngestCounters extends Refusals {
  acceptedBatches = 0
  acceptedRecords = 0
  acceptedBytes = 0
  /** Accepted records whose id was stored before: kept once. */
  collapsedRecords = 0
  /** Malformed records that were dropped from accepted batches. */
  rejectedRecords = 0

  accepted(records: number, bytes: number, collapsed: number, rejected: number): void {
    this.acceptedBatches++
    this.acceptedRecords += records
    this.acceptedBytes += bytes
    this.collapsedRecords += collapsed
    this.rejectedRecords += rejected
  }
}

export class QueryCounters extends Refusals {
  answeredQueries = 0
  /** From the headers to the answer, milliseconds, summed. */
  answeredMs = 0

  answered(ms: number): void {
    this.answeredQueries++
    this.answeredMs += ms
  }
}
