import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { identifyCaller, isRefusal } from '../../../src/logstore/tenants/caller.ts'
import { credentialWith, digestOf, mayUseDataset } from '../../../src/logstore/tenants/tenant-policy.ts'
import { developmentPolicy, parseTenantPolicy } from '../../../src/logstore/tenants/tenant-policy-file.ts'

const digest = (token: string): string => createHash('sha256').update(token).digest('hex')
const policyText = (tenant: object): string => JSON.stringify({ tenants: [tenant] })
const credentials = [
  { token_sha256: digest('one'), datasets: ['checkout', 'billing'] },
  { token_sha256: digest('two').toUpperCase(), datasets: ['*'] },
]

describe('a tenant policy', () => {
  it('takes the specified limits where a field is absent, and no limit where it is null', () => {
    const { tenants } = parseTenantPolicy(
      policyText({ id: 'acme', credentials, limits: { records: null, bytes: 5 } }),
      3,
    )
    assert.deepEqual(tenants[0]!.limits, { windowSeconds: 60, records: Infinity, bytes: 5, concurrentRequests: 16 })
    assert.deepEqual(
      parseTenantPolicy(policyText({ id: 'acme', credentials }), 1).tenants[0]!.limits,
      developmentPolicy().tenants[0]!.limits,
    )
  })

  it('finds the credential of a token and what it may use', () => {
    const [tenant] = parseTenantPolicy(policyText({ id: 'acme', credentials }), 1).tenants
    assert.equal(credentialWith(tenant!, digestOf('one')), 0)
    assert.equal(credentialWith(tenant!, digestOf('two')), 1)
    assert.equal(credentialWith(tenant!, digestOf('three')), -1)
    assert(mayUseDataset(tenant!.credentials[0]!, 'billing') && !mayUseDataset(tenant!.credentials[0]!, 'other'))
    assert(mayUseDataset(tenant!.credentials[1]!, 'other'))
  })

  it('compares a token with every credential, whichever has it', () => {
    const [tenant] = parseTenantPolicy(policyText({ id: 'acme', credentials }), 1).tenants
    let compared = 0
    const watched = tenant!.credentials.map(({ datasets, tokenDigest }) => ({
      datasets,
      get tokenDigest() {
        compared++
        return tokenDigest
      },
    }))
    for (const token of ['one', 'two', 'three']) {
      compared = 0
      credentialWith({ ...tenant!, credentials: watched }, digestOf(token))
      assert.equal(compared, watched.length, token)
    }
  })

  for (const [what, text] of [
    ['no JSON', '{'],
    ['no tenants', '{"tenants":[]}'],
    ['an unknown field', policyText({ id: 'a', credentials, extra: 1 })],
    ['a bad digest', policyText({ id: 'a', credentials: [{ token_sha256: 'zz', datasets: ['*'] }] })],
    ['no datasets', policyText({ id: 'a', credentials: [{ token_sha256: digest('x'), datasets: [] }] })],
    ['a limit of nothing', policyText({ id: 'a', credentials, limits: { records: 0 } })],
    [
      'one tenant twice',
      JSON.stringify({
        tenants: [
          { id: 'a', credentials },
          { id: 'a', credentials },
        ],
      }),
    ],
  ] as const) {
    it(`is refused with ${what}, and the message holds no digest`, () => {
      assert.throws(
        () => parseTenantPolicy(text, 1),
        (error: Error & { code?: string }) =>
          error.code === 'invalid_tenant_policy' && !error.message.includes(digest('one')),
      )
    })
  }
})

describe('a mistake in a tenant policy', () => {
  for (const [what, tenant, says] of [
    [
      'a field that is not known',
      { id: 'a', credentials, limitz: {} },
      'tenants.0 has an unknown field; known are id, credentials, limits, tenant_claim, max_records_per_batch, partial_success, smooth_quota, deduplication, retention',
    ],
    [
      'a digest in the place of a name',
      { id: 'a', credentials: [{ [digest('one')]: ['*'], ...credentials[0] }] },
      'tenants.0.credentials.0 has an unknown field; known are token_sha256, datasets',
    ],
    ['a field that is missing', { id: 'a' }, 'tenants.0.credentials is missing'],
    [
      'a token that is there twice, with other datasets',
      {
        id: 'a',
        credentials: [...credentials, { token_sha256: digest('one').toUpperCase(), datasets: ['search'] }],
      },
      'tenants.0.credentials.2.token_sha256 is there twice',
    ],
    [
      'a word that is none of those known',
      { id: 'a', credentials, deduplication: 'none' },
      'tenants.0.deduplication must be "batches" or "records"',
    ],
    [
      'a retention of no time',
      { id: 'a', credentials, retention: { debug: { max_age_seconds: 0 } } },
      'a field of tenants.0.retention must be >= 1',
    ],
    [
      'a limit that is a word',
      { id: 'a', credentials, limits: { records: 'many' } },
      'tenants.0.limits.records must be integer or null',
    ],
  ] as const)
    it(`is told with its place: ${what}`, () => {
      const message = `LOGSTORE_TENANT_POLICY_FILE names a file with a mistake: ${says}`
      assert.throws(() => parseTenantPolicy(policyText(tenant), 1), { code: 'invalid_tenant_policy', message })
    })

  it('is told of the whole policy', () => {
    const message = 'LOGSTORE_TENANT_POLICY_FILE names a file with a mistake: the file must be object'
    assert.throws(() => parseTenantPolicy('[]', 1), { message })
  })
})

describe('a caller', () => {
  const policy = parseTenantPolicy(policyText({ id: 'acme', credentials }), 1)
  const kindOf = (tenant: string, authorization: string): string => {
    const caller = identifyCaller(policy, tenant, authorization)
    return isRefusal(caller) ? caller.kind : 'known'
  }

  for (const [tenant, authorization, kind] of [
    ['', 'Bearer one', 'missing_tenant'],
    ['  ', 'Bearer one', 'missing_tenant'],
    ['acme', '', 'missing_credentials'],
    ['acme', 'Basic b25lOg==', 'missing_credentials'],
    ['acme', 'Bearer', 'missing_credentials'],
    ['acme', 'Bearer one two', 'missing_credentials'],
    ['other', 'Bearer one', 'unknown_tenant'],
    ['acme', 'Bearer three', 'invalid_credentials'],
    ['acme', 'Bearer one', 'known'],
    ['acme', 'bearer two', 'known'],
    ['acme', 'BEARER two', 'known'],
  ] as const) {
    it(`of tenant "${tenant}" with "${authorization}" is ${kind}`, () =>
      assert.equal(kindOf(tenant, authorization), kind))
  }
})
