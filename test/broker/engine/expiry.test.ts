/** Leases and time: they expire, are renewed, and on some streams the failure policy acts on expired ones (`apply_on_expiry`). */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DURATION_MS_MAX } from '../../../src/broker/limits.ts'
import type { CreateStreamBody } from '../../../src/broker/wire/requests.ts'
import { Client } from './client.ts'
import type { Delivery } from './client.ts'
import { RESERVE_BYTES } from '../../support/engine-world.ts'
import { BrokerWorld } from '../../support/broker-world.ts'

const HOUR_MS = 3_600_000
const LEASE = { lease_timeout_millis: 1000 }

interface Opened {
  readonly world: BrokerWorld
  readonly client: Client
  readonly delivery: Delivery
}

/** A stream with one record, claimed once. */
async function opened(failure_policy: CreateStreamBody['failure_policy'] = null): Promise<Opened> {
  const world = await BrokerWorld.open()
  const client = new Client(world)
  await client.now(client.create('orders', { failure_policy }))
  await client.now(client.create('dead'))
  await client.now(client.publish('orders', 'm-1'))
  const [delivery] = await client.now(client.claim('orders', LEASE))
  return { world, client, delivery: delivery! }
}

/** The disk is full while `run` runs: the log takes no frame, not even one that finishes a delivery. */
async function withoutSpace(world: BrokerWorld, run: () => Promise<void>): Promise<void> {
  const { capacityBytes } = world.files
  for (const free of [0, capacityBytes]) {
    world.files.capacityBytes = free
    await world.advance(300)
    world.world.lanes[0]!.idle()
    if (free === 0) await run()
  }
}

describe('a lease that expires', () => {
  it('is refused on every verb, and its record is given out again at the next attempt', async () => {
    const { world, client, delivery } = await opened()
    await world.advance(999)
    assert.deepEqual(await client.now(client.claim('orders')), [])
    await world.advance(1)
    for (const late of [
      client.ack(delivery),
      client.nack(delivery),
      client.retry(delivery),
      client.deadLetter(delivery, 'dead'),
    ]) {
      await world.flush()
      assert.equal(late.code, 'lease_expired')
    }
    const [again] = await client.now(client.claim('orders', LEASE))
    assert.deepEqual([again!.offset, again!.attempt], [0, 2])
    assert.notEqual(again!.deliveryId, delivery.deliveryId)
    const late = client.ack(delivery)
    await world.flush()
    assert.equal(late.code, 'lease_expired')
    assert.equal((await client.now(client.ack(again!))).attempt, 2)
    assert.equal(world.core.counters.expiredLeases, 1)
  })

  it('is not prolonged beyond the times that can be told exactly', async () => {
    const { world, client, delivery } = await opened()
    for (let expiresAtMs = 0; expiresAtMs + 2 * DURATION_MS_MAX < Number.MAX_SAFE_INTEGER;) {
      expiresAtMs = (await client.now(client.renew(delivery, DURATION_MS_MAX))).lease.lease_expires_at_ms
    }
    await client.now(client.renew(delivery, DURATION_MS_MAX))
    const refused = client.renew(delivery, DURATION_MS_MAX)
    await world.flush()
    assert.equal(refused.code, 'invalid_request')
    await client.now(client.ack(delivery))
  })

  it('is not touched by the wall clock, whichever way it jumps', async () => {
    for (const jumpMs of [HOUR_MS, -HOUR_MS]) {
      const { world, client, delivery } = await opened()
      world.wallSkewMs += jumpMs
      await world.advance(999)
      assert.deepEqual(await client.now(client.claim('orders')), [])
      assert.equal((await client.now(client.leases('orders'))).leases[0]!.state, 'active')
      await world.advance(1)
      const [again] = await client.now(client.claim('orders'))
      assert.equal(again!.attempt, delivery.attempt + 1)
    }
  })

  it('does not come to life again when a start finds the wall clock an hour behind', async () => {
    const { world, client, delivery } = await opened()
    await world.advance(1000)
    await client.now(client.claim('orders', LEASE))
    world.wallSkewMs -= HOUR_MS
    const before = world.nowMs
    await world.close()
    await world.open()
    assert.ok(world.nowMs >= before)
    const late = client.ack(delivery)
    await world.flush()
    assert.equal(late.code, 'lease_expired')
  })

  it('may be another one’s by the time its record was read to be dead-lettered', async () => {
    const { world, client, delivery } = await opened()
    world.holdsReads = true
    const late = client.deadLetter(delivery, 'dead')
    await world.advance(1000)
    await world.flush()
    assert.equal(late.code, 'lease_expired')
    assert.deepEqual(await client.messages('dead'), [])
  })
})

