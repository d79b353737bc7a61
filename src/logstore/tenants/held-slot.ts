/**
 * An admission slot that a request holds to its end, and longer while a thread works for it: otherwise a client that leaves early, again and again, would
 * have any number of threads at work.
 */
export class HeldSlot {
  readonly #release: () => void
  /** The request, and each piece of work for it. */
  #holders = 1

  /** @param release called once */
  constructor(release: () => void) {
    this.#release = release
  }

  /** The request has ended. */
  leave(): void {
    this.#holders -= 1
    if (this.#holders === 0) this.#release()
  }

  /** Work that begins after the slot was given back does not take it again. */
  async during<Result>(work: Promise<Result>): Promise<Result> {
    if (this.#holders === 0) return work
    this.#holders += 1
    try {
      return await work
    } finally {
      this.leave()
    }
  }
}
