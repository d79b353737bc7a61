/**
 * Runs many small steps on main in slices: one turn of the event loop runs steps for SLICE_MS, and a later one continues. Few steps are run without a
 * look at the clock.
 */
const SLICE_MS = 10
const STEPS_BETWEEN_LOOKS = 16

interface SlicesParts {
  /** False: none is left. */
  step(): boolean
  /** Called in a later turn: runs what is left. */
  runRest(): void
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

  /** True when a later turn is to continue. */
  get isDeferred(): boolean {
    return this.#isDeferred
  }

  run(): void {
    let untilMs = Infinity
    for (let taken = 1; this.#parts.step(); taken++) {
      if (taken % STEPS_BETWEEN_LOOKS > 0) continue
      const nowMs = this.#parts.nowMs()
      if (taken === STEPS_BETWEEN_LOOKS) untilMs = nowMs + SLICE_MS
      if (nowMs >= untilMs) return this.#continueLater()
    }
  }

  #continueLater(): void {
    this.#isDeferred = true
    this.#parts.defer(() => {
      this.#isDeferred = false
      this.#parts.runRest()
    })
  }
}
