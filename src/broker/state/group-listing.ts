/** Lists the leases and delays of a group for inspection. It looks at each slot of the table once, and sorts only the entries that are listed. */
import { DELAYED, FREE, LEASED } from './delivery-table.ts'
import type { DeliveryTable } from './delivery-table.ts'
import type { FinishedOffsets, Outcome } from './finished-offsets.ts'
import type { Reasons } from './reasons.ts'

export interface LeaseEntry {
  readonly offset: number
  readonly attempt: number
  readonly state: 'active' | 'expired' | 'released' | Outcome
  /** Null, like the times, when released or finished. */
  readonly claimNumber: number | null
  readonly leasedAtMs: number | null
  readonly expiresAtMs: number | null
  /** The last reason given for the offset; null: there was none, or the offset was acknowledged since. */
  readonly reason: string | null
}

export interface LeaseListing {
  readonly entries: LeaseEntry[]
  readonly truncated: boolean
}

export interface DelayedEntry {
  readonly offset: number
  readonly attempt: number
  readonly availableAtMs: number
}

export interface DelayedListing {
  readonly entries: DelayedEntry[]
  readonly truncated: boolean
}

/** See GroupState.leases. */
export function listLeases(
  table: DeliveryTable,
  finished: FinishedOffsets,
  reasons: Reasons,
  nowMs: number,
  includeCompleted: boolean,
  max: number,
): LeaseListing {
  const isActive = (slot: number): boolean => table.status(slot) === LEASED && table.due.dueMs[slot]! > nowMs
  const entryOf = (slot: number): LeaseEntry => {
    const offset = table.offset[slot]!
    const attempt = table.attempt[slot]!
    const reason = reasons.get(offset)
    if (isReleased(table, slot)) return { offset, attempt, state: 'released', ...NO_LEASE, reason }
    return {
      offset,
      attempt,
      state: isActive(slot) ? 'active' : 'expired',
      claimNumber: table.claimNumber[slot]!,
      leasedAtMs: table.leasedAtMs[slot]!,
      expiresAtMs: table.due.dueMs[slot]!,
      reason,
    }
  }
  const active = select(table, isActive, max, 'lowest')
  if (!includeCompleted) return { entries: active.slots.map(entryOf), truncated: active.truncated }

  const isOver = (slot: number): boolean => table.status(slot) !== FREE && !isActive(slot)
  const over = select(table, isOver, max, 'highest')
  const completed = finished.newest(max).map(({ offset, attempt, outcome }): LeaseEntry => ({
    offset,
    attempt,
    state: outcome,
    ...NO_LEASE,
    reason: reasons.get(offset),
  }))
  const ended = [...over.slots.map(entryOf), ...completed].sort(byOffset)
  const excess = Math.max(0, ended.length - max)
  return {
    entries: [...active.slots.map(entryOf), ...ended.slice(excess)].sort(byOffset),
    truncated: active.truncated || over.truncated || excess > 0 || completed.length < finished.size,
  }
}

/** See GroupState.delayed. */
export function listDelayed(table: DeliveryTable, max: number): DelayedListing {
  if (table.count(DELAYED) === 0) return { entries: [], truncated: false }
  const { slots, truncated } = select(table, (slot) => table.status(slot) === DELAYED, max, 'lowest')
  const entries = slots.map((slot) => ({
    offset: table.offset[slot]!,
    attempt: table.attempt[slot]!,
    availableAtMs: table.due.dueMs[slot]!,
  }))
  return { entries, truncated }
}

const byOffset = (a: LeaseEntry, b: LeaseEntry): number => a.offset - b.offset

const NO_LEASE = { claimNumber: null, leasedAtMs: null, expiresAtMs: null } as const

/** True when a worker gave the record back, at once or with a delay. A lease that expired keeps its claim number. */
const isReleased = (table: DeliveryTable, slot: number): boolean => Number.isNaN(table.claimNumber[slot])

/** The `max` slots with the lowest or highest offsets among those that match, by ascending offset. */
function select(
  table: DeliveryTable,
  matches: (slot: number) => boolean,
  max: number,
  which: 'lowest' | 'highest',
): { slots: number[]; truncated: boolean } {
  const { offset } = table
  const sign = which === 'lowest' ? 1 : -1
  let kept: number[] = []
  let bound = Infinity // offsets beyond it are not among the first `max`
  let truncated = false
  const keepFirst = (): void => {
    kept.sort((a, b) => sign * (offset[a]! - offset[b]!))
    truncated ||= kept.length > max
    kept = kept.slice(0, max)
  }
  for (let i = 0; i < table.slotsUsed; i++) {
    const slot = which === 'lowest' ? i : table.slotsUsed - 1 - i // slots were mostly taken in the order of offsets
    if (sign * offset[slot]! > bound || !matches(slot)) continue
    kept.push(slot)
    if (kept.length <= 2 * max) continue // sorts once in `max` at most
    keepFirst()
    bound = max > 0 ? sign * offset[kept[max - 1]!]! : -Infinity
  }
  keepFirst()
  return { slots: which === 'lowest' ? kept : kept.reverse(), truncated }
}
