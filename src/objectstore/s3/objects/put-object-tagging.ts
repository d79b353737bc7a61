import { TAGGING_BODY_BYTES_MAX } from '../document-limits.ts'
import { readTagging } from './tagging.ts'
import { collectBody } from '../body/collect-body.ts'
import type { ObjectHandler } from '../handler.ts'
import { demandExisting } from './existing-object.ts'
import { retaggedObjectHeaders } from './object-tagging.ts'

export const putObjectTagging: ObjectHandler = async (request, bucket, key, context) => {
  const tags = readTagging(await collectBody(request, TAGGING_BODY_BYTES_MAX))
  await demandExisting(request, bucket, key, context)
  const object = await context.store.setTags(bucket, key, tags)
  return { status: 200, headers: retaggedObjectHeaders(bucket, object) }
}
