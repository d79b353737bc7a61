import type { DeliveryTable } from './delivery-table.ts'
import { RETURNED } from './delivery-table.ts'
import type { IntervalSet } from '../interval-set.ts'

/** `count` consecutive offsets with the same attempt number. */
export interface LeaseRun {
  readonly offset: number
  readonly count: number
  readonly attempt: number
}

/** See GroupState.plan: walks the gaps between unavailable and unreadable offsets. */
export function planClaim(
  table: DeliveryTable,
  unavailable: IntervalSet,
  startOffset: number,
  endOffset: number,
  max: number,
  holes: IntervalSet | null,
): LeaseRun[] {
  const runs: LeaseRun[] = []
  let at = startOffset
  let left = max
  while (left > 0) {
    at = unavailable.firstGap(at)
    if (at >= endOffset) break
    const readable = holes === null ? at : holes.firstGap(at)
    if (readable > at) {
      at = readable
      continue
    }
    const hole = holes === null ? Infinity : holes.nextCovered(at)
    const end = Math.min(endOffset, at + left, unavailable.nextCovered(at), hole)
    addRuns(runs, table, at, end)
    left -= end - at
    at = end
  }
  return runs
}

/**
 * The first offsets of a plan, as long as their bytes are at most `bytesMax`; at least one.
 *
 * @param bytesWith bytes of this offset and those before it
 */
export function planWithin(
  plan: readonly LeaseRun[],
  bytesMax: number,
  bytesWith: (offset: number) => number,
): LeaseRun[] {
  const runs: LeaseRun[] = []
  for (const { offset, count, attempt } of plan) {
    let fitting = 0
    while (fitting < count) {
      const isFirst = runs.length === 0 && fitting === 0
      if (bytesWith(offset + fitting) > bytesMax && !isFirst) break
      fitting += 1
    }
    if (fitting > 0) runs.push({ offset, count: fitting, attempt })
    if (fitting < count) break
  }
  return runs
}

/** Available offsets [from, end), cut where the attempt changes. */
function addRuns(runs: LeaseRun[], table: DeliveryTable, from: number, end: number): void {
  if (table.count(RETURNED) === 0) {
    runs.push({ offset: from, count: end - from, attempt: 1 })
    return
  }
  let offset = from
  let attempt = nextAttempt(table, from)
  for (let at = from + 1; at < end; at++) {
    const next = nextAttempt(table, at)
    if (next === attempt) continue
    runs.push({ offset, count: at - offset, attempt })
    offset = at
    attempt = next
  }
  runs.push({ offset, count: end - offset, attempt })
}

function nextAttempt(table: DeliveryTable, offset: number): number {
  const slot = table.slotOf(offset)
  return slot < 0 ? 1 : table.attempt[slot]! + 1
}
