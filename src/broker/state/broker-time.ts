/**
 * Time for leases and delays. It begins at the wall clock, but never before the broker time in the log. It advances by the time that has
 * really passed: by the monotonic clock, and the time that the machine slept. A jump of the wall clock neither ends a lease nor lengthens one.
 *
 * T1  it never falls
 * T2  it approaches the wall clock by at most SLEW_MAX of the time that passes
 *
 * So after the wall clock was far ahead once, broker time stays ahead for long: `offsetMs` says by how much. Times at which something
 * happened (of records, events, cursors) are those of the wall clock instead.
 */
export interface Clocks {
  /** Monotonic, milliseconds with fractions. It may stand still while the machine sleeps. */
  nowMs(): number
  /** Milliseconds since the Unix epoch; may jump. */
  wallMs(): number
  /** Milliseconds since the machine was started, including the time that it slept; coarse. */
  uptimeMs(): number
}

/** 500 ppm: 43 s a day. */
const SLEW_MAX = 500e-6
/** How often the other clocks are read. */
const ANCHOR_EVERY_MS = 1000
/** A shorter sleep cannot be told from the coarseness of the clocks. */
const SLEEP_MS_MIN = 1000

export class BrokerTime {
  readonly #clocks: Clocks
  /** Broker time and the monotonic clock when the other clocks were last read, and how far broker time was ahead of the wall clock then. */
  #anchorMs: number
  #anchorNowMs: number
  #aheadMs: number
  #uptimeAheadMs: number
  #sleptMs = 0

  /** @param notBeforeMs highest broker time in the log */
  constructor(clocks: Clocks, notBeforeMs: number) {
    this.#clocks = clocks
    this.#anchorNowMs = clocks.nowMs()
    this.#anchorMs = Math.max(clocks.wallMs(), notBeforeMs)
    this.#aheadMs = this.#anchorMs - clocks.wallMs()
    this.#uptimeAheadMs = clocks.uptimeMs() - this.#anchorNowMs
  }

  /** Whole milliseconds since the Unix epoch; never falls. */
  nowMs(): number {
    return Math.floor(this.#now())
  }

  /** Moves broker time up to a time in the log, which another node wrote while it led. */
  notBefore(atMs: number): void {
    const aheadMs = atMs - this.#now()
    if (aheadMs > 0) this.#anchorMs += aheadMs
    this.#anchor(this.#clocks.nowMs())
  }

  /** The wall clock, for the times at which something happens. */
  wallMs(): number {
    return this.#clocks.wallMs()
  }

  /** For measuring durations: milliseconds with fractions, from an arbitrary start. */
  monotonicMs(): number {
    return this.#clocks.nowMs()
  }

  /** How far it is ahead of the wall clock; negative: behind. */
  get offsetMs(): number {
    return Math.round(this.#now() - this.#clocks.wallMs())
  }

  /** Time that the machine has slept since the start, as far as it was noticed. */
  get sleptMs(): number {
    return this.#sleptMs
  }

  #now(): number {
    const nowMs = this.#clocks.nowMs()
    if (nowMs - this.#anchorNowMs >= ANCHOR_EVERY_MS) this.#anchor(nowMs)
    return this.#at(nowMs)
  }

  /** T1, T2 */
  #at(nowMs: number): number {
    const elapsedMs = nowMs - this.#anchorNowMs
    const slewMs = Math.min(Math.abs(this.#aheadMs), elapsedMs * SLEW_MAX)
    return this.#anchorMs + elapsedMs - Math.sign(this.#aheadMs) * slewMs
  }

  #anchor(nowMs: number): void {
    const asleepMs = this.#clocks.uptimeMs() - nowMs - this.#uptimeAheadMs
    const sleptMs = asleepMs >= SLEEP_MS_MIN ? asleepMs : 0
    this.#uptimeAheadMs += sleptMs
    this.#sleptMs += sleptMs
    this.#anchorMs = this.#at(nowMs) + sleptMs
    this.#anchorNowMs = nowMs
    this.#aheadMs = this.#anchorMs - this.#clocks.wallMs()
  }
}
