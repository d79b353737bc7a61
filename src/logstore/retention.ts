/**
 * Retention drops the oldest bundles: always a prefix of the log, so that one unbroken range is left. The newest segment is never dropped, as the next
 * start learns from it at which position the log is. The active segment is sealed when it spans an eighth of the retention age: otherwise a store that
 * receives little would keep everything until that segment is full.
 *
 * A bundle that has no records left, because the trimmer removed them all as expired (compact/trimmer.ts), is dropped like one that is too old.
 *
 * The age of a record is counted from its time or its receipt, whichever is earlier: otherwise one sender whose clock is ahead would keep everything.
 */
import type { Log } from '../log/log.ts'
import type { Logger } from '../observability/logger.ts'
import { ActiveIndex } from './index/active-index.ts'
import type { Bundle } from './index/manifest.ts'
import type { SegmentRegistry } from './index/segment-registry.ts'
import type { RetentionLimits } from './limits.ts'

const SEGMENTS_PER_AGE = 8

/**
 * How many of the oldest bundles are dropped.
 *
 * @param bundles     ascending by position
 * @param newestBase  base of the newest segment, whether it is a bundle or not
 * @param logEnd      position behind the last frame of the log
 * @param nowNs       nanoseconds since the Unix epoch
 */
export function expiredBundles(
  bundles: readonly Bundle[],
  newestBase: number,
  logEnd: number,
  limits: RetentionLimits,
  nowNs: bigint,
): number {
  const { ageSecondsMax, bytesMax } = limits
  const oldestKeptNs = Number.isFinite(ageSecondsMax) ? nowNs - BigInt(ageSecondsMax) * 1_000_000_000n : 0n
  let expired = 0
  for (const { base, end, maxTime, receivedUntil, records } of bundles) {
    const youngestNs = maxTime < receivedUntil ? maxTime : receivedUntil
    const isExpired = records === 0 || youngestNs < oldestKeptNs || logEnd - base > bytesMax
    if (!isExpired || end > newestBase) break // a merged bundle may contain the newest segment
    expired++
  }
  return expired
}

/**
 * @param receivedFrom when the first batch of the active segment was received, as a double; 0: it has none
 * @param nowNs        nanoseconds since the Unix epoch
 */
const isToBeSealed = (receivedFrom: number, { ageSecondsMax }: RetentionLimits, nowNs: bigint): boolean =>
  receivedFrom > 0 && Number(nowNs) - receivedFrom > (ageSecondsMax * 1e9) / SEGMENTS_PER_AGE

export interface RetentionParts {
  readonly log: Pick<Log, 'committed' | 'dropBefore' | 'seal' | 'segments'>
  readonly registry: Pick<SegmentRegistry, 'bundles' | 'drop' | 'newest'>
  readonly limits: RetentionLimits
  readonly logger: Logger
  readonly nowNs: () => bigint
  readonly onDropped: (base: number) => void
}

/** Drops what has expired: first queries stop seeing it, then its files are removed. A segment that this call seals expires in a later call. */
export function enforceRetention({ log, registry, limits, logger, nowNs, onDropped }: RetentionParts): void {
  const newest = registry.newest()
  if (newest && isToBeSealed(ActiveIndex.attach(newest).receivedFrom, limits, nowNs())) log.seal()
  const { bundles } = registry
  const newestBase = log.segments.at(-1)?.base ?? 0
  const expired = bundles.slice(0, expiredBundles(bundles, newestBase, log.committed, limits, nowNs()))
  const last = expired.at(-1)
  if (!last) return
  for (const { base } of expired) {
    registry.drop(base)
    onDropped(base)
  }
  log.dropBefore(last.end)
  logger.info({ bundles: expired.length, before: last.end }, 'bundles dropped by retention')
}
