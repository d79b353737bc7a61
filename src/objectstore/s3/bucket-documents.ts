/** Policy and CORS rules of a bucket, ready to be asked. Parsed once: a bucket whose document changes is a new `Bucket`. */
import { CorsRules } from './buckets/cors-answers.ts'
import type { CorsRequest } from './buckets/cors-answers.ts'
import { readCorsConfiguration } from './buckets/cors-document.ts'
import { BucketPolicy } from './policy/bucket-policy.ts'
import type { Bucket } from '../operations.ts'

const policies = new WeakMap<Bucket, BucketPolicy>()
const rules = new WeakMap<Bucket, CorsRules>()

export const policyOf = (bucket: Bucket): BucketPolicy | null =>
  bucket.policy && kept(policies, bucket, () => BucketPolicy.parse(bucket.policy!, bucket.name)) // which is not null here

export const corsRulesOf = (bucket: Bucket): CorsRules | null =>
  bucket.cors && kept(rules, bucket, () => new CorsRules(readCorsConfiguration(bucket.cors!))) // likewise

function kept<Value>(cache: WeakMap<Bucket, Value>, bucket: Bucket, parse: () => Value): Value {
  const known = cache.get(bucket)
  if (known !== undefined) return known
  const value = parse()
  cache.set(bucket, value)
  return value
}

/** What the rules are asked about a request. */
export const corsRequestOf = (method: string, headers: ReadonlyMap<string, string>): CorsRequest => ({
  origin: headers.get('origin') ?? null,
  method,
  requestedMethod: headers.get('access-control-request-method') ?? null,
  requestedHeaders: headers.get('access-control-request-headers') ?? null,
})
