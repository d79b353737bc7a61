/** What verifications have in common. */
import { ConnectionError } from './http-connection.ts'
import { RefusedError, UnreadableAnswerError } from './workload.ts'
import type { Verification } from './workload.ts'

const PROBLEMS_SHOWN_MAX = 3

/** What one check found wrong: all are counted, the first are shown. */
export class Problems {
  readonly #shown: string[] = []
  #count = 0

  add(problem: string): void {
    if (this.#count++ < PROBLEMS_SHOWN_MAX) this.#shown.push(problem)
  }

  check(name: string, detail: string): Verification['checks'][number] {
    return this.#count === 0
      ? { name, ok: true, detail }
      : { name, ok: false, detail: `${this.#count} wrong: ${this.#shown.join('; ')}` }
  }
}

/** The server failed while it was asked: that is a finding, and no reason to lose the figures. */
export async function orUnverified(ask: () => Promise<Verification>): Promise<Verification> {
  try {
    return await ask()
  } catch (error) {
    const isTheServer =
      error instanceof ConnectionError || error instanceof RefusedError || error instanceof UnreadableAnswerError
    if (!isTheServer) throw error
    return { ok: false, checks: [{ name: 'answers', ok: false, detail: error.message }] }
  }
}
