/**
 * The last objects of each activation, in memory.
 *
 * R1  an activation has at most RECORDS_PER_ACTIVATION objects, the last ones
 * R2  at most so many activations, and so many bytes, as the limits say; those written longest ago are forgotten first, and
 *     the one written last never is
 * R3  adding `all()` in its order to an empty one gives an equal one
 */
import { frameBytes } from '../../native-free-codecs/frame.ts'
import { recordPayloadBytes } from './frames.ts'
import type { StoredObject } from './frames.ts'
import { ACTIVATIONS_MAX, RECENT_BYTES_MAX, RECORDS_PER_ACTIVATION } from './limits.ts'

export interface RecentLimits {
  readonly activations: number
  readonly bytes: number
}

export const RECENT_LIMITS: RecentLimits = { activations: ACTIVATIONS_MAX, bytes: RECENT_BYTES_MAX }

export class RecentObjects {
  readonly #limits: RecentLimits
  /** Objects of each activation, oldest first. The activation that was written longest ago comes first. */
  readonly #activations = new Map<string, StoredObject[]>()
  #bytes = 0

  constructor(limits: RecentLimits) {
    this.#limits = limits
  }

  /** Bytes that the objects take as frames in the log. */
  get bytes(): number {
    return this.#bytes
  }

  add(stored: StoredObject): void {
    const { activationId } = stored
    const objects = this.#activations.get(activationId) ?? []
    this.#activations.delete(activationId)
    this.#activations.set(activationId, objects) // now the one written last
    objects.push(stored)
    this.#bytes += bytesOf(stored)
    if (objects.length > RECORDS_PER_ACTIVATION) this.#bytes -= bytesOf(objects.shift()!) // R1
    this.#forget()
  }

  newest(activationId: string): string | null {
    return this.#activations.get(activationId)?.at(-1)?.object ?? null
  }

  /** JSON text of each; empty when there are none. */
  newestFirst(activationId: string): string[] {
    return (this.#activations.get(activationId) ?? []).map(({ object }) => object).reverse()
  }

  /** R3 */
  *all(): Generator<StoredObject> {
    for (const objects of this.#activations.values()) yield* objects
  }

  /** R2 */
  #forget(): void {
    const { activations, bytes } = this.#limits
    for (const [activationId, objects] of this.#activations) {
      if (this.#activations.size === 1) return
      if (this.#activations.size <= activations && this.#bytes <= bytes) return
      this.#activations.delete(activationId)
      for (const stored of objects) this.#bytes -= bytesOf(stored)
    }
  }
}

const bytesOf = (stored: StoredObject): number => frameBytes(recordPayloadBytes(stored))
