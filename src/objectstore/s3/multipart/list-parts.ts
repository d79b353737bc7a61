/** ListParts. */
import { renderPartListing } from './multipart-answers.ts'
import type { ObjectHandler } from '../handler.ts'
import { bucketIdHeader } from '../ids.ts'
import { namedUpload, uploadIdHeader } from './named-upload.ts'
import { integer, pageMax } from '../page-bounds.ts'

export const listParts: ObjectHandler = async (request, bucket, key, { store }) => {
  const maxParts = pageMax(request.query, 'max-parts')
  const partNumberMarker = integer(request.query, 'part-number-marker', 0)
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
