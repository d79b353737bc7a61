/** A log store without limits for the benchmarks. */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Settings; the policy file goes into the directory. Tenant `local` with the token `local-dev-token`. */
export function servicePolicy(directory: string): Readonly<Record<string, string>> {
  const policyFile = join(directory, 'policy.json')
  const digest = createHash('sha256').update('local-dev-token').digest('hex')
  const limits = { records: null, bytes: null, concurrent_requests: null }
  const tenants = [{ id: 'local', credentials: [{ token_sha256: digest, datasets: ['*'] }], limits }]
  writeFileSync(policyFile, JSON.stringify({ tenants }))
  return {
    LOGSTORE_TENANT_POLICY_FILE: policyFile,
    LOGSTORE_GATEWAY_MAX_REQUESTS: 'none',
    LOGSTORE_GATEWAY_MAX_RECORDS: 'none',
    LOGSTORE_GATEWAY_MAX_BYTES: 'none',
  }
}
