/**
 * The checksum of an upload in parts: how it is chosen, what it demands of a part, and how it is made from those of the parts.
 *
 *   FULL_OBJECT  the CRC of the whole, which comes from those of the parts and their lengths: CRCs only
 *   COMPOSITE    the digest of the digests of the parts, `-` and their number behind it: all but CRC64NVME
 *
 * Source: Amazon S3 user guide, "Checking object integrity"; messages as S3 has them.
 */
import { CHECKSUM_ALGORITHMS } from '../../bodies/checksums.ts'
import type { Checksum, ChecksumAlgorithm, ChecksumType, PartChecksum, UploadChecksum } from '../../bodies/checksums.ts'
import type { Sliced } from '../slices.ts'
import { refuse } from '../../refusals.ts'
import { algorithmOf, beginChecksum, combinerOf } from '../../bodies/checksum-algorithms.ts'
import { checksumDiffers } from '../body/body-claims.ts'
import { checksumHeaders } from '../body/declared-checksum.ts'
import type { DeclaredChecksum } from '../body/declared-checksum.ts'

/** Some tens of microseconds for a combination, some for an update. */
const COMBINATION_STEPS = 10_000
const UPDATE_STEPS = 1000

/** The header `x-amz-checksum-algorithm`; null when absent. @throws S3Error InvalidRequest */
export function chosenAlgorithm(headers: ReadonlyMap<string, string>): ChecksumAlgorithm | null {
  const name = headers.get('x-obj-checksum-algorithm') ?? headers.get('x-amz-checksum-algorithm')
  if (name === undefined) return null
  const algorithm = algorithmOf(name)
  if (algorithm !== null) return algorithm
  throw invalidRequest(
    `Checksum algorithm provided is unsupported. Please try again with any of the valid types: [${CHECKSUM_ALGORITHMS.join(', ')}]`,
  )
}

/** Checksum that the request names when it begins an upload. @throws S3Error InvalidRequest */
export function uploadChecksum(headers: ReadonlyMap<string, string>): UploadChecksum {
  const algorithm = chosenAlgorithm(headers)
  const type = chosenType(headers)
  if (algorithm === null) {
    if (type === null) return { algorithm: 'CRC64NVME', type: 'FULL_OBJECT', isChosen: false }
    throw invalidRequest('The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.')
  }
  const only = onlyType(algorithm)
  if (type !== null && only !== null && type !== only) {
    throw invalidRequest(
      `The ${type} checksum type cannot be used with the ${algorithm.toLowerCase()} checksum algorithm.`,
    )
  }
  return { algorithm, type: type ?? only ?? 'COMPOSITE', isChosen: true }
}

/**
 * The algorithms of the checksums that are kept of a part: the upload's own, even if the part declares others.
 *
 * @throws S3Error InvalidRequest when the part declares another than was chosen, or none although each part needs one (COMPOSITE)
 */
export function checksumsOfPart(
  upload: UploadChecksum,
  declared: DeclaredChecksum | null,
): readonly ChecksumAlgorithm[] {
  if (upload.isChosen) {
    const isNeeded = upload.type === 'COMPOSITE' || declared !== null
    if (isNeeded && declared?.algorithm !== upload.algorithm) throw otherAlgorithm(upload, declared?.algorithm)
  }
  return [upload.algorithm]
}

/** In slices, as 10 000 parts take half a second. @param parts at least one, in their order */
export function* objectChecksum(upload: UploadChecksum, parts: readonly PartChecksum[]): Sliced<Checksum> {
  const { algorithm, type } = upload
  const combine = combinerOf(algorithm)
  if (type === 'FULL_OBJECT' && combine !== null) {
    const [first, ...others] = parts
    let digest: Buffer = Buffer.from(first!.value, 'base64')
    for (const { value, bytes } of others) {
      yield COMBINATION_STEPS
      digest = combine(digest, Buffer.from(value, 'base64'), bytes)
    }
    return { algorithm, type, value: digest.toString('base64') }
  }
  const ofDigests = beginChecksum(algorithm)
  for (const { value } of parts) {
    yield UPDATE_STEPS
    ofDigests.update(Buffer.from(value, 'base64'))
  }
  return { algorithm, type, value: `${ofDigests.digest().toString('base64')}-${parts.length}` }
}

/**
 * Checks what the request that completes an upload says of the whole object.
 *
 * @throws S3Error InvalidRequest, BadDigest
 */
export function checkObjectChecksum(
  headers: ReadonlyMap<string, string>,
  upload: UploadChecksum,
  checksum: Checksum,
): void {
  const type = chosenType(headers)
  if (type !== null && type !== upload.type) {
    throw invalidRequest(
      `The upload was created using the ${upload.type} checksum mode. The complete request must use the same checksum mode.`,
    )
  }
  for (const { algorithm, value } of checksumHeaders(headers)) {
    if (algorithm !== upload.algorithm) {
      if (upload.isChosen) throw otherAlgorithm(upload, algorithm)
    } else if (value !== checksum.value && value !== checksum.value.replace(/-\d+$/, '')) {
      throw checksumDiffers(algorithm)
    }
  }
}

function chosenType(headers: ReadonlyMap<string, string>): ChecksumType | null {
  const type = (headers.get('x-obj-checksum-type') ?? headers.get('x-amz-checksum-type'))?.toUpperCase()
  if (type === undefined) return null
  if (type === 'FULL_OBJECT' || type === 'COMPOSITE') return type
  throw invalidRequest('Value for x-amz-checksum-type header is invalid.')
}

/** Null: both types are possible. */
function onlyType(algorithm: ChecksumAlgorithm): ChecksumType | null {
  if (algorithm === 'CRC64NVME') return 'FULL_OBJECT'
  return combinerOf(algorithm) === null ? 'COMPOSITE' : null
}

const otherAlgorithm = (upload: UploadChecksum, actual: ChecksumAlgorithm | undefined): Error =>
  invalidRequest(
    `Checksum Type mismatch occurred, expected checksum Type: ${upload.algorithm.toLowerCase()}, ` +
      `actual checksum Type: ${actual?.toLowerCase() ?? 'null'}`,
  )

const invalidRequest = (message: string): Error => refuse('InvalidRequest', message)
