/**
 * The start and the end of a service, as readiness checks see them.
 *
 * While it reads what is stored, the work is done in slices: in between, the event loop has its turn, so that the port answers. After
 * SIGTERM the service may serve on for a while and say that it is not ready, so that load balancers send no new requests.
 */
import type { Pace, Step } from '../steps.ts'
import type { Logger } from './logger.ts'

/** What one slice takes at most, besides its last step. */
const SLICE_MS = 10
/** How often a recovery that takes longer is logged. */
const LOG_EVERY_MS = 5000

export type Phase =
  | { readonly kind: 'recovering'; readonly step: Step }
  | { readonly kind: 'open' }
  /** The service was asked to stop, and serves on for a while. */
  | { readonly kind: 'draining' }

export interface StartupParts {
  /** Monotonic. */
  readonly nowMs: () => number
  /** Resolves when the event loop had its turn. */
  readonly turn: () => Promise<void>
  readonly logger: Pick<Logger, 'info'>
}

export class Startup {
  readonly #parts: StartupParts
  #phase: Phase = { kind: 'recovering', step: { phase: 'opening', done: 0, total: 0, unit: 'bytes' } }

  #loggedMs: number

  constructor(parts: StartupParts) {
    this.#parts = parts
    this.#loggedMs = parts.nowMs()
  }

  get phase(): Phase {
    return this.#phase
  }

  /** What keeps the service from working; null: it is open. */
  get problem(): string | null {
    return this.#phase.kind === 'recovering' ? `recovering: ${this.#phase.step.phase}` : null
  }

  /** Runs the steps of a recovery in slices. The first slice also waits for a turn of the event loop. */
  readonly pace: Pace = async (steps) => {
    const { nowMs, turn } = this.#parts
    for (;;) {
      await turn()
      const endMs = nowMs() + SLICE_MS
      do {
        const step = steps.next()
        if (step.done) return step.value
        this.at(step.value)
      } while (nowMs() < endMs)
    }
  }

  /** Reports a step that ran elsewhere. */
  at(step: Step): void {
    if (this.#phase.kind !== 'recovering') return
    this.#phase = { kind: 'recovering', step }
    const nowMs = this.#parts.nowMs()
    if (nowMs - this.#loggedMs < LOG_EVERY_MS) return
    this.#loggedMs = nowMs
    this.#parts.logger.info({ ...step }, 'recovering')
  }

  opened(): void {
    if (this.#phase.kind === 'recovering') this.#phase = { kind: 'open' }
  }

  drain(): void {
    this.#phase = { kind: 'draining' }
  }
}
