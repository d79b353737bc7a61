/** What a request claims about its body, which digests the claims need, and the check of the claims. */
import type { BodyDigest, DigestPlan } from '../../bodies/body-digests.ts'
import { isChecksum, parseBase64 } from '../../bodies/checksum-algorithms.ts'
import type { ChecksumAlgorithm } from '../../bodies/checksums.ts'
import { refuse } from '../../refusals.ts'
import { contentDiffers } from './content-sha256.ts'
import type { DeclaredChecksum } from './declared-checksum.ts'

export interface BodyClaims {
  /** The header content-md5, as sent. */
  readonly contentMd5: string | null
  /** The value of `x-amz-content-sha256` when it is a digest: 64 lower-case digits. */
  readonly sha256: string | null
  readonly checksum: DeclaredChecksum | null
}

/** @param stored checksums that are kept in addition to those that the request claims: no two of one algorithm */
export function digestPlan({ checksum, sha256 }: BodyClaims, stored: readonly ChecksumAlgorithm[]): DigestPlan {
  const isFurther = checksum !== null && !stored.includes(checksum.algorithm)
  return { checksums: isFurther ? [...stored, checksum.algorithm] : stored, sha256: sha256 !== null }
}

/** What S3 keeps with an object that comes in one request: the declared checksum, or else one of its own. */
export const checksumsOfObject = ({ checksum }: BodyClaims): readonly ChecksumAlgorithm[] => [
  checksum?.algorithm ?? 'CRC64NVME',
]

/**
 * @param trailer value of the announced trailer; null when none was announced
 * @throws S3Error XAmzContentSHA256Mismatch, BadDigest, or InvalidRequest for a trailer that is no checksum
 */
export function checkBody(claims: BodyClaims, digest: BodyDigest, trailer: string | null): void {
  if (claims.sha256 !== null && claims.sha256 !== digest.sha256) {
    throw contentDiffers(claims.sha256, digest.sha256 ?? '')
  }
  if (claims.contentMd5 !== null) checkMd5(claims.contentMd5, digest)
  if (claims.checksum !== null) checkChecksum(claims.checksum, digest, trailer)
}

function checkMd5(claimed: string, digest: BodyDigest): void {
  const md5 = Buffer.from(digest.md5, 'hex').toString('base64')
  if (claimed === md5) return
  throw refuse('BadDigest', undefined, { fields: { ExpectedDigest: claimed, CalculatedDigest: md5 } })
}

function checkChecksum(declared: DeclaredChecksum, digest: BodyDigest, trailer: string | null): void {
  const { algorithm, trailerName } = declared
  const claimed = trailerName === null ? declared.value : trailer
  if (claimed === null || !isChecksum(algorithm, claimed)) {
    throw refuse('InvalidRequest', `Value for ${trailerName} trailing header is invalid.`)
  }
  const computed = digest.checksums.find((checksum) => checksum.algorithm === algorithm)
  if (computed?.value !== claimed) throw checksumDiffers(algorithm)
}

export const checksumDiffers = (algorithm: ChecksumAlgorithm): Error =>
  refuse('BadDigest', `The ${algorithm} you specified did not match the calculated checksum.`)

/**
 * @returns the value as sent; null when there is none
 * @throws S3Error InvalidDigest when it cannot be an MD5
 */
export function parseContentMd5(headers: ReadonlyMap<string, string>): string | null {
  const value = headers.get('content-md5')
  if (value === undefined) return null
  if (parseBase64(value, 16) !== null) return value
  throw refuse('InvalidDigest', undefined, { fields: { 'Content-MD5': value.slice(0, 256) } })
}
