/** The policy of a bucket: kept, and given back, as it was sent. */
import { POLICY_BODY_BYTES_MAX } from '../document-limits.ts'
import { BucketPolicy } from '../policy/bucket-policy.ts'
import { refuse } from '../../refusals.ts'
import { collectBody } from '../body/collect-body.ts'
import type { BucketHandler } from '../handler.ts'
import { SYNCED, bucketIdHeader } from '../ids.ts'

export const putBucketPolicy: BucketHandler = async (request, bucket, { store, pace }) => {
  const document = await collectBody(request, POLICY_BODY_BYTES_MAX)
  await pace.run(BucketPolicy.parse(document, bucket.name).checkStorable())
  await store.setBucketDocument(bucket, 'policy', document)
  return { status: 204, headers: [bucketIdHeader(bucket.number), SYNCED] }
}

export const getBucketPolicy: BucketHandler = async (_request, bucket) => {
  if (bucket.policy === null) {
    throw refuse('NoSuchBucketPolicy', undefined, { fields: { BucketName: bucket.name } })
  }
  return {
    status: 200,
    headers: [bucketIdHeader(bucket.number)],
    body: { contentType: 'application/json', bytes: bucket.policy },
  }
}

export const deleteBucketPolicy: BucketHandler = async (_request, bucket, { store }) => {
  if (bucket.policy !== null) await store.setBucketDocument(bucket, 'policy', null)
  return { status: 204, headers: [bucketIdHeader(bucket.number), SYNCED] }
}
