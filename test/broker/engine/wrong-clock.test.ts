/** A wall clock that was wrong once, and a machine that sleeps: what stays wrong, for how long, and how to correct it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Client } from './client.ts'
import { BrokerWorld } from '../../support/broker-world.ts'
import type { BrokerWorldOptions } from '../../support/broker-world.ts'

const HOUR_MS = 3_600_000
const YEAR_MS = 365 * 24 * HOUR_MS
const LEASE_MS = 60_000
/** More than broker time slews towards the wall clock in these tests. */
const NEAR_MS = 100

async function opened(options: BrokerWorldOptions = {}): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open(options)
  return { world, client: new Client(world) }
}

/** The clock is a year ahead while a lease and a delay begin, and right again after a restart. */
async function afterAYear(how: 'slew' | 'reset') {
  const { world, client } = await opened()
  world.wallSkewMs = YEAR_MS
  await world.close()
  await world.open()
  await client.now(client.create('orders'))
  for (const id of ['m-1', 'm-2', 'm-3']) await client.now(client.publish('orders', id))
  const [held, delayed] = await client.now(client.claim('orders', { max_messages: 2, lease_timeout_millis: LEASE_MS }))
  await client.now(client.retry(delayed!, LEASE_MS))
  await world.close()
  world.wallSkewMs = 0
  world.setsClock = how === 'reset'
  await world.open()
  world.setsClock = false
  return { world, client, held: held! }
}

describe('a wall clock that was a year ahead at an earlier start', () => {
  it('leaves leases a year ahead, which health can tell, and nothing else', async () => {
    const { world, client, held } = await afterAYear('slew')
    assert.ok(Math.abs(world.core.time.offsetMs - YEAR_MS) < NEAR_MS)
    await client.now(client.create('more'))
    const events = await client.now(client.events())
    assert.ok(Math.abs(events.at(-1)!.at_ms - world.wallMs) < NEAR_MS, 'an event has the time on the wall')
    assert.equal((await client.now(client.describe('more'))).created_at_ms, events.at(-1)!.at_ms)
    const { leases } = await client.now(client.leases('orders'))
    const [lease] = leases
    assert.equal(lease!.state, 'active')
    assert.ok(lease!.lease_expires_at_ms! - world.wallMs > YEAR_MS - HOUR_MS)
    assert.ok(lease!.lease_remaining_millis! <= LEASE_MS && lease!.lease_remaining_millis! > LEASE_MS - NEAR_MS)
    await client.now(client.ack(held))
    await world.close()
  })

  it('is over with a start that resets broker time: leases and delays keep what is left of them, and it is audited', async () => {
    const { world, client, held } = await afterAYear('reset')
    assert.ok(Math.abs(world.core.time.offsetMs) < NEAR_MS)
    const check = async (): Promise<void> => {
      const { leases } = await client.now(client.leases('orders'))
      const [lease] = leases
      assert.deepEqual([lease!.offset, lease!.state], [0, 'active'])
      assert.ok(Math.abs(lease!.lease_expires_at_ms! - world.wallMs - LEASE_MS) < NEAR_MS)
      assert.ok(lease!.lease_remaining_millis! <= LEASE_MS && lease!.lease_remaining_millis! > LEASE_MS - NEAR_MS)
    }
    await check()
    const sets = (await client.now(client.events())).filter(({ kind }) => kind === 'clock_set')
    assert.deepEqual(
      sets.map(({ principal, detail }) => [principal, Math.round(Number(detail['shift_ms']) / HOUR_MS)]),
      [['operator', -YEAR_MS / HOUR_MS]],
    )
    await world.close()
    await world.open() // recovers from the frames, without setting the clock again
    assert.ok(Math.abs(world.core.time.offsetMs) < NEAR_MS)
    await check()
    await world.advance(LEASE_MS - NEAR_MS)
    assert.equal((await client.now(client.claim('orders', { max_messages: 9 }))).length, 1, 'the one never given out')
    await world.advance(2 * NEAR_MS)
    const again = await client.now(client.claim('orders', { max_messages: 9 }))
    assert.deepEqual(
      again.map(({ offset, attempt }) => [offset, attempt]),
      [
        [0, held.attempt + 1],
        [1, 2],
      ],
    )
    await world.close()
  })

  it('does not keep a greatest age from removing what is behind the records of that time', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders', { retention: { max_age_millis: HOUR_MS } }))
    await client.now(client.publish('orders', 'right'))
    world.wallSkewMs = YEAR_MS
    for (let i = 0; i < 200; i += 1) await client.now(client.publish('orders', `wrong ${i}`))
    world.wallSkewMs = 0
    await world.advance(1000)
    for (let i = 0; i < 100; i += 1) await client.now(client.publish('orders', `late ${i}`))
    const floor = async (): Promise<number> => {
      const round = world.retainer.enforce()
      await world.flush()
      await round
      return (await client.now(client.describe('orders'))).first_offset
    }
    await world.advance(HOUR_MS - 1000)
    assert.equal(await floor(), 0)
    await world.advance(1)
    assert.equal(await floor(), 1, 'what was stored at the right time is too old, those of the future may be young')
    await world.advance(999)
    await client.now(client.publish('orders', 'young'))
    assert.equal(await floor(), 1)
    await world.advance(1)
    assert.equal(await floor(), 301, 'they are older than what is too old behind them')
    await world.advance(HOUR_MS)
    assert.equal(await floor(), 302)
    await world.close()
  })

  it('has very many records of that time removed by one search after the other', async () => {
    const { world, client } = await opened({ segmentBytes: 1 << 20 })
    await client.now(client.create('orders', { retention: { max_age_millis: HOUR_MS } }))
    world.wallSkewMs = YEAR_MS
    const count = 70 * 64
    for (let i = 0; i < count; i += 100) {
      for (let k = i; k < Math.min(i + 100, count); k += 1) client.publish('orders', `${k}`)
      await world.flush()
    }
    world.wallSkewMs = 0
    for (let i = 0; i < 64; i += 1) await client.now(client.publish('orders', `late ${i}`))
    await world.advance(2 * HOUR_MS)
    const floors: number[] = []
    for (let round = 0; round < 3; round += 1) {
      const enforced = world.retainer.enforce()
      await world.flush()
      await enforced
      floors.push((await client.now(client.describe('orders'))).first_offset)
    }
    assert.deepEqual(floors, [64 * 64, count + 64, count + 64])
    await world.close()
  })
})

describe('a machine that slept for longer than a lease', () => {
  it('gives its record out again', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    await client.now(client.publish('orders', 'm-1'))
    const [held] = await client.now(client.claim('orders', { lease_timeout_millis: LEASE_MS }))
    world.sleptMs += HOUR_MS
    world.wallSkewMs += HOUR_MS
    await world.advance(1000)
    const late = client.ack(held!)
    await world.flush()
    assert.equal(late.code, 'lease_expired')
    const [again] = await client.now(client.claim('orders'))
    assert.equal(again!.attempt, 2)
    assert.deepEqual([world.core.time.sleptMs, world.core.time.offsetMs], [HOUR_MS, 0])
    await world.close()
  })
})
