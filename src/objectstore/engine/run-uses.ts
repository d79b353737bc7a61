/**
 * Which runs stay in memory: those whose next use is likely to come soonest.
 *
 * While there is room, every run stays.
 *
 * P2  a run that was used before takes the place of runs that were not used since that use. So what is used now replaces what was used once. A reader
 *     that reads more than fits, again and again, always finds the same part. If the run that was used longest ago went, that reader would need it next
 * P3  a run that was not used before takes no place, as many runs are read only once. But a run that was idle for as long as uses are remembered
 *     gives its place to any other
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

/** P2: uses of runs that are not kept are remembered of this many times as many as are. */
const REMEMBERED_PER_KEPT = 4
const REMEMBERED_MIN = 1024

export class RunUses<Value extends KeptRun> {
  readonly #keptMax: number
  readonly #rememberedMax: number
  /** In order of use. */
  readonly #kept = new LinkedList<Used<Value>>()
  readonly #links = new Map<Value, Link<Used<Value>>>()
  /** When runs that are not kept were used, by position; about in this order. */
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

  /** It was used, and is not kept; a request may ask for it again. */
  wasUsed(position: number): boolean {
    return this.#remembered.has(position)
  }

  /** A run was used that is not among the kept ones. @returns which one is not kept: it, another, or null: none has to go */
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

  /** A run was used that cannot be kept. */
  noteUnkept(position: number): void {
    this.#now += 1
    this.#remember(position, this.#now)
  }

  has(run: Value): boolean {
    return this.#links.has(run)
  }

  /** One of the kept ones was used. */
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

  /** P2, P3. The run itself: it has to stay out. */
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
