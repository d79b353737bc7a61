/**
 * Bounds how long requests hold the main thread: work whose length a client decides is done in slices, and all requests together get STEPS_PER_TURN
 * steps (of a few nanoseconds, see slices.ts) in one turn of the event loop. So a thousand requests at once hold it no longer than one.
 */
import type { Sliced } from './slices.ts'

/** A few milliseconds. */
export const STEPS_PER_TURN = 1 << 20

export class Pace {
  readonly #nextTurn: (run: () => void) => void
  #steps = 0
  #turn: Promise<void> | null = null

  /** @param nextTurn calls `run` when everything else that waits has had its turn */
  constructor(nextTurn: (run: () => void) => void) {
    this.#nextTurn = nextTurn
  }

  /** Runs sliced work to its end. */
  async run<Result>(search: Sliced<Result>): Promise<Result> {
    for (;;) {
      while (this.#steps >= STEPS_PER_TURN) await this.#nextSlice()
      const { done, value } = search.next()
      if (done === true) return value
      this.#steps += value
    }
  }

  /** Waiting requests continue one after the other: the first ones may use up the turn, and the others wait for the next. */
  #nextSlice(): Promise<void> {
    this.#turn ??= new Promise((resolve) => {
      this.#nextTurn(() => {
        this.#steps = 0
        this.#turn = null
        resolve()
      })
    })
    return this.#turn
  }
}
