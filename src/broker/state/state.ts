/**
 * Everything that the broker knows from its log: tenants, streams, consumer groups. Each `apply…` is the effect of one kind of frame, live
 * and in recovery: the frame holds every result of chance and time, so that applying it decides nothing.
 *
 * S1  a stream's offsets are given once: `nextOffset` never falls, also when the frames of some offsets were lost to damage (`holes`)
 * S2  floor <= visibleNext <= nextOffset; records below `visibleNext` and not in `holes` are in the index, readable, and durable in their class
 * S3  an audited frame is the audit record: the tenant's audit stream gets its offset and its place
 * S4  a group changes in `#change` only: copies of it are made before, totals and due times follow after. Totals follow a stream's offsets, too.
 *     Groups that are behind the floor of their stream (stream F1) catch up before totals are read, so that these are exact
 * S5  numbers of streams and groups are given once: a deleted one leaves its place empty, so that its frames and ids are never taken for those
 *     of a later one with its name. Claim numbers, too, go on above those of deleted groups
 * S6  a stream is created at a later time than all streams that were deleted before, even if the wall clock went back or both happen in one
 *     millisecond: clients and other sites tell the streams of a name apart by this time
 */
import type { Position } from '../../log/log-writer.ts'
import { SortedList } from '../../sorted-list.ts'
import { LIST_ENTRIES_MAX } from '../limits.ts'
import type { Resolution } from '../frames.ts'
import { BehindGroups } from './behind-groups.ts'
import { DueGroups } from './due-groups.ts'
import { rememberClaim } from './claim-ids.ts'
import { GroupCounting } from './group-totals.ts'
import type { GroupSums } from './group-totals.ts'
import type { LeaseRun } from './group.ts'
import { keptReason } from './reasons.ts'
import type { RedrivenTo } from './redriven.ts'
import { Group, StreamState } from './stream.ts'
import type { Observation, StreamConfig } from './stream.ts'

export { Group, StreamState } from './stream.ts'
export type { Cursor, Observation, StreamConfig } from './stream.ts'

export const AUDIT_STREAM = 'system.audit'

/** For a stream that is created without a configuration, and for the audit stream. */
export const DEFAULT_STREAM_CONFIG: StreamConfig = {
  default_durability: 'local-disk',
  retention: { max_age_millis: null, max_bytes: null, min_cursor_name: null },
  failure_policy: null,
}

/** Where a frame is. */
export interface Place {
  readonly segmentBase: Position
  /** Bytes from the start of the segment. */
  readonly place: number
  /** Length of the frame, which counts as the records' stored bytes; 0 when it is counted elsewhere. */
  readonly frameBytes: number
}

export interface AcknowledgedIncident {
  readonly atMs: number
  readonly by: string | null
  readonly note: string | null
}

/** Records that a frame brings, by their number in it. */
export interface RecordsBrought {
  readonly firstOffset: number
  readonly count: number
  readonly ingestTimeMs: number
  readonly eventTimeMsOf: (number: number) => number
  readonly payloadBytesOf: (number: number) => number
}

/** Copies the present state of groups, in slices. */
export interface GroupCopier {
  /** Called when the group is about to change. */
  copy(group: Group): void
}

export class BrokerState {
  /** Key of delivery ids. Empty until the log's first frame. */
  secret: Uint8Array = new Uint8Array()
  /** Highest broker time in any frame since the clock was last set: broker time never falls below it. Wall-clock times in frames do not count. */
  lastAtMs = 0
  /** By number; empty where one was deleted, so that the length is the next number (S5). */
  readonly streams: (StreamState | undefined)[] = []
  /** The groups by their numbers. */
  readonly groups: (Group | undefined)[] = []
  streamCount = 0
  groupCount = 0
  /** Claims of new groups are numbered from here on, above the claims of all deleted groups. */
  claimNumbersUsed = 0
  readonly acknowledgedIncidents = new Map<string, AcknowledgedIncident>()
  /** S6. The latest creation of a stream that was deleted. */
  deletedCreatedAtMs = 0
  /** Audit events that may have been given by a stream whose creation is lost: an audit stream that is created begins behind them (S1). */
  eventsLost = 0
  readonly copiers = new Set<GroupCopier>()
  readonly #byTenant = new Map<string, Map<string, StreamState>>()
  readonly #sorted = new Map<string, SortedList<StreamState>>()
  readonly #due = new DueGroups()
  readonly #behind = new BehindGroups()
  readonly #counting = new GroupCounting<Group>()

