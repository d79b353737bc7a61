/**
 * Policies and CORS rules of buckets, parsed. Each is parsed once, unless those of many buckets are needed in turn: the parsed form takes twenty times
 * the memory of its document, and ninety times in the worst case, a list of addresses.
 */
import { CorsRules } from './buckets/cors-answers.ts'
import type { CorsRequest } from './buckets/cors-answers.ts'
import { readCorsConfiguration } from './buckets/cors-document.ts'
import { BucketPolicy } from './policy/bucket-policy.ts'
import type { Bucket } from '../operations.ts'
import { ReadyDocuments } from './ready-documents.ts'

/** Bytes of documents whose parsed form is kept, for each of the two kinds. */
const READY_BYTES_MAX = 2 << 20

const policies = new ReadyDocuments<BucketPolicy>(READY_BYTES_MAX)
const rules = new ReadyDocuments<CorsRules>(READY_BYTES_MAX)

export const policyOf = ({ policy, name }: Bucket): BucketPolicy | null =>
  policy && policies.of(policy, () => BucketPolicy.parse(policy, name))

export const corsRulesOf = ({ cors }: Bucket): CorsRules | null =>
  cors && rules.of(cors, () => new CorsRules(readCorsConfiguration(cors)))

/** What the rules need of a request. */
export const corsRequestOf = (method: string, headers: ReadonlyMap<string, string>): CorsRequest => ({
  origin: headers.get('origin') ?? null,
  method,
  requestedMethod: headers.get('access-control-request-method') ?? null,
  requestedHeaders: headers.get('access-control-request-headers') ?? null,
})
