import type { ObjectHandler } from '../handler.ts'
import { demandExisting } from './existing-object.ts'
import { retaggedObjectHeaders } from './object-tagging.ts'

export const deleteObjectTagging: ObjectHandler = async (request, bucket, key, context) => {
  await demandExisting(request, bucket, key, context)
  const object = await context.store.setTags(bucket, key, [])
  return { status: 204, headers: retaggedObjectHeaders(bucket, object) }
}
