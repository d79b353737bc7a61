/**
 * Requests that wait for the decode lane. The tenants take turns, so that the next request of a tenant waits for at most one turn of each other tenant,
 * however many requests those have sent.
 *
 * Requests of one tenant stay in their order. A turn is an amount of the lane's time. A tenant whose last request took more than its turn skips turns
 * until they make up for it; the debt is forgotten when the tenant has no requests here.
 *
 * A tenant whose window has no room pauses after each request that is refused for it. So a sender that ignores Retry-After costs the others 200 refusals
 * a second with 16 slots, and not as many as it can send. The more requests of the tenant wait here, the shorter its pauses are, so that they do not hold
 * slots of the gateway for long: the last of 16 is refused after 75 ms, the last of 64 after 0.2 s.
 */
import assert from 'node:assert/strict'
import { Queue } from '../../queue.ts'

/** Length of a turn. A batch of 50 records takes less; one of 512 takes about twice as much, so its tenant then skips a turn. */
const TURN_MS = 0.5
const PAUSE_MS = 5
/** Divided by the number of the tenant's requests that are here, this bounds its pause. */
const PAUSES_MS = 80

interface Waiting<Request> {
  readonly tenant: number
  readonly requests: Queue<Request>
  /** What the tenant has left of its turn. */
  leftMs: number
}

export class FairQueue<Request> {
  /** Tenants that have requests here. */
  readonly #tenants = new Map<number, Waiting<Request>>()
  /** The tenants of these that do not pause; the first has its turn. */
  readonly #turns = new Queue<Waiting<Request>>()
  /** Until when tenants pause, whether or not they have requests here. */
  readonly #pausedUntilMs = new Map<number, number>()
  #served: Waiting<Request> | null = null

  get isEmpty(): boolean {
    return this.#tenants.size === 0
  }

  /** When the first pause ends; Infinity: no tenant pauses. */
  get resumesAtMs(): number {
    return Math.min(Infinity, ...this.#pausedUntilMs.values())
  }

  add(tenant: number, request: Request): void {
    let waiting = this.#tenants.get(tenant)
    if (waiting === undefined) {
      waiting = { tenant, requests: new Queue(), leftMs: TURN_MS }
      this.#tenants.set(tenant, waiting)
      if (!this.#pausedUntilMs.has(tenant)) this.#turns.push(waiting)
    }
    waiting.requests.push(request)
  }

  /**
   * The next request; null when there is none, or all tenants pause. After each request the caller calls `served`.
   *
   * @param nowMs pauses up to here are over; Infinity: all are
   */
  next(nowMs: number): Request | null {
    this.#resume(nowMs)
    for (let first = this.#turns.peek(); first !== undefined; first = this.#turns.peek()) {
      if (first.leftMs > 0) {
        this.#served = first
        return first.requests.shift()!
      }
      first.leftMs += TURN_MS
      this.#turns.shift()
      this.#turns.push(first)
    }
    return null
  }

  #resume(nowMs: number): void {
    for (const [tenant, untilMs] of this.#pausedUntilMs) {
      if (untilMs > nowMs) continue
      this.#pausedUntilMs.delete(tenant)
      const waiting = this.#tenants.get(tenant)
      if (waiting !== undefined) this.#turns.push(waiting)
    }
  }

  /** Accounts for the request that `next` returned: it took `ms` of the lane's time and ended at `endMs`. */
  served(ms: number, endMs: number, windowHadRoom: boolean): void {
    const served = this.#served
    assert(served !== null)
    this.#served = null
    served.leftMs -= ms
    const { tenant, requests } = served
    const isDone = requests.length === 0
    if (!windowHadRoom) this.#pausedUntilMs.set(tenant, endMs + Math.min(PAUSE_MS, PAUSES_MS / (requests.length + 1)))
    if (isDone || !windowHadRoom) assert(this.#turns.shift() === served)
    if (isDone) this.#tenants.delete(tenant)
  }
}
