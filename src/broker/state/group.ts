/**
 * The state of a consumer group: what became of each offset of its stream. Each offset is one of
 *
 *   fresh       never delivered: nothing is stored about it
 *   leased      an attempt at it is under way until the lease expires
 *   delayed     released, available again later
 *   returned    available again; its attempts are remembered
 *   finished    for good, with an outcome
 *
 *   fresh ── claim ──► leased ── finish ──► finished
 *                       ▲  │
 *                 claim │  ├─ release, or the lease expires ──────────► returned
 *                       │  └─ release with a delay ──► delayed ── due ──► returned
 *                       └──────────────────────────────────────────────── returned
 *
 * The `apply…` methods are the effects of frames, live and in recovery.
 *
 * P1  an offset has one active lease at most, and its attempts only grow. A finished offset stays finished until retention drops it or the
 *     group is made to process it again (`reopenFrom`): then its attempts begin anew, and only the claim tells an old delivery from a new one
 * P2  `#unavailable` has exactly the offsets that are leased (expired and reported ones included), delayed or finished. Available offsets are
 *     its gaps, so fresh offsets cost nothing
 * P3  the order of `apply…` calls decides. A lease counts as expired as soon as its time has passed, even before `expire` has processed it.
 *     Only `plan`, `delayed` and `nextDueMs` need `expire` first: until then the offset is still leased or delayed for them
 * P4  frames may be missing (damage), so `apply…` never throws. A call about an attempt before the last, or a finished offset, is ignored
 *
 * Memory: 57 bytes of columns for each leased, delayed or returned offset (delivery-table.ts), doubled as they fill, and 24 for each
 * interval of `#unavailable` and of finished offsets. The cost of a claim is the number of its offsets times the logarithm of those outstanding.
 */
import { ActiveClaims } from './active-claims.ts'
import { planClaim } from './claim-plan.ts'
import type { LeaseRun } from './claim-plan.ts'
import { DELAYED, DeliveryTable, FREE, LEASED, REPORTED, RETURNED, attemptExpired } from './delivery-table.ts'
import { FinishedOffsets } from './finished-offsets.ts'
import type { Outcome } from './finished-offsets.ts'
import { copyGroup, decodeGroup, encodeGroup } from './group-checkpoint.ts'
import type { GroupCopy } from './group-checkpoint.ts'
import { atOnce } from '../../steps.ts'
import type { GroupParts } from './group-checkpoint.ts'
import { listDelayed, listLeases } from './group-listing.ts'
import type { DelayedListing, LeaseListing } from './group-listing.ts'
import { IntervalSet } from '../interval-set.ts'
import { Reasons } from './reasons.ts'

export type { LeaseRun } from './claim-plan.ts'
export type { Outcome } from './finished-offsets.ts'
export type { LeaseEntry } from './group-listing.ts'

/** What became of one attempt at an offset. */
export type DeliveryState =
  | { readonly kind: 'active'; readonly claimNumber: number; readonly leasedAtMs: number; readonly expiresAtMs: number }
  | { readonly kind: 'expired' }
  | { readonly kind: 'resolved' }
  | { readonly kind: 'unknown' } // the attempt was not given, or retention dropped its offset

const EXPIRED: DeliveryState = { kind: 'expired' }
const RESOLVED: DeliveryState = { kind: 'resolved' }
const UNKNOWN: DeliveryState = { kind: 'unknown' }

export class GroupState {
  #floor: number
  readonly #table: DeliveryTable
  readonly #finished: FinishedOffsets
  readonly #unavailable: IntervalSet
  readonly #claims: ActiveClaims
  readonly #reasons: Reasons

  static create(): GroupState {
    return new GroupState({
      floor: 0,
      table: new DeliveryTable(),
      finished: new FinishedOffsets(),
      unavailable: new IntervalSet(),
      reasons: new Reasons(),
    })
  }

  /** @throws StoreError `corrupt` when the bytes are not a checkpoint of a version this code reads */
  static decode(bytes: Uint8Array): GroupState {
    return atOnce(GroupState.decodeInSteps(bytes))
  }

