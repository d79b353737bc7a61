/** The part that a request uploads: its number, its upload, and the headers of the answer. */
import assert from 'node:assert/strict'
import { PARTS_MAX } from '../document-limits.ts'
import type { BodyTarget, Bucket, ObjectStore, ReceivedBody, Upload, UploadedPart } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { GatewayRequest, HeaderLine } from '../handler.ts'
import { bucketIdHeader, SYNCED } from '../ids.ts'
import { checkPartKey, encryptionHeaders } from '../objects/encryption.ts'
import { namedUpload, uploadIdHeader } from './named-upload.ts'

export interface NamedPart {
  readonly upload: Upload
  readonly partNumber: number
}

/** @throws S3Error InvalidArgument, NoSuchUpload, and refusals of a customer's key */
export function namedPart(request: GatewayRequest, bucket: Bucket, key: string, store: ObjectStore): NamedPart {
  const partNumber = partNumberOf(request)
  const upload = namedUpload(request, bucket, key, store)
  checkPartKey(request.headers, upload.encryption)
  return { upload, partNumber }
}

export const targetOf = ({ upload: { bucket, key, uploadId }, partNumber }: NamedPart): BodyTarget => ({
  bucket,
  key,
  upload: { uploadId, partNumber },
})

export const partHeaders = ({ upload: { bucket, uploadId, encryption } }: NamedPart): readonly HeaderLine[] => [
  bucketIdHeader(bucket.number),
  uploadIdHeader(uploadId),
  ...encryptionHeaders(encryption),
  SYNCED,
]

/**
 * @param body with the checksum of the upload
 * @throws S3Error NoSuchUpload when the upload ended meanwhile
 */
export function keepPart(
  { upload, partNumber }: NamedPart,
  body: ReceivedBody,
  store: ObjectStore,
): Promise<UploadedPart> {
  const { bytes, checksums } = body.digest
  const checksum = checksums.find(({ algorithm }) => algorithm === upload.checksum.algorithm)
  assert(checksum !== undefined)
  return store.putPart(upload, partNumber, body, { value: checksum.value, bytes })
}

function partNumberOf({ query }: GatewayRequest): number {
  const text = query.get('partNumber') ?? ''
  const partNumber = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (partNumber >= 1 && partNumber <= PARTS_MAX) return partNumber
  throw refuse('InvalidArgument', `Part number must be an integer between 1 and ${PARTS_MAX}, inclusive`, {
    fields: { ArgumentName: 'partNumber', ArgumentValue: text.slice(0, 128) },
  })
}
