/**
 * How many claims hold an active lease. Leases are counted by claim from the first `count` on: only a quota asks, and a quota keeps the
 * number of claims small.
 *
 * B1  once counted, `#leases` has each claim with leased slots and the number of these, also of those that are due and not yet expired
 */
import { LEASED } from './delivery-table.ts'
import type { DeliveryTable } from './delivery-table.ts'

export class ActiveClaims {
  readonly #table: DeliveryTable
  #leases: Map<number, number> | null = null

  constructor(table: DeliveryTable) {
    this.#table = table
  }

  leaseBegan(slot: number): void {
    if (this.#leases !== null) increment(this.#leases, this.#table.claimNumber[slot]!)
  }

  /** To be called before the slot's columns change. */
  leaseEnds(slot: number): void {
    if (this.#leases === null) return
    const claimNumber = this.#table.claimNumber[slot]!
    const left = this.#leases.get(claimNumber)! - 1 // B1
    if (left > 0) this.#leases.set(claimNumber, left)
    else this.#leases.delete(claimNumber)
  }

  /** It looks at the leases that are due and that `expire` has not processed yet; the first time, at every slot. */
  count(nowMs: number): number {
    const table = this.#table
    const leases = (this.#leases ??= this.#countLeases())
    const expired = new Map<number, number>()
    table.due.forEachDue(nowMs, (slot) => {
      if (table.status(slot) === LEASED) increment(expired, table.claimNumber[slot]!)
    })
    let active = leases.size
    for (const [claimNumber, count] of expired) if (leases.get(claimNumber) === count) active--
    return active
  }

  #countLeases(): Map<number, number> {
    const leases = new Map<number, number>()
    for (let slot = 0; slot < this.#table.slotsUsed; slot++) {
      if (this.#table.status(slot) === LEASED) increment(leases, this.#table.claimNumber[slot]!)
    }
    return leases
  }
}

function increment(counts: Map<number, number>, key: number): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
