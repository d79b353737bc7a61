/**
 * What a request says of the object it stores, besides its body.
 *
 * A1  what was sent is kept, and must be able to stand in a header of an answer: a value is UTF-8 without line ends, a name is a token. HTTP itself
 *     keeps line ends out of headers; a browser's form does not
 */
import { eitherHeader } from '../auth/request-identity.ts'
import { storedContentEncoding } from '../body/body-plan.ts'
import { checkMetadata } from './metadata.ts'
import { DEFAULT_STORAGE_CLASS, isStorageClass } from '../../storage-class.ts'
import type { StorageClass } from '../../storage-class.ts'
import { parseTaggingHeader } from './tagging.ts'
import type { Tag } from '../../operations.ts'
import type { ObjectAttributes } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { GatewayRequest } from '../handler.ts'
import { checkAcl } from './acl.ts'
import { encryptionOf } from './encryption.ts'
import { headerNotImplemented, invalidHeader } from './header-refusals.ts'

type Headers = ReadonlyMap<string, string>

const DEFAULT_CONTENT_TYPE = 'binary/octet-stream'

/** Object Lock, website hosting and appends: an object that is stored without them would break a promise that the client counts on. */
const NOT_IMPLEMENTED = [
  'object-lock-mode',
  'object-lock-retain-until-date',
  'object-lock-legal-hold',
  'website-redirect-location',
  'write-offset-bytes',
]
const OWN_NAME = /^x-(?:obj|amz)-/
/** Headers of the content, beside its type. */
const OF_CONTENT: ReadonlySet<string> = new Set([
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'expires',
])
/** Headers that do not describe the object: they describe the caller, or the body on its way. */
const OF_REQUEST: ReadonlySet<string> = new Set([
  'x-amz-checksum-crc32',
  'x-amz-checksum-crc32c',
  'x-amz-checksum-crc64nvme',
  'x-amz-checksum-sha256',
  'x-amz-content-sha256',
  'x-amz-date',
  'x-amz-sdk-checksum-algorithm',
  'x-amz-user-agent',
  'x-obj-principal',
])
const NO_TAGS: readonly Tag[] = Object.freeze([])
const NO_METADATA = Object.freeze({})
const METADATA = /^x-(obj|amz)-meta-(.*)$/s
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/
/** The HTTP library turns bytes that are not UTF-8 into this character. */
const NOT_UTF8 = '\ufffd'

/** @throws S3Error InvalidArgument, MetadataTooLarge, InvalidTag, InvalidStorageClass, NotImplemented */
export function attributesOf({ headers }: Pick<GatewayRequest, 'headers'>): ObjectAttributes {
  if (!saysMore(headers)) return plainAttributes(headers.get('content-type') || DEFAULT_CONTENT_TYPE)
  const storageClass = storageOf(headers)
  return {
    ...contentOf(headers),
    metadata: metadataOf(headers),
    tags: tagsOf(headers),
    storageClass,
    encryption: encryptionOf(headers),
  }
}

/** True when the request says more of the object than its type. */
function saysMore(headers: Headers): boolean {
  for (const name of headers.keys()) {
    if (OF_CONTENT.has(name)) return true
    if (OWN_NAME.test(name) && !OF_REQUEST.has(name)) return true
  }
  return false
}

/** Attributes of most requests, made once, so that what is kept for such an object (engine/frames.ts) is found again. */
const plain = new Map<string, ObjectAttributes>()
const PLAIN_MAX = 256
const PLAIN_CHARACTERS_MAX = 128

function plainAttributes(contentType: string): ObjectAttributes {
  const made = plain.get(contentType)
  if (made !== undefined) return made
  demandPlain('content-type', contentType)
  const attributes = Object.freeze({
    contentType,
    cacheControl: null,
    contentDisposition: null,
    contentEncoding: null,
    contentLanguage: null,
    expires: null,
    metadata: NO_METADATA,
    tags: NO_TAGS,
    storageClass: DEFAULT_STORAGE_CLASS,
    encryption: null,
  })
  if (plain.size < PLAIN_MAX && contentType.length <= PLAIN_CHARACTERS_MAX) plain.set(contentType, attributes)
  return attributes
}

/** The part of the attributes that a copy replaces together. */
export type ContentAttributes = Omit<ObjectAttributes, 'tags' | 'storageClass' | 'encryption' | 'metadata'>

export function contentOf(headers: Headers): ContentAttributes {
  const plain = (name: string): string | null => {
    const value = headers.get(name) || null
    if (value !== null) demandPlain(name, value)
    return value
  }
  plain('content-encoding')
  return {
    contentType: plain('content-type') ?? DEFAULT_CONTENT_TYPE,
    cacheControl: plain('cache-control'),
    contentDisposition: plain('content-disposition'),
    contentEncoding: storedContentEncoding(headers),
    contentLanguage: plain('content-language'),
    expires: plain('expires'),
  }
}

/** By name without its prefix; of the two prefixes ours wins. @throws S3Error MetadataTooLarge, InvalidArgument */
export function metadataOf(headers: Headers): Readonly<Record<string, string>> {
  const metadata: [name: string, value: string][] = []
  for (const [header, value] of headers) {
    if (!header.startsWith('x-')) continue
    const [, prefix, name] = METADATA.exec(header) ?? []
    if (name === undefined || (prefix === 'amz' && headers.has(`x-obj-meta-${name}`))) continue
    if (!TOKEN.test(name)) throw invalidHeader('x-amz-meta-', name, 'The name of metadata must be one of a header')
    demandPlain(header, value)
    metadata.push([name, value])
  }
  const record = Object.fromEntries(metadata)
  checkMetadata(record)
  return record
}

/** @throws S3Error InvalidTag, InvalidArgument */
export function tagsOf(headers: Headers): readonly Tag[] {
  const tagging = eitherHeader(headers, 'tagging')
  return tagging === undefined ? NO_TAGS : parseTaggingHeader(tagging)
}

/** @throws S3Error InvalidStorageClass, NotImplemented */
export function storageOf(headers: Headers): StorageClass {
  checkAcl(headers)
  const storageClass = eitherHeader(headers, 'storage-class') ?? DEFAULT_STORAGE_CLASS
  if (!isStorageClass(storageClass)) {
    throw refuse('InvalidStorageClass', undefined, { fields: { StorageClassRequested: storageClass.slice(0, 128) } })
  }
  for (const name of NOT_IMPLEMENTED) {
    if (eitherHeader(headers, name) !== undefined) throw headerNotImplemented(`x-amz-${name}`)
  }
  return storageClass
}

/** A1 */
export function demandPlain(name: string, value: string): void {
  if (!CONTROL.test(value) && !value.includes(NOT_UTF8)) return
  throw invalidHeader(name, '', `The value of ${name} must be UTF-8 without control characters`)
}
