/**
 * Time for leases, delays and audit events. It goes on with the monotonic clock whatever happens to the wall clock, so that a jump of
 * it neither ends a lease nor lengthens one; it begins at the wall clock, but never before what the log says it was.
 */
export interface Clocks {
  /** Monotonic, milliseconds with fractions. */
  nowMs(): number
  /** Milliseconds since the Unix epoch; may jump. */
  wallMs(): number
}

export class BrokerTime {
  readonly #clocks: Clocks
  readonly #offsetMs: number

  /** @param notBeforeMs highest time in the log */
  constructor(clocks: Clocks, notBeforeMs: number) {
    this.#clocks = clocks
    this.#offsetMs = Math.max(clocks.wallMs(), notBeforeMs) - clocks.nowMs()
  }

  /** Whole milliseconds since the Unix epoch; never falls. */
  nowMs(): number {
    return Math.floor(this.#offsetMs + this.#clocks.nowMs())
  }

  /** What a record's own times are: the wall clock as it is. */
  wallMs(): number {
    return this.#clocks.wallMs()
  }
}
