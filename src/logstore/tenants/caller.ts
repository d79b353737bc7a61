import type { Refusal } from '../refusals.ts'
import { refusal } from '../refusals.ts'
import { credentialWith, digestOf } from './tenant-policy.ts'
import type { Tenant, TenantPolicy } from './tenant-policy.ts'

export const TENANT_HEADER = 'x-logstore-tenant'

/** Names a request, and its answer. */
export const REQUEST_ID_HEADER = 'x-request-id'
export const REQUEST_ID_PREFIX = 'req-'

/** The sender of a request, found in one policy. */
export interface Caller {
  readonly policy: TenantPolicy
  readonly tenant: Tenant
  /** Index in policy.tenants. */
  readonly tenantNumber: number
  /** Index in tenant.credentials. */
  readonly credentialNumber: number
}

/**
 * Checks tenant header and bearer token in the contract's order: header, credentials, tenant known, token.
 *
 * @param tenantHeader   value of x-logstore-tenant, '' when absent
 * @param authorization  value of authorization, '' when absent
 */
export function identifyCaller(policy: TenantPolicy, tenantHeader: string, authorization: string): Caller | Refusal {
  const tenantId = tenantHeader.trim()
  if (tenantId === '') return refusal('missing_tenant', `the header ${TENANT_HEADER} is required`)
  const token = /^bearer +(\S+) *$/i.exec(authorization)?.[1]
  if (token === undefined) return refusal('missing_credentials', 'the header authorization: Bearer <token> is required')
  return callerOf(policy, tenantId, digestOf(token))
}

/** The same caller in another policy, which may know neither the tenant nor the token any more. */
export function callerIn(policy: TenantPolicy, caller: Caller): Caller | Refusal {
  if (caller.policy === policy) return caller
  const { id, credentials } = caller.tenant
  return callerOf(policy, id, credentials[caller.credentialNumber]!.tokenDigest)
}

function callerOf(policy: TenantPolicy, tenantId: string, tokenDigest: Buffer): Caller | Refusal {
  const tenantNumber = policy.numbers.get(tenantId) ?? -1
  const tenant = policy.tenants[tenantNumber]
  if (!tenant) return refusal('unknown_tenant', `the tenant of ${TENANT_HEADER} is not in the tenant policy`)
  const credentialNumber = credentialWith(tenant, tokenDigest)
  if (credentialNumber < 0) return refusal('invalid_credentials', 'the bearer token does not match the tenant policy')
  return { policy, tenant, tenantNumber, credentialNumber }
}

export const isRefusal = (value: object): value is Refusal => 'kind' in value && 'retryAfterSeconds' in value
