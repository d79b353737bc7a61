/** How many requests are under way at once. */
import type { Exchange } from '../../http/exchange.ts'
import { refuse } from '../refusals.ts'

export class Admission {
  readonly #requestsMax: number
  #requests = 0

  constructor(requestsMax: number) {
    this.#requestsMax = requestsMax
  }

  /** A place until the exchange ends. @throws S3Error SlowDown */
  enter(exchange: Pick<Exchange, 'onEnd'>): void {
    if (this.#requests >= this.#requestsMax) throw refuse('SlowDown')
    this.#requests++
    exchange.onEnd(() => void this.#requests--)
  }
}
