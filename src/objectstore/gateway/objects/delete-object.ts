import type { ObjectHandler } from '../handler.ts'
import { DELETE_MARKER, SYNCED, bucketIdHeader, commitSequenceHeader, versionId } from '../ids.ts'
import { deletePrecondition } from './conditions.ts'

/** A delete marker hides the key, whether there was an object or not. */
export const deleteObject: ObjectHandler = async ({ headers }, bucket, key, { store }) => {
  const { commitSequence } = await store.deleteObject(bucket, key, deletePrecondition(headers))
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
