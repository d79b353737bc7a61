/**
 * The log store's part in a cluster. The decode lane is the log's producer on every node: on a follower it copies the leader's frames.
 *
 * M1  each node makes, compacts and drops bundles by itself, as all of that follows from the log and the settings. Retention by bytes goes by positions,
 *     which are the same on all nodes. For retention by age a leader uses its clock, and a follower the time of the last receipt in the log, which the
 *     leader's clock set: so no follower's clock drops what the leader still has
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
    retain() // what the previous leader had dropped must not be visible again
  },
  steppedDown: () => follower.end(),
})

/** M1. The current time for retention, in nanoseconds since the Unix epoch. */
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
