/** Collects a small body as a whole, and checks what the request claims about it. */
import { digestOfWhole } from '../../bodies/body-digests.ts'
import { checkBody, digestPlan } from './body-claims.ts'
import { loadChecksums } from '../../bodies/checksum-algorithms.ts'
import { demandIntegrity, planBody } from './body-plan.ts'
import { declaredChecksum } from './declared-checksum.ts'
import type { GatewayRequest } from '../handler.ts'

/**
 * @param integrity `demanded`: the request must have a Content-MD5 or a checksum
 * @throws S3Error EntityTooLarge, BadDigest, and refusals of a wrong body, or of wrong claims about it
 */
export async function collectBody(
  { headers, caller, body }: GatewayRequest,
  limitBytes: number,
  integrity: 'demanded' | 'optional' = 'optional',
): Promise<Buffer> {
  const plan = planBody(headers, caller, body.contentLength, declaredChecksum(headers))
  if (integrity === 'demanded') demandIntegrity(plan)
  const { bytes, trailer } = await body.collect(limitBytes, plan.framing)
  const { contentMd5, sha256, checksum } = plan.claims
  if (contentMd5 === null && sha256 === null && checksum === null) return bytes
  const digests = digestPlan(plan.claims, [])
  await loadChecksums(digests.checksums)
  checkBody(plan.claims, digestOfWhole(digests, bytes), trailer)
  return bytes
}
