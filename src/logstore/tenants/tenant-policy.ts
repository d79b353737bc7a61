/**
 * Who may send what: tenants, their credentials, datasets and limits.
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

export interface Tenant {
  readonly id: string
  readonly credentials: readonly Credential[]
  readonly limits: TenantLimits
}

export interface TenantPolicy {
  readonly generation: number
  readonly tenants: readonly Tenant[]
  /** Index in `tenants` by id. */
  readonly numbers: ReadonlyMap<string, number>
}

/** SHA-256 of a token: what a policy holds of it. */
export const digestOf = (token: string): Buffer => hash('sha256', token, 'buffer')

/** Index of the tenant's credential of the token's digest, or -1. Takes the same time whichever credential matches, if any. */
export function credentialWith(tenant: Tenant, digest: Buffer): number {
  let found = -1
  tenant.credentials.forEach((credential, index) => {
    if (timingSafeEqual(credential.tokenDigest, digest)) found = index
  })
  return found
}

export const mayUseDataset = (credential: Credential, dataset: string): boolean =>
  credential.datasets === null || credential.datasets.includes(dataset)
