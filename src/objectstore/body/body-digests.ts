/**
 * The digests of one body, what to compute and what came out, in plain data: those of a large body come from the thread that has its bytes
 * (incremental-digests.ts). And what is then found wrong with it.
 */
import { hash } from 'node:crypto'
import type { ChecksumAlgorithm, ChecksumValue } from '../documents/checksums.ts'
import { refuse } from '../refusals.ts'
import { beginChecksum, beginHash, isChecksum, parseBase64 } from './checksum-algorithms.ts'
import type { Digest } from './checksum-algorithms.ts'
import { contentDiffers } from './content-sha256.ts'
import type { DeclaredChecksum } from './declared-checksum.ts'

/** What a request says of its body. */
export interface BodyClaims {
  /** Of the header content-md5, as sent. */
  readonly contentMd5: string | null
  /** Of `x-amz-content-sha256` when it is a digest: 64 lower-case digits. */
  readonly sha256: string | null
  readonly checksum: DeclaredChecksum | null
}

/** What to compute besides MD5, which every body has for its ETag. */
export interface DigestPlan {
  readonly checksums: readonly ChecksumAlgorithm[]
  readonly sha256: boolean
}

export interface BodyDigest {
  readonly bytes: number
  /** 32 lower-case digits. */
  readonly md5: string
  /** In the order of the plan. */
  readonly checksums: readonly ChecksumValue[]
  /** 64 lower-case digits; null when not planned. */
  readonly sha256: string | null
}

/** @param stored checksums to be kept, whatever the request claims; each is computed once */
export const digestPlan = (claims: BodyClaims, stored: readonly ChecksumAlgorithm[]): DigestPlan => ({
  checksums: [...new Set([...stored, ...(claims.checksum === null ? [] : [claims.checksum.algorithm])])],
  sha256: claims.sha256 !== null,
})

/** What S3 keeps with an object that comes in one request: the declared checksum, or else one of its own. */
export const checksumsOfObject = ({ checksum }: BodyClaims): readonly ChecksumAlgorithm[] => [
  checksum?.algorithm ?? 'CRC64NVME',
]

export type RunningChecksums = ReadonlyMap<ChecksumAlgorithm, Digest>

/** Null: it is not planned, or is one of the checksums. */
export const beginSha256 = ({ sha256, checksums }: DigestPlan): Digest | null =>
  sha256 && !checksums.includes('SHA256') ? beginHash('sha256') : null

/** Those of the plan but MD5, which is computed in any case. */
export const beginChecksums = ({ checksums }: DigestPlan): RunningChecksums =>
  new Map(checksums.flatMap((algorithm) => (algorithm === 'MD5' ? [] : [[algorithm, beginChecksum(algorithm)]])))

/**
 * Of a body that is there as a whole, once the plan's checksums are loaded.
 *
 * @param md5 32 lower-case digits; one call of node:crypto is the quickest for a body alone
 */
export function digestOfWhole(plan: DigestPlan, body: Uint8Array, md5 = hash('md5', body, 'hex')): BodyDigest {
  const checksums = beginChecksums(plan)
  const sha256 = beginSha256(plan)
  for (const digest of checksums.values()) digest.update(body)
  sha256?.update(body)
  return bodyDigest(plan, body.length, md5, checksums, sha256)
}

/** In the order of the plan. */
export function bodyDigest(
  plan: DigestPlan,
  bytes: number,
  md5: string,
  checksums: RunningChecksums,
  sha256: Digest | null,
): BodyDigest {
  const digests = new Map<ChecksumAlgorithm, Buffer>()
  for (const algorithm of plan.checksums) {
    digests.set(algorithm, checksums.get(algorithm)?.digest() ?? Buffer.from(md5, 'hex')) // MD5 is none of those that run
  }
  const ofSha256 = sha256?.digest() ?? digests.get('SHA256')
  return {
    bytes,
    md5,
    checksums: Array.from(digests, ([algorithm, digest]) => ({ algorithm, value: digest.toString('base64') })),
    sha256: plan.sha256 ? (ofSha256?.toString('hex') ?? null) : null,
  }
}

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
