/**
 * The offsets of a group that were delivered and are not finished: typed columns by slot, and a hash table from offset to slot.
 *
 *   column             bytes
 *   offset                 8
 *   claimNumber            8   of the last delivery; NaN when it was released
 *   leasedAtMs             8   of the last delivery
 *   due.dueMs              8   when the lease expires or the delay ends; kept when an expired offset becomes available again
 *   attempt                4   of the last delivery; in a free slot the next free one
 *   expiredAttempts        4   bit i: attempt - i ended by expiry
 *   status                 1
 *   due, heap              8   positions and heap
 *   buckets                8   two for each slot
 *                         57
 *
 * L1  each offset has one slot at most, and is found by probing from its home bucket to the first empty one
 * L2  leased and delayed slots are in `due`, others are not. Counts by status are exact
 * L3  at most half the buckets are used
 */
import { DueHeap } from '../../engine/due-heap.ts'

/** Status of the offset in a slot. */
export const FREE = 0 // the slot is free
export const RETURNED = 1 // available again
export const DELAYED = 2
export const LEASED = 3
/** An expired lease that was reported, to be finished or released by the failure policy. */
export const REPORTED = 4
type Status = typeof FREE | typeof RETURNED | typeof DELAYED | typeof LEASED | typeof REPORTED

/** Attempts that `expiredAttempts` covers. */
const EXPIRED_ATTEMPTS_BITS = 32

/** @param age 0 for the last attempt, 1 for the one before */
export const attemptExpired = (expiredAttempts: number, age: number): boolean =>
  age < EXPIRED_ATTEMPTS_BITS && ((expiredAttempts >>> age) & 1) === 1

const CAPACITY_FIRST = 8
const BUCKETS_PER_SLOT = 2
const NO_SLOT = 0xffff_ffff

export class DeliveryTable {
  offset = new Float64Array(0)
  claimNumber = new Float64Array(0)
  leasedAtMs = new Float64Array(0)
  attempt = new Uint32Array(0)
  expiredAttempts = new Uint32Array(0)
  readonly due = new DueHeap()
  #status = new Uint8Array(0)
  /** Slot + 1; 0 is empty. */
  #buckets = new Uint32Array(0)
  #hashShift = 32
  #firstFree = NO_SLOT
  #slotsUsed = 0
  readonly #counts = [0, 0, 0, 0, 0]

  /** @param capacity slots it can hold before it grows */
  constructor(capacity = CAPACITY_FIRST) {
    this.#resize(2 ** Math.ceil(Math.log2(Math.max(capacity, CAPACITY_FIRST))))
  }

  /** Offsets that have a slot. */
  get size(): number {
    return this.#slotsUsed - this.#counts[FREE]!
  }

  /** All used slots are below this number; some below it may be free. */
  get slotsUsed(): number {
    return this.#slotsUsed
  }

  get bytes(): number {
    return (
      this.offset.byteLength +
      this.claimNumber.byteLength +
      this.leasedAtMs.byteLength +
      this.attempt.byteLength +
      this.expiredAttempts.byteLength +
      this.#status.byteLength +
      this.#buckets.byteLength +
      this.due.bytes
    )
  }

  count(status: Status): number {
    return this.#counts[status]!
  }

  status(slot: number): Status {
    return this.#status[slot] as Status // only #become writes it
  }

  /** A copy of the statuses of the first `slots` slots. */
  statuses(slots: number): Uint8Array<ArrayBuffer> {
    return this.#status.slice(0, slots)
  }

  /** -1 when the offset has none. */
  slotOf(offset: number): number {
    const buckets = this.#buckets
    const mask = buckets.length - 1
    for (let at = this.#home(offset); ; at = (at + 1) & mask) {
      const slot = buckets[at]! - 1
      if (slot < 0 || this.offset[slot] === offset) return slot
    }
  }

