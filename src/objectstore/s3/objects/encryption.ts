/**
 * Server-side encryption, as far as this service is concerned with it: headers are validated and become an identity that is kept with the
 * object; the store does not encrypt at rest (specification, "What the service does", 6).
 *
 * N1  only the MD5 of a customer's key is kept, and the key itself is in no answer and in no message
 * N2  an object that was stored with a customer's key is read with the same key only
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { eitherHeader } from '../auth/request-identity.ts'
import { decodeBase64, parseBase64 } from '../../bodies/checksum-algorithms.ts'
import { isObject } from '../../../plain-objects.ts'
import type { Encryption } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import type { HeaderLine } from '../handler.ts'
import { headerNotImplemented, invalidHeader } from './header-refusals.ts'

type Headers = ReadonlyMap<string, string>
type CustomerEncryption = Extract<Encryption, { kind: 'customer' }>

const METHOD = 'server-side-encryption'
const KMS_KEY_ID = `${METHOD}-aws-kms-key-id`
const BUCKET_KEY = `${METHOD}-bucket-key-enabled`
const CONTEXT = `${METHOD}-context`
const CUSTOMER = `${METHOD}-customer`

interface CustomerKeyNames {
  readonly algorithm: string
  readonly key: string
  readonly md5: string
}

const customerKeyNames = (prefix: string): CustomerKeyNames => ({
  algorithm: `${prefix}-algorithm`,
  key: `${prefix}-key`,
  md5: `${prefix}-key-md5`,
})
const OF_OBJECT = customerKeyNames(CUSTOMER)
const OF_SOURCE = customerKeyNames(`copy-source-${CUSTOMER}`)
const CUSTOMER_KEY_BYTES = 32
const CUSTOMER_ONLY = 'Requests specifying Server Side Encryption with Customer provided keys must provide'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The encryption that a request to store an object asks for; null: none. @throws S3Error InvalidArgument, InvalidEncryptionAlgorithmError */
export function encryptionOf(headers: Headers): Encryption | null {
  const method = eitherHeader(headers, METHOD)
  checkKeyManagement(headers)
  const customer = customerKey(headers, OF_OBJECT)
  if (customer === null) return managedEncryption(headers, method)
  if (method === undefined) return customer
  throw invalidHeader(
    `x-amz-${METHOD}`,
    method,
    'Server Side Encryption with Customer provided key is incompatible with the encryption method specified',
  )
}

/**
 * N2. Checks the key of a request that reads an object.
 *
 * @throws S3Error InvalidRequest, InvalidArgument, AccessDenied
 */
export function checkCustomerKey(headers: Headers, encryption: Encryption | null): void {
  const method = eitherHeader(headers, METHOD)
  if (method !== undefined) {
    throw invalidHeader(`x-amz-${METHOD}`, method, `x-amz-${METHOD} header is not supported for this operation.`)
  }
  checkKey(customerKey(headers, OF_OBJECT), encryption)
}

/** Checks the key for the source of a copy. @throws S3Error as `checkCustomerKey` */
export function checkCopySourceKey(headers: Headers, encryption: Encryption | null): void {
  checkKey(customerKey(headers, OF_SOURCE), encryption)
}

/**
 * Checks the key of a part: it must be the one that its upload was begun with. The upload knows the rest of the encryption.
 *
 * @throws S3Error as `encryptionOf`, and InvalidRequest, AccessDenied
 */
export function checkPartKey(headers: Headers, encryption: Encryption | null): void {
  const asked = encryptionOf(headers)
  const key = asked?.kind === 'customer' ? asked : null
  const expected = encryption?.kind === 'customer' ? encryption : null
  if (key === null && expected === null) return
  if (key === null) {
    throw refuse(
      'InvalidRequest',
      'The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.',
    )
  }
  if (expected === null) {
    throw refuse(
      'InvalidRequest',
      'The multipart upload initiate did not request encryption. Please resend the request without sending encryption parameters.',
    )
  }
  if (!isSameKey(key, expected)) {
    throw refuse('AccessDenied', 'The provided encryption parameters did not match the ones used originally.')
  }
}

/** Headers of an answer that describe the encryption. */
export function encryptionHeaders(encryption: Encryption | null): HeaderLine[] {
  switch (encryption?.kind) {
    case 'AES256':
      return [[`x-obj-${METHOD}`, 'AES256']]
    case 'aws:kms': {
      const { keyId, bucketKey } = encryption
      return [
        [`x-obj-${METHOD}`, 'aws:kms'],
        ...(keyId === null ? [] : [[`x-obj-${KMS_KEY_ID}`, keyId] as const]),
        ...(bucketKey ? [[`x-obj-${BUCKET_KEY}`, 'true'] as const] : []),
      ]
    }
    case 'customer':
      return [
        [`x-obj-${CUSTOMER}-algorithm`, 'AES256'],
        [`x-obj-${CUSTOMER}-key-md5`, encryption.keyMd5],
      ]
    default:
      return []
  }
}

