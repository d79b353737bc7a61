/**
 * The checksum that a request declares of its body: in one `x-amz-checksum-…` header, or in a trailer that `x-amz-trailer`
 * announces. Every name may begin with `x-obj-` instead.
 * Source: Amazon S3 user guide, "Checking object integrity"; messages as S3 has them.
 */
import type { ChecksumAlgorithm } from '../../bodies/checksums.ts'
import { hasOwnHeaders } from '../auth/request-identity.ts'
import { refuse } from '../../refusals.ts'
import { algorithmOf, isChecksum } from '../../bodies/checksum-algorithms.ts'

export interface DeclaredChecksum {
  readonly algorithm: ChecksumAlgorithm
  /** Base64; null when it comes in the trailer. */
  readonly value: string | null
  /** Name of the trailer as announced, in lower case; null when the value came in a header. */
  readonly trailerName: string | null
}

interface ChecksumHeader {
  readonly name: string
  readonly algorithm: ChecksumAlgorithm
  /** As sent. */
  readonly value: string
}

const CHECKSUM_NAME = /^x-(?:amz|obj)-checksum-([a-z0-9-]+)$/
/** Names that look like those of checksums, but are settings. */
const SETTINGS = new Set(['algorithm', 'type', 'mode'])

/** @throws S3Error InvalidRequest */
export function declaredChecksum(headers: ReadonlyMap<string, string>): DeclaredChecksum | null {
  if (!hasOwnHeaders(headers)) return null
  const inHeaders = checksumHeaders(headers)
  const inTrailers = announcedTrailers(headers)
  if (inHeaders.length + inTrailers.length > 1) {
    throw invalidRequest('Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.')
  }
  for (const { name, algorithm, value } of inHeaders) {
    if (!isChecksum(algorithm, value)) throw invalidRequest(`Value for ${name} header is invalid.`)
  }
  const [header] = inHeaders
  const [trailer = null] = inTrailers
  const checksum = header ? { algorithm: header.algorithm, value: header.value, trailerName: null } : trailer
  demandAgreement(headers, checksum)
  return checksum
}

/**
 * All `x-amz-checksum-…` headers that name an algorithm, their values as sent. The same name under both prefixes counts twice:
 * which of the two is meant is not for us to choose.
 *
 * @throws S3Error InvalidRequest for an algorithm that S3 does not have
 */
export function checksumHeaders(headers: ReadonlyMap<string, string>): ChecksumHeader[] {
  const found: ChecksumHeader[] = []
  for (const [name, value] of headers) {
    const suffix = name.startsWith('x-') ? CHECKSUM_NAME.exec(name)?.[1] : undefined
    if (suffix === undefined || SETTINGS.has(suffix)) continue
    const algorithm = algorithmOf(suffix)
    if (algorithm === null) {
      throw invalidRequest('The algorithm type you specified in x-amz-checksum- header is invalid.')
    }
    found.push({ name, algorithm, value })
  }
  return found
}

function announcedTrailers(headers: ReadonlyMap<string, string>): DeclaredChecksum[] {
  const announced = [headers.get('x-obj-trailer'), headers.get('x-amz-trailer')].filter((names) => names !== undefined)
  return announced
    .flatMap((names) => names.split(','))
    .map((name) => {
      const trailerName = name.trim().toLowerCase()
      const algorithm = algorithmOf(CHECKSUM_NAME.exec(trailerName)?.[1] ?? '')
      if (algorithm === null) throw trailerNotSupported()
      return { algorithm, value: null, trailerName }
    })
}

function demandAgreement(headers: ReadonlyMap<string, string>, checksum: DeclaredChecksum | null): void {
  const name = headers.get('x-obj-sdk-checksum-algorithm') ?? headers.get('x-amz-sdk-checksum-algorithm')
  if (name === undefined) return
  const algorithm = algorithmOf(name)
  if (algorithm === null) throw invalidRequest('Value for x-amz-sdk-checksum-algorithm header is invalid.')
  if (checksum === null) {
    throw invalidRequest(
      'x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.',
    )
  }
  if (checksum.algorithm !== algorithm) {
    throw invalidRequest('Value for x-amz-sdk-checksum-algorithm header is invalid.')
  }
}

const invalidRequest = (message: string): Error => refuse('InvalidRequest', message)

export const trailerNotSupported = (): Error =>
  invalidRequest('The value specified in the x-amz-trailer header is not supported')
