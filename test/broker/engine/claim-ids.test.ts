/** A claim with an id can be repeated: a repeat never gives a record a second lease. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StoreError } from '../../../src/errors.ts'
import type { ClaimBody } from '../../../src/broker/wire/requests.ts'
import { BrokerWorld, CALLER, NEVER_ABANDONED, Pending, jsonOf } from '../../support/broker-world.ts'
import { Client } from './client.ts'

const GROUP = { stream: 'orders', group: 'g1' }

interface Claimed {
  readonly subscription_id: string
  readonly deliveries: readonly {
    readonly delivery_id: string
    readonly offset: number
    readonly attempt: number
    readonly lease_expires_at_ms: number
  }[]
}

async function opened(records: number): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open()
  const client = new Client(world)
  await client.now(client.create('orders'))
  for (let i = 0; i < records; i += 1) await client.now(client.publish('orders', `m-${i}`))
  return { world, client }
}

async function done<T>(world: BrokerWorld, asked: Promise<T>): Promise<T> {
  const pending = new Pending(asked)
  await world.flush()
  return pending.value
}

function claimOf(world: BrokerWorld, body: ClaimBody): Pending<Claimed> {
  const answer = world.broker.claim(
    CALLER,
    GROUP,
    { max_messages: 2, lease_timeout_millis: 1000, ...body },
    NEVER_ABANDONED,
  )
  return new Pending(
    answer.then((bytes) => {
      const { subscription_id, deliveries } = jsonOf<Claimed>(bytes)
      return { subscription_id, deliveries: deliveries.map((each) => ({ ...each, lease_remaining_millis: 0 })) }
    }),
  )
}

const offsetsOf = ({ deliveries }: Claimed): number[] => deliveries.map(({ offset }) => offset)

/** Holds the next read of records for a claim until the test fails it. */
function holdNextRead({ core }: BrokerWorld): { fail(): void } {
  const { reads } = core
  const original = reads.deliveries.bind(reads)
  const held = Promise.withResolvers<never>()
  reads.deliveries = () => {
    reads.deliveries = original
    return held.promise
  }
  return { fail: () => held.reject(new StoreError('overloaded', 'reads_queue_full', 'too many reads are waiting')) }
}

async function ackAll(world: BrokerWorld, { subscription_id, deliveries }: Claimed): Promise<void> {
  for (const { delivery_id: deliveryId } of deliveries) {
    await done(world, world.broker.ack(CALLER, { stream: 'orders', subscriptionId: subscription_id, deliveryId }))
  }
}

describe('a claim with an id', () => {
  it('is given the same when it is sent twice at once, and when two of them wait', async () => {
    const { world, client } = await opened(0)
    const waiting = [1, 2].map(() => claimOf(world, { claim_id: 'mine', wait_millis: 1000 }))
    await world.flush()
    await client.now(client.publish('orders', 'm-0'))
    await world.flush()
    assert.deepEqual(offsetsOf(waiting[0]!.value), [0])
    assert.deepEqual(waiting[1]!.value, waiting[0]!.value)
    await ackAll(world, waiting[0]!.value)
    for (const name of ['m-1', 'm-2', 'm-3']) await client.now(client.publish('orders', name))
    const atOnce = [1, 2].map(() => claimOf(world, { claim_id: 'mine', max_messages: 1 }))
    await world.flush()
    assert.deepEqual(offsetsOf(atOnce[0]!.value), [1])
    assert.deepEqual(atOnce[1]!.value, atOnce[0]!.value)
    await world.close()
  })

  it('that waits is given what a claim of its id has leased, when its time is over', async () => {
    const { world } = await opened(1)
    const waiting = claimOf(world, { claim_id: 'mine', wait_millis: 500, start_offset: 1 })
    await world.flush()
    const first = claimOf(world, { claim_id: 'mine' })
    await world.flush()
    assert.deepEqual(offsetsOf(first.value), [0])
    await world.advance(501)
    await world.flush()
    assert.deepEqual(waiting.value, first.value)
    await world.close()
  })

  it('is given the same whatever else its body says, and is refused like others once its id is free', async () => {
    const { world } = await opened(1)
    const first = claimOf(world, { claim_id: 'mine' })
    await world.flush()
    const repeated = claimOf(world, { claim_id: 'mine', start_offset: 2, max_messages: 9 })
    await world.flush()
    assert.deepEqual(repeated.value, first.value)
    await ackAll(world, first.value)
    const later = claimOf(world, { claim_id: 'mine', start_offset: 2 })
    await world.flush()
    assert.equal(later.code, 'invalid_request')
    await world.close()
  })

  it('ends no lease when its records cannot be read again', async () => {
    const { world } = await opened(2)
    const first = claimOf(world, { claim_id: 'mine' })
    await world.flush()
    const read = holdNextRead(world)
    const repeated = claimOf(world, { claim_id: 'mine' })
    await world.flush()
    read.fail()
    await world.flush()
    assert.equal(repeated.code, 'reads_queue_full')
    const other = claimOf(world, {})
    await world.flush()
    assert.deepEqual(offsetsOf(other.value), [])
    await ackAll(world, first.value)
    await world.close()
  })

  it('is judged when the claim before has its answer, which may give everything back', async () => {
    const { world } = await opened(2)
    const read = holdNextRead(world)
    const first = claimOf(world, { claim_id: 'mine' })
    await world.flush()
    const repeated = claimOf(world, { claim_id: 'mine' })
    await world.flush()
    read.fail()
    await world.flush()
    assert.equal(first.code, 'reads_queue_full')
    await ackAll(world, repeated.value)
    assert.deepEqual(
      repeated.value.deliveries.map(({ attempt }) => attempt),
      [2, 2],
    )
    await world.close()
  })

  it('that is repeated is refused when its stream is deleted meanwhile, though another one has its name', async () => {
    const { world, client } = await opened(1)
    await client.now(client.claim('orders', { claim_id: 'mine' }))
    world.holdsReads = true
    const repeated = claimOf(world, { claim_id: 'mine' })
    const deleted = new Pending(world.broker.deleteStream(CALLER, 'orders', false))
    client.create('orders')
    client.publish('orders', 'new')
    await world.flush()
    assert.equal(deleted.value.deleted, true)
    assert.equal(repeated.code, 'missing_stream')
    await world.close()
  })
})
