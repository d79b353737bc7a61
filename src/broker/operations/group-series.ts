/**
 * Lag and age of consumer groups, for a scrape. Its cost is bounded by the number of series, whatever the number of streams and groups.
 *
 * S1  the first groups of a tenant, in the order of their creation, have series of their own; the rest share one
 * S2  totals are those that the state keeps (state/group-totals.ts); the sums of the rest are the difference. Reading totals makes all groups
 *     catch up with the floors of their streams at once, so groups catch up in slices before
 * S3  ages are those of group-ages.ts (A1), which is asked once a scrape
 * S4  the group with the oldest record of the rest is searched by the index: each scrape looks at REST_LOOKED_AT_MAX groups, in turn, and at
 *     the oldest of the scrape before
 */
import { restOf } from '../../observability/metrics.ts'
import type { Labels } from '../../observability/metrics.ts'
import type { Core } from '../engine/core.ts'
import { lagOf } from '../state/group-totals.ts'
import type { Group } from '../state/state.ts'
import type { GroupAges } from './group-ages.ts'

export interface GroupSample {
  readonly labels: Labels
  /** Records that are not finished. */
  readonly lag: number
  /** Age of the first of these records; 0: there is none. */
  readonly oldestAgeMs: number
  readonly inFlight: number
  readonly delayed: number
  readonly deadLetters: number
}

const REST_LOOKED_AT_MAX = 2000
const SLICES_MAX = 1000

/** How far the search in the rest of a tenant's groups has come (S4). */
interface Search {
  next: IterableIterator<Group>
  oldest: Group | null
}

export class GroupSeries {
  readonly #core: Core
  readonly #ages: GroupAges
  readonly #seriesMax: number
  readonly #searches = new WeakMap<ReadonlySet<Group>, Search>()

  constructor(core: Core, ages: GroupAges, seriesMax: number) {
    this.#core = core
    this.#ages = ages
    this.#seriesMax = seriesMax
  }

  async of(tenant: string): Promise<readonly GroupSample[]> {
    const { state, time } = this.#core
    const groups = state.groupsOf(tenant)
    const first = firstOf(groups, this.#seriesMax)
    const oldestOfRest = groups.size > first.length ? this.#searchRest(groups, new Set(first)) : null
    await this.#ages.read(oldestOfRest === null ? first : [oldestOfRest, ...first])
    await this.catchUp()
    if (state !== this.#core.state) return this.of(tenant) // frames were lost, and the state was replaced
    const shown = first.filter((group) => groups.has(group))
    const nowMs = time.wallMs()
    const rest = state.groupSums(tenant)
    const samples = shown.map((group): GroupSample => {
      const { leased, delayed, deadLetters } = group.counted
      const lag = lagOf(group)
      rest.lag -= lag
      rest.leased -= leased
      rest.delayed -= delayed
      rest.deadLetters -= deadLetters
      const labels = { stream: group.stream.name, group: group.name }
      return { labels, lag, oldestAgeMs: this.#ages.of(group, nowMs) ?? 0, inFlight: leased, delayed, deadLetters }
    })
    if (groups.size === shown.length) return samples
    const { lag, leased: inFlight, delayed, deadLetters } = rest
    const isThere = oldestOfRest !== null && groups.has(oldestOfRest)
    const oldestAgeMs = isThere ? (this.#ages.of(oldestOfRest, nowMs) ?? 0) : 0
    samples.push({ labels: restOf('stream', 'group'), lag, oldestAgeMs, inFlight, delayed, deadLetters })
    return samples
  }

  /** S2. Floors may rise again meanwhile: when that takes more than SLICES_MAX, the rest catches up when the sums are read. */
  async catchUp(): Promise<void> {
    for (let slices = 0; slices < SLICES_MAX && this.#core.state.catchUpSome(); slices++) await this.#core.turn()
  }

  /** S4. Null: no group of the rest that was looked at has unfinished records. */
  #searchRest(groups: ReadonlySet<Group>, shown: ReadonlySet<Group>): Group | null {
    const known = this.#searches.get(groups)
    const search: Search = known ?? { next: groups.values(), oldest: null }
    this.#searches.set(groups, search)
    const { oldest } = search
    if (oldest !== null && (!groups.has(oldest) || shown.has(oldest))) search.oldest = null
    let oldestMs = search.oldest === null ? Infinity : this.#ages.timeOf(search.oldest)
    for (let looked = 0; looked < Math.min(REST_LOOKED_AT_MAX, groups.size); looked++) {
      const { value: group, done } = search.next.next()
      if (done) search.next = groups.values()
      else if (!shown.has(group)) {
        const timeMs = this.#ages.timeOf(group)
        if (timeMs >= oldestMs) continue
        oldestMs = timeMs
        search.oldest = group
      }
    }
    return oldestMs === Infinity ? null : search.oldest
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
