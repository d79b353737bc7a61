/**
 * What an upload becomes when it is completed with the parts that a request lists.
 *
 * The work is done in slices. Parts may be replaced meanwhile, which the store finds when it completes the upload.
 *
 * P1  a part counts as listed only when it is the one that is there now: number, ETag and checksum agree
 * P2  nothing is read again: ETag and checksum of the whole come from those of the parts
 */
import { createHash } from 'node:crypto'
import { checkObjectChecksum, objectChecksum } from './multipart-checksums.ts'
import type { Checksum } from '../../bodies/checksums.ts'
import type { CompletedPart } from './complete-request.ts'
import type { Sliced } from '../slices.ts'
import type { Upload, UploadedPart } from '../../operations.ts'
import { eitherHeader } from '../auth/request-identity.ts'
import { refuse } from '../../refusals.ts'

/** Least bytes of every part but the last. */
const PART_BYTES_MIN = 5 << 20
/** Some microseconds. */
const STEPS_PER_PART = 1000

export interface Whole {
  readonly parts: readonly UploadedPart[]
  /** 32 hex digits. */
  readonly etag: string
  readonly checksum: Checksum
}

/**
 * @param listed at least one, in ascending order
 * @param headers of the request, with what it claims about the whole
 * @throws S3Error InvalidPart, EntityTooSmall, InvalidRequest, BadDigest
 */
export function* wholeOf(
  upload: Upload,
  listed: readonly CompletedPart[],
  headers: ReadonlyMap<string, string>,
): Sliced<Whole> {
  const uploaded = new Map(upload.parts.map((part) => [part.partNumber, part]))
  const parts: UploadedPart[] = []
  for (const each of listed) {
    yield STEPS_PER_PART
    parts.push(agreedPart(upload, each, uploaded.get(each.partNumber)))
  }
  for (const part of parts.slice(0, -1)) if (part.size < PART_BYTES_MIN) throw tooSmall(part)
  checkSize(headers, parts)

  const partChecksums = parts.map(({ checksum }) => checksum)
  const checksum = yield* objectChecksum(upload.checksum, partChecksums)
  checkObjectChecksum(headers, upload.checksum, checksum)

  const etag = createHash('md5')
  for (const part of parts) {
    yield STEPS_PER_PART
    etag.update(part.etag, 'hex')
  }
  return { parts, etag: etag.digest('hex'), checksum }
}

/** P1 */
function agreedPart(upload: Upload, listed: CompletedPart, part: UploadedPart | undefined): UploadedPart {
  const { algorithm: ours, type, isChosen } = upload.checksum
  if (part?.etag !== listed.etag) throw invalidPart(upload, listed)
  for (const { algorithm, value } of listed.checksums) {
    const isAnother = algorithm !== ours
    if (isAnother ? !isChosen : value !== part.checksum.value) throw invalidPart(upload, listed)
    if (isAnother) {
      const message = `The ${algorithm.toLowerCase()} you specified for part ${part.partNumber} did not match what we received.`
      throw refuse('BadDigest', message)
    }
  }
  if (type === 'COMPOSITE' && listed.checksums.length === 0) {
    throw refuse(
      'InvalidRequest',
      `The upload was created using a ${ours.toLowerCase()} checksum. The complete request must include the checksum for each part. ` +
        `It was missing for part ${part.partNumber} in the request.`,
    )
  }
  return part
}

function checkSize(headers: ReadonlyMap<string, string>, parts: readonly UploadedPart[]): void {
  const said = eitherHeader(headers, 'mp-object-size')
  if (said === undefined) return
  if (!/^\d{1,15}$/.test(said)) throw refuse('InvalidRequest', 'Value for x-amz-mp-object-size header is invalid.')
  const size = parts.reduce((sum, part) => sum + part.size, 0)
  if (Number(said) === size) return
  throw refuse(
    'InvalidRequest',
    `The provided 'x-amz-mp-object-size' header value ${Number(said)} does not match what was computed: ${size}`,
  )
}

const invalidPart = ({ uploadId }: Upload, { partNumber, etag }: CompletedPart): Error =>
  refuse('InvalidPart', undefined, { fields: { UploadId: uploadId, PartNumber: partNumber, ETag: etag.slice(0, 256) } })

const tooSmall = ({ partNumber, size, etag }: UploadedPart): Error =>
  refuse('EntityTooSmall', undefined, {
    fields: { ProposedSize: size, MinSizeAllowed: PART_BYTES_MIN, PartNumber: partNumber, ETag: etag },
  })
