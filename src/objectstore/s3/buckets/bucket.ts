/** HeadBucket, GetBucketLocation and DeleteBucket. */
import type { BucketHandler } from '../handler.ts'
import { bucketIdHeader, SYNCED } from '../ids.ts'
import { renderLocation } from './bucket-answers.ts'

export const headBucket: BucketHandler = async (_request, bucket, { region }) => ({
  status: 200,
  headers: [bucketIdHeader(bucket.number), ['x-obj-bucket-region', region]],
})

export const getBucketLocation: BucketHandler = async (_request, bucket, { region }) => ({
  status: 200,
  headers: [bucketIdHeader(bucket.number)],
  body: { contentType: 'application/xml', bytes: renderLocation(region) },
})

export const deleteBucket: BucketHandler = async (_request, bucket, { store }) => {
  await store.deleteBucket(bucket)
  return { status: 204, headers: [bucketIdHeader(bucket.number), SYNCED] }
}
