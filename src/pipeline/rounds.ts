/**
 * Work that is done in rounds, in the background of a service.
 *
 * R1  one round at a time: a request for a round meanwhile is dropped, because the next timer asks again
 * R2  once `close` was called no round begins, the one under way sees it by its signal, and `close` waits for its end. So everything that a
 *     round uses stays open until then
 */
export class Rounds {
  readonly #round: (signal: AbortSignal) => Promise<void>
  readonly #closing = new AbortController()
  #underWay: Promise<void> | null = null

  /** Aborted once `close` was called. */
  get signal(): AbortSignal {
    return this.#closing.signal
  }

  /** @param round deals with its own failures; looks at the signal between any two steps that take long */
  constructor(round: (signal: AbortSignal) => Promise<void>) {
    this.#round = round
  }

  async run(): Promise<void> {
    if (this.#underWay !== null || this.#closing.signal.aborted) return
    this.#underWay = this.#round(this.#closing.signal)
    try {
      await this.#underWay
    } finally {
      this.#underWay = null
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#underWay
  }
}
