/**
 * Claims to which clients gave an id, so that they can ask for the same deliveries again.
 *
 * I1  an id stands for its claim as long as one of its leases is active; then it is free
 * I2  a claim with an active lease is never forgotten. Each new claim causes a look at LOOKED_AT others, in turn, and those without an active
 *     lease go. So there are hardly ever more than twice as many claims as have an active lease
 */
import type { GroupState, LeaseRun } from './group.ts'

export interface ClaimWithId {
  readonly claimNumber: number
  readonly runs: readonly LeaseRun[]
}

export interface ActiveDelivery {
  readonly offset: number
  readonly attempt: number
  readonly leasedAtMs: number
  readonly expiresAtMs: number
}

/** By id; the claim whose last look was longest ago comes first. */
export type ClaimIds = Map<string, ClaimWithId>

/** The deliveries of a claim whose leases are active. */
export function* activeDeliveriesOf(
  queue: GroupState,
  { claimNumber, runs }: ClaimWithId,
  nowMs: number,
): Generator<ActiveDelivery> {
  for (const { offset: first, count, attempt } of runs) {
    for (let offset = first; offset < first + count; offset += 1) {
      const found = queue.find(offset, attempt, nowMs)
      if (found.kind !== 'active' || found.claimNumber !== claimNumber) continue
      yield { offset, attempt, leasedAtMs: found.leasedAtMs, expiresAtMs: found.expiresAtMs }
    }
  }
}

const LOOKED_AT = 2

/** I2. To be called before the claim is applied. */
export function rememberClaim(ids: ClaimIds, queue: GroupState, id: string, claim: ClaimWithId, atMs: number): void {
  ids.delete(id)
  for (let left = Math.min(LOOKED_AT, ids.size); left > 0; left -= 1) {
    const [known, other] = ids.entries().next().value!
    ids.delete(known)
    if (activeDeliveriesOf(queue, other, atMs).next().done === false) ids.set(known, other)
  }
  ids.set(id, claim)
}
