/**
 * How many claims hold an active lease. Leases are counted by claim from the first question on: only a quota asks, and then it keeps the
 * number of claims small.
 *
 * B1  once counted, `#leases` has each claim of which slots are leased, with their number, whether or not `expire` has met those due
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

  /** Before the slot's columns change. */
  leaseEnds(slot: number): void {
    if (this.#leases === null) return
    const claimNumber = this.#table.claimNumber[slot]!
    const left = this.#leases.get(claimNumber)! - 1 // B1
    if (left > 0) this.#leases.set(claimNumber, left)
    else this.#leases.delete(claimNumber)
  }

  /** Costs what is due and not met by `expire` yet; the first time, a look at every slot. */
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
