/** ListMultipartUploads. */
import { renderUploadListing } from './multipart-answers.ts'
import { refuse } from '../../refusals.ts'
import type { BucketHandler, GatewayRequest } from '../handler.ts'
import { bucketIdHeader } from '../ids.ts'
import { pageMax } from '../page-bounds.ts'
import { uploadPage } from './upload-page.ts'

export const listMultipartUploads: BucketHandler = async (request, bucket, { store }) => {
  const { query } = request
  const asked = {
    prefix: query.get('prefix') ?? '',
    delimiter: query.get('delimiter') ?? '',
    keyMarker: query.get('key-marker') ?? '',
    uploadIdMarker: query.get('upload-id-marker') ?? '',
  }
  const maxUploads = pageMax(query, 'max-uploads')
  const urlEncoded = isUrlEncoded(request)
  const page = uploadPage(store.uploads(bucket), { ...asked, max: maxUploads })
  const listing = renderUploadListing({
    bucket: bucket.name,
    ...asked,
    ...page,
    maxUploads,
    urlEncoded,
    uploads: page.uploads.map(({ key, uploadId, initiator, initiatedMs, checksum, storageClass }) => ({
      key,
      uploadId,
      initiator,
      owner: bucket.owner,
      initiatedMs,
      storageClass,
      checksumAlgorithm: checksum.isChosen ? checksum.algorithm : null,
      checksumType: checksum.isChosen ? checksum.type : null,
    })),
  })
  return {
    status: 200,
    headers: [bucketIdHeader(bucket.number)],
    body: { contentType: 'application/xml', bytes: listing },
  }
}

/** @throws S3Error InvalidArgument */
function isUrlEncoded({ query }: GatewayRequest): boolean {
  const encoding = query.get('encoding-type') ?? ''
  if (encoding === '' || encoding === 'url') return encoding === 'url'
  throw refuse('InvalidArgument', 'Invalid Encoding Method specified in Request', {
    fields: { ArgumentName: 'encoding-type', ArgumentValue: encoding.slice(0, 128) },
  })
}
