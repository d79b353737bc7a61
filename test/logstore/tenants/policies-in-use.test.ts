import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PoliciesInUse } from '../../../src/logstore/tenants/policies-in-use.ts'
import { developmentPolicy } from '../../../src/logstore/tenants/tenant-policy-file.ts'

const policyOf = (generation: number) => ({ ...developmentPolicy(), generation })

describe('the policies of requests on their way', () => {
  it('are kept until a request of a newer one comes', () => {
    const policies = new PoliciesInUse(policyOf(1))
    const second = policyOf(2)
    policies.add(second)
    policies.add(policyOf(3))
    assert.equal(policies.generation, 3)
    assert.equal(policies.of(1).generation, 1)
    assert.equal(policies.of(2), second)
    assert.equal(policies.of(3).generation, 3)
    assert.throws(() => policies.of(2))
  })

  it('may have the same one twice', () => {
    const policies = new PoliciesInUse(policyOf(4))
    policies.add(policyOf(4))
    assert.equal(policies.of(4).generation, 4)
  })

  it('do not have one that was never added', () => {
    assert.throws(() => new PoliciesInUse(policyOf(1)).of(2))
  })
})
