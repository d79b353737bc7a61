/** Times at which a log was restarted in place because a lane had died. More than a few within a minute mean that restarting does not help. */
const RESTARTS_MAX = 5
const WINDOW_MS = 60_000
/** How long the log waits after a restart in place that found no room on the disk, before it tries again. */
export const RESTART_AGAIN_MS = 5000

/** Why a log is restarted in place; only deaths are counted. */
export type RestartCause = 'death' | 'full' | 'readmission' | 'cut'

export class Restarts {
  #atMs: readonly number[] = []

  add(atMs: number): void {
    this.#atMs = [...this.#atMs.slice(-RESTARTS_MAX), atMs]
  }

  /** Counted up to the last one. */
  get areTooMany(): boolean {
    return this.#atMs.length > RESTARTS_MAX && this.#atMs.at(-1)! - this.#atMs[0]! < WINDOW_MS
  }
}
