/** What a log store counted since it started; exposed at /metrics. */
import { Histogram, LATENCY_BOUNDS } from '../pipeline/histogram.ts'
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

/** What a query looks for. */
export type QueryKind = 'record_id' | 'trace_id' | 'time' | 'datasets' | 'histogram' | 'fields'

export class QueryCounters extends Refusals {
  answeredQueries = 0
  /** From the headers to the answer, milliseconds, summed. */
  answeredMs = 0
  readonly seconds: Readonly<Record<QueryKind, Histogram>> = {
    record_id: Histogram.create(LATENCY_BOUNDS),
    trace_id: Histogram.create(LATENCY_BOUNDS),
    time: Histogram.create(LATENCY_BOUNDS),
    datasets: Histogram.create(LATENCY_BOUNDS),
    histogram: Histogram.create(LATENCY_BOUNDS),
    fields: Histogram.create(LATENCY_BOUNDS),
  }

  answered(kind: QueryKind, ms: number): void {
    this.answeredQueries++
    this.answeredMs += ms
    this.seconds[kind].observe(ms / 1000)
  }
}
