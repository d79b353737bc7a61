/** What of each life of a log was stored; a restart in place ends a life (log L2). */
import type { Position } from './log-writer.ts'

export class PastLives {
  /** By generation. */
  readonly #keptUpTo = new Map<number, Position>()

  /** Frames of this life that end above the position were never stored. */
  ended(generation: number, keptUpTo: Position): void {
    this.#keptUpTo.set(generation, keptUpTo)
  }

  /** A frame that was built in `generation` was lost when that life, or one between it and the `current` one, ended. */
  isLost(end: Position, generation: number, current: number): boolean {
    for (let past = generation; past < current; past += 1) if (end > this.#keptUpTo.get(past)!) return true
    return false
  }
}
