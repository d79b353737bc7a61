/** An actor of the load: does one thing after the other until it is told to stop. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../../bench/load/random.ts'

/** What a client's requests end with when the run is given up. */
export class Abandoned extends Error {}

export abstract class Actor {
  protected readonly random: Random
  readonly #pauseMs: number
  #stopping = false

  /** @param pauseMs between two things, about */
  constructor(seed: number, pauseMs: number) {
    this.random = new Random(seed)
    this.#pauseMs = pauseMs
  }

  protected abstract act(): Promise<void>

  /** Resolves when it was told to stop and has ended what it was doing. */
  async run(): Promise<void> {
    try {
      while (!this.#stopping) {
        await this.act()
        if (this.#pauseMs > 0) await sleep(this.random.between(0, 2 * this.#pauseMs))
      }
    } catch (error) {
      if (!(error instanceof Abandoned)) throw error
    }
  }

  stop(): void {
    this.#stopping = true
  }

  protected chance(percent: number): boolean {
    return this.random.between(1, 100) <= percent
  }
}
