/** Headers of answers that are about one object. */
import type { Checksum } from '../../bodies/checksums.ts'
import { DEFAULT_STORAGE_CLASS } from '../../storage-class.ts'
import type { Bucket, NewObject, ObjectSummary, ShownHeaders, StoredObject } from '../../operations.ts'
import type { HeaderLine } from '../handler.ts'
import { KeptHeaders } from '../header-text.ts'
import { SYNCED, bucketIdHeader, objectIdHeaders } from '../ids.ts'
import type { ContentAttributes } from './attributes.ts'
import { validators } from './conditions.ts'
import { encryptionHeaders } from './encryption.ts'

/** Headers of GetObject and HeadObject, except Content-Type and those that depend on the caller or the range. */
export function storedObjectHeaders(
  bucket: Bucket,
  object: StoredObject,
  overrides: Partial<ContentAttributes> | null,
): ShownHeaders {
  if (overrides !== null) return new KeptHeaders(() => headersOf(bucket, object, overrides))
  object.headers ??= new KeptHeaders(() => headersOf(bucket, object, {}))
  return object.headers
}

function headersOf(bucket: Bucket, object: StoredObject, overrides: Partial<ContentAttributes>): HeaderLine[] {
  const content: ContentAttributes = { ...object, ...overrides }
  return [
    ...validators(object),
    ['Accept-Ranges', 'bytes'],
    ...present('Cache-Control', content.cacheControl),
    ...present('Content-Disposition', content.contentDisposition),
    ...present('Content-Encoding', content.contentEncoding),
    ...present('Content-Language', content.contentLanguage),
    ...present('Expires', content.expires),
    ...Object.entries(object.metadata).map(([name, value]): HeaderLine => [`x-obj-meta-${name}`, value]),
    ...present('x-obj-storage-class', object.storageClass === DEFAULT_STORAGE_CLASS ? null : object.storageClass),
    ...encryptionHeaders(object.encryption),
    bucketIdHeader(bucket.number),
    ...objectIdHeaders(object.commitSequence),
  ]
}

/** Headers of the answer to a write that made an object. */
export const writtenObjectHeaders = (
  { bucket, checksums, attributes }: Pick<NewObject, 'bucket' | 'checksums' | 'attributes'>,
  { etag, commitSequence }: ObjectSummary,
): HeaderLine[] => [
  ['ETag', `"${etag}"`],
  ...checksumHeaderLines(checksums),
  ...encryptionHeaders(attributes.encryption),
  bucketIdHeader(bucket.number),
  ...objectIdHeaders(commitSequence),
  SYNCED,
]

export const checksumHeaderLines = (checksums: readonly Checksum[]): HeaderLine[] => [
  ...checksums.map(({ algorithm, value }): HeaderLine => [`x-obj-checksum-${algorithm.toLowerCase()}`, value]),
  ...present('x-obj-checksum-type', checksums[0]?.type ?? null),
]

const present = (name: string, value: string | null): HeaderLine[] => (value === null ? [] : [[name, value]])
