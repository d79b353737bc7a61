/**
 * The clock of a thread that reads, which looks at it between pieces of work (deadline.ts). While another tenant sends records than the one that it reads for, the thread
 * then leaves its core for a moment again and again: else the threads that take those records in wait for the kernel's next tick (niceness.ts). A
 * tenant that reads what it sends itself has no rests: its questions would take longer, and nobody would gain.
 */
import type { OtherSenders } from '../senders.ts'

const REST_AFTER_MS = 0.5

export class RestingClock {
  readonly #others: Pick<OtherSenders, 'send'>
  readonly #nowMs: () => number
  readonly #rest: () => void
  #restedAtMs = -Infinity

  constructor(others: Pick<OtherSenders, 'send'>, nowMs: () => number, rest: () => void) {
    this.#others = others
    this.#nowMs = nowMs
    this.#rest = rest
  }

  /** May rest. */
  nowMs(): number {
    const nowMs = this.#nowMs()
    if (nowMs - this.#restedAtMs < REST_AFTER_MS || !this.#others.send(nowMs)) return nowMs
    this.#rest()
    this.#restedAtMs = this.#nowMs()
    return this.#restedAtMs
  }
}
