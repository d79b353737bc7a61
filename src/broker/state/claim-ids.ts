/**
 * Claims that their clients gave an id, so that they can ask for the same deliveries again.
 *
 * I1  an id stands for its claim as long as one of its leases is active; then it is free
 * I2  what is remembered follows from the frames alone: dead claims go with the next claim that has an id, CLAIM_IDS_MAX stay at most
 */
import { CLAIM_IDS_MAX } from '../limits.ts'
import type { GroupState, LeaseRun } from './group.ts'

export interface ClaimWithId {
  readonly claimNumber: number
  readonly runs: readonly LeaseRun[]
}

export interface LivingDelivery {
  readonly offset: number
  readonly attempt: number
  readonly leasedAtMs: number
  readonly expiresAtMs: number
}

/** By id, in the order of the claims. */
export type ClaimIds = Map<string, ClaimWithId>

/** The deliveries of a claim whose leases are active. */
export function* livingOf(
  queue: GroupState,
  { claimNumber, runs }: ClaimWithId,
  nowMs: number,
): Generator<LivingDelivery> {
  for (const { offset: first, count, attempt } of runs) {
    for (let offset = first; offset < first + count; offset += 1) {
      const found = queue.find(offset, attempt, nowMs)
      if (found.kind !== 'active' || found.claimNumber !== claimNumber) continue
      yield { offset, attempt, leasedAtMs: found.leasedAtMs, expiresAtMs: found.expiresAtMs }
    }
  }
}

/** I2. Before the claim is applied. */
export function rememberClaim(ids: ClaimIds, queue: GroupState, id: string, claim: ClaimWithId, atMs: number): void {
  ids.delete(id)
  for (const [oldest, known] of ids) {
    if (ids.size < CLAIM_IDS_MAX && livingOf(queue, known, atMs).next().done === false) break
    ids.delete(oldest)
  }
  ids.set(id, claim)
}
