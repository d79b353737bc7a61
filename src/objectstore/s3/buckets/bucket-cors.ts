/** The CORS configuration of a bucket, and the answers to preflights. */
import { preflightHeaders } from './cors-answers.ts'
import { checkStorableRules, readCorsConfiguration, renderCorsConfiguration } from './cors-document.ts'
import { CORS_BODY_BYTES_MAX } from '../document-limits.ts'
import { refuse } from '../../refusals.ts'
import { corsRequestOf, corsRulesOf } from '../bucket-documents.ts'
import { collectBody } from '../body/collect-body.ts'
import type { BucketHandler, BucketNameHandler } from '../handler.ts'
import { SYNCED, bucketIdHeader } from '../ids.ts'

export const putBucketCors: BucketHandler = async (request, bucket, { store }) => {
  const document = await collectBody(request, CORS_BODY_BYTES_MAX)
  checkStorableRules(readCorsConfiguration(document))
  await store.setBucketDocument(bucket, 'cors', document)
  return { status: 200, headers: [bucketIdHeader(bucket.number), SYNCED] }
}

export const getBucketCors: BucketHandler = async (_request, bucket) => {
  if (bucket.cors === null) {
    throw refuse('NoSuchCORSConfiguration', undefined, { fields: { BucketName: bucket.name } })
  }
  const bytes = renderCorsConfiguration(readCorsConfiguration(bucket.cors))
  return {
    status: 200,
    headers: [bucketIdHeader(bucket.number)],
    body: { contentType: 'application/xml', bytes },
  }
}

export const deleteBucketCors: BucketHandler = async (_request, bucket, { store }) => {
  if (bucket.cors !== null) await store.setBucketDocument(bucket, 'cors', null)
  return { status: 204, headers: [bucketIdHeader(bucket.number), SYNCED] }
}

/** A bucket that is not there answers like one without rules. */
export const corsPreflight: BucketNameHandler = async ({ method, headers }, bucketName, { store }) => {
  const bucket = store.bucket(bucketName)
  const answered = preflightHeaders(bucket && corsRulesOf(bucket), corsRequestOf(method, headers))
  return { status: 200, headers: answered }
}
