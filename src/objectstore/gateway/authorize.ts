/**
 * Who may do what.
 *
 * Z1  a principal needs the permission for what it does, in every bucket; nobody in particular has none and needs none: for it, and for
 *     principals in buckets of others, the bucket's policy has to allow the action
 * Z2  a bucket of another principal is not there (NoSuchBucket) unless its policy allows the action, so that asking tells nothing about it.
 *     Who comes without credentials is told AccessDenied, whether or not there is such a bucket
 * Z3  the owner may do everything that the policy does not deny, and always see, replace and remove the policy
 */
import type { Permission, Principal } from '../auth/principal.ts'
import { eitherHeader } from '../auth/request-identity.ts'
import type { PolicyAction } from '../documents/policy/actions.ts'
import type { BucketPolicy, PolicyVerdict } from '../documents/policy/bucket-policy.ts'
import type { Bucket, ObjectStore } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { S3Error } from '../refusals.ts'
import { policyOf } from './bucket-documents.ts'
import { asksForExistingTags, policyValues } from './policy-values.ts'
import type { AskedRequest } from './policy-values.ts'

/** Of what `authorize` is asked for beside the operation itself. */
const PERMISSIONS: Readonly<Record<PolicyAction, Permission>> = {
  's3:DeleteBucket': 'admin',
  's3:DeleteBucketPolicy': 'admin',
  's3:GetBucketCORS': 'admin',
  's3:GetBucketLocation': 'read',
  's3:GetBucketPolicy': 'admin',
  's3:ListBucket': 'list',
  's3:ListBucketMultipartUploads': 'list',
  's3:PutBucketCORS': 'admin',
  's3:PutBucketPolicy': 'admin',
  's3:AbortMultipartUpload': 'delete',
  's3:DeleteObject': 'delete',
  's3:DeleteObjectTagging': 'write',
  's3:GetObject': 'read',
  's3:GetObjectTagging': 'read',
  's3:ListMultipartUploadParts': 'read',
  's3:PutObject': 'write',
  's3:PutObjectTagging': 'write',
}

const ON_THE_POLICY: ReadonlySet<PolicyAction> = new Set([
  's3:DeleteBucketPolicy',
  's3:GetBucketPolicy',
  's3:PutBucketPolicy',
])

export class Authorization {
  readonly #store: ObjectStore
  readonly #nowMs: () => number

  constructor(store: ObjectStore, nowMs: () => number) {
    this.#store = store
    this.#nowMs = nowMs
  }

  /**
   * @param permission that the action needs here, when it is another than usual
   * @throws S3Error NoSuchBucket, AccessDenied
   */
  async demand(
    request: AskedRequest,
    action: PolicyAction,
    bucketName: string,
    key: string | null,
    permission = PERMISSIONS[action],
  ): Promise<Bucket> {
    const { principal } = request.caller
    demandPermission(principal, permission)
    const bucket = this.#store.bucket(bucketName)
    const policy = bucket && policyOf(bucket)
    const isOwner = bucket !== null && bucket.owner === principal?.id
    if (isOwner && (policy === null || ON_THE_POLICY.has(action))) return bucket // Z3
    const verdict = bucket && policy ? await this.#ask(policy, request, action, bucket, key) : 'none'
    if (bucket !== null && (verdict === 'allow' || (isOwner && verdict === 'none'))) return bucket
    throw isOwner || principal === null ? refuse('AccessDenied') : noSuchBucket(bucketName) // Z2
  }

  /**
   * Of a request whose keys are in its body: whether the bucket is there for the caller, as far as can be said. Its handler demands what
   * it does.
   *
   * @param mayBecome the body may say who the caller is
   * @throws S3Error NoSuchBucket, AccessDenied
   */
  visible(request: AskedRequest, bucketName: string, permission: Permission | null, mayBecome: boolean): Bucket {
    const { principal } = request.caller
    if (principal !== null || !mayBecome) demandPermission(principal, permission)
    const bucket = this.#store.bucket(bucketName)
    if (bucket !== null && (mayBecome || bucket.owner === principal?.id || bucket.policy !== null)) return bucket
    throw principal === null && !mayBecome ? refuse('AccessDenied') : noSuchBucket(bucketName)
  }

  async #ask(
    policy: BucketPolicy,
    request: AskedRequest,
    action: PolicyAction,
    bucket: Bucket,
    key: string | null,
  ): Promise<PolicyVerdict> {
    const isAsked = key !== null && asksForExistingTags(policy.conditionKeys)
    const existing = isAsked ? await this.#store.object(bucket, key) : null
    const principal = request.caller.principal?.id ?? null
    const valuesOf = policyValues(request, existing?.tags ?? [], this.#nowMs())
    return policy.evaluate({ principal, action, bucket: bucket.name, key, valuesOf })
  }
}

/** Z1. @throws S3Error AccessDenied */
export function demandPermission(principal: Principal | null, permission: Permission | null): void {
  if (principal === null || permission === null || principal.permissions.has(permission)) return
  throw refuse('AccessDenied', `Access Denied: this needs the permission ${permission}`)
}

/**
 * A caller that names the owner it expects does not want to meet another one.
 *
 * @param header that names it: for the source of a copy there is one of its own
 * @throws S3Error AccessDenied
 */
export function demandExpectedOwner(
  { headers }: AskedRequest,
  bucket: Bucket,
  header: 'expected-bucket-owner' | 'source-expected-bucket-owner' = 'expected-bucket-owner',
): void {
  const expected = eitherHeader(headers, header)
  if (expected !== undefined && expected !== bucket.owner) throw refuse('AccessDenied')
}

const noSuchBucket = (name: string): S3Error =>
  refuse('NoSuchBucket', undefined, { fields: { BucketName: name.slice(0, 255) } })