  stream(tenant: string, name: string): StreamState | undefined {
    return this.#byTenant.get(tenant)?.get(name)
  }

  streamsOf(tenant: string): Iterable<StreamState> {
    return this.#byTenant.get(tenant)?.values() ?? []
  }

  /** The first `max` streams behind a name, in the order of names; null: from the first on. */
  streamsAfter(tenant: string, name: string | null, max: number): StreamState[] {
    const found: StreamState[] = []
    for (const stream of this.#sorted.get(tenant)?.from((each) => name === null || each.name > name) ?? []) {
      if (found.push(stream) === max) break
    }
    return found
  }

  /** Totals of all groups, as they are now. */
  get totals(): Pick<GroupSums, 'leased' | 'delayed'> {
    this.#behind.catchUp()
    return this.#counting.totals
  }

  /** Totals of a tenant's groups, as they are now. */
  groupSums(tenant: string): GroupSums {
    this.#behind.catchUp()
    return { ...this.#counting.of(tenant).sums }
  }

  /** A tenant's groups, in the order of their creation. */
  groupsOf(tenant: string): ReadonlySet<Group> {
    return this.#counting.of(tenant).groups
  }

  /** A slice of the groups that are behind the floor of their stream catches up, which takes some milliseconds. @returns whether others are left */
  catchUpSome(): boolean {
    return this.#behind.catchUpSome()
  }

  /** Groups with a lease or delay that is due, until `expire` has processed it. */
  dueGroups(nowMs: number): Group[] {
    const groups = this.#due.take(nowMs).flatMap((number) => this.groups[number] ?? []) // a deleted one may stand in the heap
    for (const { number, queue } of groups) this.#due.note(number, queue.nextDueMs)
    return groups.filter(({ queue }) => queue.nextDueMs <= nowMs)
  }

  // Frames

  applyStreamCreated(number: number, tenant: string, name: string, config: StreamConfig, atMs: number): StreamState {
    const before = this.stream(tenant, name)
    if (before) this.applyStreamDeleted(before) // the frame of its deletion is damaged
    const created = { number, tenant, name, config, createdAtMs: atMs }
    const stream = new StreamState(created, this.#catchUp)
    if (name === AUDIT_STREAM) {
      stream.advance(this.eventsLost, 0)
      stream.visibleNext = stream.nextOffset
    }
    this.streams[number] = stream
    this.streamCount += 1
    const ofTenant = this.#byTenant.get(tenant) ?? new Map<string, StreamState>()
    this.#byTenant.set(tenant, ofTenant.set(name, stream))
    const sorted = this.#sorted.get(tenant) ?? new SortedList(byName)
    this.#sorted.set(tenant, sorted)
    sorted.add(stream)
    return stream
  }

  /** S5. Deletes the stream with all that is kept for it. */
  applyStreamDeleted(stream: StreamState): void {
    const { number, tenant, name, groups } = stream
    this.#counting.forgetAll(stream, groups.values())
    for (const group of groups.values()) this.#emptyPlace(group)
    groups.clear()
    this.deletedCreatedAtMs = Math.max(this.deletedCreatedAtMs, stream.createdAtMs)
    this.streams[number] = undefined
    this.streamCount -= 1
    this.#byTenant.get(tenant)?.delete(name)
    this.#sorted.get(tenant)?.remove(stream)
  }

  applyGroupCreated(number: number, stream: StreamState, name: string): Group {
    const before = stream.groups.get(name)
    if (before) this.applyGroupDeleted(before) // the frame of its deletion is damaged
    const group = new Group(number, name, stream)
    group.nextClaimNumber = this.claimNumbersUsed
    this.adopt(group)
    return group
  }

  /** Adds a group that is not known yet, as it is. */
  adopt(group: Group): void {
    this.groups[group.number] = group
    this.groupCount += 1
    group.stream.groups.set(group.name, group)
    this.#counting.adopt(group)
    this.#due.note(group.number, group.queue.nextDueMs)
  }

  /** S5 */
  applyGroupDeleted(group: Group): void {
    this.#counting.forget(group)
    this.#emptyPlace(group)
    group.stream.groups.delete(group.name)
  }

  #emptyPlace({ number, nextClaimNumber }: Group): void {
    this.claimNumbersUsed = Math.max(this.claimNumbersUsed, nextClaimNumber)
    this.groups[number] = undefined
    this.groupCount -= 1
  }

  /** Resets everything from an offset on to what it was before it was first given out. */
  applySought(group: Group, offset: number): void {
    this.#change(group, ({ queue }) => queue.reopenFrom(offset))
  }

  applyCursorDeleted(group: Group, cursor: string): void {
    this.#change(group, ({ cursors }) => cursors.delete(cursor))
  }

  /** See `GroupState.expire`. */
  expire(group: Group, nowMs: number, max: number, onExpired?: (offset: number, attempt: number) => void): number {
    return this.#change(group, ({ queue }) => queue.expire(nowMs, max, onExpired))
  }

  /** S4 */
  #change<T>(group: Group, change: (group: Group) => T): T {
    for (const copier of this.copiers) copier.copy(group)
    const changed = change(group)
    if (this.groups[group.number] !== group) return changed // a deleted group that a caller still holds may catch up, and is not counted
    this.#counting.count(group)
    this.#due.note(group.number, group.queue.nextDueMs)
    return changed
  }

