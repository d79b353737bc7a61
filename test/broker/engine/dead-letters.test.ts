/** Dead letters name the origin of each record, and leases the reason why they ended, also after restarts. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { AUDIT_STREAM, DEFAULT_STREAM_CONFIG } from '../../../src/broker/state/state.ts'
import { Client } from './client.ts'
import type { Delivery } from './client.ts'
import { BrokerWorld, CALLER, Pending } from '../../support/broker-world.ts'

const HOPS_MAX = 10

async function opened(): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open({ segmentBytes: 1 << 20 })
  return { world, client: new Client(world) }
}

async function only(client: Client, stream: string): Promise<Delivery> {
  const [delivery, ...more] = await client.now(client.claim(stream))
  assert.ok(delivery)
  assert.deepEqual(more, [])
  return delivery
}

describe('a cycle of dead-letter streams', () => {
  it('ends after ten hops: the last delivery is stopped and audited, and no copy is made', async () => {
    const { world, client } = await opened()
    await client.now(client.create('a', { failure_policy: { max_attempts: 1, dead_letter_stream: 'b' } }))
    await client.now(client.create('b', { failure_policy: { max_attempts: 1, dead_letter_stream: 'a' } }))
    await client.now(client.publish('a', 'm-1'))
    for (let hop = 1; hop <= HOPS_MAX; hop += 1) {
      const [from, to] = hop % 2 === 1 ? ['a', 'b'] : ['b', 'a']
      const reply = await client.now(client.nack(await only(client, from)))
      assert.deepEqual([reply.policy_action, reply.dead_letter_stream], ['dead_lettered', to])
    }
    const last = await only(client, 'a')
    assert.deepEqual(last.record.headers, {
      'x-dead-letter-source-stream': 'b',
      'x-dead-letter-source-offset': '4',
      'x-dead-letter-reason': 'no',
      'x-dead-letter-origin-stream': 'a',
      'x-dead-letter-origin-offset': '0',
      'x-dead-letter-count': String(HOPS_MAX),
    })
    assert.equal((await client.now(client.nack(last))).policy_action, 'stopped')
    const events = await client.now(client.events())
    assert.equal(events.at(-1)!.kind, 'delivery_stopped')
    assert.deepEqual(
      [await client.messages('a'), await client.messages('b')].map(({ length }) => length),
      [6, 5],
    )
    await world.close()
  })

  it('ends for the verb, too, which is refused and changes nothing', async () => {
    const { world, client } = await opened()
    for (const name of ['a', 'b']) await client.now(client.create(name))
    await client.now(client.publish('a', 'm-1'))
    for (let hop = 1; hop <= HOPS_MAX; hop += 1) {
      const [from, to] = hop % 2 === 1 ? ['a', 'b'] : ['b', 'a']
      await client.now(client.deadLetter(await only(client, from), to))
    }
    const last = await only(client, 'a')
    const refused = client.deadLetter(last, 'b')
    await world.flush()
    assert.equal(refused.code, 'write_not_allowed')
    await client.now(client.ack(last))
    await world.close()
  })
})

describe('a stream that is its own dead-letter stream', () => {
  it('is refused, as policy and by the verb', async () => {
    const { world, client } = await opened()
    const created = client.create('a', { failure_policy: { max_attempts: 1, dead_letter_stream: 'a' } })
    await world.flush()
    assert.equal(created.code, 'invalid_request')
    await client.now(client.create('a'))
    await client.now(client.publish('a', 'm-1'))
    const delivery = await only(client, 'a')
    const copied = client.deadLetter(delivery, 'a')
    await world.flush()
    assert.equal(copied.code, 'invalid_request')
    await client.now(client.ack(delivery))
    await world.close()
  })

  it('in an older log stops what it used to copy', async () => {
    const { world, client } = await opened()
    const { core } = world
    const failure_policy = { max_attempts: 1, retry_delay_millis: 0, dead_letter_stream: 'a', apply_on_expiry: false }
    const config = { ...DEFAULT_STREAM_CONFIG, failure_policy }
    const number = core.state.streams.length
    const offset = core.auditOf(CALLER.tenant).nextOffset
    const at_ms = core.time.nowMs()
    const created = { stream_number: number, stream: 'a', tenant: 'local', principal: 'old', audit_offset: offset }
    void core.store(
      core.changeFrame({ kind: 'stream_created', ...created, ...config, at_ms }, 'admit'),
      'internal_error',
    )
    await client.now(client.publish('a', 'm-1'))
    assert.equal((await client.now(client.nack(await only(client, 'a')))).policy_action, 'stopped')
    assert.deepEqual(await client.messages('a'), ['m-1'])
    await world.close()
  })
})

describe('the audit stream', () => {
  it('is refused as a dead-letter stream, as policy and by the verb', async () => {
    const { world, client } = await opened()
    const failure_policy = { max_attempts: 1, dead_letter_stream: AUDIT_STREAM }
    const created = client.create('a', { failure_policy })
    await world.flush()
    assert.equal(created.code, 'invalid_request')
    await client.now(client.create('a', { failure_policy: { max_attempts: 1 } }))
    const changed = new Pending(world.broker.updateStream(CALLER, 'a', { failure_policy }, false))
    await world.flush()
    assert.equal(changed.code, 'invalid_request')
    await client.now(client.publish('a', 'm-1'))
    const copied = client.deadLetter(await only(client, 'a'), AUDIT_STREAM)
    await world.flush()
    assert.equal(copied.code, 'write_not_allowed')
    await world.close()
  })
})

describe('reasons', () => {
  it('outlive a restart, from the frames and from a checkpoint, as they are without it', async () => {
    for (const how of ['frames', 'checkpoint'] as const) {
      const { world, client } = await opened()
      await client.now(client.create('orders', { failure_policy: { max_attempts: 9 } }))
      await client.now(client.create('dead'))
      for (let i = 0; i < 4; i += 1) await client.now(client.publish('orders', `m-${i}`))
      const [nacked, retried, copied, acked] = await client.now(client.claim('orders', { max_messages: 4 }))
      await client.now(client.nack(nacked!, false))
      await client.now(client.retry(retried!))
      await client.now(client.deadLetter(copied!, 'dead'))
      await client.now(client.ack(acked!))
      const { leases } = await client.now(client.leases('orders'))
      assert.deepEqual(
        leases.map(({ state, reason }) => [state, reason]),
        [
          ['nacked', 'no'],
          ['released', 'again'],
          ['dead_lettered', 'bad'],
          ['acked', null],
        ],
      )
      if (how === 'checkpoint') {
        for (let i = 0; world.log.segments.length < 2; i += 1) {
          await client.now(client.publish('dead', `${i} ${'x'.repeat(10_000)}`))
        }
      }
      await world.close()
      await world.open()
      assert.deepEqual((await client.now(client.leases('orders'))).leases, leases)
      await world.close()
    }
  })
})

describe('a failure policy that changes while the record is read', () => {
  const FORCE = true

  async function nacked(): Promise<{ world: BrokerWorld; client: Client; reply: ReturnType<Client['nack']> }> {
    const { world, client } = await opened()
    for (const name of ['dead', 'later']) await client.now(client.create(name))
    await client.now(client.create('orders', { failure_policy: { max_attempts: 1, dead_letter_stream: 'dead' } }))
    await client.now(client.publish('orders', 'm-1'))
    const delivery = await only(client, 'orders')
    world.holdsReads = true
    return { world, client, reply: client.nack(delivery) }
  }

  it('is followed as it is then: more attempts, or another dead-letter stream', async () => {
    for (const [changed, action, letters] of [
      [{ max_attempts: 2 }, 'redeliver_now', [0, 0]],
      [{ dead_letter_stream: 'later' }, 'dead_lettered', [0, 1]],
      [null, 'redeliver_now', [0, 0]],
    ] as const) {
      const { world, client, reply } = await nacked()
      const updated = new Pending(world.broker.updateStream(CALLER, 'orders', { failure_policy: changed }, !FORCE))
      assert.equal((await client.now(reply)).policy_action, action)
      assert.equal(updated.value.updated, true)
      const there = [await client.messages('dead'), await client.messages('later')]
      assert.deepEqual(
        there.map(({ length }) => length),
        letters,
      )
      await world.close()
    }
  })

  it('stops the delivery when its dead-letter stream is deleted meanwhile', async () => {
    const { world, client, reply } = await nacked()
    const deleted = new Pending(world.broker.deleteStream(CALLER, 'dead', FORCE))
    assert.equal((await client.now(reply)).policy_action, 'stopped')
    assert.equal(deleted.value.deleted, true)
    await world.close()
  })
})
