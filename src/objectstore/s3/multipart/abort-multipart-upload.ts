/** AbortMultipartUpload. */
import type { ObjectHandler } from '../handler.ts'
import { bucketIdHeader, SYNCED } from '../ids.ts'
import { namedUpload, uploadIdHeader } from './named-upload.ts'

export const abortMultipartUpload: ObjectHandler = async (request, bucket, key, { store }) => {
  const upload = namedUpload(request, bucket, key, store)
  await store.abortUpload(upload)
  return { status: 204, headers: [bucketIdHeader(bucket.number), uploadIdHeader(upload.uploadId), SYNCED] }
}
