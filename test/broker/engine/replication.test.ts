/**
 * A simulated source and target, and a network between them that the test controls: a batch may arrive never, late, twice or out of order,
 * and so may its answer. Both sites may be killed, or lose power.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { parseReplicaApply } from '../../../src/broker/api/replication.ts'
import { REPLICATION_WAIT_MS, REPLICATION_WINDOW } from '../../../src/broker/limits.ts'
import type { ApplyAnswer } from '../../../src/broker/operations/replication-worker.ts'
import { BrokerError } from '../../../src/broker/refusals.ts'
import { parseReplicationBinding } from '../../../src/config/replication-binding.ts'
import type { ReplicationPolicy } from '../../../src/config/replication-binding.ts'
import { parseQuotas } from '../../../src/config/quotas.ts'
import { BrokerWorld, CALLER, Pending, jsonOf } from '../../support/broker-world.ts'
import type { BrokerWorldOptions } from '../../support/broker-world.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { Client } from './client.ts'

const ROUNDS_MAX = 2000
const BATCH_RECORDS = 4

interface Sent {
  readonly url: string
  readonly body: Uint8Array
  /** Null: the sender's process has ended, or it has the answer. */
  settle: { readonly answer: (answer: ApplyAnswer) => void; readonly fail: (error: Error) => void } | null
}

class Sites {
  readonly target: BrokerWorld
  readonly source: BrokerWorld
  readonly way: Sent[]
  published = 0
  readonly #policies: PoliciesWith

  static async open(seed: number, policy: object = {}, options: BrokerWorldOptions = {}): Promise<Sites> {
    const way: Sent[] = []
    const binding = { name: 'dr', streams: ['orders'], source_site: 'a', target_site: 'b', target_url: 'http://b:1' }
    const policiesWith: PoliciesWith = (more) =>
      parseReplicationBinding(JSON.stringify({ policies: [{ ...binding, ...policy, ...more }] }), {})
    const policies = policiesWith({})
    const shipping = {
      transport: ({ applyUrl: url }: ReplicationPolicy, body: Uint8Array): Promise<ApplyAnswer> =>
        new Promise((answer, fail) => way.push({ url, body, settle: { answer, fail } })),
      random: mulberry32(seed),
      batchRecordsMax: BATCH_RECORDS,
    }
    const source = await BrokerWorld.open({ seed, policies, shipping, ...options })
    const target = await BrokerWorld.open({ seed: seed + 1 })
    await new Client(source).now(new Client(source).create('orders'))
    return new Sites(source, target, way, policiesWith)
  }

  private constructor(source: BrokerWorld, target: BrokerWorld, way: Sent[], policies: PoliciesWith) {
    this.#policies = policies
    this.source = source
    this.target = target
    this.way = way
  }

  publish(count: number, durability: 'volatile' | 'local-append' | null = null): void {
    const client = new Client(this.source)
    for (let i = 0; i < count; i += 1) client.publish('orders', String(this.published++), durability)
  }

  /** A batch on its way arrives. @param isLast it does not arrive again. @param isAnswered its sender gets the answer */
  async deliver(number: number, isLast: boolean, isAnswered: boolean): Promise<void> {
    const sent = this.way[number % this.way.length]
    if (sent === undefined) return
    if (isLast) this.way.splice(this.way.indexOf(sent), 1)
    const { settle } = sent
    if (isAnswered) sent.settle = null
    const answer = await this.#apply(sent.body)
    if (isAnswered) settle?.answer(answer)
    else if (isLast) settle?.fail(new Error('the test lost the answer'))
    await nextTurn()
  }

  async lose(number: number): Promise<void> {
    const [sent] = this.way.splice(number % Math.max(1, this.way.length), 1)
    sent?.settle?.fail(new Error('the test lost the request'))
    await nextTurn()
  }

  /** Ends the process and starts the site again. Batches that it sent are still on their way, but their answers reach no one. */
  async restart(world: BrokerWorld, how: 'kill' | 'crash'): Promise<void> {
    if (world === this.source) for (const sent of this.way) sent.settle = null
    world.end(how)
    await world.open()
  }

