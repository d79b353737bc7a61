import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { TenantQuotas } from '../../src/broker/quotas.ts'
import type { BrokerError } from '../../src/broker/refusals.ts'
import { parseQuotas } from '../../src/config/quotas.ts'

const quotasOf = (limits: object, nowMs: () => number): TenantQuotas =>
  new TenantQuotas(parseQuotas(JSON.stringify({ tenants: [{ tenant: 'acme', ...limits }] })), nowMs)

/** Seconds until the retry; 0: let through. */
const retryAfterOf = (refused: BrokerError | null): number => refused?.retryAfterSeconds ?? 0

const letThrough = (refused: BrokerError | null): void => assert.equal(refused, null)
const refuses = (refused: BrokerError | null): void => assert.equal(refused?.code, 'quota_exceeded')

describe('tenant quotas', () => {
  it('are no limit for a tenant that has none, or none of this kind', () => {
    const quotas = quotasOf({ consumers_per_group: 1 }, () => 0)
    for (let i = 0; i < 1000; i += 1) {
      letThrough(quotas.takePublish('acme', 1e9, 1e12))
      letThrough(quotas.takePublish('other', 1e9, 1e12))
    }
    letThrough(quotas.checkConsumers('other', () => 1e9))
  })

  it('let a second’s worth through at once, then as much as time brings', () => {
    let nowMs = 0
    const quotas = quotasOf({ publish_records_per_second: 10 }, () => nowMs)
    for (let i = 0; i < 10; i += 1) letThrough(quotas.takePublish('acme', 1, 0))
    assert.equal(retryAfterOf(quotas.takePublish('acme', 1, 0)), 1)
    nowMs = 99
    refuses(quotas.takePublish('acme', 1, 0))
    nowMs = 100
    letThrough(quotas.takePublish('acme', 1, 0))
    refuses(quotas.takePublish('acme', 1, 0))
  })

  it('use up nothing when they refuse, of either kind', () => {
    let nowMs = 0
    const quotas = quotasOf({ publish_records_per_second: 10, publish_bytes_per_second: 100 }, () => nowMs)
    letThrough(quotas.takePublish('acme', 5, 100))
    for (let i = 0; i < 20; i += 1) refuses(quotas.takePublish('acme', 1, 10))
    nowMs = 100
    letThrough(quotas.takePublish('acme', 1, 10)) // the refused publishes used up no records
    nowMs = 1000
    letThrough(quotas.takePublish('acme', 10, 90))
  })

  it('let what is larger than a second’s worth through when nothing was used, and have it paid for afterwards', () => {
    let nowMs = 0
    const quotas = quotasOf({ publish_bytes_per_second: 100 }, () => nowMs)
    letThrough(quotas.takePublish('acme', 1, 350))
    assert.equal(retryAfterOf(quotas.takePublish('acme', 1, 1)), 3)
    nowMs = 2500
    refuses(quotas.takePublish('acme', 1, 1))
    nowMs = 2510
    letThrough(quotas.takePublish('acme', 1, 1))
  })

  it('name a time after which the same publish goes through', () => {
    const publishes = fc.array(fc.record({ bytes: fc.nat(300), afterMs: fc.nat(700) }))
    fc.assert(
      fc.property(publishes, (each) => {
        let nowMs = 0
        const quotas = quotasOf({ publish_bytes_per_second: 100 }, () => nowMs)
        let taken = 0
        for (const { bytes, afterMs } of each) {
          nowMs += afterMs
          const waitSeconds = retryAfterOf(quotas.takePublish('acme', 1, bytes))
          if (waitSeconds > 0) {
            nowMs += 1000 * waitSeconds
            letThrough(quotas.takePublish('acme', 1, bytes))
          }
          taken += bytes
          assert.ok(taken <= 100 + nowMs / 10 + bytes, 'the rate is kept')
        }
      }),
    )
  })

  it('allow so many consumers and no more', () => {
    const quotas = quotasOf({ consumers_per_group: 2 }, () => 0)
    letThrough(quotas.checkConsumers('acme', () => 1))
    refuses(quotas.checkConsumers('acme', () => 2))
  })

  it('are replaced, and what is owed stays owed where the limit is what it was', () => {
    let nowMs = 0
    const limits = { publish_records_per_second: 100, publish_bytes_per_second: 100 }
    const replacing = { replication_egress_bytes_per_second: 100, ...limits }
    const quotas = quotasOf(replacing, () => nowMs)
    letThrough(quotas.takePublish('acme', 1, 300))
    assert.equal(quotas.takeEgress('acme', 300), 0)
    const replace = (tenants: readonly object[]): void => quotas.replace(parseQuotas(JSON.stringify({ tenants })))
    replace([{ tenant: 'acme', ...replacing, consumers_per_group: 1 }])
    assert.equal(retryAfterOf(quotas.takePublish('acme', 1, 100)), 3)
    assert.equal(quotas.takeEgress('acme', 100), 3)
    nowMs = 3000
    letThrough(quotas.takePublish('acme', 1, 100))
    replace([])
    replace([{ tenant: 'acme', ...limits }])
    letThrough(quotas.takePublish('acme', 1, 100))
  })

  it('begin anew with another limit', () => {
    const quotas = quotasOf({ publish_records_per_second: 1 }, () => 0)
    letThrough(quotas.takePublish('acme', 1, 0))
    refuses(quotas.takePublish('acme', 1, 0))
    quotas.replace(parseQuotas(JSON.stringify({ tenants: [{ tenant: 'acme', publish_records_per_second: 2 }] })))
    letThrough(quotas.takePublish('acme', 2, 0))
    refuses(quotas.takePublish('acme', 1, 0))
  })
})
