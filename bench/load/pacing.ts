/**
 * When does the next task start? Pure: the caller brings the time, and sleeps.
 *
 * Closed loop: as soon as a connection is free. Measures what the server can take; a slow answer delays the tasks
 * behind it, so its latencies flatter a server that stalls.
 * Open loop: task k is due at startMs + k * intervalMs, whether the ones before it were answered or not. Latency is
 * counted from that moment, so a stall is charged to every task that was due in it.
 *
 * P1  starts are given out once each, in order, and only to a connection that is free
 * P2  nothing starts at or after endMs, nor after tasksMax tasks
 */
export interface PacingOptions {
  readonly startMs: number
  /** Infinity: until tasksMax. */
  readonly endMs: number
  /** Infinity: until endMs. */
  readonly tasksMax: number
  /** Between two starts of the open loop; null is the closed loop. */
  readonly intervalMs: number | null
}

export class Pacing {
  readonly #options: PacingOptions
  #endMs: number
  #taken = 0

  constructor(options: PacingOptions) {
    this.#options = options
    this.#endMs = options.endMs
  }

  get endMs(): number {
    return this.#endMs
  }

  /** The intended start of the next task, which may lie ahead or behind; null when the run is over. */
  take(nowMs: number): number | null {
    const { startMs, intervalMs, tasksMax } = this.#options
    const dueMs = intervalMs === null ? nowMs : startMs + this.#taken * intervalMs
    if (this.#taken >= tasksMax || nowMs >= this.#endMs || dueMs >= this.#endMs) return null // P2
    this.#taken++ // P1
    return dueMs
  }

  /** Ends the run early. */
  stop(nowMs: number): void {
    this.#endMs = Math.min(this.#endMs, nowMs)
  }

  /** Tasks of the open loop that were due before the end and found no free connection. */
  missed(nowMs: number): number {
    const { startMs, intervalMs, tasksMax } = this.#options
    if (intervalMs === null) return 0
    const due = Math.ceil((Math.min(nowMs, this.#endMs) - startMs) / intervalMs)
    return Math.max(0, Math.min(due, tasksMax) - this.#taken)
  }
}
