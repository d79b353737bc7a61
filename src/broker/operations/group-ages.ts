/**
 * Age of the first unfinished record of a group, for a scrape and for the list of groups.
 *
 * A1  an age is exact if the index gives it within SURE_WITHIN_MS, or a reader has read it. READS_MAX records are read at once, and waited for
 *     up to READ_WAIT_MS. Any other age is a lower bound
 */
import type { Core } from '../engine/core.ts'
import { lagOf } from '../state/group-totals.ts'
import { progressOf } from '../state/group-progress.ts'
import type { Group } from '../state/state.ts'

const SURE_WITHIN_MS = 1000
export const READS_MAX = 100
const READ_WAIT_MS = 500

/** The first unfinished record of a group. */
interface Oldest {
  readonly offset: number
  /** The record came in then or earlier. */
  ingestTimeMs: number
  isSure: boolean
}

export class GroupAges {
  readonly #core: Core
  /** Kept for a group as long as it is the same record. */
  readonly #known = new WeakMap<Group, Oldest>()

  constructor(core: Core) {
    this.#core = core
  }

  /** Age in milliseconds; null: the group has finished everything. */
  of(group: Group, nowMs: number): number | null {
    const oldest = this.#oldestOf(group)
    return oldest === null ? null : Math.max(0, nowMs - oldest.ingestTimeMs)
  }

  /** When the record came in; Infinity: the group has finished everything. */
  timeOf(group: Group): number {
    return this.#oldestOf(group)?.ingestTimeMs ?? Infinity
  }

  /** Reads what makes the ages of these groups exact (A1). */
  async read(groups: readonly Group[]): Promise<void> {
    const core = this.#core
    const reads: Promise<void>[] = []
    for (const group of groups) {
      if (reads.length === READS_MAX) break
      const oldest = this.#oldestOf(group)
      if (oldest === null || oldest.isSure || !core.isReadable(group.stream)) continue
      const learn = (ingestTimeMs: number): void => {
        oldest.isSure = !Number.isNaN(ingestTimeMs)
        if (oldest.isSure) oldest.ingestTimeMs = ingestTimeMs
      }
      const unread = (): void => {} // the reader counts and logs what it cannot read; the age stays a lower bound
      reads.push(core.reads.ingestTimeOf(group.stream.index, oldest.offset).then(learn, unread))
    }
    if (reads.length > 0) await this.#within(Promise.all(reads))
  }

  #oldestOf(group: Group): Oldest | null {
    if (lagOf(group) <= 0) return null
    const { stream, queue } = group
    const offset = progressOf(stream, queue)
    const known = this.#known.get(group)
    if (known?.offset === offset) return known
    const range = stream.index.ingestTimeRange(offset)
    if (range === null) return null
    const { earliestMs, latestMs } = range
    const oldest = { offset, ingestTimeMs: latestMs, isSure: latestMs - earliestMs <= SURE_WITHIN_MS }
    this.#known.set(group, oldest)
    return oldest
  }

  async #within(work: Promise<unknown>): Promise<void> {
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const stop = this.#core.timers.every(READ_WAIT_MS, resolve)
    await Promise.race([work, over])
    stop()
  }
}
