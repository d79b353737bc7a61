/**
 * What a consumer group made of its stream's offsets. Each offset is one of
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
 * The `apply…` methods are the effects of frames, live and in recovery alike.
 *
 * P1  an offset has one active lease at most; its attempts only grow; finished is for ever, until retention drops it or the group is made
 *     to process it again (`reopenFrom`): then its attempts begin anew, and only the claim tells an old delivery from a new one
 * P2  `#unavailable` is exactly what is leased (expired and reported included), delayed or finished: what is available is in its gaps, and
 *     what is fresh costs nothing
 * P3  the order of `apply…` calls decides. A lease counts as expired as soon as its time has passed, even before `expire` has met it. Only for
 *     `plan`, `delayed` and `nextDueMs` it must: what is not met yet is not given out, and still waits
 * P4  frames may be missing (damage), so `apply…` never throws. What is about an attempt before the last, or a finished offset, is ignored
 *
 * Memory: 57 bytes of columns for each leased, delayed or returned offset (delivery-table.ts), doubled as they fill, and 24 for each
 * interval of `#unavailable` and of the finished. A claim costs what it takes, times the logarithm of what is outstanding.
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
  | { readonly kind: 'unknown' } // not given, or of an offset that retention dropped

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

  /** The same, which yields now and then how many of the bytes are done. */
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

  /** What `decode` takes, in parts that belong together one after the other. */
  encode(): Uint8Array[] {
    return atOnce(encodeGroup(this.copy()))
  }

  /** For a checkpoint (group-checkpoint.ts): changes afterwards are not in it. */
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
    let met = 0
    for (; met < max && table.due.firstDueMs <= nowMs; met++) {
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
    return met
  }

  /** When the next lease or delay is due; Infinity when there is none. */
  get nextDueMs(): number {
    return this.#table.due.firstDueMs
  }

  /**
   * What a claim would take, with the attempt that each offset would get: available offsets of [startOffset, endOffset), ascending, `max`
   * at most. Changes nothing.
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
   * @param attempt       of the delivery that is resolved
   * @param endedByExpiry the failure policy did it, after the lease had expired: `find` says so of the attempt
   * @param reason        null: it has none, and what was given before is forgotten
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
   * @param reason        null: the one given before stays
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

  /** The clock was set: all times of leases and delays move by as much. Looks at every slot of the table. */
  shiftTimes(shiftMs: number): void {
    this.#table.shiftTimes(shiftMs)
  }

  /** Retention: everything about offsets below `floor` is forgotten. */
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

  /** Of offsets in [from, to). Looks at slots until it has met all that are not free. */
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

  /** What became of an attempt. How one ended is known of the last 32 attempts; older ones count as resolved. */
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

  /** Active leases. Costs what is due at `nowMs` and not met by `expire` yet. */
  inFlight(nowMs: number): number {
    let active = this.#table.count(LEASED)
    this.#table.due.forEachDue(nowMs, (slot) => {
      if (this.#table.status(slot) === LEASED) active--
    })
    return active
  }

  /** Leases, those included that are due and not met by `expire` yet. */
  get leasedCount(): number {
    return this.#table.count(LEASED)
  }

  get delayedCount(): number {
    return this.#table.count(DELAYED)
  }

  /** Claims that hold an active lease. */
  activeClaims(nowMs: number): number {
    return this.#claims.count(nowMs)
  }

  /**
   * Active leases: the `max` with the lowest offsets. With `includeCompleted` also, of the leases that expired or were released and not followed
   * by another since and of the finished offsets, the `max` with the highest offsets. Ascending.
   */
  leases(nowMs: number, includeCompleted: boolean, max: number): LeaseListing {
    return listLeases(this.#table, this.#finished, this.#reasons, nowMs, includeCompleted, max)
  }

  /** Offsets that wait for their time, ascending, `max` at most. */
  delayed(max: number): DelayedListing {
    return listDelayed(this.#table, max)
  }

  /** Memory of the columns. */
  get bytes(): number {
    return this.#table.bytes + this.#unavailable.bytes + this.#finished.bytes
  }

  /** False when an attempt as late as this one was given before (P4). The caller then makes the offset unavailable. */
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

  /** Books the end of `attempt`; false when it is not the last one (P4). Its status is the caller's to change. */
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

  /** A later attempt was given, so the last one's lease, if nothing else ended it, has expired. */
  #endUnmet(slot: number): void {
    const status = this.#table.status(slot)
    if (status === LEASED) this.#claims.leaseEnds(slot)
    if (status === LEASED || status === REPORTED) this.#table.markExpired(slot, true)
  }
}
