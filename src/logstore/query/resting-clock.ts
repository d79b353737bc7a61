/**
 * The clock of a thread that reads, which looks at it between pieces of work (deadline.ts). While another tenant than the one that the thread reads for
 * is sending, a look may yield the core for a moment: otherwise the threads that take in those records would wait for the kernel's next tick
 * (niceness.ts). If only the reading tenant sends, the thread does not rest: its questions would take longer, and no other tenant would gain.
 */
import type { OtherSenders } from '../senders.ts'

const REST_AFTER_MS = 0.5

export class RestingClock {
  readonly #others: Pick<OtherSenders, 'readFor' | 'areSending'>
  readonly #nowMs: () => number
  readonly #rest: () => void
  /** When the last rest ended, or the task began. */
  #sinceMs = -Infinity

  constructor(others: Pick<OtherSenders, 'readFor' | 'areSending'>, nowMs: () => number, rest: () => void) {
    this.#others = others
    this.#nowMs = nowMs
    this.#rest = rest
  }

  /** A task begins. @param tenant as `OtherSenders.readFor` takes it */
  readFor(tenant: string): void {
    this.#others.readFor(tenant)
    this.#sinceMs = this.#nowMs()
  }

  /** May rest. */
  nowMs(): number {
    const nowMs = this.#nowMs()
    if (nowMs - this.#sinceMs < REST_AFTER_MS || !this.#others.areSending(nowMs)) return nowMs
    this.#rest()
    this.#sinceMs = this.#nowMs()
    return this.#sinceMs
  }
}
