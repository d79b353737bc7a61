/**
 * What groups come to together, kept as they change: a scrape reads the sums, however many groups there are.
 *
 * T1  each sum is that of what its groups were counted as last, and of `lag` of what their streams were counted as. Code that
 *     changes a group, or the offsets of a stream, has it counted
 * T2  the groups of a tenant stand in the order in which they came into being
 */
import type { IntervalSet } from '../interval-set.ts'
import { finishedOf } from './group-progress.ts'
import type { GroupState } from './group.ts'

/** What a group was counted as. */
export interface GroupCounts {
  /** A lease that has just ended is counted until `expire` has met it. */
  leased: number
  delayed: number
  /** Records that can be read and are finished. */
  finished: number
  /** Records that were copied to a dead-letter stream, as far as retention has left them in their own. */
  deadLetters: number
}

interface CountedStream {
  readonly tenant: string
  readonly floor: number
  readonly nextOffset: number
  readonly holes: IntervalSet
  readonly groups: ReadonlyMap<string, unknown>
  countedReadable: number
  readableBetween(from: number, to: number): number
}

interface CountedGroup {
  readonly queue: GroupState
  readonly stream: CountedStream
  readonly counted: GroupCounts
}

/** Totals of one tenant. */
export class GroupTotals<Group> {
  /** T2 */
  readonly groups = new Set<Group>()
  /** Records that are not finished. */
  lag = 0
  leased = 0
  delayed = 0
  deadLetters = 0
}

export const notCounted = (): GroupCounts => ({ leased: 0, delayed: 0, finished: 0, deadLetters: 0 })

export const lagOf = ({ stream, counted }: CountedGroup): number => stream.countedReadable - counted.finished

export class GroupCounting<Group extends CountedGroup> {
  /** Over all tenants. */
  readonly totals = { leased: 0, delayed: 0 }
  readonly #ofTenants = new Map<string, GroupTotals<Group>>()

  of(tenant: string): GroupTotals<Group> {
    const known = this.#ofTenants.get(tenant)
    if (known !== undefined) return known
    const totals = new GroupTotals<Group>()
    this.#ofTenants.set(tenant, totals)
    return totals
  }

  /** A group that its stream has now. */
  adopt(group: Group): void {
    const totals = this.of(group.stream.tenant)
    totals.groups.add(group)
    totals.lag += lagOf(group)
    this.count(group)
  }

  /** A group that its stream still has. */
  forget(group: Group): void {
    this.#countAs(group, 0, 0, 0, 0)
    const totals = this.of(group.stream.tenant)
    totals.groups.delete(group)
    totals.lag -= lagOf(group)
  }

  /** The group has changed. */
  count(group: Group): void {
    const { queue, stream } = group
    this.#countAs(group, queue.leasedCount, queue.delayedCount, finishedOf(stream, queue), queue.deadLetterCount)
  }

  /** The end of the stream moved, or its floor, or it has other holes. */
  countStream(stream: CountedStream): void {
    const readable = stream.readableBetween(stream.floor, stream.nextOffset)
    const more = readable - stream.countedReadable
    stream.countedReadable = readable
    if (stream.groups.size > 0) this.of(stream.tenant).lag += more * stream.groups.size
  }

  #countAs(group: Group, leased: number, delayed: number, finished: number, deadLetters: number): void {
    const { totals } = this
    const { counted, stream } = group
    const ofTenant = this.of(stream.tenant)
    totals.leased += leased - counted.leased
    totals.delayed += delayed - counted.delayed
    ofTenant.leased += leased - counted.leased
    ofTenant.delayed += delayed - counted.delayed
    ofTenant.lag -= finished - counted.finished
    ofTenant.deadLetters += deadLetters - counted.deadLetters
    counted.leased = leased
    counted.delayed = delayed
    counted.finished = finished
    counted.deadLetters = deadLetters
  }
}
