/** Body of CompleteMultipartUpload: `CompleteMultipartUpload{Part{PartNumber, ETag, Checksum…?}+}`. */
import { refuse } from '../../refusals.ts'
import { CHECKSUM_ALGORITHMS } from '../../bodies/checksums.ts'
import type { ChecksumValue } from '../../bodies/checksums.ts'
import { COMPLETE_BODY_BYTES_MAX, PARTS_MAX } from '../document-limits.ts'
import type { Sliced } from '../slices.ts'
import { readXmlInSlices } from '../xml/xml-reader.ts'
import { element, list, once, optional, text } from '../xml/xml-shape.ts'

export interface CompletedPart {
  readonly partNumber: number
  /** Without quotes; empty when none was sent, which matches no part. */
  readonly etag: string
  readonly checksums: readonly ChecksumValue[]
}

const COMPLETE = {
  name: 'CompleteMultipartUpload',
  bytesMax: COMPLETE_BODY_BYTES_MAX,
  shape: element({
    Part: list(
      element({
        PartNumber: once(text),
        ETag: optional(text),
        ChecksumCRC32: optional(text),
        ChecksumCRC32C: optional(text),
        ChecksumCRC64NVME: optional(text),
        ChecksumSHA1: optional(text),
        ChecksumSHA256: optional(text),
        ChecksumSHA512: optional(text),
        ChecksumMD5: optional(text),
        ChecksumXXHASH64: optional(text),
        ChecksumXXHASH3: optional(text),
        ChecksumXXHASH128: optional(text),
      }),
      { min: 0, max: PARTS_MAX },
    ),
  }),
} as const

const CHECKSUM_ELEMENTS = CHECKSUM_ALGORITHMS.map((algorithm) => [algorithm, `Checksum${algorithm}`] as const)
/** A microsecond or two. */
const STEPS_PER_PART = 500

/**
 * @returns at least one part, in strictly ascending order
 * @throws S3Error MalformedXML, EntityTooLarge, InvalidRequest without parts, InvalidArgument for a part number, InvalidPartOrder
 */
export function* readCompleteRequest(body: Uint8Array, uploadId: string): Sliced<readonly CompletedPart[]> {
  const { Part } = yield* readXmlInSlices(body, COMPLETE)
  const parts: CompletedPart[] = []
  for (const part of Part) {
    const checksums: ChecksumValue[] = []
    for (const [algorithm, name] of CHECKSUM_ELEMENTS) {
      const value = part[name]
      if (value !== null) checksums.push({ algorithm, value: value.trim() })
    }
    parts.push({ partNumber: partNumberOf(part.PartNumber), etag: unquoted(part.ETag ?? ''), checksums })
    yield STEPS_PER_PART
  }
  if (parts.length === 0) throw refuse('InvalidRequest', 'You must specify at least one part')
  for (let i = 1; i < parts.length; i++) {
    if (parts[i - 1]!.partNumber >= parts[i]!.partNumber) {
      throw refuse('InvalidPartOrder', undefined, { fields: { UploadId: uploadId } })
    }
  }
  return parts
}

function partNumberOf(text: string): number {
  const digits = text.trim()
  if (!/^[+-]?\d{1,15}$/.test(digits)) throw refuse('MalformedXML')
  const partNumber = Number(digits)
  if (partNumber >= 1 && partNumber <= PARTS_MAX) return partNumber
  const message =
    partNumber < 1 ? 'PartNumber must be >= 1' : `Part number must be an integer between 1 and ${PARTS_MAX}, inclusive`
  throw refuse('InvalidArgument', message, { fields: { ArgumentName: 'PartNumber', ArgumentValue: partNumber } })
}

const unquoted = (etag: string): string => etag.trim().replace(/^"(.*)"$/, '$1')
