/**
 * Many small steps on main, in slices: one turn of the event loop takes steps for SLICE_MS, and a later one goes on. Few steps are taken without a
 * look at the clock.
 */
const SLICE_MS = 10
const STEPS_BETWEEN_LOOKS = 16

interface SlicesParts {
  /** False: none is left. */
  step(): boolean
  /** In a later turn: takes what is left. */
  goOn(): void
  /** Calls once, after what is under way in this turn of the event loop. */
  defer(run: () => void): void
  /** Monotonic. */
  nowMs(): number
}

export class Slices {
  readonly #parts: SlicesParts
  #isDeferred = false

  constructor(parts: SlicesParts) {
    this.#parts = parts
  }

  /** A later turn is to go on. */
  get isDeferred(): boolean {
    return this.#isDeferred
  }

  run(): void {
    let untilMs = Infinity
    for (let taken = 1; this.#parts.step(); taken++) {
      if (taken % STEPS_BETWEEN_LOOKS > 0) continue
      const nowMs = this.#parts.nowMs()
      if (taken === STEPS_BETWEEN_LOOKS) untilMs = nowMs + SLICE_MS
      if (nowMs >= untilMs) return this.#goOnLater()
    }
  }

  #goOnLater(): void {
    this.#isDeferred = true
    this.#parts.defer(() => {
      this.#isDeferred = false
      this.#parts.goOn()
    })
  }
}
