/**
 * Which runs stay in memory: those whose next use is likely to come soonest.
 *
 * While there is room, every run stays.
 *
 * P2  a run that was used before replaces a kept run that was not used since that use. So runs that are used now replace runs that were used once. A
 *     reader that reads more than fits, again and again, always finds the same part. If the least recently used run always went, it would need that next
 * P3  a run that was not used before replaces none, as many runs are read only once. But a kept run that was idle for as long as uses are remembered
 *     is replaced by any other
 */
import { LinkedList } from '../../linked-list.ts'
import type { Link } from '../../linked-list.ts'

export interface KeptRun {
  /** Position of its first extent. */
  readonly position: number
}

interface Used<Value> {
  readonly value: Value
  readonly at: number
}

/** P2: for each kept run, the uses of so many runs that are not kept are remembered. */
const REMEMBERED_PER_KEPT = 4
const REMEMBERED_MIN = 1024

export class RunUses<Value extends KeptRun> {
  readonly #keptMax: number
  readonly #rememberedMax: number
  /** In order of use. */
  readonly #kept = new LinkedList<Used<Value>>()
  readonly #links = new Map<Value, Link<Used<Value>>>()
  /** When runs that are not kept were used, by position; about in the order of use. */
  readonly #remembered = new Map<number, number>()
  /** Counts uses. */
  #now = 0

  constructor(keptMax: number) {
    this.#keptMax = keptMax
    this.#rememberedMax = REMEMBERED_PER_KEPT * keptMax + REMEMBERED_MIN
  }

  get size(): number {
    return this.#links.size
  }

  /** True when the run was used, and is not kept; a request may ask for it again. */
  wasUsed(position: number): boolean {
    return this.#remembered.has(position)
  }

  /** Notes a use of a run that is not kept. @returns the run that is not to be kept: this one, or another; null: there is room for all */
  add(run: Value): Value | null {
    this.#now += 1
    const leaving = this.#links.size < this.#keptMax ? null : this.#inPlaceOf(run)
    if (leaving === run) {
      this.#remember(run.position, this.#now)
      return run
    }
    this.#remembered.delete(run.position)
    if (leaving !== null) {
      this.#remember(leaving.position, this.#links.get(leaving)!.value.at)
      this.remove(leaving)
    }
    this.#links.set(run, this.#kept.add({ value: run, at: this.#now }))
    return leaving
  }

  /** Notes a use of a run that cannot be kept. */
  noteUnkept(position: number): void {
    this.#now += 1
    this.#remember(position, this.#now)
  }

  has(run: Value): boolean {
    return this.#links.has(run)
  }

  /** Notes a use of a kept run. */
  used(run: Value): void {
    this.#now += 1
    this.#kept.remove(this.#links.get(run)!)
    this.#links.set(run, this.#kept.add({ value: run, at: this.#now }))
  }

  remove(run: Value): void {
    const link = this.#links.get(run)
    if (link === undefined) return
    this.#links.delete(run)
    this.#kept.remove(link)
  }

  /** P2, P3. The kept run that this one replaces; `run` itself: none, it is not kept. */
  #inPlaceOf(run: Value): Value {
    const oldest = this.#kept.oldest?.value
    if (oldest === undefined) return run
    const usedAt = this.#remembered.get(run.position) ?? -1
    const horizon = this.#remembered.size < this.#rememberedMax ? -1 : this.#remembered.values().next().value!
    return oldest.at < usedAt || oldest.at < horizon ? oldest.value : run
  }

  #remember(position: number, at: number): void {
    this.#remembered.delete(position)
    this.#remembered.set(position, at)
    if (this.#remembered.size <= this.#rememberedMax) return
    for (const oldest of this.#remembered.keys()) {
      this.#remembered.delete(oldest)
      return
    }
  }
}
