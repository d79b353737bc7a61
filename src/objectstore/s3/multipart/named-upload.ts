/** The upload that a request names in `uploadId`. */
import type { Bucket, ObjectStore, Upload } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { GatewayRequest, HeaderLine } from '../handler.ts'

export const uploadIdOf = ({ query }: GatewayRequest): string => query.get('uploadId') ?? ''

/** @throws S3Error NoSuchUpload, also for an upload of another key */
export function namedUpload(request: GatewayRequest, bucket: Bucket, key: string, store: ObjectStore): Upload {
  const uploadId = uploadIdOf(request)
  const upload = store.upload(bucket, key, uploadId)
  if (upload !== null) return upload
  throw refuse('NoSuchUpload', undefined, { fields: { UploadId: uploadId } })
}

export const uploadIdHeader = (uploadId: string): HeaderLine => ['x-obj-upload-id', uploadId]
