/**
 * CopyObject.
 *
 * O1  the source is read as it was when the copy began. If it is not what the request claims, there is no copy
 * O2  a copy of an object to itself must change something
 */
import { eitherHeader } from '../auth/request-identity.ts'
import { digestPlan, parseContentMd5 } from '../body/body-claims.ts'
import type { BodyClaims } from '../body/body-claims.ts'
import { declaredChecksum } from '../body/declared-checksum.ts'
import { chosenAlgorithm } from '../multipart/multipart-checksums.ts'
import type { ChecksumAlgorithm } from '../../bodies/checksums.ts'
import { renderCopyObject } from './object-answers.ts'
import type { Tag } from '../../operations.ts'
import type { ObjectAttributes, StoredObject } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import { copyBody } from './copy-body.ts'
import { copySourceHeader, copySourceName, openCopySource } from './copy-source.ts'
import type { ObjectHandler } from '../handler.ts'
import { contentOf, metadataOf, storageOf, tagsOf } from './attributes.ts'
import { demandPrecondition, writePrecondition } from './conditions.ts'
import { encryptionOf } from './encryption.ts'
import { demandConditions, demandSourceTagging, demandTagging } from './further-actions.ts'
import { invalidHeader } from './header-refusals.ts'
import { demandClaimed, newObject, storeObject } from './incoming-object.ts'
import { writtenObjectHeaders } from './object-headers.ts'

type Headers = ReadonlyMap<string, string>
type Directive = 'COPY' | 'REPLACE'

/** Limit of S3: larger objects are copied in parts. */
const COPY_BYTES_MAX = 5 * 1024 ** 3
/** MD5 of the request's own body, which is empty: it says nothing of the source. */
const EMPTY_MD5 = '1B2M2Y8AsgTpgAmY7PhCfg=='

export const copyObject: ObjectHandler = async (request, bucket, key, context) => {
  const { headers } = request
  const { store } = context
  const storageClass = storageOf(headers)
  const claims = claimsOf(headers)
  const precondition = writePrecondition(headers, key)
  const tags = directiveOf(headers, 'tagging') === 'REPLACE' ? tagsOf(headers) : null
  if (tags !== null) await demandTagging(request, bucket, key, tags, context)
  await demandConditions(request, bucket, key, context)
  const source = await openCopySource(request, context)
  const name = copySourceName(headers)
  if (tags === null) {
    await demandSourceTagging(request, name, source.tags, context)
    await demandTagging({ ...request, requestTags: source.tags }, bucket, key, source.tags, context)
  }
  if (source.size > COPY_BYTES_MAX) {
    throw refuse(
      'InvalidRequest',
      `The specified copy source is larger than the maximum allowable size for a copy source: ${COPY_BYTES_MAX}`,
    )
  }
  const attributes = { ...attributesOfCopy(headers, source, tags), storageClass }
  if (name.bucketName === bucket.name && name.key === key) demandChange(headers, source, attributes) // O2
  demandPrecondition(precondition, store, bucket, key)

  const algorithms = [algorithmOfCopy(headers, claims, source)]
  const writer = store.receive(source.size, digestPlan(claims, algorithms), { bucket, key, upload: null })
  const body = await copyBody(source.read(0, source.size), writer)
  demandClaimed(claims, body, null) // O1
  const object = newObject({ bucket, key, attributes, body, precondition }, algorithms)
  const summary = await storeObject(store, object)
  const { etag, lastModifiedMs } = summary
  return {
    status: 200,
    headers: [...writtenObjectHeaders(object, summary), copySourceHeader(name)],
    body: {
      contentType: 'application/xml',
      bytes: renderCopyObject({ etag, lastModifiedMs, checksums: object.checksums }),
    },
  }
}

/** Claims about the source: a checksum that a copy request declares is that of the object to be copied. */
function claimsOf(headers: Headers): BodyClaims {
  const contentMd5 = parseContentMd5(headers)
  const checksum = declaredChecksum(headers)
  if (checksum !== null && checksum.trailerName !== null) throw refuse('MalformedTrailerError')
  return { contentMd5: contentMd5 === EMPTY_MD5 ? null : contentMd5, sha256: null, checksum }
}

/** @param tags null: those of the source */
function attributesOfCopy(
  headers: Headers,
  source: StoredObject,
  tags: readonly Tag[] | null,
): Omit<ObjectAttributes, 'storageClass'> {
  const replaces = directiveOf(headers, 'metadata') === 'REPLACE'
  const { contentType, cacheControl, contentDisposition, contentEncoding, contentLanguage, expires } = source
  const content = { contentType, cacheControl, contentDisposition, contentEncoding, contentLanguage, expires }
  return {
    ...(replaces ? contentOf(headers) : content),
    metadata: replaces ? metadataOf(headers) : source.metadata,
    tags: tags ?? source.tags,
    encryption: encryptionOf(headers),
  }
}

function directiveOf(headers: Headers, of: 'metadata' | 'tagging'): Directive {
  const directive = eitherHeader(headers, `${of}-directive`) ?? 'COPY'
  if (directive === 'COPY' || directive === 'REPLACE') return directive
  throw invalidHeader(`x-amz-${of}-directive`, directive, `Unknown ${of} directive.`)
}

/** The algorithm that is asked for, else that of the source. */
const algorithmOfCopy = (headers: Headers, { checksum }: BodyClaims, { checksums }: StoredObject): ChecksumAlgorithm =>
  chosenAlgorithm(headers) ?? checksum?.algorithm ?? checksums[0]?.algorithm ?? 'CRC64NVME'

/** O2. @throws S3Error InvalidRequest */
function demandChange(headers: Headers, source: StoredObject, { encryption }: ObjectAttributes): void {
  const changesEncryption = encryption !== null || source.encryption !== null
  const changesStorage = eitherHeader(headers, 'storage-class') !== undefined || chosenAlgorithm(headers) !== null
  if (changesEncryption || changesStorage || directiveOf(headers, 'metadata') === 'REPLACE') return
  throw refuse(
    'InvalidRequest',
    "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, " +
      'storage class, website redirect location or encryption attributes.',
  )
}
