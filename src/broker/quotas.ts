/** Enforces the quotas of tenants, with token buckets that hold one second's worth. Source: specification "Limits", contract "Broker". */
import type { Quotas } from '../config/quotas.ts'
import { refuse } from './refusals.ts'
import type { BrokerError } from './refusals.ts'

export type { Quotas } from '../config/quotas.ts'

/**
 * Refills with `perSecond` to at most that much. A request larger than the whole bucket is let through when the bucket is full, and paid
 * for afterwards: it would never fit otherwise.
 */
class Bucket {
  readonly perSecond: number
  #level: number
  #filledAtMs: number

  constructor(perSecond: number, nowMs: number) {
    this.perSecond = perSecond
    this.#level = perSecond
    this.#filledAtMs = nowMs
  }

  /** Seconds until the amount could be taken; 0: now. */
  wait(amount: number, nowMs: number): number {
    const elapsedSeconds = (nowMs - this.#filledAtMs) / 1000
    this.#level = Math.min(this.perSecond, this.#level + elapsedSeconds * this.perSecond)
    this.#filledAtMs = nowMs
    return Math.max(0, (Math.min(amount, this.perSecond) - this.#level) / this.perSecond)
  }

  take(amount: number): void {
    this.#level -= amount
  }
}

export class TenantQuotas {
  readonly #nowMs: () => number
  readonly #records = new Map<string, Bucket>()
  readonly #bytes = new Map<string, Bucket>()
  readonly #egress = new Map<string, Bucket>()
  #quotas: Quotas

  /** @param nowMs monotonic */
  constructor(quotas: Quotas, nowMs: () => number) {
    this.#quotas = quotas
    this.#nowMs = nowMs
  }

  /** Buckets whose limit does not change keep their level, so that debts are still paid. All others start full. */
  replace(quotas: Quotas): void {
    this.#quotas = quotas
    dropChanged(this.#records, (tenant) => quotas.tenants.get(tenant)?.publishRecordsPerSecond)
    dropChanged(this.#bytes, (tenant) => quotas.tenants.get(tenant)?.publishBytesPerSecond)
    dropChanged(this.#egress, (tenant) => quotas.tenants.get(tenant)?.replicationEgressBytesPerSecond)
  }

  /** @returns quota_exceeded, and takes nothing; null: both amounts are taken */
  takePublish(tenant: string, records: number, bytes: number): BrokerError | null {
    const quota = this.#quotas.tenants.get(tenant)
    if (quota === undefined) return null
    const nowMs = this.#nowMs()
    const ofRecords = bucketOf(this.#records, tenant, quota.publishRecordsPerSecond, nowMs)
    const ofBytes = bucketOf(this.#bytes, tenant, quota.publishBytesPerSecond, nowMs)
    const seconds = Math.max(ofRecords?.wait(records, nowMs) ?? 0, ofBytes?.wait(bytes, nowMs) ?? 0)
    if (seconds > 0) {
      return refuse('quota_exceeded', 'the tenant publishes more than its quota', { retryAfterSeconds: seconds })
    }
    ofRecords?.take(records)
    ofBytes?.take(bytes)
    return null
  }

  /** Takes bytes to be sent to another site. @returns seconds until they may be sent; 0: they are taken */
  takeEgress(tenant: string, bytes: number): number {
    const perSecond = this.#quotas.tenants.get(tenant)?.replicationEgressBytesPerSecond ?? null
    const nowMs = this.#nowMs()
    const bucket = bucketOf(this.#egress, tenant, perSecond, nowMs)
    const seconds = bucket?.wait(bytes, nowMs) ?? 0
    if (seconds === 0) bucket?.take(bytes)
    return seconds
  }

  /** Called before a claim, which adds one consumer. @returns quota_exceeded; null: there may be one more */
  checkConsumers(tenant: string, activeClaims: () => number): BrokerError | null {
    const max = this.#quotas.tenants.get(tenant)?.consumersPerGroup ?? null
    if (max === null || activeClaims() < max) return null
    return refuse('quota_exceeded', `the group has ${max} consumers with an active lease, as many as the quota allows`)
  }
}

function dropChanged(buckets: Map<string, Bucket>, perSecondOf: (tenant: string) => number | null | undefined): void {
  for (const [tenant, { perSecond }] of buckets) if (perSecondOf(tenant) !== perSecond) buckets.delete(tenant)
}

function bucketOf(
  buckets: Map<string, Bucket>,
  tenant: string,
  perSecond: number | null,
  nowMs: number,
): Bucket | null {
  if (perSecond === null) return null
  let bucket = buckets.get(tenant)
  if (bucket === undefined) buckets.set(tenant, (bucket = new Bucket(perSecond, nowMs)))
  return bucket
}
