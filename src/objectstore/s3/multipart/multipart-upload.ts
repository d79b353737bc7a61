/** CreateMultipartUpload and AbortMultipartUpload. */
import { uploadChecksum } from './multipart-checksums.ts'
import { renderInitiatedUpload } from './multipart-answers.ts'
import type { HeaderLine, ObjectHandler } from '../handler.ts'
import { bucketIdHeader, SYNCED } from '../ids.ts'
import { attributesOf } from '../objects/attributes.ts'
import { encryptionHeaders } from '../objects/encryption.ts'
import { demandTagging } from '../objects/further-actions.ts'
import { namedUpload, uploadIdHeader } from './named-upload.ts'

/** Initiator of an upload that an anonymous caller began. */
const ANONYMOUS = 'anonymous'

export const createMultipartUpload: ObjectHandler = async (request, bucket, key, context) => {
  const checksum = uploadChecksum(request.headers)
  const attributes = attributesOf(request)
  const initiator = request.caller.principal?.id ?? ANONYMOUS
  await demandTagging(request, bucket, key, attributes.tags, context)
  const { uploadId } = await context.store.createUpload({ bucket, key, attributes, checksum, initiator })
  const chosen: readonly HeaderLine[] = [
    ['x-obj-checksum-algorithm', checksum.algorithm],
    ['x-obj-checksum-type', checksum.type],
  ]
  return {
    status: 200,
    headers: [
      bucketIdHeader(bucket.number),
      uploadIdHeader(uploadId),
      ...(checksum.isChosen ? chosen : []),
      ...encryptionHeaders(attributes.encryption),
      SYNCED,
    ],
    body: { contentType: 'application/xml', bytes: renderInitiatedUpload({ bucket: bucket.name, key, uploadId }) },
  }
}

export const abortMultipartUpload: ObjectHandler = async (request, bucket, key, { store }) => {
  const upload = namedUpload(request, bucket, key, store)
  await store.abortUpload(upload)
  return { status: 204, headers: [bucketIdHeader(bucket.number), uploadIdHeader(upload.uploadId), SYNCED] }
}
