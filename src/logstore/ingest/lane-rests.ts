/**
 * Decides when a lane yields its core for a moment: while several tenants send, so that the threads that carry a request before and after the lane soon
 * get a core. Without rests, such a thread waits for the lane until the kernel's next tick (niceness.ts). A tenant that sends alone pays nothing.
 */

/** Two tenants whose requests are no further apart than this send at the same time. */
const TOGETHER_MS = 1000
/** The lane works this long between two rests. Batches of small tenants take less, those of the default size more. */
const REST_AFTER_MS = 1

export class LaneRests {
  readonly #rest: () => void
  #tenant = -1
  /** Until then another tenant may be sending. */
  #sharedUntilMs = -Infinity
  #workedMs = 0

  constructor(rest: () => void) {
    this.#rest = rest
  }

  /** A request was served between these two times. May rest. */
  noteWork(tenant: number, fromMs: number, toMs: number): void {
    if (tenant !== this.#tenant) {
      if (this.#tenant !== -1) this.#sharedUntilMs = toMs + TOGETHER_MS
      this.#tenant = tenant
    }
    this.#workedMs += toMs - fromMs
    if (this.#workedMs < REST_AFTER_MS) return
    this.#workedMs = 0
    if (toMs < this.#sharedUntilMs) this.#rest()
  }
}
