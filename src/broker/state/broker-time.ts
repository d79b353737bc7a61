/**
 * Time for leases and delays. It begins at the wall clock, but never before what the log says it was, and goes on with the time that has
 * really passed: the monotonic clock's, and what the machine slept. A jump of the wall clock neither ends a lease nor lengthens one.
 *
 * T1  it never falls
 * T2  it draws near to the wall clock by SLEW_MAX of the time that passes, at most
 *
 * So after a wall clock that was far ahead once it stays ahead for long: `offsetMs` says by how much. Everything that says when something
 * happened (records, events, cursors) has the time of the wall clock instead, as it is.
 */
export interface Clocks {
  /** Monotonic, milliseconds with fractions. It may stand still while the machine sleeps. */
  nowMs(): number
  /** Milliseconds since the Unix epoch; may jump. */
  wallMs(): number
  /** Since the machine was started, what it slept included; coarse. */
  uptimeMs(): number
}

/** 500 ppm: 43 s a day. */
const SLEW_MAX = 500e-6
/** How often the other clocks are read. */
const ANCHOR_EVERY_MS = 1000
/** A shorter sleep is not told from the coarseness of the clocks. */
const SLEEP_MS_MIN = 1000

export class BrokerTime {
  readonly #clocks: Clocks
  /** Broker time and the monotonic clock when the other clocks were looked at last, and how far it was ahead of the wall clock then. */
  #anchorMs: number
  #anchorNowMs: number
  #aheadMs: number
  #uptimeAheadMs: number
  #sleptMs = 0

  /** @param notBeforeMs highest time in the log */
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

  /** What the log has met meanwhile, in which another node was the one that told time. */
  notBefore(atMs: number): void {
    const aheadMs = atMs - this.#now()
    if (aheadMs > 0) this.#anchorMs += aheadMs
    this.#anchor(this.#clocks.nowMs())
  }

  /** What says when something happened has: the wall clock as it is. */
  wallMs(): number {
    return this.#clocks.wallMs()
  }

  /** For how long something takes: with fractions, from any beginning. */
  monotonicMs(): number {
    return this.#clocks.nowMs()
  }

  /** How far it is ahead of the wall clock; negative: behind. */
  get offsetMs(): number {
    return Math.round(this.#now() - this.#clocks.wallMs())
  }

  /** What the machine slept since the start, as far as it was noticed. */
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
