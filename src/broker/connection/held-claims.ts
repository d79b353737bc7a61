/**
 * What a connection was given and has not settled yet, so that it can be given back when the connection ends.
 *
 * H1  a claim is forgotten when its deliveries are settled, or its leases are over: memory is bounded by what is leased
 */
import type { Pushed, PushedClaim } from '../operations.ts'

interface Held {
  readonly claim: PushedClaim
  /** Deliveries that are not settled. */
  left: number
  /** When the last of its leases ends, in broker time. */
  untilMs: number
}

export class HeldClaims {
  /** By subscription id, in the order they came. */
  readonly #claims = new Map<string, Held>()

  get size(): number {
    return this.#claims.size
  }

  add({ claim, subscriptionId, leasedAtMs, expiresAtMs }: Pushed): void {
    for (const [id, { untilMs }] of this.#claims) {
      if (untilMs >= leasedAtMs) break
      this.#claims.delete(id)
    }
    this.#claims.set(subscriptionId, { claim, left: claim.deliveries.length, untilMs: expiresAtMs })
  }

  settled(subscriptionId: string, deliveries: number): void {
    const held = this.#claims.get(subscriptionId)
    if (held === undefined) return
    held.left -= deliveries
    if (held.left <= 0) this.#claims.delete(subscriptionId)
  }

  renewed(subscriptionId: string, expiresAtMs: number): void {
    const held = this.#claims.get(subscriptionId)
    if (held !== undefined) held.untilMs = Math.max(held.untilMs, expiresAtMs)
  }

  /** All of them: they are held no more. */
  take(): readonly PushedClaim[] {
    const claims = Array.from(this.#claims.values(), ({ claim }) => claim)
    this.#claims.clear()
    return claims
  }
}
