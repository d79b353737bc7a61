/** The three operations on the tags of an object. */
import { readTagging, renderTagging } from './tagging.ts'
import type { HeaderLine, ObjectHandler } from '../handler.ts'
import { demandExisting, existingObject } from './existing-object.ts'
import { TAGGING_BODY_BYTES_MAX } from '../document-limits.ts'
import { collectBody } from '../body/collect-body.ts'
import type { Bucket, ObjectSummary } from '../../operations.ts'
import { SYNCED, bucketIdHeader, objectIdHeaders } from '../ids.ts'

const taggedObjectHeaders = (bucket: Bucket, { commitSequence }: ObjectSummary): readonly HeaderLine[] => [
  bucketIdHeader(bucket.number),
  ...objectIdHeaders(commitSequence),
]

const retaggedObjectHeaders = (bucket: Bucket, object: ObjectSummary): readonly HeaderLine[] => [
  ...taggedObjectHeaders(bucket, object),
  SYNCED,
]

export const getObjectTagging: ObjectHandler = async (request, bucket, key, context) => {
  const object = await existingObject(request, bucket, key, context)
  return {
    status: 200,
    headers: taggedObjectHeaders(bucket, object),
    body: { contentType: 'application/xml', bytes: renderTagging(object.tags) },
  }
}

export const putObjectTagging: ObjectHandler = async (request, bucket, key, context) => {
  const tags = readTagging(await collectBody(request, TAGGING_BODY_BYTES_MAX))
  await demandExisting(request, bucket, key, context)
  const object = await context.store.setTags(bucket, key, tags)
  return { status: 200, headers: retaggedObjectHeaders(bucket, object) }
}

export const deleteObjectTagging: ObjectHandler = async (request, bucket, key, context) => {
  await demandExisting(request, bucket, key, context)
  const object = await context.store.setTags(bucket, key, [])
  return { status: 204, headers: retaggedObjectHeaders(bucket, object) }
}
