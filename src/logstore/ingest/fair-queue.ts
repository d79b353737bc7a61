/**
 * Requests that wait for the decode lane, by tenant: in turn, so that a request of one tenant waits for one of each other at most, however many those
 * have sent.
 *
 * Requests of one tenant stay in their order. A turn is an amount of the lane's time. A tenant whose last request took more than its turn waits until
 * its turns have made up for it, as long as it has requests here.
 */
import assert from 'node:assert/strict'
import { Queue } from '../../queue.ts'

/** What a batch of the default size takes. */
const TURN_MS = 0.5

interface Waiting<Request> {
  readonly tenant: number
  readonly requests: Queue<Request>
  /** What the tenant has left of its turn. */
  leftMs: number
}

export class FairQueue<Request> {
  readonly #tenants = new Map<number, Waiting<Request>>()
  /** Tenants that have requests here; the first has its turn. */
  readonly #turns = new Queue<Waiting<Request>>()
  #served: Waiting<Request> | null = null

  get isEmpty(): boolean {
    return this.#turns.length === 0
  }

  add(tenant: number, request: Request): void {
    let waiting = this.#tenants.get(tenant)
    if (waiting === undefined) {
      waiting = { tenant, requests: new Queue(), leftMs: TURN_MS }
      this.#tenants.set(tenant, waiting)
      this.#turns.push(waiting)
    }
    waiting.requests.push(request)
  }

  /** The next request; null when there is none. `served` follows. */
  next(): Request | null {
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

  /** What the request that `next` returned took of the lane's time. */
  served(ms: number): void {
    const served = this.#served
    assert(served !== null)
    this.#served = null
    served.leftMs -= ms
    if (served.requests.length > 0) return
    assert(this.#turns.shift() === served)
    this.#tenants.delete(served.tenant)
  }
}
