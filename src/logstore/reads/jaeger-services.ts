/**
 * The datasets that have spans, which Jaeger calls services. To look for spans in each dataset for each request would take long, so what was found is kept.
 *
 * S1  a dataset that had spans has some until a look at all of its records finds none: they may have expired. It is looked at again after RECHECK_MS. A
 *     look that did not come to its end says nothing, as spans may be older than what it saw
 */
import type { Refusal } from '../refusals.ts'
import { isRefusal } from '../tenants/caller.ts'

const KNOWN_MAX = 10_000
export const RECHECK_MS = 60_000

/** What a look at the newest records of a dataset finds. */
export interface Look {
  readonly hasSpans: boolean
  /** Whether it looked at all records. */
  readonly isAll: boolean
}

export class JaegerServices {
  readonly #nowMs: () => number
  /** By tenant and dataset: when it was looked at last. */
  readonly #known = new Map<string, number>()

  /** @param nowMs monotonic */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  async has(tenant: string, dataset: string, look: () => Promise<Look | Refusal>): Promise<boolean | Refusal> {
    const key = JSON.stringify([tenant, dataset])
    const lookedAtMs = this.#known.get(key)
    if (lookedAtMs !== undefined && this.#nowMs() - lookedAtMs < RECHECK_MS) return true
    const found = await look()
    if (isRefusal(found)) return found
    if (!found.hasSpans && (found.isAll || lookedAtMs === undefined)) {
      this.#known.delete(key) // S1
      return false
    }
    if (this.#known.size >= KNOWN_MAX) this.#known.clear()
    this.#known.set(key, this.#nowMs())
    return true
  }
}
