/**
 * Restarts of a log in place: repeats one that found no room on the disk, and counts those after the death of a lane. More than a few of these within a
 * minute mean that restarting does not help.
 */
import { isFullDisk } from './files.ts'

const RESTARTS_MAX = 5
const WINDOW_MS = 60_000
/** How long the log waits after a restart in place that found no room on the disk, before it tries again. */
const RESTART_AGAIN_MS = 5000

/** Why a log is restarted in place; only deaths are counted. */
export type RestartCause = 'death' | 'full' | 'readmission' | 'cut'

export interface Restart {
  readonly reason: string
  readonly cause: RestartCause
}

/** Calls again and again; the returned function ends it. */
type Every = (intervalMs: number, run: () => void) => () => void

export class Restarts {
  readonly #every: Every
  #atMs: readonly number[] = []
  #endPause = (): void => {}
  #isEnding = false

  constructor(every: Every) {
    this.#every = every
  }

  /** Repeats the restart until it does not fail for want of room on the disk. @throws any other failure */
  async untilRoom(first: Restart, restart: (why: Restart) => Promise<void>): Promise<void> {
    const again: Restart = { reason: `${first.reason}; the restart waits for room on the disk`, cause: 'full' }
    for (let why = first; ; why = again) {
      try {
        return await restart(why)
      } catch (failure) {
        if (!isFullDisk(failure)) throw failure
      }
      if (this.#isEnding) continue
      await new Promise<void>((resolve) => {
        const stop = this.#every(RESTART_AGAIN_MS, () => this.#endPause())
        this.#endPause = () => {
          stop()
          resolve()
        }
      })
    }
  }

  /** The log closes: ends the pause, as a restart notices by itself that the log is closed. */
  end(): void {
    this.#isEnding = true
    this.#endPause()
  }

  add(atMs: number): void {
    this.#atMs = [...this.#atMs.slice(-RESTARTS_MAX), atMs]
  }

  /** Whether too many of the restarts that were added came within the window before the last one. */
  get areTooMany(): boolean {
    return this.#atMs.length > RESTARTS_MAX && this.#atMs.at(-1)! - this.#atMs[0]! < WINDOW_MS
  }
}