function managedEncryption(headers: Headers, method: string | undefined): Encryption | null {
  const keyId = eitherHeader(headers, KMS_KEY_ID)
  if (keyId !== undefined && method !== 'aws:kms') {
    throw invalidHeader(
      `x-amz-${KMS_KEY_ID}`,
      keyId,
      'Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms',
    )
  }
  switch (method) {
    case undefined:
      return null
    case 'AES256':
      return { kind: 'AES256' }
    case 'aws:kms':
      return { kind: 'aws:kms', keyId: keyId || null, bucketKey: eitherHeader(headers, BUCKET_KEY) === 'true' }
    case 'aws:kms:dsse':
      throw headerNotImplemented(`x-amz-${METHOD}`)
    default:
      throw invalidHeader(`x-amz-${METHOD}`, method, 'The encryption method specified is not supported')
  }
}

/** Headers for a key management are checked with any method, although they change nothing with another. @throws S3Error InvalidArgument */
function checkKeyManagement(headers: Headers): void {
  const bucketKey = eitherHeader(headers, BUCKET_KEY)
  if (bucketKey !== undefined && bucketKey !== 'true' && bucketKey !== 'false') {
    throw invalidHeader(`x-amz-${BUCKET_KEY}`, bucketKey, `The value of x-amz-${BUCKET_KEY} must be true or false`)
  }
  const context = eitherHeader(headers, CONTEXT)
  if (context !== undefined && !isContext(context)) {
    throw invalidHeader(
      `x-amz-${CONTEXT}`,
      context,
      `The header 'x-amz-${CONTEXT}' shall be Base64-encoded UTF-8 string holding JSON which represents a string-string map`,
    )
  }
}

function isContext(text: string): boolean {
  const bytes = decodeBase64(text)
  if (bytes === null) return false
  try {
    const context: unknown = JSON.parse(utf8.decode(bytes))
    return isObject(context) && Object.values(context).every((value) => typeof value === 'string')
  } catch {
    return false
  }
}

/** Reads three headers that come together or not at all. N1 */
function customerKey(headers: Headers, names: CustomerKeyNames): CustomerEncryption | null {
  const algorithm = eitherHeader(headers, names.algorithm)
  const key = eitherHeader(headers, names.key)
  const md5 = eitherHeader(headers, names.md5)
  if (algorithm === undefined && key === undefined && md5 === undefined) return null
  const invalid = (name: keyof CustomerKeyNames, message: string): S3Error =>
    invalidHeader(`x-amz-${names[name]}`, '', message)
  if (!algorithm) throw invalid('algorithm', `${CUSTOMER_ONLY} a valid encryption algorithm.`)
  if (algorithm !== 'AES256') throw refuse('InvalidEncryptionAlgorithmError')
  if (!key) throw invalid('key', `${CUSTOMER_ONLY} an appropriate secret key.`)
  if (!md5) throw invalid('md5', `${CUSTOMER_ONLY} the client calculated MD5 of the secret key.`)
  const keyBytes = parseBase64(key, CUSTOMER_KEY_BYTES)
  if (keyBytes === null) throw invalid('key', 'The secret key was invalid for the specified algorithm.')
  if (createHash('md5').update(keyBytes).digest('base64') !== md5) {
    throw invalid('md5', 'The calculated MD5 hash of the key did not match the hash that was provided.')
  }
  return { kind: 'customer', keyMd5: md5 }
}

/** N2 */
function checkKey(key: CustomerEncryption | null, encryption: Encryption | null): void {
  const expected = encryption?.kind === 'customer' ? encryption : null
  if (key === null && expected === null) return
  if (key === null) {
    throw refuse(
      'InvalidRequest',
      'The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.',
    )
  }
  if (expected === null) throw refuse('InvalidRequest', 'The encryption parameters are not applicable to this object.')
  if (!isSameKey(key, expected)) throw refuse('AccessDenied')
}

const isSameKey = (a: CustomerEncryption, b: CustomerEncryption): boolean =>
  timingSafeEqual(Buffer.from(a.keyMd5, 'base64'), Buffer.from(b.keyMd5, 'base64'))
