import type { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import type { Tenant } from '../tenants/tenant-policy.ts'

/** Null: each resource claims the authenticated tenant, or none where its policy lets it. */
export function claimRefusal(batch: OtlpBatch, tenant: Tenant): Refusal | null {
  for (let resource = 0; resource < batch.resourceCount; resource++) {
    if (batch.resourceTenantConflict[resource]!) {
      return refusal('tenant_mismatch', 'a resource carries two different tenant claims, or one that is not a string')
    }
    const claim = batch.resourceTenantClaim[resource]!
    if (claim === null) {
      if (tenant.options.claimOptional) continue
      return refusal(
        'tenant_mismatch',
        'a resource has no tenant claim: set the resource attribute tenant_id to the tenant of the header',
      )
    }
    if (claim !== tenant.id) {
      return refusal('tenant_mismatch', 'the tenant claim of a resource differs from the authenticated tenant')
    }
  }
  return null
}
