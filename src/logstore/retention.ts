/**
 * Retention: which of the oldest bundles are dropped. Always a prefix of the log, oldest first, so that what is left is one
 * unbroken range; the active segment is never dropped.
 *
 * A record is as old as its time says, but not younger than its receipt: one sender with a clock that is ahead would keep everything.
 */
import type { Log } from '../log/log.ts'
import type { Logger } from '../observability/logger.ts'
import type { Bundle } from './bundle/manifest.ts'
import type { SegmentRegistry } from './segment-registry.ts'

export interface RetentionLimits {
  /** Infinity: keep all. */
  readonly ageSecondsMax: number
  /** Of all segments, the active one included; their sidecars come on top. Infinity: keep all. */
  readonly bytesMax: number
}

/**
 * How many of the bundles, from the oldest on, are dropped.
 *
 * @param bundles  ascending by position
 * @param logEnd   position behind the last frame of the log
 * @param nowNs    nanoseconds since the Unix epoch
 */
export function expiredBundles(
  bundles: readonly Bundle[],
  logEnd: number,
  limits: RetentionLimits,
  nowNs: bigint,
): number {
  const { ageSecondsMax, bytesMax } = limits
  const oldestKeptNs = Number.isFinite(ageSecondsMax) ? nowNs - BigInt(ageSecondsMax) * 1_000_000_000n : 0n
  let expired = 0
  for (const { base, maxTime, receivedUntil } of bundles) {
    const youngestNs = maxTime < receivedUntil ? maxTime : receivedUntil
    if (youngestNs >= oldestKeptNs && logEnd - base <= bytesMax) break
    expired++
  }
  return expired
}

export interface RetentionParts {
  readonly log: Log
  readonly registry: SegmentRegistry
  readonly limits: RetentionLimits
  readonly logger: Logger
  readonly nowNs: () => bigint
  readonly onDropped: (base: number) => void
}

/** Drops what has expired: queries stop seeing it first, then its files go. */
export function enforceRetention({ log, registry, limits, logger, nowNs, onDropped }: RetentionParts): void {
  const { bundles } = registry
  const expired = bundles.slice(0, expiredBundles(bundles, log.committed, limits, nowNs()))
  const last = expired.at(-1)
  if (!last) return
  for (const { base } of expired) {
    registry.drop(base)
    onDropped(base)
  }
  log.dropBefore(last.end)
  logger.info({ bundles: expired.length, before: last.end }, 'bundles dropped by retention')
}
