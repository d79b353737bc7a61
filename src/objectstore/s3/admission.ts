/**
 * Bounds how many requests are under way at once: each takes a slot. When no slot is left, the slowest client that is waited for gives its slot to the
 * next request: one whose body arrives slowly, or that reads its answer slowly.
 */
import type { Exchange } from '../../http/exchange.ts'
import { LinkedList } from '../../linked-list.ts'
import { slowestOf } from '../../http/slow-clients.ts'
import { refuse } from '../refusals.ts'

type Admitted = Pick<Exchange, 'onEnd' | 'slowRate' | 'giveUp'>

export class Admission {
  readonly #requestsMax: number
  readonly #admitted = new LinkedList<Admitted>()

  constructor(requestsMax: number) {
    this.#requestsMax = requestsMax
  }

  /** Takes a slot until the exchange ends, or is given up. @throws S3Error SlowDown */
  enter(exchange: Admitted): void {
    if (this.#admitted.size >= this.#requestsMax) {
      const slowest = slowestOf(this.#admitted)
      if (slowest === null) throw refuse('SlowDown')
      this.#admitted.remove(this.#admitted.linkOf(slowest))
      slowest.giveUp()
    }
    const link = this.#admitted.add(exchange)
    exchange.onEnd(() => this.#admitted.remove(link))
  }
}
