/**
 * Admission slots: a request holds one from its headers to its answer. When there is none left, the slowest client whose body is still arriving loses its
 * slot to the next request: a client of the same tenant when the tenant has none left, any client when the gateway has none.
 *
 * If tenants have shares, the next slot that comes free is kept for a tenant that was refused below its share (kept-slots.ts). As long as no tenant was,
 * one alone may have all slots. A tenant below its share is never refused because slots are kept.
 *
 * P1  a slot that was taken is given back exactly once
 * P2  a client that is given up gives its slot back before `giveUp` returns
 */
import assert from 'node:assert/strict'
import { slowestOf } from '../../http/slow-clients.ts'
import type { WaitedClient } from '../../http/slow-clients.ts'
import { KeptSlots } from './kept-slots.ts'

export class AdmissionSlots {
  readonly #limit: number
  readonly #kept: KeptSlots | null
  #taken = 0
  readonly #takenByTenant = new Map<string, number>()
  /** Holders of slots whose bodies are not whole, with their tenants. */
  readonly #arriving = new Map<WaitedClient, string>()

  /**
   * @param limit  over all tenants; Infinity: no limit
   * @param nowMs  monotonic; null: tenants have no shares
   */
  constructor(limit: number, nowMs: (() => number) | null = null) {
    this.#limit = limit
    this.#kept = nowMs === null ? null : new KeptSlots(nowMs)
  }

  get taken(): number {
    return this.#taken
  }

  /** Takes one of all slots and one of the tenant's, or none and says which were missing. */
  tryTake(tenant: string, tenantLimit: number): 'taken' | 'all' | 'tenant' {
    const isFull = this.#taken >= this.#limit
    const tenantIsFull = this.#takenBy(tenant) >= tenantLimit
    if (tenantIsFull && !this.#giveUpSlowest(this.#arrivingOf(tenant))) return isFull ? 'all' : 'tenant'
    if (!tenantIsFull && (isFull || this.#isKeptFrom(tenant)) && !this.#giveUpSlowest(this.#arriving.keys())) {
      this.#keepFor(tenant)
      return 'all'
    }
    this.#kept?.took(tenant)
    this.#taken++
    this.#takenByTenant.set(tenant, this.#takenBy(tenant) + 1)
    return 'taken'
  }

  #isKeptFrom(tenant: string): boolean {
    const kept = this.#kept?.countForOthers(tenant) ?? 0
    return kept > 0 && this.#taken + kept >= this.#limit && this.#takenBy(tenant) >= this.#shareOf(tenant)
  }

  #keepFor(tenant: string): void {
    if (this.#takenBy(tenant) < this.#shareOf(tenant)) this.#kept?.keep(tenant)
  }

  /** A tenant's share of all slots: the same for each tenant that has some or that one is kept for. */
  #shareOf(tenant: string): number {
    const tenants = new Set([tenant, ...this.#takenByTenant.keys(), ...(this.#kept?.tenants ?? [])])
    return Math.max(1, Math.floor(this.#limit / tenants.size))
  }

  release(tenant: string): void {
    const ofTenant = this.#takenBy(tenant)
    assert(ofTenant > 0 && this.#taken > 0) // P1
    this.#taken--
    if (ofTenant === 1) this.#takenByTenant.delete(tenant)
    else this.#takenByTenant.set(tenant, ofTenant - 1)
  }

  /** The body of a client that holds a slot begins to arrive. */
  arriving(tenant: string, client: WaitedClient): void {
    this.#arriving.set(client, tenant)
  }

  /** The body is whole, or given up. */
  arrived(client: WaitedClient): void {
    this.#arriving.delete(client)
  }

  /** Gives up the slowest of these clients, whose bodies are still arriving. @returns false when none is slow */
  #giveUpSlowest(clients: Iterable<WaitedClient>): boolean {
    const slowest = slowestOf(clients)
    if (slowest === null) return false
    const takenBefore = this.#taken
    slowest.giveUp()
    assert(this.#taken < takenBefore && !this.#arriving.has(slowest)) // P2
    return true
  }

  #takenBy(tenant: string): number {
    return this.#takenByTenant.get(tenant) ?? 0
  }

  *#arrivingOf(tenant: string): Iterable<WaitedClient> {
    for (const [client, ofTenant] of this.#arriving) if (ofTenant === tenant) yield client
  }
}
