/**
 * Concurrent requests: a place is held from the headers of a request to its answer.
 *
 * P1  a place that was taken is given back exactly once
 */
import assert from 'node:assert/strict'

export class Places {
  readonly #limit: number
  #taken = 0
  readonly #takenByTenant = new Map<string, number>()

  /** @param limit  over all tenants; Infinity: no limit */
  constructor(limit: number) {
    this.#limit = limit
  }

  get taken(): number {
    return this.#taken
  }

  /** Takes one place of the whole and one of the tenant's, or none and says which were missing. */
  tryTake(tenant: string, tenantLimit: number): 'taken' | 'all' | 'tenant' {
    if (this.#taken >= this.#limit) return 'all'
    const ofTenant = this.#takenByTenant.get(tenant) ?? 0
    if (ofTenant >= tenantLimit) return 'tenant'
    this.#taken++
    this.#takenByTenant.set(tenant, ofTenant + 1)
    return 'taken'
  }

  giveBack(tenant: string): void {
    const ofTenant = this.#takenByTenant.get(tenant)
    assert(ofTenant !== undefined && this.#taken > 0) // P1
    this.#taken--
    if (ofTenant === 1) this.#takenByTenant.delete(tenant)
    else this.#takenByTenant.set(tenant, ofTenant - 1)
  }
}
