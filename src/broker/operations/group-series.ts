/**
 * Lag and age of consumer groups, for a scrape. Its cost is bounded by the number of series, whatever the number of streams and groups.
 *
 * S1  the first groups of a tenant, in the order in which they came into being, have series of their own; the rest is one series
 * S2  sums are those kept by the state (state/group-totals.ts): what the rest comes to is the difference
 * S3  an age is exact where the index says so, within SURE_WITHIN_MS, or a reader was asked; it is asked READS_MAX times a scrape, and a scrape
 *     waits READ_WAIT_MS for it. Other ages are at least as long as said
 * S4  of the rest the oldest is looked for by what the index says: REST_LOOKED_AT_MAX groups a scrape, in turn, and the oldest of the last
 *     scrape again
 */
import { restOf } from '../../observability/metrics.ts'
import type { Labels } from '../../observability/metrics.ts'
import type { Core } from '../engine/core.ts'
import type { GroupTotals } from '../state/group-totals.ts'
import { lagOf } from '../state/group-totals.ts'
import { progressOf } from '../state/group-progress.ts'
import type { Group } from '../state/state.ts'

export interface GroupSample {
  readonly labels: Labels
  /** Records that are not finished. */
  readonly lag: number
  /** Of the record that came in first of those; 0 when there is none. */
  readonly oldestAgeMs: number
  readonly inFlight: number
  readonly delayed: number
  readonly deadLetters: number
}

const SURE_WITHIN_MS = 1000
const READS_MAX = 100
const READ_WAIT_MS = 500
const REST_LOOKED_AT_MAX = 2000

/** The first record that a group is not done with. */
interface Oldest {
  readonly offset: number
  /** Known to be no later. */
  ingestTimeMs: number
  isSure: boolean
}

/** How far the search in the rest of a tenant's groups has come (S4). */
interface Search {
  next: IterableIterator<Group>
  oldest: Group | null
}

export class GroupSeries {
  readonly #core: Core
  readonly #seriesMax: number
  /** By group, as long as it is the same record. */
  readonly #known = new WeakMap<Group, Oldest>()
  readonly #searches = new WeakMap<GroupTotals<Group>, Search>()

  constructor(core: Core, seriesMax: number) {
    this.#core = core
    this.#seriesMax = seriesMax
  }

  async of(tenant: string): Promise<readonly GroupSample[]> {
    const { state, time } = this.#core
    const totals = state.groupTotals(tenant)
    const first = firstOf(totals.groups, this.#seriesMax)
    const oldestOfRest = totals.groups.size > first.length ? this.#searchRest(totals, new Set(first)) : null
    await this.#readTimes(oldestOfRest === null ? first : [oldestOfRest, ...first])
    if (state !== this.#core.state) return this.of(tenant) // frames were lost: it is another one now
    const shown = first.filter((group) => totals.groups.has(group))
    const nowMs = time.wallMs()
    const rest = { lag: totals.lag, leased: totals.leased, delayed: totals.delayed, deadLetters: totals.deadLetters }
    const samples = shown.map((group): GroupSample => {
      const { leased, delayed, deadLetters } = group.counted
      const lag = lagOf(group)
      rest.lag -= lag
      rest.leased -= leased
      rest.delayed -= delayed
      rest.deadLetters -= deadLetters
      const labels = { stream: group.stream.name, group: group.name }
      return { labels, lag, oldestAgeMs: this.#ageOf(group, nowMs), inFlight: leased, delayed, deadLetters }
    })
    if (totals.groups.size === shown.length) return samples
    const { lag, leased: inFlight, delayed, deadLetters } = rest
    const isThere = oldestOfRest !== null && totals.groups.has(oldestOfRest)
    const oldestAgeMs = isThere ? this.#ageOf(oldestOfRest, nowMs) : 0
    samples.push({ labels: restOf('stream', 'group'), lag, oldestAgeMs, inFlight, delayed, deadLetters })
    return samples
  }

  #ageOf(group: Group, nowMs: number): number {
    const oldest = this.#oldestOf(group)
    return oldest === null ? 0 : Math.max(0, nowMs - oldest.ingestTimeMs)
  }

  /** Null: the group is done with everything. */
  #oldestOf(group: Group): Oldest | null {
    if (lagOf(group) <= 0) return null
    const { stream, queue } = group
    const offset = progressOf(stream, queue)
    const known = this.#known.get(group)
    if (known?.offset === offset && known.isSure) return known
    const range = stream.index.ingestTimeRange(offset)
    if (range === null) return null
    const { earliestMs, latestMs } = range
    const oldest = { offset, ingestTimeMs: latestMs, isSure: latestMs - earliestMs <= SURE_WITHIN_MS }
    this.#known.set(group, oldest)
    return oldest
  }

  /** S3 */
  async #readTimes(groups: readonly Group[]): Promise<void> {
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
      const unread = (): void => {} // the reader counts and logs what it cannot read; the age is at least as said
      reads.push(core.reads.ingestTimeOf(group.stream.index, oldest.offset).then(learn, unread))
    }
    if (reads.length > 0) await this.#within(Promise.all(reads))
  }

  async #within(work: Promise<unknown>): Promise<void> {
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const stop = this.#core.timers.every(READ_WAIT_MS, resolve)
    await Promise.race([work, over])
    stop()
  }

  /** S4. Null: no group of the rest that was looked at has anything to do. */
  #searchRest(totals: GroupTotals<Group>, shown: ReadonlySet<Group>): Group | null {
    const known = this.#searches.get(totals)
    const search: Search = known ?? { next: totals.groups.values(), oldest: null }
    this.#searches.set(totals, search)
    const { oldest } = search
    if (oldest !== null && (!totals.groups.has(oldest) || shown.has(oldest))) search.oldest = null
    let oldestMs = this.#timeOf(search.oldest)
    for (let looked = 0; looked < Math.min(REST_LOOKED_AT_MAX, totals.groups.size); looked++) {
      const { value: group, done } = search.next.next()
      if (done) search.next = totals.groups.values()
      else if (!shown.has(group)) {
        const timeMs = this.#timeOf(group)
        if (timeMs >= oldestMs) continue
        oldestMs = timeMs
        search.oldest = group
      }
    }
    return oldestMs === Infinity ? null : search.oldest
  }

  #timeOf(group: Group | null): number {
    return (group === null ? null : this.#oldestOf(group))?.ingestTimeMs ?? Infinity
  }
}

function firstOf<T>(all: Iterable<T>, max: number): T[] {
  const first: T[] = []
  if (max === 0) return first
  for (const each of all) {
    first.push(each)
    if (first.length === max) break
  }
  return first
}
