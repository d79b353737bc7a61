/**
 * Sums over groups, kept up to date as groups change, so that a scrape costs the same however many groups there are.
 *
 * T1  each sum is over the last counts of its groups; `lag` also over the last counts of their streams. Code that changes a group, or the
 *     offsets of a stream, counts it again. A group that is behind the floor of its stream is counted when it catches up (stream F1)
 * T2  the groups of a tenant are in the order of their creation
 */
import type { IntervalSet } from '../interval-set.ts'
import { finishedOf } from './group-progress.ts'
import type { GroupState } from './group.ts'

/** The last counts of a group. */
export interface GroupCounts {
  /** A lease that has just expired is counted until `expire` has processed it. */
  leased: number
  delayed: number
  /** Records that can be read and are finished. */
  finished: number
  /** Records that were copied to a dead-letter stream and that retention has not removed from their own stream. */
  deadLetters: number
}

interface CountedStream {
  readonly tenant: string
  readonly floor: number
  readonly nextOffset: number
  readonly holes: IntervalSet
  readonly groups: ReadonlyMap<string, unknown>
  readonly countedGroups: GroupCounts
  countedReadable: number
  readableBetween(from: number, to: number): number
}

interface CountedGroup {
  readonly queue: GroupState
  readonly stream: CountedStream
  readonly counted: GroupCounts
}

export interface GroupSums {
  /** Records that are not finished. */
  lag: number
  leased: number
  delayed: number
  deadLetters: number
}

interface OfTenant<Group> {
  /** T2 */
  readonly groups: Set<Group>
  readonly sums: GroupSums
}

export const notCounted = (): GroupCounts => ({ leased: 0, delayed: 0, finished: 0, deadLetters: 0 })

export const lagOf = ({ stream, counted }: CountedGroup): number => stream.countedReadable - counted.finished

export class GroupCounting<Group extends CountedGroup> {
  /** Sums over all tenants. */
  readonly totals = { leased: 0, delayed: 0 }
  readonly #ofTenants = new Map<string, OfTenant<Group>>()

  of(tenant: string): OfTenant<Group> {
    const known = this.#ofTenants.get(tenant)
    if (known !== undefined) return known
    const ofTenant = { groups: new Set<Group>(), sums: { lag: 0, leased: 0, delayed: 0, deadLetters: 0 } }
    this.#ofTenants.set(tenant, ofTenant)
    return ofTenant
  }

  /** The stream has the group from now on. */
  adopt(group: Group): void {
    const { groups, sums } = this.of(group.stream.tenant)
    groups.add(group)
    sums.lag += group.stream.countedReadable
    this.count(group)
  }

  /** The group is deleted. Its stream still has it. */
  forget(group: Group): void {
    this.#countAs(group, 0, 0, 0, 0)
    const { groups, sums } = this.of(group.stream.tenant)
    groups.delete(group)
    sums.lag -= group.stream.countedReadable
  }

  /** The stream is deleted. @param all its groups, which it still has */
  forgetAll(stream: CountedStream, all: Iterable<Group>): void {
    const { groups, sums } = this.of(stream.tenant)
    for (const group of all) groups.delete(group)
    sums.lag -= stream.groups.size * stream.countedReadable
    const { leased, delayed, finished, deadLetters } = stream.countedGroups
    this.#add(stream, -leased, -delayed, -finished, -deadLetters)
  }

  /** The group has changed. */
  count(group: Group): void {
    const { queue, stream } = group
    this.#countAs(group, queue.leasedCount, queue.delayedCount, finishedOf(stream, queue), queue.deadLetterCount)
  }

  /** The end or the floor of the stream moved, or it has other holes. */
  countStream(stream: CountedStream): void {
    const readable = stream.readableBetween(stream.floor, stream.nextOffset)
    const more = readable - stream.countedReadable
    stream.countedReadable = readable
    if (stream.groups.size > 0) this.of(stream.tenant).sums.lag += more * stream.groups.size
  }

  #countAs(group: Group, leased: number, delayed: number, finished: number, deadLetters: number): void {
    const { counted, stream } = group
    this.#add(
      stream,
      leased - counted.leased,
      delayed - counted.delayed,
      finished - counted.finished,
      deadLetters - counted.deadLetters,
    )
    counted.leased = leased
    counted.delayed = delayed
    counted.finished = finished
    counted.deadLetters = deadLetters
  }

  /** Adds to all sums that include the groups of the stream. */
  #add(stream: CountedStream, leased: number, delayed: number, finished: number, deadLetters: number): void {
    const { totals } = this
    const { countedGroups } = stream
    const { sums } = this.of(stream.tenant)
    totals.leased += leased
    totals.delayed += delayed
    sums.leased += leased
    sums.delayed += delayed
    sums.lag -= finished
    sums.deadLetters += deadLetters
    countedGroups.leased += leased
    countedGroups.delayed += delayed
    countedGroups.finished += finished
    countedGroups.deadLetters += deadLetters
  }
}
