/** A log record or a span. Ids in lower-case hexadecimal; null: none. */
export interface TraceRecord {
  /** As in the results of a query. */
  readonly json: string
  readonly isLog: boolean
  readonly dataset: string
  readonly spanId: string | null
  readonly parentSpanId: string | null
  readonly name: string
  /** Nanoseconds since the Unix epoch. */
  readonly startTime: bigint
  /** Not before the start. */
  readonly endTime: bigint
}

export interface Trace {
  readonly tenant: string
  readonly traceId: string
  /** By time, earliest first. */
  readonly records: readonly TraceRecord[]
  /** Records that are stored and readable, shown or not. */
  readonly matched: number
  readonly quarantined: number
}
