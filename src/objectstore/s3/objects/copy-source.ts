/** The object that a copy is made of: `x-amz-copy-source: [/]bucket/key`, percent-encoded. */
import { eitherHeader } from '../auth/request-identity.ts'
import { urlEncode } from '../xml/xml-text.ts'
import type { StoredObject } from '../../operations.ts'
import type { S3Error } from '../../refusals.ts'
import { demandExpectedOwner } from '../authorize.ts'
import type { GatewayContext, GatewayRequest, HeaderLine } from '../handler.ts'
import { checkCopySource } from './conditions.ts'
import { checkCopySourceKey } from './encryption.ts'
import { existingObject } from './existing-object.ts'
import { headerNotImplemented, invalidHeader } from './header-refusals.ts'
import { checkKey } from './object-key.ts'
import type { ObjectName } from './object-key.ts'
import { ONLY_VERSION } from '../operations-table.ts'

const HEADER = 'x-amz-copy-source'

/** @throws S3Error InvalidArgument, KeyTooLongError, NotImplemented for a version */
export function copySourceName(headers: ReadonlyMap<string, string>): ObjectName {
  const header = eitherHeader(headers, 'copy-source') ?? ''
  const [, path = '', version] = /^(.*?)(?:\?versionId=(.*))?$/s.exec(header) ?? []
  if (version !== undefined && version !== ONLY_VERSION) throw headerNotImplemented(HEADER)
  const name = decoded(path, header).replace(/^\//, '')
  const slash = name.indexOf('/')
  const bucketName = slash < 0 ? name : name.slice(0, slash)
  const key = slash < 0 ? '' : name.slice(slash + 1)
  if (bucketName === '') throw invalid('Invalid copy source bucket name', header)
  if (key === '') throw invalid('Invalid copy source object key', header)
  checkKey(key)
  return { bucketName, key }
}

/** Names the source in an answer. */
export const copySourceHeader = ({ bucketName, key }: ObjectName): HeaderLine => [
  'x-obj-copy-source',
  `${bucketName}/${urlEncode(key)}`,
]

/**
 * The source as it is now, if the caller may read it and the caller's conditions on it hold.
 *
 * @throws S3Error as above; NoSuchBucket, AccessDenied, NoSuchKey, PreconditionFailed, and refusals of a customer's key
 */
export async function openCopySource(request: GatewayRequest, context: GatewayContext): Promise<StoredObject> {
  const { bucketName, key } = copySourceName(request.headers)
  const bucket = await context.authorize(request, 's3:GetObject', bucketName, key)
  demandExpectedOwner(request, bucket, 'source-expected-bucket-owner')
  const source = await existingObject(request, bucket, key, context)
  checkCopySource(request.headers, source, context.nowMs())
  checkCopySourceKey(request.headers, source.encryption)
  return source
}

function decoded(path: string, header: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    throw invalid('Invalid copy source encoding', header)
  }
}

const invalid = (message: string, header: string): S3Error => invalidHeader(HEADER, header, message)
