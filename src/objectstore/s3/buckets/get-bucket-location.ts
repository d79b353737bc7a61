import { renderLocation } from './bucket-answers.ts'
import type { BucketHandler } from '../handler.ts'
import { bucketIdHeader } from '../ids.ts'

export const getBucketLocation: BucketHandler = async (_request, bucket, { region }) => ({
  status: 200,
  headers: [bucketIdHeader(bucket.number)],
  body: { contentType: 'application/xml', bytes: renderLocation(region) },
})
