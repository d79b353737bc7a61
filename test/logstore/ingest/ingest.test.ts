import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { identifyCaller, isRefusal } from '../../../src/logstore/tenants/caller.ts'
import type { Caller } from '../../../src/logstore/tenants/caller.ts'
import { IngestCounters } from '../../../src/logstore/counters.ts'
import { GatewayBudget } from '../../../src/logstore/ingest/gateway-budget.ts'
import { Ingest } from '../../../src/logstore/ingest/ingest.ts'
import { ACCEPTED } from '../../../src/logstore/ingest/messages.ts'
import { digestOf } from '../../../src/logstore/tenants/tenant-policy.ts'
import type { Tenant, TenantPolicy } from '../../../src/logstore/tenants/tenant-policy.ts'
import {
  DEVELOPMENT_TENANT,
  DEVELOPMENT_TOKEN,
  developmentPolicy,
} from '../../../src/logstore/tenants/tenant-policy-file.ts'
import { Arena } from '../../../src/pipeline/arena.ts'

const GENERATION = 1

/** An ingest whose lane and log the test plays. */
class Rig {
  stored = 0
  policy = developmentPolicy()
  readonly answers: string[] = []
  /** Tenants whose requests went to the lane. */
  readonly senders: string[] = []
  readonly #submitted: number[] = []
  readonly #arena = Arena.create(1 << 20)
  readonly #gateway = GatewayBudget.create()
  readonly ingest = new Ingest({
    log: {
      outcome: (end) => (end <= this.stored ? 'stored' : 'waiting'),
      released: Infinity,
      state: { kind: 'ok' },
      mayAnswer: true,
    },
    arena: this.#arena,
    gateway: this.#gateway,
    maxGatewayRequests: 10,
    maxBodyBytes: 1000,
    counters: new IngestCounters(),
    policy: () => this.policy,
    senders: { sent: (tenant) => void this.senders.push(tenant) },
    lane: () => ({
      trySubmit: ({ request, policyGeneration, tenant }) => {
        assert.equal(policyGeneration, this.policy.generation)
        assert.equal(this.policy.tenants[tenant]?.id, DEVELOPMENT_TENANT)
        return this.#submitted.push(request) > 0
      },
    }),
    nowMs: () => 0,
    nowNs: () => 0n,
  })

  caller(): Caller {
    const caller = identifyCaller(this.policy, DEVELOPMENT_TENANT, `Bearer ${DEVELOPMENT_TOKEN}`)
    assert(!isRefusal(caller))
    return caller
  }

  /** @param meanwhile runs between the headers and the end of the body */
  submit(name: string, meanwhile: () => void = () => {}): void {
    const caller = this.caller()
    assert.equal(this.ingest.takeSlot(caller), null)
    const body = this.ingest.gatherer(name.length)
    body.add(Buffer.from(name))
    const client = {
      signal: 0,
      format: 0,
      source: 0,
      accepted: () => void this.answers.push(`${name} stored`),
      refused: ({ kind }: { kind: string }) => void this.answers.push(`${name} ${kind}`),
    }
    meanwhile()
    this.ingest.submit(client, caller, body, 0)
  }

  /** The lane accepted its next request as a frame that ends at this position. */
  laneAccepts(position: number): void {
    const request = this.#submitted.shift()!
    const head = { request, kind: ACCEPTED, refusal: 0, retryAfterSeconds: 0, position, tailBytes: 0 }
    this.#gateway.tryBook({ records: Infinity, bytes: Infinity }, 1, 1)
    this.ingest.onOutcome(
      { ...head, records: 1, bytes: 1, collapsed: 0, rejected: 0, generation: GENERATION },
      Buffer.alloc(0),
    )
  }
}

/** The development policy, changed. */
function policyWith(tenants: readonly Tenant[], generation: number): TenantPolicy {
  return { generation, tenants, numbers: new Map(tenants.map(({ id }, number) => [id, number])) }
}

describe('a request whose body is on its way while the policy is reloaded', () => {
  const [tenant] = developmentPolicy().tenants
  const other: Tenant = { ...tenant!, id: 'other' }

  it('stays one of its own tenant, wherever that stands now', () => {
    const rig = new Rig()
    rig.submit('moved', () => (rig.policy = policyWith([other, tenant!], 2)))
    rig.laneAccepts(8)
    rig.stored = 8
    rig.ingest.progress()
    assert.deepEqual(rig.answers, ['moved stored'])
    assert.deepEqual(rig.senders, [tenant!.id])
  })

  it('is refused when its tenant or its token is not in the policy any more, and gives its place back', () => {
    const rig = new Rig()
    rig.submit('gone', () => (rig.policy = policyWith([other], 2)))
    rig.policy = developmentPolicy()
    const credential = { ...tenant!.credentials[0]!, tokenDigest: digestOf('another') }
    const changed = { ...tenant!, credentials: [credential] }
    rig.submit('changed', () => (rig.policy = policyWith([changed], 3)))
    assert.deepEqual(rig.answers, ['gone unknown_tenant', 'changed invalid_credentials'])
    assert.deepEqual(rig.senders, [])
    assert.equal(rig.ingest.requestsInFlight, 0)
  })
})

describe('body space that slow senders hold', () => {
  it('goes to the next body, from the slowest of those that hold some', () => {
    const rig = new Rig()
    const caller = rig.caller()
    const givenUp: string[] = []
    const begin = (name: string, rate: number | null, declaredBytes: number): void => {
      assert.equal(rig.ingest.takeSlot(caller), null)
      const body = rig.ingest.gatherer(declaredBytes)
      const client = {
        slowRate: () => rate,
        giveUp() {
          givenUp.push(name)
          rig.ingest.arrived(client)
          body.discard()
          rig.ingest.releaseSlot(caller)
        },
      }
      rig.ingest.arriving(caller, client, body)
      if (declaredBytes >= 0) assert.ok(body.add(Buffer.from('x')))
    }
    begin('slow', 20, 300_000)
    begin('slower', 10, 300_000)
    begin('holds none', 1, -1)
    begin('fast', null, 400_000)
    begin('newcomer', null, 200_000)
    assert.deepEqual(givenUp, ['slower'])
    const tooMuch = rig.ingest.gatherer(1_000_000)
    assert.equal(tooMuch.add(Buffer.from('x')), false)
    assert.deepEqual(givenUp, ['slower', 'slow'])
  })
})

describe('ingest', () => {
  it('answers when the log has stored what the lane accepted', () => {
    const rig = new Rig()
    for (const name of ['a', 'b']) rig.submit(name)
    for (const position of [8, 16]) rig.laneAccepts(position)
    rig.ingest.progress()
    assert.deepEqual(rig.answers, [])
    rig.stored = 8
    rig.ingest.progress()
    assert.deepEqual(rig.answers, ['a stored'])
    assert.equal(rig.ingest.requestsInFlight, 1)
  })

  it('answers by itself, when a lane died, what that had accepted and the log has stored meanwhile, and fails the rest', () => {
    const rig = new Rig()
    for (const name of ['stored', 'accepted', 'unread']) rig.submit(name)
    rig.stored = 8
    rig.laneAccepts(8) // an outcome that the dead lane left behind: nothing wakes its client any more
    rig.laneAccepts(16)
    rig.ingest.onLaneDeath()
    assert.deepEqual(rig.answers, ['unread wal_unavailable', 'stored stored'])
    rig.ingest.failAcceptedFrom(8)
    assert.deepEqual(rig.answers.slice(2), ['accepted wal_unavailable'])
    assert.equal(rig.ingest.requestsInFlight, 0)
  })
})
