/**
 * A page of ListObjectsV2, and of version 1 for the tools that know no other. Rendered by template literals, entry by entry, while it is sent: a
 * page of 1000 keys is the longest text the service makes for a request.
 */
import type { ChecksumAlgorithm, ChecksumType } from '../../bodies/checksums.ts'
import { ownerElement } from '../owner.ts'
import type { StorageClass } from '../../storage-class.ts'
import { escapeXml, isoTime, s3DocumentBegin, textElement, urlEncode } from '../xml/xml-text.ts'

export interface ListedObject {
  /** A string, or its bytes. */
  readonly key: { toString(): string }
  readonly lastModifiedMs: number
  /** Without quotes: hex digits, with `-N` behind them for a multipart object. */
  readonly etag: string
  readonly size: number
  readonly checksumAlgorithms: readonly ChecksumAlgorithm[]
  readonly checksumType: ChecksumType | null
  readonly storageClass: StorageClass
}

interface ListingPage {
  readonly bucket: string
  readonly prefix: string
  /** Null or empty: none. */
  readonly delimiter: string | null
  readonly maxKeys: number
  readonly isTruncated: boolean
  /** `encoding-type=url`: keys, prefixes, delimiter and start come URL-encoded. */
  readonly urlEncoded: boolean
  readonly contents: readonly ListedObject[]
  readonly commonPrefixes: readonly ListedObject['key'][]
  /** Shown with each object when it is not null. */
  readonly owner: string | null
}

export interface ObjectListing extends ListingPage {
  /** As sent, the empty one included; null: none. */
  readonly continuationToken: string | null
  readonly nextContinuationToken: string | null
  readonly startAfter: string | null
}

export interface ObjectListingV1 extends ListingPage {
  readonly marker: string
  /** S3 sends it only when there is a delimiter. */
  readonly nextMarker: string | null
}

export function renderObjectListing(page: ObjectListing): Generator<string, void> {
  const encode = encodingOf(page)
  const keyCount = page.contents.length + page.commonPrefixes.length
  const tokens =
    textElement('ContinuationToken', page.continuationToken) +
    textElement('NextContinuationToken', page.nextContinuationToken)
  const startAfter = encodedElement('StartAfter', page.startAfter, encode)
  return render(page, encode, encode, `<KeyCount>${keyCount}</KeyCount>${tokens}${startAfter}`)
}

/** The prefix that was asked for is not URL-encoded, as S3 has it: SDKs that ask for the encoding on their own do not decode it. */
export function renderObjectListingV1(page: ObjectListingV1): Generator<string, void> {
  const encode = encodingOf(page)
  const markers = encodedElement('Marker', page.marker, encode) + encodedElement('NextMarker', page.nextMarker, encode)
  return render(page, encode, escapeXml, markers)
}

const ROOT = 'ListBucketResult'

type Encode = (text: string) => string

const encodingOf = ({ urlEncoded }: ListingPage): Encode => (urlEncoded ? urlEncode : escapeXml)

export const encodedElement = (name: string, text: string | null, encode: Encode): string =>
  text === null ? '' : `<${name}>${encode(text)}</${name}>`

/** @param own what only this version of the listing has */
function* render(page: ListingPage, encode: Encode, encodePrefix: Encode, own: string): Generator<string, void> {
  const name = `<Name>${escapeXml(page.bucket)}</Name>${encodedElement('Prefix', page.prefix, encodePrefix)}`
  const delimiter = encodedElement('Delimiter', page.delimiter || null, encode)
  const encoding = page.urlEncoded ? '<EncodingType>url</EncodingType>' : ''
  const bounds = `<MaxKeys>${page.maxKeys}</MaxKeys><IsTruncated>${page.isTruncated}</IsTruncated>`
  const owner = page.owner === null ? '' : ownerElement(page.owner)

  yield `${s3DocumentBegin(ROOT)}${name}${delimiter}${own}${encoding}${bounds}`
  for (const each of page.contents) yield contentsElement(each, encode, owner)
  for (const each of page.commonPrefixes) yield commonPrefixElement(each.toString(), encode)
  yield `</${ROOT}>`
}

function contentsElement(listed: ListedObject, encode: Encode, owner: string): string {
  const { key, lastModifiedMs, etag, size, checksumAlgorithms, checksumType, storageClass } = listed
  let checksum = ''
  for (const each of checksumAlgorithms) checksum += `<ChecksumAlgorithm>${each}</ChecksumAlgorithm>`
  if (checksumType !== null) checksum += `<ChecksumType>${checksumType}</ChecksumType>`
  const name = `<Key>${encode(key.toString())}</Key><LastModified>${isoTime(lastModifiedMs)}</LastModified><ETag>&quot;${etag}&quot;</ETag>`
  return `<Contents>${name}${checksum}${owner}<Size>${size}</Size><StorageClass>${storageClass}</StorageClass></Contents>`
}

export const commonPrefixElement = (prefix: string, encode: Encode): string =>
  `<CommonPrefixes><Prefix>${encode(prefix)}</Prefix></CommonPrefixes>`
