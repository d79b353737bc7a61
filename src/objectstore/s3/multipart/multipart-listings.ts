/** ListMultipartUploads and ListParts. */
import { renderUploadListing, renderPartListing } from './multipart-answers.ts'
import { refuse } from '../../refusals.ts'
import { LISTED_UPLOAD_BYTES, LISTED_PART_BYTES } from '../document-bytes.ts'
import type { BucketHandler, GatewayRequest, ObjectHandler } from '../handler.ts'
import { bucketIdHeader } from '../ids.ts'
import { pageMax, integer } from '../page-bounds.ts'
import { uploadPage } from './upload-page.ts'
import { namedUpload, uploadIdHeader } from './named-upload.ts'

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
  await request.reserveRoom(LISTED_UPLOAD_BYTES * maxUploads)
  const page = uploadPage((from, behind) => store.uploads(bucket, from, behind), { ...asked, max: maxUploads })
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

export const listParts: ObjectHandler = async (request, bucket, key, { store }) => {
  const maxParts = pageMax(request.query, 'max-parts')
  const partNumberMarker = integer(request.query, 'part-number-marker', 0)
  await request.reserveRoom(LISTED_PART_BYTES * maxParts)
  const { uploadId, initiator, checksum, storageClass, parts } = namedUpload(request, bucket, key, store)
  const above = parts.filter((part) => part.partNumber > partNumberMarker)
  const page = renderPartListing({
    bucket: bucket.name,
    key,
    uploadId,
    initiator,
    owner: bucket.owner,
    partNumberMarker,
    maxParts,
    isTruncated: maxParts > 0 && above.length > maxParts,
    checksumAlgorithm: checksum.isChosen ? checksum.algorithm : null,
    checksumType: checksum.isChosen ? checksum.type : null,
    storageClass,
    parts: above.slice(0, maxParts).map((part) => ({
      ...part,
      checksums: checksum.isChosen ? [{ algorithm: checksum.algorithm, value: part.checksum.value }] : [],
    })),
  })
  return {
    status: 200,
    headers: [bucketIdHeader(bucket.number), uploadIdHeader(uploadId)],
    body: { contentType: 'application/xml', bytes: page },
  }
}