  /** Stream F1 */
  readonly #catchUp = (group: Group): void => this.#change(group, () => group.forgetBelowFloor())

  /** S4. Called when the stream has other holes. */
  #countAnew(stream: StreamState): void {
    this.#counting.countStream(stream)
    for (const group of stream.groups.values()) if (!group.isBehind) this.#counting.count(group) // the others are counted when they catch up
  }

  applyRecords(stream: StreamState, place: Place, brought: RecordsBrought): void {
    const { firstOffset, count, ingestTimeMs, eventTimeMsOf } = brought
    const firstNew = stream.nextOffset - firstOffset // records before it were moved
    const payloadBytesOf = (number: number): number => {
      const payloadBytes = brought.payloadBytesOf(number)
      if (number >= firstNew) stream.payloadBytes += payloadBytes
      return payloadBytes
    }
    stream.index.append(place, firstOffset, count, ingestTimeMs, eventTimeMsOf, payloadBytesOf)
    stream.advance(firstOffset, count)
    this.#counting.countStream(stream)
  }

  /** S3. False: the creation of the audit stream was lost to damage, and nothing tells its number. */
  applyAudited(tenant: string, auditOffset: number, place: Place, atMs: number): boolean {
    const stream = this.stream(tenant, AUDIT_STREAM) ?? this.#restoreAuditStream(tenant, atMs)
    if (stream === null) return false
    const nothing = { firstOffset: auditOffset, count: 1, ingestTimeMs: atMs }
    this.applyRecords(stream, place, { ...nothing, eventTimeMsOf: () => atMs, payloadBytesOf: () => 0 })
    return true
  }

  /** Marks copies whose records are back where they came from. @param to where the first record is; the others follow it */
  applyRedriven(from: StreamState, copies: readonly number[], to: RedrivenTo): void {
    const { streamNumber, offset } = to
    for (const [i, copy] of copies.entries()) {
      if (copy >= from.floor) from.redriven.add(copy, { streamNumber, offset: offset + i })
    }
  }

  applyClaim(
    group: Group,
    claimNumber: number,
    atMs: number,
    expiresAtMs: number,
    runs: readonly LeaseRun[],
    id?: string,
  ): void {
    this.noteTime(atMs)
    this.#change(group, ({ queue }) => {
      group.nextClaimNumber = Math.max(group.nextClaimNumber, claimNumber + 1)
      if (id !== undefined) rememberClaim(group.claimIds, queue, id, { claimNumber, runs }, atMs)
      queue.applyClaim(claimNumber, atMs, expiresAtMs, runs)
    })
  }

  applyResolution(group: Group, { verb, offset, attempt, atMs, valueMs, reason: given }: Resolution): void {
    const reason = given ?? null
    this.noteTime(atMs)
    this.#change(group, ({ queue }) => {
      switch (verb) {
        case 'ack':
          return queue.applyFinish(offset, attempt, 'acked')
        case 'nack':
          return queue.applyFinish(offset, attempt, 'nacked', false, reason)
        case 'release':
          return queue.applyRelease(offset, attempt, valueMs, isExpired(group, offset, attempt, atMs), reason)
        case 'renew':
          return queue.applyRenew(offset, attempt, valueMs)
      }
    })
  }

  applyFinished(
    group: Group,
    offset: number,
    attempt: number,
    outcome: 'dead_lettered' | 'stopped',
    atMs: number,
    reason: string | null,
  ): void {
    this.noteTime(atMs)
    const kept = reason === null ? null : keptReason(reason)
    this.#change(group, ({ queue }) =>
      queue.applyFinish(offset, attempt, outcome, isExpired(group, offset, attempt, atMs), kept),
    )
  }

  /** Sets broker time, and shifts leases and delays so that what is left of them stays the same. */
  applyClockSet(setToMs: number, shiftMs: number): void {
    this.lastAtMs = setToMs
    for (const group of this.groups) if (group) this.#change(group, ({ queue }) => queue.shiftTimes(shiftMs))
  }

  applyCursor(group: Group, cursor: string, offset: number, atMs: number): void {
    this.#change(group, ({ cursors }) => cursors.set(cursor, { offset, updatedAtMs: atMs }))
  }

  applyObservation(group: Group, consumerId: string, observation: Observation): void {
    this.#change(group, ({ observations }) => {
      observations.delete(consumerId) // moves it to the end, as the consumer that was seen least recently goes first
      observations.set(consumerId, observation)
      if (observations.size <= LIST_ENTRIES_MAX) return
      const [leastRecent] = observations.keys()
      observations.delete(leastRecent!)
    })
  }

  /** @param removedBytes payload bytes of the records between the old floor and the new one */
  applyRetained(stream: StreamState, floor: number, removedBytes: number): void {
    const left = Math.max(0, stream.payloadBytes - removedBytes) // more, when a removed record could not be read
    stream.payloadBytes = floor >= stream.nextOffset ? 0 : left
    stream.floor = Math.max(stream.floor, floor)
    stream.index.dropBelow(stream.floor)
    stream.redriven.dropBelow(stream.floor)
    stream.replicated?.dropBelow(stream.floor)
    this.#counting.countStream(stream)
    this.#behind.add(stream)
  }

  applyIncidentAcknowledged(incidentId: string, acknowledged: AcknowledgedIncident): void {
    this.acknowledgedIncidents.set(incidentId, acknowledged)
  }

  /** Makes holes of the records in a damaged range of positions of a segment. */
  applyDamage(segmentBase: Position, from: Position, to: Position): void {
    for (const stream of this.streams) {
      if (stream?.loseAt(segmentBase, from - segmentBase, to - segmentBase)) this.#countAnew(stream)
    }
  }

  /** Notes that broker time has reached this. */
  noteTime(atMs: number): void {
    if (atMs > this.lastAtMs) this.lastAtMs = atMs
  }

  /** S2: offsets that were given and have no record are holes. */
  findHoles(): void {
    for (const stream of this.streams) {
      if (stream === undefined) continue
      stream.findHoles()
      this.#countAnew(stream)
    }
  }

  /**
   * Creates an audit stream whose creation was lost: only its number is unknown. Streams are numbered in order, and it came before all others
   * of its tenant, so its number is the free one below theirs. Null: several are free, or the others are lost, too.
   */
  #restoreAuditStream(tenant: string, atMs: number): StreamState | null {
    const others = Array.from(this.streamsOf(tenant), ({ number }) => number)
    if (others.length === 0) return null
    const below = Array.from({ length: Math.min(...others) }, (_, number) => number)
    const [number, ...more] = below.filter((each) => this.streams[each] === undefined)
    if (number === undefined || more.length > 0) return null
    return this.applyStreamCreated(number, tenant, AUDIT_STREAM, DEFAULT_STREAM_CONFIG, atMs)
  }

  /** Makes all records visible, as recovery finds only durable ones. */
  makeAllVisible(): void {
    for (const stream of this.streams) if (stream) stream.visibleNext = stream.nextOffset
  }
}

/** True when a policy acts on a lease that had expired before: its attempt then ended by expiry. */
const isExpired = ({ queue }: Group, offset: number, attempt: number, atMs: number): boolean =>
  queue.find(offset, attempt, atMs).kind === 'expired'

const byName = (a: StreamState, b: StreamState): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