describe('a failure policy that is applied when a lease expires', () => {
  it('gives the record out again after its delay, while attempts are left', async () => {
    const { world, client } = await opened({ max_attempts: 2, retry_delay_millis: 500, apply_on_expiry: true })
    await world.advance(1000)
    assert.deepEqual(await client.now(client.claim('orders')), [])
    const { delayed_retries } = await client.now(client.describeGroup('orders'))
    assert.deepEqual(
      delayed_retries.map(({ offset, attempt }) => [offset, attempt]),
      [[0, 1]],
    )
    await world.advance(500)
    const [again] = await client.now(client.claim('orders', LEASE))
    assert.equal(again!.attempt, 2)
  })

  it('dead-letters it when none is left, with its event, once', async () => {
    const { world, client, delivery } = await opened({
      max_attempts: 1,
      dead_letter_stream: 'dead',
      apply_on_expiry: true,
    })
    await world.advance(1000)
    await world.advance(1000)
    const { records } = await client.now(client.replay('dead'))
    assert.deepEqual(
      records.map(({ message_id, payload_hex, headers }) => ({ message_id, payload_hex, headers })),
      [
        {
          message_id: 'm-1',
          payload_hex: delivery.record.payload_hex,
          headers: {
            'x-dead-letter-source-stream': 'orders',
            'x-dead-letter-source-offset': '0',
            'x-dead-letter-reason': 'the lease expired',
            'x-dead-letter-origin-stream': 'orders',
            'x-dead-letter-origin-offset': '0',
            'x-dead-letter-count': '1',
          },
        },
      ],
    )
    const events = await client.now(client.events())
    const [event, ...others] = events.filter(({ kind }) => kind === 'delivery_dead_lettered')
    assert.deepEqual([event!.principal, event!.detail['cause'], others.length], ['broker', 'expiry', 0])
    assert.deepEqual(await client.now(client.claim('orders')), [])
    const late = client.ack(delivery)
    await world.flush()
    assert.equal(late.code, 'lease_expired')
  })

  it('stops the delivery when there is nowhere to copy it to', async () => {
    const { world, client } = await opened({ max_attempts: 1, dead_letter_stream: 'nowhere', apply_on_expiry: true })
    await world.advance(1000)
    await world.flush()
    const { leases } = await client.now(client.leases('orders'))
    assert.deepEqual(
      leases.map(({ state }) => state),
      ['stopped'],
    )
    const events = await client.now(client.events())
    assert.equal(events.filter(({ kind }) => kind === 'delivery_stopped').length, 1)
  })

  it('is applied after a start to what expired meanwhile', async () => {
    const { world, client } = await opened({ max_attempts: 1, dead_letter_stream: 'dead', apply_on_expiry: true })
    world.end('kill')
    await world.open()
    await world.advance(1000)
    await world.flush()
    assert.deepEqual(await client.messages('dead'), ['m-1'])
  })

  it('is applied when the log has room for it; until then the broker warns once in ten seconds', async () => {
    const { world, client } = await opened({ max_attempts: 1, dead_letter_stream: 'dead', apply_on_expiry: true })
    await withoutSpace(world, async () => {
      await world.advance(1000)
      assert.deepEqual(await client.messages('dead'), [])
      await world.advance(5000)
      assert.equal(world.warnings.filter((warning) => warning.includes('tried again')).length, 1)
      await world.advance(10_000)
      assert.equal(world.warnings.filter((warning) => warning.includes('tried again')).length, 2)
    })
    await world.advance(1000)
    await world.flush()
    assert.deepEqual(await client.messages('dead'), ['m-1'])
  })

  it('is applied when the log has room for it, also while it does without a replica', async () => {
    const world = await BrokerWorld.open({ replicas: ['/replica-1', '/replica-2'], writeQuorum: 2 })
    const client = new Client(world)
    const failure_policy = { max_attempts: 1, dead_letter_stream: 'dead', apply_on_expiry: true }
    await client.now(client.create('orders', { failure_policy }))
    await client.now(client.create('dead'))
    await client.now(client.publish('orders', 'm-1'))
    await client.now(client.claim('orders', LEASE))
    world.files.faults.write = (path) => (path.startsWith('/replica-2') ? 'EIO' : null)
    await client.now(client.publish('orders', 'm-2'))
    assert.equal(world.log.state.kind, 'degraded')
    await withoutSpace(world, async () => {
      await world.advance(1000)
      assert.deepEqual(await client.messages('dead'), [])
    })
    assert.equal(world.log.state.kind, 'degraded')
    await world.advance(1000)
    await world.flush()
    assert.deepEqual(await client.messages('dead'), ['m-1'])
  })

  it('stops a delivery whose record turns out damaged, and counts it no more', async () => {
    const { world, client } = await opened({ max_attempts: 1, dead_letter_stream: 'dead', apply_on_expiry: true })
    await client.now(client.publish('orders', 'm-2'))
    await world.close()
    const path = world.files.paths().find((each) => each.endsWith('records.log'))!
    world.files.damage(path, (bytes) => {
      const at = bytes.indexOf('payload of m-1')
      return bytes.fill(0, at, at + 4)
    })
    await world.open()
    assert.equal((await client.now(client.describeGroup('orders'))).lag_messages, 1)
    await world.advance(1000)
    await world.flush()
    assert.deepEqual(await client.messages('dead'), [])
    assert.equal((await client.now(client.leases('orders'))).leases[0]!.state, 'stopped')
    const described = await client.now(client.describeGroup('orders'))
    assert.deepEqual([described.lag_messages, described.progress_offset], [1, 1])
    assert.ok(!world.warnings.some((warning) => warning.includes('tried again')))
  })

  it('gives up what retention removed', async () => {
    const world = await BrokerWorld.open()
    const client = new Client(world)
    const failure_policy = { max_attempts: 1, dead_letter_stream: 'dead', apply_on_expiry: true }
    await client.now(client.create('orders', { failure_policy, retention: { max_bytes: 0 } }))
    await client.now(client.create('dead'))
    await client.now(client.publish('orders', 'm-1'))
    await client.now(client.claim('orders', LEASE))
    await withoutSpace(world, async () => {
      await world.advance(1000)
      await world.flush()
    })
    void world.retainer.enforce()
    await world.flush()
    assert.equal((await client.now(client.describe('orders'))).first_offset, 1)
    const warnings = world.warnings.length
    for (let i = 0; i < 3; i += 1) await world.advance(20)
    await world.flush()
    assert.deepEqual(await client.messages('dead'), [])
    assert.equal(world.warnings.length, warnings)
  })
})