  /** A slot for an offset that has none (L1): attempt 0, to be leased or released next. Columns may be other objects afterwards. */
  insert(offset: number): number {
    let slot = this.#firstFree
    if (slot === NO_SLOT) {
      if (this.#slotsUsed === this.offset.length) this.#resize(2 * this.offset.length)
      slot = this.#slotsUsed++
    } else {
      this.#firstFree = this.attempt[slot]!
      this.#counts[FREE]!--
    }
    this.offset[slot] = offset
    this.attempt[slot] = 0
    this.expiredAttempts[slot] = 0
    this.#status[slot] = RETURNED
    this.#counts[RETURNED]!++
    this.#enter(slot)
    return slot
  }

  remove(slot: number): void {
    this.#become(slot, FREE)
    this.#leave(slot)
    this.attempt[slot] = this.#firstFree
    this.#firstFree = slot
  }

  makeLeased(slot: number, expiresAtMs: number): void {
    this.#become(slot, LEASED)
    this.due.add(slot, expiresAtMs)
  }

  makeDelayed(slot: number, availableAtMs: number): void {
    this.#become(slot, DELAYED)
    this.due.add(slot, availableAtMs)
  }

  makeReturned(slot: number): void {
    this.#become(slot, RETURNED)
  }

  makeReported(slot: number): void {
    this.#become(slot, REPORTED)
  }

  /** Shifts all times by the same amount, so that their order stays. */
  shiftTimes(shiftMs: number): void {
    for (let slot = 0; slot < this.#slotsUsed; slot++) {
      this.leasedAtMs[slot]! += shiftMs
      this.due.dueMs[slot]! += shiftMs
    }
  }

  /** Counts a later attempt. Those that it skips were lost to damage. */
  advance(slot: number, attempt: number): void {
    const steps = attempt - this.attempt[slot]!
    this.expiredAttempts[slot] = steps < EXPIRED_ATTEMPTS_BITS ? this.expiredAttempts[slot]! << steps : 0
    this.attempt[slot] = attempt
  }

  /** Marks whether the last attempt ended by expiry. */
  markExpired(slot: number, expired: boolean): void {
    const others = this.expiredAttempts[slot]! & ~1
    this.expiredAttempts[slot] = expired ? others | 1 : others
  }

  #become(slot: number, status: Status): void {
    const before = this.status(slot)
    if (before === LEASED || before === DELAYED) this.due.remove(slot) // L2
    this.#counts[before]!--
    this.#counts[status]!++
    this.#status[slot] = status
  }

  #enter(slot: number): void {
    const buckets = this.#buckets
    const mask = buckets.length - 1
    let at = this.#home(this.offset[slot]!)
    while (buckets[at] !== 0) at = (at + 1) & mask
    buckets[at] = slot + 1
  }

  /** Empties the slot's bucket, and moves those behind it up, so that no probe meets an empty bucket before its goal (L1). */
  #leave(slot: number): void {
    const buckets = this.#buckets
    const mask = buckets.length - 1
    let gap = this.#home(this.offset[slot]!)
    while (buckets[gap] !== slot + 1) gap = (gap + 1) & mask
    for (let at = (gap + 1) & mask; buckets[at] !== 0; at = (at + 1) & mask) {
      const home = this.#home(this.offset[buckets[at]! - 1]!)
      if (((at - home) & mask) < ((at - gap) & mask)) continue // its home is behind the gap
      buckets[gap] = buckets[at]!
      gap = at
    }
    buckets[gap] = 0
  }

  /** Fibonacci hashing: neighbouring offsets go far apart, so that windows of dense offsets do not pile up. */
  #home(offset: number): number {
    const high = Math.trunc(offset / 2 ** 32)
    return Math.imul((offset >>> 0) ^ Math.imul(high, 0x85eb_ca6b), 0x9e37_79b1) >>> this.#hashShift
  }

  /** @param capacity a power of two */
  #resize(capacity: number): void {
    this.offset = new Float64Array(this.offset.buffer.transfer(8 * capacity))
    this.claimNumber = new Float64Array(this.claimNumber.buffer.transfer(8 * capacity))
    this.leasedAtMs = new Float64Array(this.leasedAtMs.buffer.transfer(8 * capacity))
    this.attempt = new Uint32Array(this.attempt.buffer.transfer(4 * capacity))
    this.expiredAttempts = new Uint32Array(this.expiredAttempts.buffer.transfer(4 * capacity))
    this.#status = new Uint8Array(this.#status.buffer.transfer(capacity))
    this.due.resize(capacity, this.offset)
    this.#buckets = new Uint32Array(BUCKETS_PER_SLOT * capacity) // L3
    this.#hashShift = 32 - Math.log2(this.#buckets.length)
    for (let slot = 0; slot < this.#slotsUsed; slot++) this.#enter(slot) // it grows only when no slot is free
  }
}
