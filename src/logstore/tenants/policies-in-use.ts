/**
 * The policies under which requests on their way to the lane were admitted: main finds tenant and credential in one, and names them by their indexes.
 *
 * P1  a request is judged by the policy under which it was admitted, even if a newer one has come since
 * P2  requests come in the order of their policies: a policy older than that of the last request is not needed again
 */
import assert from 'node:assert/strict'
import type { TenantPolicy } from './tenant-policy.ts'

export class PoliciesInUse {
  /** Oldest first; never empty. */
  #policies: readonly TenantPolicy[]

  constructor(policy: TenantPolicy) {
    this.#policies = [policy]
  }

  /** Generation of the newest policy. */
  get generation(): number {
    return this.#policies.at(-1)!.generation
  }

  add(policy: TenantPolicy): void {
    this.#policies = [...this.#policies, policy]
  }

  /** P1, P2. Asserts that the policy of this generation was added. */
  of(policyGeneration: number): TenantPolicy {
    if (this.#policies[0]!.generation < policyGeneration) {
      this.#policies = this.#policies.filter(({ generation }) => generation >= policyGeneration)
    }
    const policy = this.#policies[0]
    assert(policy?.generation === policyGeneration)
    return policy
  }
}
