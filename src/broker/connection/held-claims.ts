/**
 * What a connection was given and has not settled yet, so that it can be given back when the connection ends.
 *
 * H1  a claim is forgotten when its deliveries are settled over the connection, or when it is looked at and none of them is leased any more:
 *     they were settled or expired, whichever way. One that is leased still is kept, whichever way it was renewed
 * H2  each claim that comes has LOOKS of the others looked at, all in turn: so memory is bounded by what is leased
 */
import type { Pushed, PushedClaim, StreamingOperations } from '../operations.ts'

/** Two let what is over go twice as fast as more comes. */
const LOOKS = 2

interface Held {
  readonly claim: PushedClaim
  /** Deliveries that are not settled. */
  left: number
  /** Place of the first delivery that was leased when the claim was looked at: those before it are over for good. */
  firstLeased: number
}

export class HeldClaims {
  readonly #firstLeased: StreamingOperations['firstLeased']
  /** By subscription id, in the order they came. */
  readonly #claims = new Map<string, Held>()
  /** Those that are looked at next. The iterator lives on while claims come and go. */
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

  /** All of them: they are held no more. */
  take(): readonly PushedClaim[] {
    const claims = Array.from(this.#claims.values(), ({ claim }) => claim)
    this.#claims.clear()
    return claims
  }
}
