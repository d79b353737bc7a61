/** Answers about multipart uploads. They have markers of the next page even when nothing follows, as in S3. */
import { checksumElements, checksumValueElements } from '../xml/checksum-elements.ts'
import type { Checksum, ChecksumAlgorithm, ChecksumType, ChecksumValue } from '../../bodies/checksums.ts'
import { commonPrefixElement, encodedElement } from '../buckets/object-listing.ts'
import { ownerElement } from '../owner.ts'
import type { StorageClass } from '../../storage-class.ts'
import { escapeXml, isoTime, s3Document, textElement, urlEncode } from '../xml/xml-text.ts'

export interface UploadName {
  readonly bucket: string
  readonly key: string
  readonly uploadId: string
}

export const renderInitiatedUpload = (name: UploadName): string =>
  s3Document('InitiateMultipartUploadResult', uploadElements(name))

const uploadElements = ({ bucket, key, uploadId }: UploadName): string =>
  `<Bucket>${escapeXml(bucket)}</Bucket><Key>${escapeXml(key)}</Key><UploadId>${escapeXml(uploadId)}</UploadId>`

export interface CompletedUpload {
  readonly location: string
  readonly bucket: string
  readonly key: string
  /** Without quotes. */
  readonly etag: string
  readonly checksums: readonly Checksum[]
}

export function renderCompletedUpload({ location, bucket, key, etag, checksums }: CompletedUpload): string {
  const where = `${textElement('Location', location)}${textElement('Bucket', bucket)}${textElement('Key', key)}`
  const what = `<ETag>&quot;${etag}&quot;</ETag>${checksumElements(checksums)}`
  return s3Document('CompleteMultipartUploadResult', `${where}${what}`)
}

export interface PartListing extends UploadName {
  readonly initiator: string
  readonly owner: string
  readonly partNumberMarker: number
  readonly maxParts: number
  readonly isTruncated: boolean
  readonly checksumAlgorithm: ChecksumAlgorithm | null
  readonly checksumType: ChecksumType | null
  readonly storageClass: StorageClass
  readonly parts: readonly ListedPart[]
}

interface ListedPart {
  readonly partNumber: number
  readonly lastModifiedMs: number
  /** Without quotes. */
  readonly etag: string
  readonly size: number
  readonly checksums: readonly ChecksumValue[]
}

export function renderPartListing(page: PartListing): string {
  const nextMarker = page.parts.at(-1)?.partNumber ?? 0
  const markers =
    textElement('PartNumberMarker', String(page.partNumberMarker)) +
    textElement('NextPartNumberMarker', String(nextMarker))
  const bounds = `<MaxParts>${page.maxParts}</MaxParts><IsTruncated>${page.isTruncated}</IsTruncated>`
  const owners = `${ownerElement(page.initiator, 'Initiator')}${ownerElement(page.owner)}`
  const checksum =
    textElement('ChecksumAlgorithm', page.checksumAlgorithm) + textElement('ChecksumType', page.checksumType)
  const parts = page.parts.map(({ partNumber, lastModifiedMs, etag, size, checksums }) => {
    const name = `<PartNumber>${partNumber}</PartNumber><LastModified>${isoTime(lastModifiedMs)}</LastModified>`
    const about = `<ETag>&quot;${etag}&quot;</ETag><Size>${size}</Size>${checksumValueElements(checksums)}`
    return `<Part>${name}${about}</Part>`
  })
  const head = `${uploadElements(page)}${markers}${bounds}${owners}${textElement('StorageClass', page.storageClass)}${checksum}`
  return s3Document('ListPartsResult', `${head}${parts.join('')}`)
}

export interface UploadListing {
  readonly bucket: string
  readonly keyMarker: string
  readonly uploadIdMarker: string
  readonly nextKeyMarker: string
  readonly nextUploadIdMarker: string
  readonly prefix: string
  /** Null or empty: none. */
  readonly delimiter: string | null
  readonly maxUploads: number
  readonly isTruncated: boolean
  readonly urlEncoded: boolean
  readonly uploads: readonly ListedUpload[]
  readonly commonPrefixes: readonly string[]
}

interface ListedUpload {
  readonly key: string
  readonly uploadId: string
  readonly initiator: string
  readonly owner: string
  readonly initiatedMs: number
  readonly storageClass: StorageClass
  readonly checksumAlgorithm: ChecksumAlgorithm | null
  readonly checksumType: ChecksumType | null
}

export function renderUploadListing(page: UploadListing): string {
  const encode = page.urlEncoded ? urlEncode : escapeXml
  const markers =
    encodedElement('KeyMarker', page.keyMarker, encode) +
    textElement('UploadIdMarker', page.uploadIdMarker) +
    encodedElement('NextKeyMarker', page.nextKeyMarker, encode) +
    textElement('NextUploadIdMarker', page.nextUploadIdMarker)
  const filters =
    encodedElement('Prefix', page.prefix || null, encode) + encodedElement('Delimiter', page.delimiter || null, encode)
  const encoding = page.urlEncoded ? '<EncodingType>url</EncodingType>' : ''
  const bounds = `<MaxUploads>${page.maxUploads}</MaxUploads><IsTruncated>${page.isTruncated}</IsTruncated>`
  const uploads = page.uploads.map((upload) => {
    const name = `<Key>${encode(upload.key)}</Key><UploadId>${escapeXml(upload.uploadId)}</UploadId>`
    const owners = `${ownerElement(upload.initiator, 'Initiator')}${ownerElement(upload.owner)}`
    const initiated = `${textElement('StorageClass', upload.storageClass)}<Initiated>${isoTime(upload.initiatedMs)}</Initiated>`
    const checksum =
      textElement('ChecksumAlgorithm', upload.checksumAlgorithm) + textElement('ChecksumType', upload.checksumType)
    return `<Upload>${name}${owners}${initiated}${checksum}</Upload>`
  })
  const head = `<Bucket>${escapeXml(page.bucket)}</Bucket>${markers}${filters}${encoding}${bounds}`
  const commonPrefixes = page.commonPrefixes.map((prefix) => commonPrefixElement(prefix, encode)).join('')
  return s3Document('ListMultipartUploadsResult', `${head}${uploads.join('')}${commonPrefixes}`)
}