  /** The source reads its binding again, with these values in the policy. */
  bind(more: object): void {
    this.source.broker.replacePolicies(this.#policies(more))
  }

  /** Repairs the network, then lets time pass until the target has everything. */
  async settle(): Promise<void> {
    this.bind({})
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      await this.source.flush()
      await this.source.advance(1000)
      await this.source.flush()
      while (this.way.length > 0) await this.deliver(0, true, true)
      if (!this.#isBehind()) return
    }
    assert.fail('the target is never caught up')
  }

  async ids(world: BrokerWorld): Promise<number[]> {
    await world.flush()
    if (world.core.state.stream(CALLER.tenant, 'orders') === undefined) return []
    const ids: number[] = []
    for (let start = 0; ;) {
      const request = { start: { by: 'offset', offset: start }, maxRecords: 1000, maxPayloadBytes: null } as const
      const asked = new Pending(world.broker.replay(CALLER, 'orders', { ...request, consumer: null, legacy: false }))
      await world.flush()
      const page = jsonOf<{ records: { message_id: string }[]; next_offset: number; end_of_stream: boolean }>(
        asked.value,
      )
      ids.push(...page.records.map(({ message_id }) => Number(message_id)))
      if (page.end_of_stream) return ids
      start = page.next_offset
    }
  }

  #isBehind(): boolean {
    const { state, policies } = this.source.core
    const stream = state.stream(CALLER.tenant, 'orders')!
    const [policy] = policies.of(stream)
    return policies.lagOf(stream, policy!) > 0
  }

  async #apply(body: Uint8Array): Promise<ApplyAnswer> {
    const batch = await parseReplicaApply(JSON.parse(Buffer.from(body).toString()))
    const asked = new Pending(this.target.broker.applyReplica(CALLER, batch))
    await this.target.flush()
    if (asked.outcome.kind === 'pending') await this.target.advance(REPLICATION_WAIT_MS) // it waits for earlier batches until this time is over
    await this.target.flush()
    const { outcome } = asked
    if (outcome.kind === 'answered') return { status: 200, text: JSON.stringify(outcome.value), numberIn: () => null }
    assert(outcome.kind === 'refused' && outcome.error instanceof BrokerError)
    const { status, detail, nextExpectedOffset } = outcome.error
    const numberIn = (header: string): number | null =>
      header === 'x-mq-next-expected-offset' ? nextExpectedOffset : null
    return { status, text: JSON.stringify({ error: detail }), numberIn }
  }
}

/** The policies of the binding, with these values in the policy. */
type PoliciesWith = (more: object) => readonly ReplicationPolicy[]

type Step = (sites: Sites) => Promise<void>

const step = (name: string, run: (sites: Sites) => Promise<void> | void): Step =>
  Object.assign(async (sites: Sites) => run(sites), { [fc.toStringMethod]: () => name })

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.integer({ min: 1, max: 12 }), fc.constantFrom(null, null, 'volatile', 'local-append'))
      .map(([count, durability]) =>
        step(`publish ${count} ${durability}`, (sites) => sites.publish(count, durability)),
      ),
  },
  { weight: 4, arbitrary: fc.constant(step('flush', (sites) => sites.source.flush())) },
  { weight: 1, arbitrary: fc.constant(step('step', (sites) => sites.source.step())) },
  {
    weight: 8,
    arbitrary: fc
      .tuple(fc.nat(9), fc.boolean(), fc.boolean())
      .map(([number, isLast, isAnswered]) =>
        step(`deliver ${number} ${isLast} ${isAnswered}`, (sites) => sites.deliver(number, isLast, isAnswered)),
      ),
  },
  { weight: 2, arbitrary: fc.nat(9).map((number) => step(`lose ${number}`, (sites) => sites.lose(number))) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom({}, { target_url: 'http://c:1' }, { streams: ['others'] }, { name: 'other', streams: ['others'] })
      .map((more) => step(`bind ${JSON.stringify(more)}`, (sites) => sites.bind(more))),
  },
  { weight: 3, arbitrary: fc.nat(40_000).map((ms) => step(`advance ${ms}`, (sites) => sites.source.advance(ms))) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom('source', 'target'), fc.constantFrom('kill', 'crash'))
      .map(([which, how]) => step(`${how} ${which}`, (sites) => sites.restart(sites[which], how))),
  },
)

