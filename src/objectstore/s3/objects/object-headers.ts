/** Headers of answers that are about one object. */
import type { Checksum } from '../../bodies/checksums.ts'
import { DEFAULT_STORAGE_CLASS } from '../../storage-class.ts'
import type { Bucket, NewObject, ObjectSummary, ShownHeaders, StoredObject } from '../../operations.ts'
import type { HeaderLine } from '../handler.ts'
import { KeptHeaders, headerText } from '../header-text.ts'
import { SYNCED, bucketIdHeader, objectIdHeaders, objectIdText } from '../ids.ts'
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
  { bucket, checksums, attributes }: WrittenObject,
  { etag, commitSequence }: ObjectSummary,
): HeaderLine[] => [
  ['ETag', `"${etag}"`],
  ...checksumHeaderLines(checksums),
  ...encryptionHeaders(attributes.encryption),
  bucketIdHeader(bucket.number),
  ...objectIdHeaders(commitSequence),
  SYNCED,
]

/**
 * The same for PutObject, which has many answers. No value needs a check here (header-text.ts, T2), and text that many answers share is made once.
 */
export class WrittenHeaders implements ShownHeaders {
  readonly #object: WrittenObject
  readonly #summary: ObjectSummary

  constructor(object: WrittenObject, summary: ObjectSummary) {
    this.#object = object
    this.#summary = summary
  }

  get lines(): readonly HeaderLine[] {
    return writtenObjectHeaders(this.#object, this.#summary)
  }

  textFor(speaksS3: boolean): string {
    const { bucket, checksums, attributes } = this.#object
    const { etag, commitSequence } = this.#summary
    if (checksums.length !== 1 || attributes.encryption !== null) return headerText(this.lines, speaksS3)
    return (
      `\r\nETag: "${etag}"` +
      checksumText(checksums[0]!, speaksS3) +
      bucketText(bucket.number) +
      objectIdText(commitSequence) +
      DURABILITY_TEXT
    )
  }
}

type WrittenObject = Pick<NewObject, 'bucket' | 'checksums' | 'attributes'>

const DURABILITY_TEXT = headerText([SYNCED], false)

/** Stands for a value in Base64. */
const VALUE = '?'
/** What stands around the values, by algorithm and type; with the names of S3 or without. */
type TextsAround = Map<string, readonly string[]>
const ownTexts: TextsAround = new Map()
const textsOfS3: TextsAround = new Map()

function checksumText(checksum: Checksum, speaksS3: boolean): string {
  const known = speaksS3 ? textsOfS3 : ownTexts
  const kind = checksum.algorithm + checksum.type
  let texts = known.get(kind)
  if (texts === undefined) {
    texts = headerText(checksumHeaderLines([{ ...checksum, value: VALUE }]), speaksS3).split(VALUE)
    known.set(kind, texts)
  }
  let text = texts[0]!
  for (let i = 1; i < texts.length; i++) text += checksum.value + texts[i]!
  return text
}

/** The bucket that was asked for last, and its header as text. */
let lastBucket = -1
let lastBucketText = ''

function bucketText(number: number): string {
  if (number === lastBucket) return lastBucketText
  lastBucket = number
  return (lastBucketText = headerText([bucketIdHeader(number)], false))
}

export const checksumHeaderLines = (checksums: readonly Checksum[]): HeaderLine[] => [
  ...checksums.map(({ algorithm, value }): HeaderLine => [`x-obj-checksum-${algorithm.toLowerCase()}`, value]),
  ...present('x-obj-checksum-type', checksums[0]?.type ?? null),
]

const present = (name: string, value: string | null): HeaderLine[] => (value === null ? [] : [[name, value]])
