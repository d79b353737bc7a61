/** A clock that a test moves, for the connections and lanes of a cluster. */
export class TestClock {
  #nowMs = 0
  #timers: { readonly atMs: number; readonly run: () => void }[] = []

  readonly nowMs = (): number => this.#nowMs

  readonly after = (delayMs: number, run: () => void): (() => void) => {
    const timer = { atMs: this.#nowMs + delayMs, run }
    this.#timers.push(timer)
    return () => void (this.#timers = this.#timers.filter((each) => each !== timer))
  }

  passes(ms: number): void {
    const untilMs = this.#nowMs + ms
    for (;;) {
      const [next] = this.#timers.toSorted((one, other) => one.atMs - other.atMs)
      if (next === undefined || next.atMs > untilMs) break
      this.#timers = this.#timers.filter((each) => each !== next)
      this.#nowMs = next.atMs
      next.run()
    }
    this.#nowMs = untilMs
  }
}
