/**
 * The log store's part in a cluster. Its producer is the decode lane, which takes the frames of another leader, too.
 *
 * M1  bundles are made, compacted and dropped by each node for itself: all of that follows from the log and the settings. By bytes, the positions
 *     say what goes, and they are the same on all nodes. By age, a leader goes by its clock, and a follower by the last receipt in the log, which is
 *     of the leader's clock: so no clock of another node drops what the leader still has
 */
import type { MemberService } from '../cluster/member/parts.ts'
import type { Log } from '../log/log.ts'
import { ActiveIndex } from './index/active-index.ts'
import type { SegmentRegistry } from './index/segment-registry.ts'
import type { Follower } from './ingest/follower.ts'
import type { DecodeSupervisor } from './ingest/supervisor.ts'

interface MembershipParts {
  readonly supervisor: Pick<DecodeSupervisor, 'atWork'>
  readonly follower: Pick<Follower, 'follow' | 'end'>
  /** Drops what has expired. */
  readonly retain: () => void
}

export const memberOf = ({ supervisor, follower, retain }: MembershipParts): MemberService => ({
  follow: (frames) => follower.follow(frames),
  readAgain: () => {}, // the log has restarted: another decode lane reads it
  async beganToLead() {
    await supervisor.atWork()
    retain() // what the leader before had dropped is not shown again
  },
  steppedDown: () => follower.end(),
})

/** M1. What retention takes for now, in nanoseconds since the Unix epoch. */
export const retentionClock =
  (
    log: Pick<Log, 'mayAnswer'>,
    registry: Pick<SegmentRegistry, 'bundles' | 'newest'>,
    nowNs: () => bigint,
  ): (() => bigint) =>
  () => {
    if (log.mayAnswer) return nowNs()
    const newest = registry.newest()
    const lastReceiptNs = newest === null ? 0n : BigInt(ActiveIndex.attach(newest).receivedUntil)
    return lastReceiptNs > 0n ? lastReceiptNs : (registry.bundles.at(-1)?.receivedUntil ?? 0n)
  }
