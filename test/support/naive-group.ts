/** The meaning of GroupState in its simplest form: one object for each offset. */
import type { DeliveryState, LeaseEntry, LeaseRun, Outcome } from '../../src/broker/state/group.ts'

interface Delivery {
  status: 'leased' | 'reported' | 'delayed' | 'returned' | Outcome
  /** Number of the latest attempt. */
  attempt: number
  expiredAttempts: Set<number>
  /** The latest lease, until it is released. */
  lease: { claimNumber: number; leasedAtMs: number; expiresAtMs: number } | null
  availableAtMs: number
  reason: string | null
}

export class NaiveGroup {
  floor = 0
  readonly deliveries = new Map<number, Delivery>()

  isAvailable(offset: number): boolean {
    const status = this.deliveries.get(offset)?.status
    return offset >= this.floor && (status === undefined || status === 'returned')
  }

  isFinished(offset: number): boolean {
    const status = this.deliveries.get(offset)?.status
    return status === 'acked' || status === 'nacked' || status === 'dead_lettered' || status === 'stopped'
  }

  // Claims

  due(nowMs: number): number[] {
    const dueMs = ({ status, lease, availableAtMs }: Delivery): number =>
      status === 'leased' ? lease!.expiresAtMs : status === 'delayed' ? availableAtMs : Infinity
    return [...this.deliveries]
      .filter(([, delivery]) => dueMs(delivery) <= nowMs)
      .sort(([offset, a], [other, b]) => dueMs(a) - dueMs(b) || offset - other)
      .map(([offset]) => offset)
  }

  nextDueMs(): number {
    const [first] = this.due(Number.MAX_VALUE)
    if (first === undefined) return Infinity
    const { status, lease, availableAtMs } = this.deliveries.get(first)!
    return status === 'leased' ? lease!.expiresAtMs : availableAtMs
  }

  /** Handles up to `max` deliveries that are due. With `report`, expired leases are reported; else they are returned. */
  expire(nowMs: number, max: number, report: boolean): { due: number; reported: [offset: number, attempt: number][] } {
    const due = this.due(nowMs).slice(0, max)
    const reported: [number, number][] = []
    for (const offset of due) {
      const delivery = this.deliveries.get(offset)!
      if (delivery.status === 'delayed') {
        delivery.status = 'returned'
      } else if (report) {
        delivery.status = 'reported'
        reported.push([offset, delivery.attempt])
      } else {
        delivery.status = 'returned'
        delivery.expiredAttempts.add(delivery.attempt)
      }
    }
    return { due: due.length, reported }
  }

  plan(startOffset: number, endOffset: number, max: number, holes: ReadonlySet<number>): LeaseRun[] {
    const runs: { offset: number; count: number; attempt: number }[] = []
    let left = max
    for (let offset = startOffset; offset < endOffset && left > 0; offset++) {
      if (!this.isAvailable(offset) || holes.has(offset)) continue
      left--
      const attempt = (this.deliveries.get(offset)?.attempt ?? 0) + 1
      const last = runs.at(-1)
      if (last && last.offset + last.count === offset && last.attempt === attempt) last.count++
      else runs.push({ offset, count: 1, attempt })
    }
    return runs
  }

  applyClaim(claimNumber: number, leasedAtMs: number, expiresAtMs: number, runs: readonly LeaseRun[]): void {
    for (const { offset: first, count, attempt } of runs) {
      for (let offset = first; offset < first + count; offset++) {
        const delivery = this.#deliveryFor(offset, attempt)
        if (delivery === null || delivery.attempt === attempt) continue
        this.#advance(delivery, attempt)
        delivery.status = 'leased'
        delivery.lease = { claimNumber, leasedAtMs, expiresAtMs }
      }
    }
  }

  // Resolutions

  applyFinish(
    offset: number,
    attempt: number,
    outcome: Outcome,
    endedByExpiry: boolean,
    reason: string | null = null,
  ): void {
    const delivery = this.#end(offset, attempt, endedByExpiry)
    if (delivery === null) return
    delivery.status = outcome
    delivery.reason = reason
  }

  applyRelease(
    offset: number,
    attempt: number,
    availableAtMs: number,
    endedByExpiry: boolean,
    reason: string | null = null,
  ): void {
    const delivery = this.#end(offset, attempt, endedByExpiry)
    if (delivery === null) return
    delivery.reason = reason ?? delivery.reason
    delivery.lease = null
    delivery.status = availableAtMs > 0 ? 'delayed' : 'returned'
    delivery.availableAtMs = availableAtMs
  }

