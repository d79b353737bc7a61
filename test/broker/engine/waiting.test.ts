/** Claims with `wait_millis`, and how many consumers a group may have. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseQuotas } from '../../../src/config/quotas.ts'
import { Client } from './client.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { BrokerWorld, CALLER } from '../../support/broker-world.ts'
import type { BrokerWorldOptions } from '../../support/broker-world.ts'

const WAIT = { wait_millis: 10_000 }

async function opened(options: BrokerWorldOptions = {}): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open(options)
  const client = new Client(world)
  await client.now(client.create('orders'))
  return { world, client }
}

describe('a claim that waits', () => {
  it('is answered with the first record that comes, in the order of the claims', async () => {
    const { world, client } = await opened()
    const claims = [client.claim('orders', WAIT), client.claim('orders', WAIT), client.claim('orders', WAIT)]
    await world.flush()
    assert.equal(world.broker.waitingClaims, 3)
    await client.now(client.publish('orders', 'm-1'))
    await client.now(client.publish('orders', 'm-2'))
    const given = claims.map(({ outcome }) =>
      outcome.kind === 'answered' ? outcome.value[0]!.record.message_id : null,
    )
    assert.deepEqual(given, ['m-1', 'm-2', null])
  })

  it('is not answered with a record before it is stored', async () => {
    const { world, client } = await opened()
    const claim = client.claim('orders', WAIT)
    const published = client.publish('orders', 'm-1')
    await nextTurn()
    assert.equal(claim.outcome.kind, 'pending')
    await world.step()
    assert.equal(published.value.offset, 0)
    assert.equal((await client.now(claim)).length, 1)
  })

  it('is answered with what a lease that expires gives back', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    await client.now(client.claim('orders', { lease_timeout_millis: 1000 }))
    const claim = client.claim('orders', WAIT)
    await world.flush()
    await world.advance(999)
    assert.equal(claim.outcome.kind, 'pending')
    await world.advance(21)
    const [delivery] = await client.now(claim)
    assert.equal(delivery!.attempt, 2)
  })

  it('is answered when it finds out itself, woken by something else, that a lease is over', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    await client.now(client.claim('orders', { lease_timeout_millis: 1000 }))
    const claim = client.claim('orders', WAIT)
    await world.flush()
    await world.advance(999)
    await world.advance(1) // too short for a tick of the broker's timer
    await client.now(client.publish('orders', 'm-2'))
    const given = (await client.now(claim)).map(({ record, attempt }) => [record.message_id, attempt])
    assert.deepEqual(given, [['m-1', 2]])
  })

  it('is answered with what is retried at once, and with what is retried later when its time has come', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    const [first] = await client.now(client.claim('orders'))
    const second = client.claim('orders', WAIT)
    await client.now(client.retry(first!))
    const third = client.claim('orders', WAIT)
    await client.now(client.retry((await client.now(second))[0]!, 500))
    await world.flush()
    assert.equal(third.outcome.kind, 'pending')
    await world.advance(520)
    assert.equal((await client.now(third))[0]!.attempt, 3)
  })

  it('is answered with what is nacked', async () => {
    const { client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    const [delivery] = await client.now(client.claim('orders'))
    const claim = client.claim('orders', WAIT)
    await client.now(client.nack(delivery!))
    assert.equal((await client.now(claim))[0]!.attempt, 2)
  })

  it('is not overtaken by one that comes later, when time has just made something available', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    await client.now(client.claim('orders', { lease_timeout_millis: 1000 }))
    const early = client.claim('orders', WAIT)
    await world.flush()
    world.world.nowMs += 1000 // time has passed, but no timer has fired yet
    const late = client.claim('orders')
    assert.deepEqual(await client.now(late), [])
    assert.equal((await client.now(early)).length, 1)
  })

  it('looks only from its start offset on', async () => {
    const { client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    const claim = client.claim('orders', { ...WAIT, start_offset: 1 })
    const other = client.claim('orders', WAIT)
    assert.equal((await client.now(other))[0]!.offset, 0)
    await client.now(client.publish('orders', 'm-2'))
    assert.equal((await client.now(claim))[0]!.offset, 1)
  })

  it('is answered empty when its time is over', async () => {
    const { world, client } = await opened()
    const claim = client.claim('orders', { wait_millis: 100 })
    await world.flush()
    await world.advance(99)
    assert.equal(claim.outcome.kind, 'pending')
    await world.advance(20) // a tick of the broker's only timer
    assert.deepEqual(await client.now(claim), [])
    assert.equal(world.broker.waitingClaims, 0)
  })

  it('takes nothing for a client that is gone, whenever it went', async () => {
    const { world, client } = await opened()
    let abandon = (): void => {}
    const gone = client.claim('orders', WAIT, { abandonedSignal: { onAbandoned: (listener) => (abandon = listener) } })
    client.claim('orders', WAIT, { abandonedSignal: { onAbandoned: (listener) => listener() } })
    await world.flush()
    abandon()
    assert.deepEqual(await client.now(gone), [])
    await client.now(client.publish('orders', 'm-1'))
    assert.equal((await client.now(client.describeGroup('orders'))).in_flight_count, 0)
    assert.equal((await client.now(client.claim('orders')))[0]!.attempt, 1)
  })

  it('is answered empty when the broker closes', async () => {
    const { world, client } = await opened()
    const claim = client.claim('orders', WAIT)
    await world.flush()
    world.broker.close()
    assert.deepEqual(await client.now(claim), [])
  })

  it('goes on waiting while the journal is started anew', async () => {
    const { world, client } = await opened()
    const claim = client.claim('orders', WAIT)
    await world.flush()
    await world.journalDies()
    await client.now(client.publish('orders', 'm-1'))
    assert.equal((await client.now(claim)).length, 1)
  })

  it('fails when the disk does', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    const [delivery] = await client.now(client.claim('orders'))
    const claim = client.claim('orders', WAIT)
    world.files.faults = { sync: () => 'EIO' }
    const acked = client.ack(delivery!)
    await world.flush()
    assert.equal(acked.code, 'queue_state_persistence_failed')
    assert.equal(claim.outcome.kind, 'pending') // as far as the broker knows, another client still has the lease
    await world.advance(30_020)
    assert.equal(claim.code, 'queue_state_persistence_failed')
  })
})

describe('a tenant with a quota of consumers', () => {
  it('has so many subscriptions with active leases in a group, and no more', async () => {
    const quotas = parseQuotas(JSON.stringify({ tenants: [{ tenant: CALLER.tenant, consumers_per_group: 2 }] }))
    const { world, client } = await opened({ quotas })
    for (const name of ['m-1', 'm-2', 'm-3', 'm-4']) await client.now(client.publish('orders', name))
    const [first] = await client.now(client.claim('orders'))
    const [second] = await client.now(client.claim('orders', { lease_timeout_millis: 1000 }))
    const refused = client.claim('orders')
    await world.flush()
    assert.equal(refused.code, 'quota_exceeded')
    assert.equal((await client.now(client.claim('orders', {}, { group: 'g2' }))).length, 1)

    await client.now(client.ack(first!))
    const [third] = await client.now(client.claim('orders'))
    await world.advance(1000)
    assert.equal((await client.now(client.claim('orders'))).length, 1)
    const late = [client.ack(second!), client.claim('orders')]
    await world.flush()
    assert.deepEqual(
      late.map(({ code }) => code),
      ['lease_expired', 'quota_exceeded'],
    )
    await client.now(client.ack(third!))
    assert.equal((await client.now(client.claim('orders'))).length, 1)
  })
})
