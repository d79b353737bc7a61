/**
 * Demands what a request has to be allowed besides its own action, as in S3. It was allowed that action, so its caller may know that the bucket
 * exists: refusals here are AccessDenied.
 */
import type { PolicyAction } from '../policy/actions.ts'
import type { Tag } from '../../operations.ts'
import type { Bucket } from '../../operations.ts'
import { S3Error, refuse } from '../../refusals.ts'
import type { GatewayContext, GatewayRequest } from '../handler.ts'
import { revealsStoredObject } from './conditions.ts'
import type { ObjectName } from './object-key.ts'

/** Demands the permission for the tags that a write brings; null: it brings none. @throws S3Error AccessDenied */
export function demandTagging(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  tags: readonly Tag[],
  context: GatewayContext,
): Promise<void> | null {
  return tags.length > 0 ? demandAlso('s3:PutObjectTagging', request, bucket.name, key, context) : null
}

/** Demands the permission to read the tags of the source of a copy that takes them over. @throws S3Error AccessDenied */
export async function demandSourceTagging(
  request: GatewayRequest,
  { bucketName, key }: ObjectName,
  tags: readonly Tag[],
  context: GatewayContext,
): Promise<void> {
  if (tags.length > 0) await demandAlso('s3:GetObjectTagging', request, bucketName, key, context)
}

/** Demands the permission for the conditions that the headers of a write name; null: they name none. @throws S3Error AccessDenied */
export function demandConditions(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<void> | null {
  return revealsStoredObject(request.headers) ? demandReading(request, bucket, key, context) : null
}

/** Demands the permission to learn of the object on which a write or delete has a condition. The bucket's owner always has it. @throws S3Error AccessDenied */
export async function demandReading(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<void> {
  if (request.caller.principal?.id !== bucket.owner)
    await demandAlso('s3:GetObject', request, bucket.name, key, context)
}

/** The refusal that keeps the caller from an action; null: the action is allowed, as it always is to the owner of the bucket. */
export async function refusalOfAction(
  action: PolicyAction,
  request: GatewayRequest,
  bucket: Bucket,
  key: string | null,
  context: GatewayContext,
): Promise<S3Error | null> {
  if (request.caller.principal?.id === bucket.owner) return null
  try {
    await context.authorize(request, action, bucket.name, key)
    return null
  } catch (error) {
    if (error instanceof S3Error && (error.code === 'AccessDenied' || error.code === 'NoSuchBucket')) return error
    throw error
  }
}

async function demandAlso(
  action: PolicyAction,
  request: GatewayRequest,
  bucketName: string,
  key: string,
  context: GatewayContext,
): Promise<void> {
  try {
    await context.authorize(request, action, bucketName, key)
  } catch (error) {
    if (!(error instanceof S3Error) || error.code !== 'NoSuchBucket') throw error
    throw refuse('AccessDenied', `Access Denied: this needs ${action}`, { cause: error })
  }
}
