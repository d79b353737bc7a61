/**
 * Keeps the next admission slot that comes free for a tenant that was refused while it had less than its share: otherwise a tenant without a limit of its
 * own would take it at once.
 *
 * K1  a slot is kept until the tenant takes one, for KEPT_MS at most, which is longer than clients wait until they ask again
 */

/** Clients are told to wait for one second. */
const KEPT_MS = 2000

export class KeptSlots {
  readonly #nowMs: () => number
  /** Until when, by tenant. */
  readonly #untilMs = new Map<string, number>()

  /** @param nowMs monotonic */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** Tenants that a slot is kept for. */
  get tenants(): Iterable<string> {
    return this.#untilMs.keys()
  }

  keep(tenant: string): void {
    this.#untilMs.set(tenant, this.#nowMs() + KEPT_MS)
  }

  /** The tenant took a slot. */
  took(tenant: string): void {
    this.#untilMs.delete(tenant)
  }

  /** How many slots are kept for other tenants. */
  countForOthers(tenant: string): number {
    let count = 0
    for (const [name, untilMs] of this.#untilMs) {
      if (untilMs <= this.#nowMs()) this.#untilMs.delete(name)
      else if (name !== tenant) count += 1
    }
    return count
  }
}
