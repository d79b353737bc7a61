/** A wait that can be cut short. */

export interface ClientTimers {
  /** Monotonic, milliseconds. */
  nowMs(): number
  /** Calls `run` once, unless the returned function is called before. Keeps the process alive until then, as a caller waits. */
  wait(delayMs: number, run: () => void): () => void
}

/** Resolves when the time is over or the signal is aborted. */
export type Pause = (delayMs: number, stop: AbortSignal) => Promise<void>

export const pauseOn =
  (timers: ClientTimers): Pause =>
  (delayMs, stop) =>
    new Promise((resolve) => {
      if (stop.aborted) return resolve()
      const end = (): void => {
        cancel()
        stop.removeEventListener('abort', end)
        resolve()
      }
      const cancel = timers.wait(delayMs, end)
      stop.addEventListener('abort', end)
    })