  applyRenew(offset: number, attempt: number, expiresAtMs: number): void {
    const delivery = this.deliveries.get(offset)
    if (delivery?.status === 'leased' && delivery.attempt === attempt) delivery.lease!.expiresAtMs = expiresAtMs
  }

  dropBelow(floor: number): void {
    this.floor = Math.max(this.floor, floor)
    for (const offset of this.deliveries.keys()) if (offset < floor) this.deliveries.delete(offset)
  }

  reopenFrom(from: number): void {
    for (const offset of this.deliveries.keys()) if (offset >= from) this.deliveries.delete(offset)
  }

  // Questions

  find(offset: number, attempt: number, nowMs: number): DeliveryState {
    const delivery = this.deliveries.get(offset)
    if (delivery === undefined || attempt < 1 || attempt > delivery.attempt) return { kind: 'unknown' }
    if (attempt === delivery.attempt) {
      if (delivery.status === 'reported') return { kind: 'expired' }
      if (delivery.status === 'leased') {
        return delivery.lease!.expiresAtMs <= nowMs ? { kind: 'expired' } : { kind: 'active', ...delivery.lease! }
      }
    }
    const remembered = delivery.attempt - attempt < 32
    return { kind: remembered && delivery.expiredAttempts.has(attempt) ? 'expired' : 'resolved' }
  }

  progressOffset(): number {
    let offset = this.floor
    while (this.isFinished(offset)) offset++
    return offset
  }

  finishedBetween(from: number, to: number): number {
    return [...this.deliveries.keys()].filter((offset) => offset >= from && offset < to && this.isFinished(offset))
      .length
  }

  /** Number of expired leases that wait for the failure policy. */
  get reportedCount(): number {
    return [...this.deliveries.values()].filter(({ status }) => status === 'reported').length
  }

  delayed(): { offset: number; attempt: number; availableAtMs: number }[] {
    return [...this.deliveries]
      .filter(([, { status }]) => status === 'delayed')
      .map(([offset, { attempt, availableAtMs }]) => ({ offset, attempt, availableAtMs }))
      .sort((a, b) => a.offset - b.offset)
  }

  /** Entries in ascending order of offsets. */
  leases(nowMs: number, includeCompleted: boolean): LeaseEntry[] {
    const entries: LeaseEntry[] = []
    const noLease = { claimNumber: null, leasedAtMs: null, expiresAtMs: null }
    for (const [offset, { status, attempt, lease, reason }] of this.deliveries) {
      if (status === 'leased' || status === 'reported' || (status === 'returned' && lease !== null)) {
        const active = status === 'leased' && lease!.expiresAtMs > nowMs
        entries.push({ offset, attempt, state: active ? 'active' : 'expired', ...lease!, reason })
      } else {
        const state = status === 'delayed' || status === 'returned' ? 'released' : status
        entries.push({ offset, attempt, state, ...noLease, reason })
      }
    }
    return entries.filter(({ state }) => includeCompleted || state === 'active').sort((a, b) => a.offset - b.offset)
  }

  /** Null when the frame is to be ignored: about a finished or dropped offset, or an attempt before the last. */
  #deliveryFor(offset: number, attempt: number): Delivery | null {
    if (offset < this.floor || this.isFinished(offset)) return null
    const known = this.deliveries.get(offset)
    if (known !== undefined) return attempt < known.attempt ? null : known
    const fresh: Delivery = {
      status: 'returned',
      attempt: 0,
      expiredAttempts: new Set(),
      lease: null,
      availableAtMs: 0,
      reason: null,
    }
    this.deliveries.set(offset, fresh)
    return fresh
  }

  #advance(delivery: Delivery, attempt: number): void {
    if (delivery.status === 'leased' || delivery.status === 'reported') delivery.expiredAttempts.add(delivery.attempt)
    delivery.attempt = attempt
  }

  #end(offset: number, attempt: number, endedByExpiry: boolean): Delivery | null {
    const delivery = this.#deliveryFor(offset, attempt)
    if (delivery === null) return null
    if (attempt > delivery.attempt) this.#advance(delivery, attempt)
    if (endedByExpiry) delivery.expiredAttempts.add(attempt)
    else delivery.expiredAttempts.delete(attempt)
    return delivery
  }
}
