import type { BucketHandler } from '../handler.ts'
import { bucketIdHeader } from '../ids.ts'

export const headBucket: BucketHandler = async (_request, bucket, { region }) => ({
  status: 200,
  headers: [bucketIdHeader(bucket.number), ['x-obj-bucket-region', region]],
})
