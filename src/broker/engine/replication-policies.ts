/**
 * Which streams are sent to which other sites, and which of their records are still unsent. Source: contract "Broker".
 *
 * P1  a record from another site is sent on only by a policy that forwards, and never to a site where it was before
 * P2  unsent records hold retention back, unless there are more of them than the policy allows
 * P3  policies are replaced all at once; a stream's list is the same object until then
 */
import type { ReplicationPolicy } from '../../config/replication-binding.ts'
import type { IntervalSet } from '../interval-set.ts'
import type { Link } from '../state/replication-state.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { StreamState } from '../state/state.ts'

const NONE: readonly never[] = []

export class ReplicationPolicies {
  #all: readonly ReplicationPolicy[]
  #ofStream = new WeakMap<StreamState, readonly ReplicationPolicy[]>()

  constructor(all: readonly ReplicationPolicy[]) {
    this.#all = all
  }

  /** P3. Only these count from now on. */
  replace(all: readonly ReplicationPolicy[]): void {
    this.#all = all
    this.#ofStream = new WeakMap()
  }

  of(stream: StreamState): readonly ReplicationPolicy[] {
    if (this.#all.length === 0) return NONE
    const known = this.#ofStream.get(stream)
    if (known) return known
    const policies = this.#all.filter((policy) => isFor(policy, stream))
    this.#ofStream.set(stream, policies)
    return policies
  }

  /** Sets of offsets that are not sent: of holes, and of records that P1 excludes. */
  skippedOffsets(stream: StreamState, policy: ReplicationPolicy): IntervalSet[] {
    const sets = [stream.holes]
    for (const { sites, offsets } of stream.replicated?.arrived() ?? NONE) {
      if (!policy.forward || sites.includes(policy.targetSite)) sets.push(offsets)
    }
    return sets
  }

  /** Sets of offsets that are sent on, each with the sites that its records passed through. */
  forwarded(stream: StreamState, policy: ReplicationPolicy): { sites: readonly string[]; offsets: IntervalSet }[] {
    if (!policy.forward) return []
    return Array.from(stream.replicated?.arrived() ?? NONE).filter(({ sites }) => !sites.includes(policy.targetSite))
  }

  /** Offset of the first unsent record; `visibleNext` when there is none. @param next records below are sent */
  firstUnsent(stream: StreamState, policy: ReplicationPolicy, next = nextOf(stream, policy)): number {
    const sets = this.skippedOffsets(stream, policy)
    let at = Math.max(next, stream.floor)
    for (let before = -1; before !== at;) {
      before = at
      for (const set of sets) at = set.firstGap(at)
    }
    return Math.min(at, Math.max(next, stream.visibleNext))
  }

  /** How many records still have to be sent. */
  lagOf(stream: StreamState, policy: ReplicationPolicy, next = nextOf(stream, policy)): number {
    return this.countBetween(stream, policy, Math.max(next, stream.floor), stream.visibleNext)
  }

  /** How many records of [from, to) are to be sent. */
  countBetween(stream: StreamState, policy: ReplicationPolicy, from: number, to: number): number {
    if (to <= from) return 0
    let passed = 0
    for (const set of this.skippedOffsets(stream, policy)) passed += set.coveredBetween(from, to)
    return Math.max(0, to - from - passed)
  }

  /** The policies with unsent records below `end`, and how many these are, including records that are not visible yet. */
  unsentBelow(stream: StreamState, end: number): { readonly policy: ReplicationPolicy; readonly records: number }[] {
    return this.of(stream).flatMap((policy) => {
      const records = this.countBetween(stream, policy, Math.max(nextOf(stream, policy), stream.floor), end)
      return records > 0 ? [{ policy, records }] : []
    })
  }

  isLagging(policy: ReplicationPolicy, lag: number): boolean {
    return policy.maxLagRecords !== null && lag > policy.maxLagRecords
  }

  /** P2. Retention keeps the records from this offset on; Infinity: it may remove all. */
  retainedFrom(stream: StreamState): number {
    let held = Infinity
    for (const policy of this.of(stream)) {
      if (this.isLagging(policy, this.lagOf(stream, policy))) continue
      const first = this.firstUnsent(stream, policy)
      if (first < stream.visibleNext) held = Math.min(held, first)
    }
    return held
  }
}

/** True when both have the same sites and the same name: then they share their progress. */
export const isSameLink = (a: Link, b: Link): boolean =>
  a.policy === b.policy && a.sourceSite === b.sourceSite && a.targetSite === b.targetSite

export const linkOf = ({ sourceSite, targetSite, name }: ReplicationPolicy): Link => ({
  sourceSite,
  targetSite,
  policy: name,
})

const nextOf = (stream: StreamState, policy: ReplicationPolicy): number =>
  stream.replicated?.shipment(linkOf(policy)).nextOffset ?? 0

function isFor({ tenant, streams }: ReplicationPolicy, stream: StreamState): boolean {
  if (stream.name === AUDIT_STREAM || (tenant !== null && tenant !== stream.tenant)) return false
  return streams.some((pattern) =>
    pattern.endsWith('*') ? stream.name.startsWith(pattern.slice(0, -1)) : stream.name === pattern,
  )
}
