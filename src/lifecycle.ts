/**
 * What a process has open, closed last first.
 *
 * C1  `open` runs its opener after the one before; when it throws, everything opened so far is closed, then it throws on
 * C2  `close` closes in reverse order, each part even when another failed; the first failure is thrown at the end
 */
import { StoreError } from './errors.ts'

export interface Closable {
  close(options: { readonly withinMs: number }): Promise<void>
}

/** How long parts get to close when a later one failed to open. */
const CLOSE_AFTER_FAILED_OPEN_MS = 5000

export class Lifecycle {
  readonly #opened: Closable[] = []

  async open<Part extends Closable>(opener: () => Part | Promise<Part>): Promise<Part> {
    try {
      const part = await opener()
      this.#opened.push(part)
      return part
    } catch (error) {
      await this.close({ withinMs: CLOSE_AFTER_FAILED_OPEN_MS }).catch(() => {}) // the first failure is the one to tell
      throw error // C1
    }
  }

  /** Resolves with the first of these signals. */
  untilSignal(...signals: readonly NodeJS.Signals[]): Promise<NodeJS.Signals> {
    return new Promise((resolve) => {
      const stop = (signal: NodeJS.Signals): void => {
        for (const each of signals) process.off(each, stop)
        resolve(signal)
      }
      for (const each of signals) process.on(each, stop)
    })
  }

  /** @param withinMs for all parts together: each gets what the ones before it left */
  async close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    const dueMs = performance.now() + withinMs
    const failures: unknown[] = []
    for (let part = this.#opened.pop(); part; part = this.#opened.pop()) {
      try {
        await part.close({ withinMs: Math.max(0, dueMs - performance.now()) })
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) {
      throw new StoreError('unavailable', 'close_failed', `not everything closed cleanly: ${String(failures[0])}`, {
        cause: failures[0],
      }) // C2
    }
  }
}
