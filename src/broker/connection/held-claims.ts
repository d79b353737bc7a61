/**
 * Claims that were pushed to a connection and are not settled yet. They are given back when the connection ends.
 *
 * H1  a claim is removed when all its deliveries were settled over the connection, or when a look finds that none of them is leased any more:
 *     they expired, or were settled elsewhere. A claim that is still leased stays, also when it was renewed elsewhere
 * H2  each new claim causes a look at LOOKS older ones, all in turn, so that memory is bounded by what is leased
 */
import type { Pushed, PushedClaim, StreamingOperations } from '../operations.ts'

/** With two, finished claims go twice as fast as new ones come. */
const LOOKS = 2

interface Held {
  readonly claim: PushedClaim
  /** Deliveries that are not settled. */
  left: number
  /** Index of the first delivery that was leased at the last look; those before it are over for good. */
  firstLeased: number
}

export class HeldClaims {
  readonly #firstLeased: StreamingOperations['firstLeased']
  /** By subscription id, in the order they came. */
  readonly #claims = new Map<string, Held>()
  /** The claims to look at next. The iterator stays valid while claims come and go. */
  #next = this.#claims.entries()

  constructor(firstLeased: StreamingOperations['firstLeased']) {
    this.#firstLeased = firstLeased
  }

  get size(): number {
    return this.#claims.size
  }

  add({ claim, subscriptionId }: Pushed): void {
    for (let i = 0; i < LOOKS; i++) this.#look()
    this.#claims.set(subscriptionId, { claim, left: claim.deliveries.length, firstLeased: 0 })
  }

  /** H1, H2 */
  #look(): void {
    const { value, done } = this.#next.next()
    if (done) {
      this.#next = this.#claims.entries()
      return
    }
    const [subscriptionId, held] = value
    held.firstLeased = this.#firstLeased(held.claim, held.firstLeased)
    if (held.firstLeased < 0) this.#claims.delete(subscriptionId)
  }

  settled(subscriptionId: string, deliveries: number): void {
    const held = this.#claims.get(subscriptionId)
    if (held === undefined) return
    held.left -= deliveries
    if (held.left <= 0) this.#claims.delete(subscriptionId)
  }

  /** Removes all claims and returns them. */
  take(): readonly PushedClaim[] {
    const claims = Array.from(this.#claims.values(), ({ claim }) => claim)
    this.#claims.clear()
    return claims
  }
}
