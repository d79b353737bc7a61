/**
 * What a process has open, closed last first.
 *
 * C1  when an opener throws, `open` closes everything opened so far, then throws that error
 * C2  `close` closes in reverse order; parts that were opened beside each other close at the same time. Each part is closed even when another
 *     failed; the first failure is thrown at the end
 */
import { StoreError } from './errors.ts'

export interface Closable {
  close(options: { readonly withinMs: number }): Promise<void>
}

/** How long parts get to close when a later one failed to open. */
const CLOSE_AFTER_FAILED_OPEN_MS = 5000

export class Lifecycle {
  readonly #opened: Closable[][] = []

  open<Part extends Closable>(opener: () => Part | Promise<Part>): Promise<Part> {
    return this.#open(opener, (part) => this.#opened.push([part]))
  }

  /** Opens a part that is independent of the one before: both close at the same time. */
  openBeside<Part extends Closable>(opener: () => Part | Promise<Part>): Promise<Part> {
    return this.#open(opener, (part) => {
      const before = this.#opened.at(-1)
      if (before === undefined) this.#opened.push([part])
      else before.push(part)
    })
  }

  async #open<Part extends Closable>(opener: () => Part | Promise<Part>, keep: (part: Part) => void): Promise<Part> {
    try {
      const part = await opener()
      keep(part)
      return part
    } catch (error) {
      await this.close({ withinMs: CLOSE_AFTER_FAILED_OPEN_MS }).catch(() => {}) // the first failure is the one to tell
      throw error // C1
    }
  }

  /**
   * Resolves with the first of these signals. Later ones change nothing: npm forwards a signal that its whole process group got, so each comes twice.
   * Closing has its own time limit.
   */
  untilSignal(...signals: readonly NodeJS.Signals[]): Promise<NodeJS.Signals> {
    return new Promise((resolve) => {
      for (const each of signals) process.on(each, resolve)
    })
  }

  /** @param withinMs for all parts together: each gets the time that those closed before it left */
  async close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    const dueMs = performance.now() + withinMs
    const failures: unknown[] = []
    for (let parts = this.#opened.pop(); parts; parts = this.#opened.pop()) {
      const leftMs = Math.max(0, dueMs - performance.now())
      const closed = await Promise.allSettled(parts.map(async (part) => part.close({ withinMs: leftMs })))
      for (const each of closed) if (each.status === 'rejected') failures.push(each.reason)
    }
    if (failures.length > 0) {
      throw new StoreError('unavailable', 'close_failed', `not everything closed cleanly: ${String(failures[0])}`, {
        cause: failures[0],
      }) // C2
    }
  }
}
