/** The deadline of a query. The query checks it between pieces of work; no timer waits for it. */
import { StoreError } from '../../errors.ts'

export const LATE = 'the query did not finish before its deadline_ms: retry, narrow the time range or raise deadline_ms'

export class Deadline {
  readonly #atMs: number
  readonly #nowMs: () => number

  /** @param atMs  on the clock of `nowMs` */
  constructor(atMs: number, nowMs: () => number) {
    this.#atMs = atMs
    this.#nowMs = nowMs
  }

  /** @throws StoreError deadline_exceeded */
  check(): void {
    if (this.#nowMs() < this.#atMs) return
    throw new StoreError('overloaded', 'deadline_exceeded', LATE)
  }
}
