/** The object that a request is about, which must be there. */
import type { Bucket, StoredObject } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import type { GatewayContext, GatewayRequest } from '../handler.ts'
import { refusalOfAction } from './further-actions.ts'

/** @throws S3Error NoSuchKey */
export async function existingObject(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<StoredObject> {
  return (await context.store.object(bucket, key)) ?? refuseAbsent(request, bucket, key, context)
}

/** @throws S3Error NoSuchKey, or AccessDenied to a caller that may not learn that the key does not exist */
export async function refuseAbsent(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<never> {
  throw await absenceRefusal(request, bucket, key, context)
}

/** Demands that an object exists before it is changed; the store checks that again when it makes the change. @throws S3Error NoSuchKey */
export async function demandExisting(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<void> {
  if (context.store.peek(bucket, key) === null) throw await absenceRefusal(request, bucket, key, context)
}

/**
 * Only callers that may list the bucket learn that a key does not exist: its owner, and callers that its policy allows to list what begins with the key.
 * The parameters of the request itself are not those of a listing.
 */
async function absenceRefusal(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<S3Error> {
  const listing = { ...request, query: new Map([['prefix', key]]) }
  const refused = await refusalOfAction('s3:ListBucket', listing, bucket, null, context)
  return refused === null
    ? refuse('NoSuchKey', undefined, { fields: { Key: key } })
    : refuse('AccessDenied', undefined, { cause: refused })
}
