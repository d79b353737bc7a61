/**
 * Tenants, with their credentials, datasets and limits.
 *
 * A policy is immutable; a reload makes a new one with the next generation. Tokens are held as SHA-256 digests only.
 */
import { hash, timingSafeEqual } from 'node:crypto'

export interface TenantLimits {
  readonly windowSeconds: number
  /** Infinity: no limit. */
  readonly records: number
  readonly bytes: number
  readonly concurrentRequests: number
}

export interface Credential {
  readonly tokenDigest: Buffer
  /** Null: every dataset. */
  readonly datasets: readonly string[] | null
}

/** What a tenant's senders may do that others may not: all off by default. */
export interface TenantOptions {
  /** A resource without a tenant claim is the authenticated tenant's. */
  readonly claimOptional: boolean
  /** A batch with more is refused; one beyond RECORDS_PER_BATCH_MAX is cut into several frames. */
  readonly recordsPerBatchMax: number
  /** Malformed records are dropped and reported; without this option their batch is refused. */
  readonly partialSuccess: boolean
  /** The window refills steadily (smooth-window.ts). */
  readonly smoothQuota: boolean
  /** `batches`: a batch that comes again is stored once, any other one whole; `records`: a record that comes again is stored once. */
  readonly deduplication: 'batches' | 'records'
}

export interface Tenant {
  readonly id: string
  readonly credentials: readonly Credential[]
  readonly limits: TenantLimits
  readonly options: TenantOptions
  /** By dataset, in seconds: older records are not found. Datasets that are not in it keep theirs as long as the store does. */
  readonly retention: ReadonlyMap<string, number>
}

export interface TenantPolicy {
  readonly generation: number
  readonly tenants: readonly Tenant[]
  /** Index in `tenants` by id. */
  readonly numbers: ReadonlyMap<string, number>
}

/** SHA-256 of a token. A policy holds nothing else of it. */
export const digestOf = (token: string): Buffer => hash('sha256', token, 'buffer')

/** Index of the tenant's credential with this token digest, or -1. Takes the same time whichever credential matches, if any. */
export function credentialWith(tenant: Tenant, digest: Buffer): number {
  let found = -1
  tenant.credentials.forEach((credential, index) => {
    if (timingSafeEqual(credential.tokenDigest, digest)) found = index
  })
  return found
}

export const mayUseDataset = (credential: Credential, dataset: string): boolean =>
  credential.datasets === null || credential.datasets.includes(dataset)
