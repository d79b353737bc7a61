/** The object that a request is about, which must be there. */
import type { Bucket, StoredObject } from '../../operations.ts'
import { S3Error, refuse } from '../../refusals.ts'
import type { GatewayContext, GatewayRequest } from '../handler.ts'

/** @throws S3Error NoSuchKey */
export async function existingObject(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<StoredObject> {
  const object = await context.store.object(bucket, key)
  if (object !== null) return object
  throw await absence(request, bucket, key, context)
}

/** Of a change to an object: that there is one now, which the store judges again when it makes the change. @throws S3Error NoSuchKey */
export async function demandExisting(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<void> {
  if (context.store.peek(bucket, key) === null) throw await absence(request, bucket, key, context)
}

/** That a key is absent is for whom to know who may list them: the owner of the bucket, and who its policy allows it. */
async function absence(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<S3Error> {
  const noSuchKey = refuse('NoSuchKey', undefined, { fields: { Key: key } })
  if (request.caller.principal?.id === bucket.owner) return noSuchKey
  try {
    await context.authorize(request, 's3:ListBucket', bucket.name, null)
    return noSuchKey
  } catch (error) {
    const isRefused = error instanceof S3Error && (error.code === 'AccessDenied' || error.code === 'NoSuchBucket')
    if (isRefused) return refuse('AccessDenied', undefined, { cause: error })
    throw error
  }
}
