/** Up to where each past generation of a log was stored; a restart in place ends a generation (log L2). */
import type { Position } from './log-writer.ts'

export class PastGenerations {
  /** Positions by generation. */
  readonly #keptUpTo = new Map<number, Position>()

  /** Frames of this generation that end above the position were never stored. */
  ended(generation: number, keptUpTo: Position): void {
    this.#keptUpTo.set(generation, keptUpTo)
  }

  /** True when a frame that was built in `generation` was lost as that generation ended, or one between it and the `current` one. */
  isLost(end: Position, generation: number, current: number): boolean {
    for (let past = generation; past < current; past += 1) if (end > this.#keptUpTo.get(past)!) return true
    return false
  }
}
