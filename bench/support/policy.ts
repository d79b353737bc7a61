/** A log store without limits for the benchmarks. */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Settings; the policy file goes into the directory. Tenants, `local` if nothing is said, with the token `local-dev-token`.
 *
 * @param limited tenants with the limits that a policy has where it says nothing
 */
export function servicePolicy(
  directory: string,
  ids: readonly string[] = ['local'],
  limited: readonly string[] = [],
): Readonly<Record<string, string>> {
  const policyFile = join(directory, 'policy.json')
  const digest = createHash('sha256').update('local-dev-token').digest('hex')
  const credentials = [{ token_sha256: digest, datasets: ['*'] }]
  const limits = { records: null, bytes: null, concurrent_requests: null }
  const tenants = [...ids.map((id) => ({ id, credentials, limits })), ...limited.map((id) => ({ id, credentials }))]
  writeFileSync(policyFile, JSON.stringify({ tenants }))
  return {
    LOGSTORE_TENANT_POLICY_FILE: policyFile,
    LOGSTORE_GATEWAY_MAX_REQUESTS: 'none',
    LOGSTORE_GATEWAY_MAX_RECORDS: 'none',
    LOGSTORE_GATEWAY_MAX_BYTES: 'none',
  }
}