describe('a worker', () => {
  it('brings over each durable record once and in order, whatever the way and the nodes do', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.array(steps, { maxLength: 60 }), async (seed, history) => {
        const sites = await Sites.open(seed)
        for (const each of history) await each(sites)
        await sites.settle()
        assert.deepEqual(await sites.ids(sites.target), await sites.ids(sites.source))
        await sites.restart(sites.target, 'kill')
        assert.deepEqual(await sites.ids(sites.target), await sites.ids(sites.source))
        await sites.source.close()
        await sites.target.close()
      }),
      { numRuns: 150 },
    )
  })

  it('skips what was purged before it was sent, says so, and goes on', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(),
        fc.array(steps, { maxLength: 25 }),
        fc.nat(60),
        fc.array(steps, { maxLength: 25 }),
        async (seed, before, below, behind) => {
          const sites = await Sites.open(seed)
          for (const each of before) await each(sites)
          await sites.source.flush()
          const { nextOffset } = sites.source.core.state.stream(CALLER.tenant, 'orders')!
          const offset = Math.min(below, nextOffset)
          const purged = new Pending(sites.source.broker.purgeStream(CALLER, 'orders', { offset }, true))
          await sites.source.flush()
          assert.notEqual(purged.value, null)
          for (const each of behind) await each(sites)
          sites.publish(1)
          await sites.settle()
          const kept = await sites.ids(sites.source)
          const there = await sites.ids(sites.target)
          assert.deepEqual(
            there.filter((id) => id >= kept[0]!),
            kept,
          )
          assert.deepEqual(
            there,
            [...new Set(there)].toSorted((a, b) => a - b),
          )
          await sites.source.close()
          await sites.target.close()
        },
      ),
      { numRuns: 150 },
    )
  })

  it('waits longer after each failure, with jitter, and not at all after a success', async () => {
    const sites = await Sites.open(1)
    const waits: number[] = []
    sites.publish(1)
    await sites.source.flush()
    for (let failure = 0; failure < 12; failure += 1) {
      await sites.lose(0)
      let waited = 0
      for (; sites.way.length === 0; waited += 50) {
        await sites.source.advance(50)
        await sites.source.flush()
      }
      waits.push(waited)
    }
    for (const [failure, waited] of waits.entries()) {
      const longest = Math.min(30_000, 100 * 2 ** failure)
      assert(waited >= longest / 2 - 50 && waited <= longest + 100, `${waited} ms after failure ${failure}`)
    }
    await sites.deliver(0, true, true)
    sites.publish(1)
    await sites.source.flush()
    assert.equal(sites.way.length, 1)
  })

  it('sends no more than the egress quota of its tenant lets it', async () => {
    const quotas = parseQuotas(
      JSON.stringify({ tenants: [{ tenant: 'local', replication_egress_bytes_per_second: 1000 }] }),
    )
    const sites = await Sites.open(1, {}, { quotas })
    sites.publish(80)
    await sites.source.flush()
    let bytes = 0
    for (let second = 0; second < 5; second += 1) {
      while (sites.way.length > 0) {
        bytes += sites.way[0]!.body.byteLength
        await sites.deliver(0, true, true)
        await sites.source.flush()
      }
      assert(bytes <= 1000 * (second + 2), `${bytes} bytes in second ${second}`)
      for (let tick = 0; tick < 20; tick += 1) await sites.source.advance(50).then(() => sites.source.flush())
    }
    await sites.settle()
    assert.equal((await sites.ids(sites.target)).length, 80)
  })

  it('whose policy has another address goes there at once, from where it was, whatever it waited for', async () => {
    const sites = await Sites.open(1)
    sites.publish(2)
    await sites.source.flush()
    for (let failure = 0; failure < 6; failure += 1) {
      await sites.lose(0)
      while (sites.way.length === 0) await sites.source.advance(50).then(() => sites.source.flush())
    }
    await sites.lose(0)
    assert.equal(sites.way.length, 0)
    sites.bind({ target_url: 'http://c:1' })
    await sites.source.flush()
    assert.deepEqual(
      sites.way.map(({ url }) => url),
      ['http://c:1/v1/replication/target/apply'],
    )
    await sites.deliver(0, true, true)
    sites.publish(1)
    await sites.source.flush()
    const [sent] = sites.way
    assert.equal((JSON.parse(Buffer.from(sent!.body).toString()) as { records: unknown[] }).records.length, 1)
  })

  it('whose policy is gone ships nothing more, and publishes that waited for it are refused', async () => {
    const sites = await Sites.open(1)
    const durable = new Client(sites.source)
    const body = { default_durability: 'replication-policy:dr' } as const
    const updated = new Pending(sites.source.broker.updateStream(CALLER, 'orders', body, false))
    await sites.source.flush()
    assert.notEqual(updated.value, null)
    const waiting = durable.publish('orders', '0', null)
    await sites.source.flush()
    assert.equal(waiting.outcome.kind, 'pending')
    sites.bind({ streams: ['others'] })
    await sites.source.flush()
    assert.equal(waiting.code, 'replication_unavailable')
    await sites.deliver(0, true, true)
    const status = new Pending(sites.source.broker.replicationStatus(CALLER))
    await sites.source.flush()
    assert.deepEqual([status.value.workers, status.value.checkpoints], [[], []])
    await sites.source.advance(60_000)
    assert.equal(sites.way.length, 0)
  })

  it('whose node loses other frames answers a publish that waits for the target when the target has it', async () => {
    const sites = await Sites.open(1)
    const client = new Client(sites.source)
    const body = { default_durability: 'replication-policy:dr' } as const
    await client.now(new Pending(sites.source.broker.updateStream(CALLER, 'orders', body, false)))
    const waiting = client.publish('orders', '0', null)
    await sites.source.flush()
    assert.equal(waiting.outcome.kind, 'pending')
    const lost = client.publish('orders', '1', 'local-sync')
    await nextTurn()
    await sites.source.journalDies()
    assert.equal(lost.code, 'internal_error')
    while (sites.way.length > 0) {
      await sites.deliver(0, true, true)
      await sites.source.flush()
    }
    assert.equal(waiting.value.offset, 0)
    assert.equal(waiting.value.replication_receipt?.next_expected_offset, 1)
    assert.deepEqual(await sites.ids(sites.source), [0])
  })

  it('is looked at once for all the metrics of a scrape', async () => {
    const sites = await Sites.open(1)
    sites.publish(3)
    await sites.source.flush()
    const { broker, core } = sites.source
    let looks = 0
    const lagOf = core.policies.lagOf.bind(core.policies)
    core.policies.lagOf = (...asked) => {
      looks += 1
      return lagOf(...asked)
    }
    const read = (): number => broker.replicationGauges.lagRecords
    assert.equal(read(), 3)
    const once = looks
    assert.ok(once > 0)
    for (let metric = 0; metric < 5; metric += 1) assert.equal(read(), 3)
    assert.equal(looks, once)
    await nextTurn()
    sites.publish(1)
    await sites.source.flush()
    assert.equal(read(), 4)
  })

  it('that failed on records that were purged is there again for publishes that wait for it', async () => {
    const sites = await Sites.open(1)
    sites.publish(2)
    await sites.source.flush()
    await sites.lose(0)
    const purged = new Pending(sites.source.broker.purgeStream(CALLER, 'orders', { offset: 2 }, true))
    await sites.source.flush()
    assert.equal(purged.value.removed_records, 2)
    const stateOf = async (): Promise<unknown> => {
      const asked = new Pending(sites.source.broker.replicationStatus(CALLER))
      await sites.source.flush()
      const [worker] = asked.value.workers
      return [worker?.state, worker?.lag_records, worker?.lag_millis, asked.value.checkpoints[0]?.skipped_records]
    }
    await sites.source.advance(60_000)
    assert.deepEqual(await stateOf(), ['idle', 0, 0, 2])
  })

  it('whose records are purged before they are sent refuses the publishes that wait for the target, also when it goes on behind them', async () => {
    const sites = await Sites.open(1)
    const client = new Client(sites.source)
    const { broker } = sites.source
    sites.publish(BATCH_RECORDS * REPLICATION_WINDOW) // fills the window: nothing more is sent until one is answered
    await sites.source.flush()
    const body = { default_durability: 'replication-policy:dr' } as const
    await client.now(new Pending(broker.updateStream(CALLER, 'orders', body, false)))
    const waiting = client.publish('orders', String(sites.published++))
    await sites.source.flush()
    assert.equal(waiting.outcome.kind, 'pending')
    await client.now(new Pending(broker.purgeStream(CALLER, 'orders', { offset: sites.published }, true)))
    sites.publish(1, 'local-append')
    await sites.source.flush()
    while (sites.way.length > 0) {
      await sites.deliver(0, true, true)
      await sites.source.flush()
    }
    const there = await sites.ids(sites.target)
    assert.equal(there.at(-1), sites.published - 1, 'the target goes on')
    assert.ok(!there.includes(sites.published - 2))
    assert.equal(waiting.code, 'replication_unavailable')
  })

  it('does not tell the target that records are gone before the purge is stored', async () => {
    const sites = await Sites.open(1)
    sites.publish(6)
    await sites.source.flush()
    while (sites.way.length > 0) await sites.lose(0)
    void new Pending(sites.source.broker.purgeStream(CALLER, 'orders', { offset: 3 }, true))
    await nextTurn()
    for (let tick = 0; tick < 20; tick += 1) await sites.source.advance(50)
    await sites.restart(sites.source, 'crash') // the purge was not synced, and is lost
    await sites.settle()
    assert.deepEqual(await sites.ids(sites.source), [0, 1, 2, 3, 4, 5])
    assert.deepEqual(await sites.ids(sites.target), [0, 1, 2, 3, 4, 5])
  })

  it('tells after a start of what was purged before it, although nothing is left to send', async () => {
    const sites = await Sites.open(1)
    sites.publish(2)
    await sites.source.flush()
    const purged = new Pending(sites.source.broker.purgeStream(CALLER, 'orders', { offset: 2 }, true))
    await sites.source.flush()
    assert.equal(purged.value.removed_records, 2)
    await sites.restart(sites.source, 'kill')
    await sites.source.advance(60)
    await sites.source.flush()
    const status = new Pending(sites.source.broker.replicationStatus(CALLER))
    await sites.source.flush()
    assert.equal(status.value.checkpoints[0]?.skipped_records, 2)
  })

  it('a target that says it has more than was ever sent stops it, with words that say so', async () => {
    const sites = await Sites.open(1)
    sites.publish(1)
    await sites.source.flush()
    const [sent] = sites.way.splice(0)
    sent!.settle!.answer({ status: 200, text: '{"next_expected_offset":9}', numberIn: () => null })
    await sites.source.flush()
    const { workers } = await sites.source.broker.replicationStatus(CALLER)
    assert.equal(workers[0]?.last_error?.code, 'target_ahead')
  })

  it('that has records to send keeps them from being purged and deleted, unless by force', async () => {
    const sites = await Sites.open(1)
    const { broker } = sites.source
    const client = new Client(sites.source)
    sites.publish(3)
    await sites.source.flush()
    const held = async (asked: Promise<unknown>): Promise<string> => {
      const pending = new Pending(asked)
      await sites.source.flush()
      assert.equal(pending.code, 'write_not_allowed')
      assert.ok(pending.outcome.kind === 'refused' && pending.outcome.error instanceof BrokerError)
      return pending.outcome.error.message
    }
    const toSend = 'to site "b"'
    assert.ok((await held(broker.purgeStream(CALLER, 'orders', { offset: 2 }, false))).includes(`2 records ${toSend}`))
    assert.ok((await held(broker.deleteStream(CALLER, 'orders', false))).includes(`"dr" has still to send 3 records`))
    await sites.settle()
    sites.publish(1)
    await client.now(new Pending(broker.purgeStream(CALLER, 'orders', { offset: 3 }, false)))
    assert.ok((await held(broker.purgeStream(CALLER, 'orders', { offset: 4 }, false))).includes(`1 record ${toSend}`))
    await client.now(new Pending(broker.purgeStream(CALLER, 'orders', { offset: 4 }, true)))
    await client.now(new Pending(broker.deleteStream(CALLER, 'orders', false)))
    await client.now(client.create('orders'))
    sites.publish(2)
    await sites.source.flush()
    const deleted = await client.now(new Pending(broker.deleteStream(CALLER, 'orders', true)))
    assert.equal(deleted.removed_records, 2)
    sites.source.wallSkewMs = -3_600_000 // streams are told apart by the time of their creation, which goes on nevertheless
    await client.now(client.create('orders'))
    sites.publish(1)
    await sites.settle()
    assert.equal((await sites.ids(sites.target)).at(-1), 6, 'the target takes what a stream of the name has')
  })
})
