import type { ObjectHandler } from '../handler.ts'
import { DELETE_MARKER, SYNCED, bucketIdHeader, commitSequenceHeader, versionId } from '../ids.ts'
import { deletePrecondition } from './conditions.ts'
import { demandReading } from './further-actions.ts'

/** A delete marker hides the key, whether there was an object or not. */
export const deleteObject: ObjectHandler = async (request, bucket, key, context) => {
  const { headers } = request
  const precondition = deletePrecondition(headers, key)
  if (headers.has('if-match')) await demandReading(request, bucket, key, context)
  const { commitSequence } = await context.store.deleteObject(bucket, key, precondition)
  return {
    status: 204,
    headers: [
      DELETE_MARKER,
      bucketIdHeader(bucket.number),
      ['x-obj-version-id', versionId(commitSequence)],
      commitSequenceHeader(commitSequence),
      SYNCED,
    ],
  }
}