  /** As `decode`, in steps: yields now and then how many of the bytes are done. */
  static *decodeInSteps(bytes: Uint8Array): Generator<number, GroupState, undefined> {
    return new GroupState(yield* decodeGroup(bytes))
  }

  private constructor(parts: GroupParts) {
    this.#floor = parts.floor
    this.#table = parts.table
    this.#finished = parts.finished
    this.#unavailable = parts.unavailable
    this.#claims = new ActiveClaims(parts.table)
    this.#reasons = parts.reasons
  }

  /** Records below it were forgotten. */
  get floor(): number {
    return this.#floor
  }

  /** The bytes that `decode` takes, in consecutive parts. */
  encode(): Uint8Array[] {
    return atOnce(encodeGroup(this.copy()))
  }

  /** A copy for a checkpoint (group-checkpoint.ts), without later changes. */
  copy(): GroupCopy {
    return copyGroup({
      floor: this.#floor,
      table: this.#table,
      finished: this.#finished,
      unavailable: this.#unavailable,
      reasons: this.#reasons,
    })
  }

  // Claims

  /**
   * Makes leases and delays that are due available again, the earliest first, `max` at most.
   *
   * @param onExpired when given, leases are reported to it instead and stay unavailable until `applyFinish` or `applyRelease` of that
   *                  attempt, which it may call. Each is reported once, and again after `decode`
   * @returns how many were due, the reported ones included
   */
  expire(nowMs: number, max: number, onExpired?: (offset: number, attempt: number) => void): number {
    const table = this.#table
    let processed = 0
    for (; processed < max && table.due.firstDueMs <= nowMs; processed++) {
      const slot = table.due.first
      const wasLeased = table.status(slot) === LEASED
      if (wasLeased) this.#claims.leaseEnds(slot)
      if (wasLeased && onExpired !== undefined) {
        table.makeReported(slot)
        onExpired(table.offset[slot]!, table.attempt[slot]!)
      } else {
        if (wasLeased) table.markExpired(slot, true)
        table.makeReturned(slot)
        this.#unavailable.remove(table.offset[slot]!, table.offset[slot]! + 1)
      }
    }
    return processed
  }

  /** When the next lease or delay is due; Infinity when there is none. */
  get nextDueMs(): number {
    return this.#table.due.firstDueMs
  }

