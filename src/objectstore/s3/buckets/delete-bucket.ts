import type { BucketHandler } from '../handler.ts'
import { SYNCED, bucketIdHeader } from '../ids.ts'

export const deleteBucket: BucketHandler = async (_request, bucket, { store }) => {
  await store.deleteBucket(bucket)
  return { status: 204, headers: [bucketIdHeader(bucket.number), SYNCED] }
}
