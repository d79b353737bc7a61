/**
 * Which records have expired by the retention of their dataset, which the tenant's policy sets. No read returns an expired record; its space is
 * freed when its bundle is rewritten (compact/trimmer.ts) or dropped. The age of a record is counted from its own time.
 */
import type { TenantPolicy } from './tenants/tenant-policy.ts'
import { highWord, isBefore, lowWord } from './time-words.ts'

/** For each dataset with a retention, the time before which its records have expired, in nanoseconds since the Unix epoch. */
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

/** The earliest time of a dataset that has not expired, as two words. */
export interface KeptFrom {
  readonly high: number
  readonly low: number
}

const KEPT_WHOLE: KeptFrom = { high: 0, low: 0 }

export function keptFrom(expired: Expired, dataset: string): KeptFrom {
  const time = expired.get(dataset)
  return time === undefined ? KEPT_WHOLE : { high: highWord(time), low: lowWord(time) }
}

/** @param kept for the record's dataset; undefined: the dataset may not be read */
export const isKept = (kept: KeptFrom | undefined, timeHigh: number, timeLow: number): boolean =>
  kept !== undefined && !isBefore(timeHigh, timeLow, kept.high, kept.low)
