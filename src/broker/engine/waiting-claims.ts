/**
 * Claims that wait for a record instead of being answered empty (`wait_millis`), in the order they came.
 *
 * W1  each ends once: served, out of time, or abandoned by its client
 * W2  who came first is asked first; nobody is asked when there is nothing new
 */
import type { Patience } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { Timers } from './core.ts'

interface WaitingClaim<Served> {
  /** Null: there is still nothing for it. */
  readonly serve: () => Served | null
  /** Whether it takes any record: when there is none for it, there is none for those behind it. */
  readonly takesAny: boolean
  readonly end: (served: Served | null) => void
  readonly fail: (error: unknown) => void
}

export class WaitingClaims<Served> {
  readonly #timers: Timers
  readonly #max: number
  /** By stream, then by group. */
  readonly #streams = new Map<number, Map<string, Set<WaitingClaim<Served>>>>()
  count = 0
  #closed = false

  constructor(timers: Timers, max: number) {
    this.#timers = timers
    this.#max = max
  }

  /** Null when nothing came in time. Rejects with what `serve` throws. */
  wait(
    place: { readonly streamNumber: number; readonly group: string },
    how: { readonly waitMs: number; readonly takesAny: boolean; readonly serve: () => Served | null },
    patience: Patience,
  ): Promise<Served | null> {
    if (this.count >= this.#max) throw refuse('quota_exceeded', 'too many claims are waiting')
    if (this.#closed) return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        if (!this.#remove(place, waiting)) return // W1
        stopTimer()
      }
      const waiting: WaitingClaim<Served> = {
        serve: how.serve,
        takesAny: how.takesAny,
        end: (served) => {
          leave()
          resolve(served)
        },
        fail: (error) => {
          leave()
          reject(error)
        },
      }
      this.#add(place, waiting)
      const stopTimer = this.#timers.every(how.waitMs, () => waiting.end(null))
      patience.onAbandoned(() => waiting.end(null)) // at once, when its client is gone already
    })
  }

  /** There may be something new in a stream; in one group of it only, when that is named. */
  wake(streamNumber: number, group?: string): void {
    const groups = this.#streams.get(streamNumber)
    if (groups === undefined) return
    if (group !== undefined) return this.#serve(groups.get(group))
    for (const waiting of groups.values()) this.#serve(waiting)
  }

  /** Ends them all: out of time. From here on nobody waits. */
  close(): void {
    this.#closed = true
    for (const groups of this.#streams.values()) {
      for (const waiting of groups.values()) for (const each of waiting) each.end(null)
    }
  }

  /** W2 */
  #serve(waiting: Set<WaitingClaim<Served>> | undefined): void {
    for (const each of waiting ?? []) {
      try {
        const served = each.serve()
        if (served !== null) each.end(served)
        else if (each.takesAny) return
      } catch (error) {
        each.fail(error)
      }
    }
  }

  #add({ streamNumber, group }: { streamNumber: number; group: string }, waiting: WaitingClaim<Served>): void {
    const groups = this.#streams.get(streamNumber) ?? new Map<string, Set<WaitingClaim<Served>>>()
    this.#streams.set(streamNumber, groups)
    groups.set(group, (groups.get(group) ?? new Set()).add(waiting))
    this.count += 1
  }

  #remove({ streamNumber, group }: { streamNumber: number; group: string }, waiting: WaitingClaim<Served>): boolean {
    const groups = this.#streams.get(streamNumber)
    const ofGroup = groups?.get(group)
    if (!groups || !ofGroup?.delete(waiting)) return false
    if (ofGroup.size === 0) groups.delete(group)
    if (groups.size === 0) this.#streams.delete(streamNumber)
    this.count -= 1
    return true
  }
}
