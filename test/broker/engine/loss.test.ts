/** If a journal thread dies, its unwritten frames are lost. The broker goes on as if their operations had never been called. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Client } from './client.ts'
import { dumpOf } from './dump.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { BrokerWorld, CALLER } from '../../support/broker-world.ts'
import type { BrokerWorldOptions } from '../../support/broker-world.ts'

const GROUPS = ['g1', 'g2']

async function opened(options: BrokerWorldOptions = {}): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open(options)
  const client = new Client(world)
  await client.now(client.create('orders', { failure_policy: { max_attempts: 1, dead_letter_stream: 'dead' } }))
  await client.now(client.create('dead'))
  return { world, client }
}

/** Asserts that a broker recovered from the log shows the same as this one. */
async function assertRecoverable(world: BrokerWorld): Promise<void> {
  await world.flush()
  const live = await dumpOf(world, GROUPS)
  const copy = world.copy(2)
  copy.wallSkewMs += world.nowMs - copy.wallMs
  await copy.open()
  assert.deepEqual(await dumpOf(copy, GROUPS), live)
}

/** Loses a publish: it is on its way to the disk when the journal dies. */
async function loseSomething(world: BrokerWorld, client: Client): Promise<void> {
  const lost = client.publish('orders', 'lost')
  await world.journalDies()
  await nextTurn()
  assert.equal(lost.code, 'internal_error')
}

