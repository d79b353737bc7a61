/**
 * Connections of the open loop that wait until their next task is due. Timers know milliseconds only, so besides one timer for all, each answer
 * that arrives starts what is due by then.
 *
 * S1  nothing starts before it is due, nor after `end`
 * S2  the connection that waits longest starts first: starts are given out in the order of their times (pacing.ts P1)
 */
export class DueStarts {
  readonly #nowMs: () => number
  readonly #waiting: { readonly dueMs: number; readonly start: () => void }[] = []
  #timer: NodeJS.Timeout | null = null
  #isOver = false

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** Resolves when that time has come, or the run is over. */
  at(dueMs: number): Promise<void> {
    if (this.#isOver || dueMs <= this.#nowMs()) return Promise.resolve()
    return new Promise((start) => {
      this.#waiting.push({ dueMs, start })
      this.#timer ??= this.#sleep()
    })
  }

  /** Starts what is due. */
  look(): void {
    const nowMs = this.#nowMs()
    while (this.#waiting.length > 0 && this.#waiting[0]!.dueMs <= nowMs) this.#waiting.shift()!.start()
  }

  end(): void {
    this.#isOver = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    for (const { start } of this.#waiting.splice(0)) start()
  }

  #sleep(): NodeJS.Timeout {
    return setTimeout(() => {
      this.look()
      this.#timer = this.#waiting.length === 0 ? null : this.#sleep()
    }, this.#waiting[0]!.dueMs - this.#nowMs())
  }
}
