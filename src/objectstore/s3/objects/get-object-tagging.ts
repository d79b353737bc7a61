import { renderTagging } from './tagging.ts'
import type { ObjectHandler } from '../handler.ts'
import { existingObject } from './existing-object.ts'
import { taggedObjectHeaders } from './object-tagging.ts'

export const getObjectTagging: ObjectHandler = async (request, bucket, key, context) => {
  const object = await existingObject(request, bucket, key, context)
  return {
    status: 200,
    headers: taggedObjectHeaders(bucket, object),
    body: { contentType: 'application/xml', bytes: renderTagging(object.tags) },
  }
}