describe('a loss', () => {
  it('while a record is read to be dead-lettered leaves one copy, one event and the terminal state', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    const [delivery] = await client.now(client.claim('orders'))
    world.holdsReads = true
    const nacked = client.nack(delivery!)
    await nextTurn()
    await loseSomething(world, client)

    assert.equal((await client.now(nacked)).policy_action, 'dead_lettered')
    assert.deepEqual(await client.messages('dead'), ['m-1'])
    const { leases } = await client.now(client.leases('orders'))
    assert.deepEqual(
      leases.map(({ state }) => state),
      ['dead_lettered'],
    )
    assert.deepEqual(await client.now(client.claim('orders')), [])
    await assertRecoverable(world)
  })

  it('while a page is read has it read again, and counted once', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    world.holdsReads = true
    const replayed = client.replay('orders', { group: 'g1', id: 'reader' })
    await nextTurn()
    await loseSomething(world, client)

    const { records } = await client.now(replayed)
    assert.deepEqual(
      records.map(({ message_id }) => message_id),
      ['m-1'],
    )
    assert.equal(world.core.counters.replayedRecords, 1)
    await assertRecoverable(world)
  })

  it('while the failure policy reads a record whose lease expired leaves one copy', async () => {
    const world = await BrokerWorld.open()
    const client = new Client(world)
    const failure_policy = { max_attempts: 1, dead_letter_stream: 'dead', apply_on_expiry: true }
    await client.now(client.create('orders', { failure_policy }))
    await client.now(client.create('dead'))
    await client.now(client.publish('orders', 'm-1'))
    await client.now(client.claim('orders', { lease_timeout_millis: 100 }))
    world.holdsReads = true
    await world.advance(200)
    await loseSomething(world, client)
    await world.advance(200)
    await world.flush()
    await world.advance(200)

    assert.deepEqual(await client.messages('dead'), ['m-1'])
    const events = await client.now(client.events())
    assert.equal(events.filter(({ kind }) => kind === 'delivery_dead_lettered').length, 1)
    await assertRecoverable(world)
  })

  it('is heard of before anybody builds on what was lost', async () => {
    const { world, client } = await opened({ replicas: ['/replica'] })
    const waiting = client.claim('orders', { wait_millis: 1000 })
    await nextTurn()
    const stored = client.publish('orders', 'm-1')
    await nextTurn()
    world.stepWithoutNotice() // the first is written in the primary directory, but not yet in the replica
    const lost = client.publish('orders', 'm-2')
    await nextTurn()
    assert.equal(stored.outcome.kind, 'pending')
    await world.journalDies() // the first frame survives, the second is lost
    const [delivery] = await client.now(waiting)

    assert.equal(stored.value.offset, 0)
    assert.equal(lost.code, 'internal_error')
    assert.equal(delivery!.record.message_id, 'm-1')
    assert.equal((await client.now(client.ack(delivery!))).offset, 0)
    await assertRecoverable(world)
  })

  it('of a claim gives its records to those who wait', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    const lost = client.claim('orders')
    await nextTurn()
    const waiting = client.claim('orders', { wait_millis: 1000 })
    await world.journalDies()
    const [delivery] = await client.now(waiting)
    assert.equal(lost.code, 'queue_state_persistence_failed')
    assert.deepEqual([delivery!.offset, delivery!.attempt], [0, 1])
  })

  it('while a claim waits for what can be read has it look at the groups there are', async () => {
    const { world, client } = await opened()
    await client.now(client.create('jobs'))
    await client.now(client.publish('jobs', 'm-1'))
    await client.now(client.claim('jobs', { lease_timeout_millis: 100 }))
    const lost = client.publish('jobs', 'lost', 'volatile')
    world.world.nowMs += 200
    const claim = client.claim('jobs')
    await nextTurn()
    assert.deepEqual([lost.outcome.kind, claim.outcome.kind], ['answered', 'pending'])
    await world.journalDies()
    const [delivery] = await client.now(claim)
    assert.deepEqual([delivery!.offset, delivery!.attempt], [0, 2])
    assert.equal(world.core.counters.expiredLeases, 1) // the stale group of the lost state would count it again
  })

  it('while a page is read is noted for who read it', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    world.holdsReads = true
    const page = client.replay('orders', { group: 'g1', id: 'reader' })
    await nextTurn()
    const lost = client.claim('orders', {}, { group: 'g2' })
    await nextTurn()
    await world.journalDies()
    assert.equal(lost.code, 'queue_state_persistence_failed')
    assert.equal((await client.now(page)).records.length, 1)
    await assertRecoverable(world)
  })

  it('is recovered from in a moment, in which nobody is told that a disk failed', async () => {
    const { world, client } = await opened()
    world.world.lanes[0]!.die()
    assert.equal(world.log.state.kind, 'restarting')
    const refused = client.publish('orders', 'm-1')
    await nextTurn()
    assert.equal(refused.code, 'internal_error')
    assert.match(
      refused.outcome.kind === 'refused' ? String(refused.outcome.error) : '',
      /accepts no changes at present/,
    )
    await client.now(client.publish('orders', 'm-1'))
  })

  it('takes the group along that was made for it, and its number', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    const lost = client.claim('orders', {}, { group: 'g2' })
    await nextTurn()
    await world.journalDies()
    assert.equal(lost.code, 'queue_state_persistence_failed')
    const [delivery] = await client.now(client.claim('orders'))
    assert.equal((await client.now(client.ack(delivery!))).consumer_group, 'g1')
    assert.equal((await client.now(client.describeGroup('orders', 'g2'))).lag_messages, 1)
    await assertRecoverable(world)
  })

  it('of the creation of a stream makes what was asked of it find no stream', async () => {
    const { world, client } = await opened()
    const created = client.create('jobs')
    const asked = [client.replay('jobs'), client.describe('jobs'), client.claim('jobs'), client.describeGroup('jobs')]
    await nextTurn()
    assert.deepEqual(
      asked.map(({ outcome }) => outcome.kind),
      ['pending', 'pending', 'pending', 'pending'],
    )
    await world.journalDies()
    await world.flush()
    assert.equal(created.code, 'internal_error')
    assert.deepEqual(
      asked.map(({ code }) => code),
      ['stream_not_found', 'stream_not_found', 'missing_stream', 'stream_not_found'],
    )
  })

  it('after the batch was acknowledged does not make it fail', async () => {
    const { world, client } = await opened()
    await client.now(client.publish('orders', 'm-1'))
    const [delivery] = await client.now(client.claim('orders'))
    const { stream, subscriptionId, deliveryId } = delivery!
    const body = { delivery_ids: [deliveryId, 'dlv-unknown'] }
    const batch = world.broker.batchAck(CALLER, stream, subscriptionId, body)
    world.stepWithoutNotice()
    const lost = client.publish('orders', 'lost')
    await world.journalDies('unheard')
    assert.equal((await batch).acknowledged_count, 1)
    assert.equal(lost.code, 'internal_error')
  })
})