describe('a disk that is nearly full', () => {
  it('refuses what is new and takes what finishes', async () => {
    const { world, client, delivery } = await opened()
    await client.now(client.publish('orders', 'm-2'))
    world.files.capacityBytes -= world.files.freeBytes('/') - RESERVE_BYTES
    await world.advance(300)
    world.world.lanes[0]!.idle()

    const refused = [client.publish('orders', 'm-3'), client.claim('orders'), client.create('more')]
    await world.flush()
    assert.deepEqual(
      refused.map(({ code }) => code),
      ['internal_error', 'queue_state_persistence_failed', 'internal_error'],
    )
    assert.equal((await client.now(client.describe('orders'))).next_offset, 2)
    assert.equal((await client.now(client.deadLetter(delivery, 'dead'))).dead_letter_offset, 0)
    assert.deepEqual(await client.messages('orders'), ['m-1', 'm-2'])
  })
})

describe('a disk whose sync fails', () => {
  it('refuses what was on its way with nothing half-changed, serves what is stored, and goes on after a start', async () => {
    const { world, client, delivery } = await opened({ max_attempts: 1, dead_letter_stream: 'dead' })
    world.files.faults = { sync: () => 'EIO' }
    const asked = [client.publish('orders', 'm-2'), client.nack(delivery), client.create('more')]
    await world.flush()
    assert.deepEqual(
      asked.map(({ code }) => code),
      ['internal_error', 'queue_state_persistence_failed', 'internal_error'],
    )
    const refused = [client.publish('orders', 'm-3'), client.ack(delivery), client.claim('orders')]
    await world.flush()
    assert.deepEqual(
      refused.map(({ code }) => code),
      ['internal_error', 'queue_state_persistence_failed', null],
    )
    assert.deepEqual(refused[2]!.value, [])
    assert.deepEqual(await client.messages('orders'), ['m-1'])
    assert.deepEqual(await client.messages('dead'), [])
    assert.equal((await client.now(client.leases('orders'))).leases[0]!.state, 'active')
    assert.deepEqual(
      (await client.now(client.events())).map(({ kind, stream }) => [kind, stream]),
      [
        ['stream_created', 'orders'],
        ['stream_created', 'dead'],
      ],
    )

    world.files.faults = {}
    world.end('crash')
    await world.open()
    const [dead] = await client.messages('dead')
    const { leases } = await client.now(client.leases('orders'))
    const events = await client.now(client.events())
    const isCopied = dead !== undefined // its frame may have reached the disk, but then as a whole
    assert.equal(leases[0]!.state, isCopied ? 'dead_lettered' : 'active')
    assert.equal(events.filter(({ kind }) => kind === 'delivery_dead_lettered').length, isCopied ? 1 : 0)
    await client.now(client.publish('orders', 'm-4'))
  })
})
