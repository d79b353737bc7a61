/**
 * Tenant policies as operators write them: LOGSTORE_TENANT_POLICY_FILE, or the development policy.
 * Source: contract "Log store", specification "Limits" for the defaults.
 */
import { Type } from '../../schema.ts'
import type { Static } from 'typebox'
import { RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import { EntryMistake, jsonFile, readEntries } from '../../config/setting-file.ts'
import { StoreError } from '../../errors.ts'
import {
  NAME_BYTES_MAX,
  TENANT_BATCH_RECORDS_MAX,
  TENANT_BYTES_DEFAULT,
  TENANT_RECORDS_DEFAULT,
  TENANT_REQUESTS_DEFAULT,
  TENANT_WINDOW_SECONDS_DEFAULT,
} from '../limits.ts'
import { digestOf } from './tenant-policy.ts'
import type { Tenant, TenantLimits, TenantOptions, TenantPolicy } from './tenant-policy.ts'

const Limit = (fallback: number) =>
  Type.Optional(
    Type.Union([Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, default: fallback }), Type.Null()]),
  )

const PolicyFile = Type.Object(
  {
    tenants: Type.Array(
      Type.Object(
        {
          id: Type.String({ minLength: 1, maxLength: 256, pattern: '^[\\x21-\\x7e]+$' }),
          credentials: Type.Array(
            Type.Object(
              {
                token_sha256: Type.String({ pattern: '^[0-9a-fA-F]{64}$' }),
                datasets: Type.Array(Type.String({ minLength: 1, maxLength: NAME_BYTES_MAX }), { minItems: 1 }),
              },
              { additionalProperties: false },
            ),
            { minItems: 1 },
          ),
          limits: Type.Optional(
            Type.Object(
              {
                window_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
                records: Limit(TENANT_RECORDS_DEFAULT),
                bytes: Limit(TENANT_BYTES_DEFAULT),
                concurrent_requests: Limit(TENANT_REQUESTS_DEFAULT),
              },
              { additionalProperties: false },
            ),
          ),
          tenant_claim: Type.Optional(Type.Union([Type.Literal('required'), Type.Literal('optional')])),
          max_records_per_batch: Type.Optional(Type.Integer({ minimum: 1, maximum: TENANT_BATCH_RECORDS_MAX })),
          partial_success: Type.Optional(Type.Boolean()),
          smooth_quota: Type.Optional(Type.Boolean()),
          deduplication: Type.Optional(Type.Union([Type.Literal('batches'), Type.Literal('records')])),
          retention: Type.Optional(
            Type.Record(
              Type.String({ minLength: 1, maxLength: NAME_BYTES_MAX }),
              Type.Object(
                { max_age_seconds: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) },
                { additionalProperties: false },
              ),
            ),
          ),
        },
        { additionalProperties: false },
      ),
      { minItems: 1 },
    ),
  },
  { additionalProperties: false },
)

const badPolicy = (mistake: string): StoreError =>
  new StoreError('invalid', 'invalid_tenant_policy', `LOGSTORE_TENANT_POLICY_FILE ${mistake}`)
const contentOf = jsonFile(PolicyFile, badPolicy)

export const DEVELOPMENT_TENANT = 'local'
export const DEVELOPMENT_TOKEN = 'local-dev-token'

/** The policy of a node without a policy file: one tenant, one well-known token. Refused on addresses that are not loopback. */
export const developmentPolicy = (): TenantPolicy =>
  policyOf(1, [
    {
      id: DEVELOPMENT_TENANT,
      credentials: [{ tokenDigest: digestOf(DEVELOPMENT_TOKEN), datasets: null }],
      limits: limitsOf({}),
      options: optionsOf({}),
      retention: new Map(),
    },
  ])

const policyOf = (generation: number, tenants: readonly Tenant[]): TenantPolicy => ({
  generation,
  tenants,
  numbers: new Map(tenants.map(({ id }, number) => [id, number])),
})

/**
 * @param text        the policy file's JSON
 * @param generation  1 at start, then one more for every reload
 * @throws StoreError `invalid_tenant_policy`, naming the bad fields; no token digest is ever in the message
 */
export function parseTenantPolicy(text: string, generation: number): TenantPolicy {
  const value = contentOf(text)
  const ids = new Set<string>()
  const tenants = readEntries(value.tenants, badPolicy, (tenant, index): Tenant => {
    const { id, credentials, limits, retention = {}, ...options } = tenant
    if (ids.has(id)) throw new EntryMistake(`tenants.${index}.id is there twice`)
    ids.add(id)
    const again = tokenTwice(credentials.map(({ token_sha256 }) => token_sha256.toLowerCase()))
    if (again !== -1) throw new EntryMistake(`tenants.${index}.credentials.${again}.token_sha256 is there twice`)
    return {
      id,
      credentials: credentials.map(({ token_sha256, datasets }) => ({
        tokenDigest: Buffer.from(token_sha256, 'hex'),
        datasets: datasets.includes('*') ? null : datasets,
      })),
      limits: limitsOf(limits ?? {}),
      options: optionsOf(options),
      retention: new Map(Object.entries(retention).map(([dataset, { max_age_seconds }]) => [dataset, max_age_seconds])),
    }
  })
  return policyOf(generation, tenants)
}

/** The index of the first digest that came before; -1: there is none. One credential would hide the other, and what it may use. */
function tokenTwice(digests: readonly string[]): number {
  const seen = new Set<string>()
  return digests.findIndex((digest) => seen.size === seen.add(digest).size)
}

type OptionsFields = Pick<
  Static<typeof PolicyFile>['tenants'][number],
  'tenant_claim' | 'max_records_per_batch' | 'partial_success' | 'smooth_quota' | 'deduplication'
>

const optionsOf = (options: OptionsFields): TenantOptions => ({
  claimOptional: options.tenant_claim === 'optional',
  recordsPerBatchMax: options.max_records_per_batch ?? RECORDS_PER_BATCH_MAX,
  partialSuccess: options.partial_success ?? false,
  smoothQuota: options.smooth_quota ?? false,
  deduplication: options.deduplication ?? 'batches',
})

type LimitsField = NonNullable<Static<typeof PolicyFile>['tenants'][number]['limits']>

/** Absent is the default, null is no limit. */
function limitsOf(limits: LimitsField): TenantLimits {
  const bound = (value: number | null | undefined, fallback: number): number =>
    value === undefined ? fallback : (value ?? Infinity)
  return {
    windowSeconds: limits.window_seconds ?? TENANT_WINDOW_SECONDS_DEFAULT,
    records: bound(limits.records, TENANT_RECORDS_DEFAULT),
    bytes: bound(limits.bytes, TENANT_BYTES_DEFAULT),
    concurrentRequests: bound(limits.concurrent_requests, TENANT_REQUESTS_DEFAULT),
  }
}