  /**
   * The offsets that a claim would take, with the attempt that each would get: available offsets of [startOffset, endOffset), ascending,
   * `max` at most. Changes nothing.
   *
   * @param holes offsets whose records cannot be read: never given out
   */
  plan(startOffset: number, endOffset: number, max: number, holes: IntervalSet | null): LeaseRun[] {
    return planClaim(this.#table, this.#unavailable, Math.max(startOffset, this.#floor), endOffset, max, holes)
  }

  applyClaim(claimNumber: number, leasedAtMs: number, expiresAtMs: number, runs: readonly LeaseRun[]): void {
    for (const { offset: first, count, attempt } of runs) {
      const end = first + count
      const from = Math.max(first, this.#floor)
      const nextFinished = this.#finished.next(from)
      let taken = from // [taken, offset) is leased, and not in #unavailable yet
      for (let offset = from; offset < end; offset++) {
        const finished = offset >= nextFinished && this.#finished.has(offset)
        if (!finished && this.#lease(offset, attempt, claimNumber, leasedAtMs, expiresAtMs)) continue
        this.#unavailable.add(taken, offset)
        taken = offset + 1
      }
      this.#unavailable.add(taken, end)
    }
  }

  // Resolutions

  /**
   * @param attempt       attempt of the delivery that is resolved
   * @param endedByExpiry true when the failure policy resolves it because the lease has expired: `find` then says that the attempt expired
   * @param reason        null: there is none, and a reason given before is forgotten
   */
  applyFinish(
    offset: number,
    attempt: number,
    outcome: Outcome,
    endedByExpiry = false,
    reason: string | null = null,
  ): void {
    if (offset < this.#floor || this.#finished.has(offset)) return
    const slot = this.#table.slotOf(offset)
    let expiredAttempts = endedByExpiry ? 1 : 0
    if (slot >= 0) {
      if (!this.#end(slot, attempt, endedByExpiry)) return
      if (this.#table.status(slot) === RETURNED) this.#unavailable.add(offset, offset + 1)
      expiredAttempts = this.#table.expiredAttempts[slot]!
      this.#table.remove(slot)
    } else {
      this.#unavailable.add(offset, offset + 1)
    }
    this.#finished.add(offset, attempt, outcome, expiredAttempts)
    if (reason === null) this.#reasons.delete(offset)
    else this.#reasons.set(offset, reason)
  }

  /**
   * @param availableAtMs 0: at once; later: delayed until then
   * @param endedByExpiry as for `applyFinish`
   * @param reason        null: a reason given before stays
   */
  applyRelease(
    offset: number,
    attempt: number,
    availableAtMs: number,
    endedByExpiry = false,
    reason: string | null = null,
  ): void {
    if (offset < this.#floor || this.#finished.has(offset)) return
    const found = this.#table.slotOf(offset)
    const slot = found >= 0 ? found : this.#table.insert(offset)
    if (!this.#end(slot, attempt, endedByExpiry)) return
    this.#table.claimNumber[slot] = Number.NaN
    if (reason !== null) this.#reasons.set(offset, reason)
    if (availableAtMs > 0) {
      this.#table.makeDelayed(slot, availableAtMs)
      this.#unavailable.add(offset, offset + 1)
    } else {
      this.#table.makeReturned(slot)
      this.#unavailable.remove(offset, offset + 1)
    }
  }

  applyRenew(offset: number, attempt: number, expiresAtMs: number): void {
    const slot = this.#table.slotOf(offset)
    if (slot < 0 || this.#table.status(slot) !== LEASED || this.#table.attempt[slot] !== attempt) return
    this.#table.due.move(slot, expiresAtMs)
  }

  /** The clock was set: all times of leases and delays move by this much. Looks at every slot of the table. */
  shiftTimes(shiftMs: number): void {
    this.#table.shiftTimes(shiftMs)
  }

  /** Retention dropped records: everything about offsets below `floor` is forgotten. */
  dropBelow(floor: number): void {
    if (floor <= this.#floor) return
    this.#forgetDeliveries(0, floor)
    this.#finished.dropBelow(floor)
    this.#reasons.dropBelow(floor)
    this.#unavailable.remove(0, floor)
    this.#floor = floor
  }

  /** Everything about offsets from `from` on is forgotten: they are fresh again. */
  reopenFrom(from: number): void {
    this.#forgetDeliveries(from, Infinity)
    this.#finished.reopenFrom(from)
    this.#reasons.reopenFrom(from)
    this.#unavailable.remove(from, Infinity)
  }

  /** Forgets leases, delays and returns of offsets in [from, to). Stops behind the last slot of the table that is not free. */
  #forgetDeliveries(from: number, to: number): void {
    const table = this.#table
    for (let slot = 0, left = table.size; left > 0; slot++) {
      const status = table.status(slot)
      if (status === FREE) continue
      left -= 1
      const offset = table.offset[slot]!
      if (offset < from || offset >= to) continue
      if (status === LEASED) this.#claims.leaseEnds(slot)
      table.remove(slot)
    }
  }

  // Questions

  /** What became of an attempt. The table knows how the last 32 attempts ended; older ones count as resolved. */
  find(offset: number, attempt: number, nowMs: number): DeliveryState {
    if (attempt < 1) return UNKNOWN
    const table = this.#table
    const slot = table.slotOf(offset)
    const last = slot >= 0 ? table.attempt[slot]! : this.#finished.attemptAt(offset)
    if (attempt > last) return UNKNOWN
    if (slot >= 0 && attempt === last) {
      const status = table.status(slot)
      if (status === REPORTED) return EXPIRED
      if (status === LEASED) {
        const expiresAtMs = table.due.dueMs[slot]!
        if (expiresAtMs <= nowMs) return EXPIRED
        return {
          kind: 'active',
          claimNumber: table.claimNumber[slot]!,
          leasedAtMs: table.leasedAtMs[slot]!,
          expiresAtMs,
        }
      }
    }
    const expiredAttempts = slot >= 0 ? table.expiredAttempts[slot]! : this.#finished.expiredAttemptsAt(offset)
    return attemptExpired(expiredAttempts, last - attempt) ? EXPIRED : RESOLVED
  }

  /** First offset that is not finished, from the floor on. */
  progressOffset(): number {
    return this.#finished.firstUnfinished()
  }

  /** First offset that is not finished, from an offset on. */
  unfinishedFrom(offset: number): number {
    return this.#finished.firstUnfinishedFrom(offset)
  }

  get finishedCount(): number {
    return this.#finished.size
  }

  /** Finished offsets that were copied to a dead-letter stream. */
  get deadLetterCount(): number {
    return this.#finished.deadLetterCount
  }

  finishedBetween(from: number, to: number): number {
    return this.#finished.countBetween(from, to)
  }

  /** The number of active leases. Looks at those that are due at `nowMs` and not yet processed by `expire`. */
  inFlight(nowMs: number): number {
    let active = this.#table.count(LEASED)
    this.#table.due.forEachDue(nowMs, (slot) => {
      if (this.#table.status(slot) === LEASED) active--
    })
    return active
  }

  /** The number of leases, including those that are due and not yet processed by `expire`. */
  get leasedCount(): number {
    return this.#table.count(LEASED)
  }

  get delayedCount(): number {
    return this.#table.count(DELAYED)
  }

  /** The number of claims that hold an active lease. */
  activeClaims(nowMs: number): number {
    return this.#claims.count(nowMs)
  }

  /**
   * Lists active leases: the `max` with the lowest offsets. `includeCompleted` adds the `max` with the highest offsets of two kinds: finished
   * offsets, and leases that expired or were released and that no other lease followed. Ascending.
   */
  leases(nowMs: number, includeCompleted: boolean, max: number): LeaseListing {
    return listLeases(this.#table, this.#finished, this.#reasons, nowMs, includeCompleted, max)
  }

  /** Delayed offsets, ascending, `max` at most. */
  delayed(max: number): DelayedListing {
    return listDelayed(this.#table, max)
  }

  /** Bytes of memory of the columns. */
  get bytes(): number {
    return this.#table.bytes + this.#unavailable.bytes + this.#finished.bytes
  }

  /** @returns false when this attempt or a later one was given before (P4): the caller leaves the offset out of those it makes unavailable */
  #lease(offset: number, attempt: number, claimNumber: number, leasedAtMs: number, expiresAtMs: number): boolean {
    const table = this.#table
    let slot = table.slotOf(offset)
    if (slot < 0) slot = table.insert(offset)
    else if (attempt <= table.attempt[slot]!) return false
    else this.#endUnmet(slot)
    table.advance(slot, attempt)
    table.claimNumber[slot] = claimNumber
    table.leasedAtMs[slot] = leasedAtMs
    table.makeLeased(slot, expiresAtMs)
    this.#claims.leaseBegan(slot)
    return true
  }

  /** Notes the end of `attempt`; the caller changes its status. @returns false when it is not the last attempt (P4) */
  #end(slot: number, attempt: number, byExpiry: boolean): boolean {
    const table = this.#table
    if (attempt < table.attempt[slot]!) return false
    if (attempt > table.attempt[slot]!) {
      this.#endUnmet(slot)
      table.advance(slot, attempt)
    } else if (table.status(slot) === LEASED) {
      this.#claims.leaseEnds(slot)
    }
    table.markExpired(slot, byExpiry)
    return true
  }

  /** A later attempt was given. So the lease of the last one has expired, unless something else ended it. */
  #endUnmet(slot: number): void {
    const status = this.#table.status(slot)
    if (status === LEASED) this.#claims.leaseEnds(slot)
    if (status === LEASED || status === REPORTED) this.#table.markExpired(slot, true)
  }
}
