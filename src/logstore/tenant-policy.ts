/**
 * Who may send what: tenants, their credentials, datasets and limits.
 *
 * A policy is immutable; a reload makes a new one with the next generation. Tokens are held as SHA-256 digests only.
 * Source: contract "Log store" (LOGSTORE_TENANT_POLICY_FILE), specification "Limits" for the defaults.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { StoreError } from '../errors.ts'

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
                datasets: Type.Array(Type.String({ minLength: 1, maxLength: 1024 }), { minItems: 1 }),
              },
              { additionalProperties: false },
            ),
            { minItems: 1 },
          ),
          limits: Type.Optional(
            Type.Object(
              {
                window_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
                records: Limit(10_000),
                bytes: Limit(16_777_216),
                concurrent_requests: Limit(16),
              },
              { additionalProperties: false },
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
const policyFile = Compile(PolicyFile)

export const WINDOW_SECONDS_DEFAULT = 60
export const WINDOW_RECORDS_DEFAULT = 10_000
export const WINDOW_BYTES_DEFAULT = 16 * 1024 * 1024
export const TENANT_REQUESTS_DEFAULT = 16

export interface TenantLimits {
  readonly windowSeconds: number
  /** Infinity: no limit. */
  readonly records: number
  readonly bytes: number
  readonly concurrentRequests: number
}

export interface Credential {
  readonly tokenDigest: Buffer
  /** Null: every dataset. */
  readonly datasets: readonly string[] | null
}

export interface Tenant {
  readonly id: string
  readonly credentials: readonly Credential[]
  readonly limits: TenantLimits
}

export interface TenantPolicy {
  readonly generation: number
  readonly tenants: readonly Tenant[]
  /** Index in `tenants` by id. */
  readonly numbers: ReadonlyMap<string, number>
}

export const DEVELOPMENT_TENANT = 'local'
export const DEVELOPMENT_TOKEN = 'local-dev-token'

/** The policy of a node without a policy file: one tenant, one well-known token. Refused on addresses that are not loopback. */
export const developmentPolicy = (): TenantPolicy =>
  policyOf(1, [
    {
      id: DEVELOPMENT_TENANT,
      credentials: [{ tokenDigest: digestOf(DEVELOPMENT_TOKEN), datasets: null }],
      limits: limitsOf({}),
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
 * @throws StoreError `invalid_tenant_policy`, naming the first bad field; no token digest is ever in the message
 */
export function parseTenantPolicy(text: string, generation: number): TenantPolicy {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw badPolicy('is not valid JSON')
  }
  if (!policyFile.Check(value)) {
    const [first] = policyFile.Errors(value)
    throw badPolicy(`${first?.instancePath || '/'} ${first?.message ?? 'is invalid'}`)
  }
  const ids = new Set<string>()
  const tenants = value.tenants.map(({ id, credentials, limits }): Tenant => {
    if (ids.has(id)) throw badPolicy(`names tenant ${id} twice`)
    ids.add(id)
    return {
      id,
      credentials: credentials.map(({ token_sha256, datasets }) => ({
        tokenDigest: Buffer.from(token_sha256, 'hex'),
        datasets: datasets.includes('*') ? null : datasets,
      })),
      limits: limitsOf(limits ?? {}),
    }
  })
  return policyOf(generation, tenants)
}

type LimitsField = NonNullable<Static<typeof PolicyFile>['tenants'][number]['limits']>

/** Absent is the default, null is no limit. */
function limitsOf(limits: LimitsField): TenantLimits {
  const bound = (value: number | null | undefined, fallback: number): number =>
    value === undefined ? fallback : (value ?? Infinity)
  return {
    windowSeconds: limits.window_seconds ?? WINDOW_SECONDS_DEFAULT,
    records: bound(limits.records, WINDOW_RECORDS_DEFAULT),
    bytes: bound(limits.bytes, WINDOW_BYTES_DEFAULT),
    concurrentRequests: bound(limits.concurrent_requests, TENANT_REQUESTS_DEFAULT),
  }
}

const badPolicy = (problem: string): StoreError =>
  new StoreError('invalid', 'invalid_tenant_policy', `the tenant policy file ${problem}`)

const digestOf = (token: string): Buffer => hash('sha256', token, 'buffer')

/** Index of the tenant's credential that matches the token, or -1. Takes the same time whichever credential matches, if any. */
export function credentialOf(tenant: Tenant, token: string): number {
  const digest = digestOf(token)
  let found = -1
  tenant.credentials.forEach((credential, index) => {
    if (timingSafeEqual(credential.tokenDigest, digest)) found = index
  })
  return found
}

export const mayUseDataset = (credential: Credential, dataset: string): boolean =>
  credential.datasets === null || credential.datasets.includes(dataset)
