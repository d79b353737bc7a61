/**
 * What has expired by the retention of datasets, which a tenant's policy says. No read finds it from then on, whatever it asks; its space comes
 * back when its bundle is written again (compact/trimmer.ts), or dropped. A record is as old as its time says.
 */
import type { TenantPolicy } from './tenants/tenant-policy.ts'
import { highWord, isBefore, lowWord } from './time-words.ts'

/** The time before which records of a dataset with a retention have expired, in nanoseconds since the Unix epoch. */
export type Expired = ReadonlyMap<string, bigint>

export const NOTHING_EXPIRED: Expired = new Map()

/** @param tenant its id */
export function expiredOf(policy: TenantPolicy, tenant: string, nowNs: bigint): Expired {
  const number = policy.numbers.get(tenant)
  return number === undefined ? NOTHING_EXPIRED : expiredBy(policy.tenants[number]!.retention, nowNs)
}

/** @param retention by dataset, in seconds */
export function expiredBy(retention: ReadonlyMap<string, number>, nowNs: bigint): Expired {
  if (retention.size === 0) return NOTHING_EXPIRED
  const before = (seconds: number): bigint => {
    const time = nowNs - BigInt(seconds) * 1_000_000_000n
    return time > 0n ? time : 0n
  }
  return new Map(Array.from(retention, ([dataset, seconds]) => [dataset, before(seconds)]))
}

/** The first time of a dataset that has not expired, as two words. */
export interface KeptFrom {
  readonly high: number
  readonly low: number
}

const KEPT_WHOLE: KeptFrom = { high: 0, low: 0 }

export function keptFrom(expired: Expired, dataset: string): KeptFrom {
  const time = expired.get(dataset)
  return time === undefined ? KEPT_WHOLE : { high: highWord(time), low: lowWord(time) }
}

/** @param kept of the record's dataset; undefined: it may not be read */
export const isKept = (kept: KeptFrom | undefined, timeHigh: number, timeLow: number): boolean =>
  kept !== undefined && !isBefore(timeHigh, timeLow, kept.high, kept.low)
