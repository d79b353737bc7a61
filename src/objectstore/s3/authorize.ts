/**
 * Decides whether a caller may do what it asks for.
 *
 * Z1  a principal needs the permission for what it does, in every bucket. An anonymous caller has no permissions. It, and a principal that
 *     does not own the bucket, needs the bucket's policy to allow the action
 * Z2  a bucket of another principal does not exist (NoSuchBucket) unless its policy allows the action, so that asking tells nothing about it.
 *     A caller without credentials gets AccessDenied, whether or not there is such a bucket. Where the body says what is asked for, a caller that
 *     cannot be allowed it, whatever the body says, is refused before the body is read
 * Z3  the owner may do everything that the policy does not deny, and always see, replace and remove the policy
 * Z4  policies are evaluated in slices (pace.ts), and only for keys no longer than a key can be
 */
import type { Permission, Principal } from './auth/principal.ts'
import { eitherHeader } from './auth/request-identity.ts'
import type { PolicyAction } from './policy/actions.ts'
import type { BucketPolicy, PolicyVerdict } from './policy/bucket-policy.ts'
import type { Bucket, ObjectStore } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { S3Error } from '../refusals.ts'
import { policyOf } from './bucket-documents.ts'
import { KEY_BYTES_MAX } from './limits.ts'
import { isObjectKey } from './objects/object-key.ts'
import type { OperationName } from './operations-table.ts'
import type { Pace } from './pace.ts'
import { asksForExistingTags, policyValues } from './policy/policy-values.ts'
import type { AskedRequest } from './policy/policy-values.ts'

/** The permission that an action usually needs. */
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

/** Operations on an upload that was allowed when it began. */
const OF_UPLOADS: ReadonlySet<OperationName> = new Set(['UploadPart', 'UploadPartCopy', 'CompleteMultipartUpload'])

export class Authorization {
  readonly #store: ObjectStore
  readonly #nowMs: () => number
  readonly #pace: Pace

  constructor(store: ObjectStore, nowMs: () => number, pace: Pace) {
    this.#store = store
    this.#nowMs = nowMs
    this.#pace = pace
  }

  /**
   * Without a promise, unless a policy has to be evaluated.
   *
   * @param permission that the action needs here, when it is another than usual
   * @throws S3Error NoSuchBucket, AccessDenied
   */
  demand(
    request: AskedRequest,
    action: PolicyAction,
    bucketName: string,
    key: string | null,
    permission = PERMISSIONS[action],
  ): Bucket | Promise<Bucket> {
    const bucket = this.#permitted(request, bucketName, permission)
    const policy = policyOf(bucket)
    const isOwner = bucket.owner === request.caller.principal?.id
    if (isOwner && (policy === null || ON_THE_POLICY.has(action))) return bucket // Z3
    if (policy === null) throw hidden(request, bucketName)
    return this.#judged(policy, request, action, bucket, key)
  }

  /**
   * Refuses a caller that cannot be allowed this at all, before a body is read that says more: whether it is allowed, `demand` decides. Without a
   * promise, unless a policy has to be evaluated.
   *
   * @param key null for an action on objects whose keys are in the body
   * @throws S3Error NoSuchBucket, AccessDenied
   */
  demandPossible(
    request: AskedRequest,
    action: PolicyAction,
    bucketName: string,
    key: string | null,
  ): Bucket | Promise<Bucket> {
    const bucket = this.#permitted(request, bucketName, PERMISSIONS[action])
    const principal = request.caller.principal?.id ?? null
    if (bucket.owner === principal) return bucket
    const policy = policyOf(bucket)
    if (policy === null) throw hidden(request, bucketName)
    return this.#possible(policy, request, action, bucket, key)
  }

  async #possible(
    policy: BucketPolicy,
    request: AskedRequest,
    action: PolicyAction,
    bucket: Bucket,
    key: string | null,
  ): Promise<Bucket> {
    const principal = request.caller.principal?.id ?? null
    const valuesOf = policyValues(request, [], this.#nowMs())
    const asked = { principal, action, bucket: bucket.name, key: possibleKey(key), valuesOf, isOfUpload: false }
    if (await this.#pace.run(policy.mayAllow(asked))) return bucket
    throw hidden(request, bucket.name)
  }

  async #judged(
    policy: BucketPolicy,
    request: AskedRequest,
    action: PolicyAction,
    bucket: Bucket,
    key: string | null,
  ): Promise<Bucket> {
    const isOwner = bucket.owner === request.caller.principal?.id
    if (!isOwner) await this.#possible(policy, request, action, bucket, key)
    const verdict = await this.#ask(policy, request, action, bucket, key)
    if (verdict === 'allow' || (isOwner && verdict === 'none')) return bucket
    throw isOwner ? refuse('AccessDenied') : hidden(request, bucket.name)
  }

  #permitted(request: AskedRequest, bucketName: string, permission: Permission): Bucket {
    demandPermission(request.caller.principal, permission)
    const bucket = this.#store.bucket(bucketName)
    if (bucket === null) throw hidden(request, bucketName)
    return bucket
  }

  async #ask(
    policy: BucketPolicy,
    request: AskedRequest,
    action: PolicyAction,
    bucket: Bucket,
    key: string | null,
  ): Promise<PolicyVerdict> {
    const isAsked = key !== null && asksForExistingTags(policy.conditionKeys) && isObjectKey(key) // a key in a body may be longer
    const existing = isAsked ? await this.#store.object(bucket, key) : null
    const principal = request.caller.principal?.id ?? null
    const valuesOf = policyValues(request, existing?.tags ?? [], this.#nowMs())
    const isOfUpload = action === 's3:PutObject' && OF_UPLOADS.has(request.operation)
    const asked = { principal, action, bucket: bucket.name, key: possibleKey(key), valuesOf, isOfUpload }
    return this.#pace.run(policy.evaluate(asked))
  }
}

/** Z4: a longer one is refused anyway, and the policy only decides with which code. */
const possibleKey = (key: string | null): string | null => key?.slice(0, KEY_BYTES_MAX) ?? null

/** Z1. @throws S3Error AccessDenied */
export function demandPermission(principal: Principal | null, permission: Permission | null): void {
  if (principal === null || permission === null || principal.permissions.has(permission)) return
  throw refuse('AccessDenied', `Access Denied: this needs the permission ${permission}`)
}

/**
 * Refuses a caller that names the owner it expects, where the bucket has another one.
 *
 * @param header that names the owner: for the source of a copy there is one of its own
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

/** Z2 */
const hidden = ({ caller }: AskedRequest, bucketName: string): S3Error =>
  caller.principal === null
    ? refuse('AccessDenied')
    : refuse('NoSuchBucket', undefined, { fields: { BucketName: bucketName.slice(0, 255) } })
