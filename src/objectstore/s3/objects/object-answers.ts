/** Answers about objects: CopyObject, DeleteObjects, browser POST. */
import type { S3Error } from '../../refusals.ts'
import { KEY_BYTES_MAX } from '../limits.ts'
import { isObjectKey } from './object-key.ts'
import { checksumElements } from '../xml/checksum-elements.ts'
import type { Checksum } from '../../bodies/checksums.ts'
import { XML_DECLARATION, escapeXml, isoTime, s3Document, textElement } from '../xml/xml-text.ts'

export interface CopyResult {
  /** Without quotes. */
  readonly etag: string
  readonly lastModifiedMs: number
  readonly checksums: readonly Checksum[]
}

export const renderCopyObject = (copy: CopyResult): string => renderCopy('CopyObjectResult', copy)

export const renderCopyPart = (copy: CopyResult): string => renderCopy('CopyPartResult', copy)

function renderCopy(root: string, { etag, lastModifiedMs, checksums }: CopyResult): string {
  const about = `<LastModified>${isoTime(lastModifiedMs)}</LastModified><ETag>&quot;${etag}&quot;</ETag>`
  return s3Document(root, `${about}${checksumElements(checksums)}`)
}

export interface DeletedKey {
  readonly key: string
  readonly versionId: string | null
  /** A delete marker hides the key now. */
  readonly deleteMarker: boolean
  readonly deleteMarkerVersionId: string | null
}

export interface DeleteFailure {
  readonly key: string
  readonly versionId: string | null
  readonly refusal: S3Error
}

/**
 * Texts that are too long for a key or a version are cut: a request of 1 MiB gets no answer of six.
 *
 * @param deleted empty for a quiet request
 */
export function renderDeleteResult(deleted: readonly DeletedKey[], failures: readonly DeleteFailure[]): string {
  const deletedElements = deleted.map(({ key, versionId, deleteMarker, deleteMarkerVersionId }) => {
    const marker = deleteMarker ? '<DeleteMarker>true</DeleteMarker>' : ''
    const versions = textElement('VersionId', versionId) + marker
    const markerVersion = textElement('DeleteMarkerVersionId', deleteMarkerVersionId)
    return `<Deleted><Key>${escapeXml(key)}</Key>${versions}${markerVersion}</Deleted>`
  })
  const errorElements = failures.map(({ key, versionId, refusal: { code, message } }) => {
    const shownKey = isObjectKey(key) ? key : key.slice(0, KEY_BYTES_MAX)
    const what = `<Key>${escapeXml(shownKey)}</Key>${textElement('VersionId', versionId?.slice(0, KEY_BYTES_MAX) ?? null)}`
    return `<Error>${what}<Code>${code}</Code><Message>${escapeXml(message)}</Message></Error>`
  })
  return s3Document('DeleteResult', `${deletedElements.join('')}${errorElements.join('')}`)
}

export interface PostedObject {
  readonly location: string
  readonly bucket: string
  readonly key: string
  /** Without quotes. */
  readonly etag: string
}

/** Has no namespace in S3 either. */
export function renderPostResponse({ location, bucket, key, etag }: PostedObject): string {
  const where = `${textElement('Location', location)}${textElement('Bucket', bucket)}${textElement('Key', key)}`
  return `${XML_DECLARATION}<PostResponse>${where}<ETag>&quot;${etag}&quot;</ETag></PostResponse>`
}
