/** Streams, groups and cursors that are changed, purged, moved and deleted, with restarts from frames and from checkpoints. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerWorld, CALLER, Pending, jsonOf } from '../../support/broker-world.ts'
import { Client, inputOf } from './client.ts'
import type { Delivery } from './client.ts'

const GROUP = { stream: 'orders', group: 'g1' }
const NO_FORCE = false

async function opened(segmentBytes = 1 << 20): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open({ segmentBytes })
  return { world, client: new Client(world) }
}

async function publishAll(client: Client, stream: string, count: number, prefix = 'm'): Promise<void> {
  for (let i = 0; i < count; i += 1) await client.now(client.publish(stream, `${prefix}-${i}`))
}

async function done<T>(world: BrokerWorld, asked: Promise<T>): Promise<T> {
  const pending = new Pending(asked)
  await world.flush()
  return pending.value
}

async function refusalOf(world: BrokerWorld, asked: Promise<unknown>): Promise<{ code: unknown; message: string }> {
  const pending = new Pending(asked)
  await world.flush()
  const { outcome } = pending
  assert.ok(outcome.kind === 'refused' && outcome.error instanceof Error)
  return { code: pending.code, message: outcome.error.message }
}

/** Fills segments until a checkpoint covers everything before them. */
async function checkpoint(world: BrokerWorld, client: Client): Promise<void> {
  const before = world.engine.checkpoints.position
  for (let i = 0; world.engine.checkpoints.position === before; i += 1) {
    await client.now(client.publish('filler', `${i} ${'x'.repeat(2000)}`))
    await world.engine.idle()
  }
}

async function kinds(client: Client): Promise<string[]> {
  return (await client.now(client.events())).map(({ kind }) => kind)
}

describe('a stream that is deleted', () => {
  for (const how of ['frames', 'checkpoint'] as const) {
    it(`is gone, and one of its name is new, after a start from ${how} too`, async () => {
      const { world, client } = await opened(8192)
      await client.now(client.create('filler', { retention: { max_bytes: 1 } }))
      await client.now(client.create('orders'))
      await publishAll(client, 'orders', 3)
      const [delivery] = await client.now(client.claim('orders'))
      await done(world, world.broker.commitCursor(CALLER, GROUP, 'c', 2))
      const deleted = await done(world, world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
      assert.deepEqual([deleted.deleted, deleted.removed_records], [true, 3])
      if (how === 'checkpoint') await checkpoint(world, client)
      await world.close()
      await world.open()
      const absent = client.describe('orders')
      await world.flush()
      assert.equal(absent.code, 'stream_not_found')
      await client.now(client.create('orders'))
      await client.now(client.publish('orders', 'new'))
      assert.deepEqual(await client.messages('orders'), ['new'])
      assert.deepEqual((await client.now(client.describeGroup('orders'))).cursors, [])
      const [fresh] = await client.now(client.claim('orders'))
      assert.deepEqual([fresh!.offset, fresh!.attempt], [0, 1])
      const late = client.ack(delivery!)
      await world.flush()
      assert.equal(late.code, 'delivery_not_found')
      await client.now(client.ack(fresh!))
      await world.close()
      await world.open()
      assert.deepEqual(await client.messages('orders'), ['new'])
      const events = await kinds(client)
      assert.equal(events.filter((kind) => kind === 'stream_deleted').length, 1)
      await world.close()
    })
  }

  for (const how of ['frames', 'checkpoint'] as const) {
    it(`is told from one of its name by the time of its creation, although the wall clock goes back, after a start from ${how} too`, async () => {
      const { world, client } = await opened(8192)
      await client.now(client.create('filler', { retention: { max_bytes: 1 } }))
      await client.now(client.create('orders'))
      const { created_at_ms: first } = await client.now(client.describe('orders'))
      world.wallSkewMs = -3_600_000
      await done(world, world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
      if (how === 'checkpoint') await checkpoint(world, client)
      await world.close()
      await world.open()
      await client.now(client.create('orders'))
      const { created_at_ms: second } = await client.now(client.describe('orders'))
      assert.ok(second > first)
      const event = (await client.now(client.events())).at(-1)!
      assert.deepEqual([event.kind, event.at_ms < first], ['stream_created', true]) // an event has the time on the wall
      await world.close()
      await world.open()
      assert.equal((await client.now(client.describe('orders'))).created_at_ms, second)
      const late = client.claim('orders', { stream_created_at_ms: first })
      await world.flush()
      assert.equal(late.code, 'missing_stream')
      await world.close()
    })
  }

  it('and created again in the same millisecond is told from the first', async () => {
    const { world, client } = await opened()
    const created: number[] = []
    for (let i = 0; i < 3; i += 1) {
      client.create('orders')
      const described = client.describe('orders')
      await done(world, world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
      created.push(described.value.created_at_ms)
    }
    assert.equal(new Set(created).size, 3)
    await world.close()
  })

  it('refuses those who wait for its records, though one of its name comes at once', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    const claim = client.claim('orders', { wait_millis: 10_000 })
    await world.flush()
    const deleted = new Pending(world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
    const created = client.create('orders')
    const published = client.publish('orders', 'new')
    await world.flush()
    assert.equal(claim.code, 'missing_stream')
    assert.deepEqual([deleted.value.deleted, created.value.created, published.value.offset], [true, true, 0])
    await world.close()
  })

  it('that is lost is there again, with all it had', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    await publishAll(client, 'orders', 2)
    const [delivery] = await client.now(client.claim('orders'))
    const deleted = new Pending(world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
    await world.journalDies()
    await world.advance(1000)
    await world.flush()
    assert.equal(deleted.code, 'internal_error')
    assert.deepEqual(await client.messages('orders'), ['m-0', 'm-1'])
    await client.now(client.ack(delivery!))
    await world.close()
  })

  it('gives its space back', async () => {
    const { world, client } = await opened(4096)
    await client.now(client.create('kept'))
    await client.now(client.publish('kept', 'stays'))
    await client.now(client.create('orders'))
    for (let i = 0; i < 40; i += 1) await client.now(client.publish('orders', `${i} ${'x'.repeat(1000)}`))
    await world.engine.idle()
    const before = world.log.segments.length
    await done(world, world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
    for (let i = 0; i < 8; i += 1) {
      await Promise.all([world.retainer.enforce(), world.flush()])
      await world.flush()
      await world.engine.idle()
    }
    assert.ok(world.log.segments.length < before / 2, `${before} segments, now ${world.log.segments.length}`)
    assert.deepEqual(await client.messages('kept'), ['stays'])
    await world.close()
    await world.open()
    assert.deepEqual(await client.messages('kept'), ['stays'])
    await world.close()
  })

  it('is refused while it is a dead-letter stream, or holds what a cursor has not passed, unless by force', async () => {
    const { world, client } = await opened()
    await client.now(client.create('dead'))
    await client.now(client.create('orders', { failure_policy: { max_attempts: 1, dead_letter_stream: 'dead' } }))
    const target = await refusalOf(world, world.broker.deleteStream(CALLER, 'dead', NO_FORCE))
    assert.equal(target.code, 'write_not_allowed')
    assert.match(target.message, /dead-letter stream of "orders"/)
    await done(world, world.broker.deleteStream(CALLER, 'dead', true))

    await client.now(client.create('kept', { retention: { min_cursor_name: 'slow' } }))
    await publishAll(client, 'kept', 2)
    await done(world, world.broker.commitCursor(CALLER, { stream: 'kept', group: 'g9' }, 'slow', 1))
    for (const asked of [
      () => world.broker.deleteStream(CALLER, 'kept', NO_FORCE),
      () => world.broker.purgeStream(CALLER, 'kept', { offset: 2 }, NO_FORCE),
      () => world.broker.deleteGroup(CALLER, { stream: 'kept', group: 'g9' }, NO_FORCE),
      () => world.broker.deleteCursor(CALLER, { stream: 'kept', group: 'g9' }, 'slow', NO_FORCE),
      () => world.broker.updateStream(CALLER, 'kept', { retention: { min_cursor_name: null } }, NO_FORCE),
    ]) {
      const held = await refusalOf(world, asked())
      assert.equal(held.code, 'write_not_allowed')
      assert.match(held.message, /cursor "slow" of consumer group "g9"/)
    }
    await done(world, world.broker.purgeStream(CALLER, 'kept', { offset: 1 }, NO_FORCE))
    await done(world, world.broker.deleteCursor(CALLER, { stream: 'kept', group: 'g9' }, 'slow', true))
    await done(world, world.broker.deleteStream(CALLER, 'kept', NO_FORCE))
    assert.equal(
      (await refusalOf(world, world.broker.deleteStream(CALLER, 'system.audit', true))).code,
      'write_not_allowed',
    )
    await world.close()
  })
})

describe('a stream that is changed', () => {
  it('keeps what is not named, has the default of what is null, and remembers it from a checkpoint', async () => {
    const { world, client } = await opened(8192)
    await client.now(client.create('filler', { retention: { max_bytes: 1 } }))
    await client.now(client.create('orders', { retention: { max_age_millis: 5000, max_bytes: 100 } }))
    const policy = { max_attempts: 2, dead_letter_stream: 'filler' }
    const body = { retention: { max_bytes: null }, failure_policy: policy }
    const updated = await done(world, world.broker.updateStream(CALLER, 'orders', body, NO_FORCE))
    assert.deepEqual(updated.retention, { max_age_millis: 5000, max_bytes: null, min_cursor_name: null })
    assert.deepEqual(updated.failure_policy, { ...policy, retry_delay_millis: 0, apply_on_expiry: false })
    const more = { failure_policy: { retry_delay_millis: 7 } }
    await done(world, world.broker.updateStream(CALLER, 'orders', more, NO_FORCE))
    await checkpoint(world, client)
    await world.close()
    await world.open()
    const { failure_policy, retention, default_durability } = await client.now(client.describe('orders'))
    assert.deepEqual(failure_policy, { ...policy, retry_delay_millis: 7, apply_on_expiry: false })
    assert.deepEqual([retention.max_age_millis, default_durability], [5000, 'local-disk'])
    const wrong = { failure_policy: { max_attempts: 1, dead_letter_stream: 'orders' } }
    const refusal = await refusalOf(world, world.broker.updateStream(CALLER, 'orders', wrong, NO_FORCE))
    assert.equal(refusal.code, 'invalid_request')
    await done(world, world.broker.updateStream(CALLER, 'orders', { failure_policy: null }, NO_FORCE))
    assert.equal((await client.now(client.describe('orders'))).failure_policy, null)
    const incomplete = { failure_policy: { retry_delay_millis: 7 } }
    const missing = await refusalOf(world, world.broker.updateStream(CALLER, 'orders', incomplete, NO_FORCE))
    assert.equal(missing.code, 'invalid_request')
    await world.close()
  })
})

describe('a purge', () => {
  it('that waits leaves a stream alone that came back under the name meanwhile', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    await publishAll(client, 'orders', 3, 'old')
    world.holdsReads = true
    const reading = new Pending(world.broker.purgeStream(CALLER, 'orders', { offset: 2 }, NO_FORCE))
    client.publish('orders', 'on its way')
    const waiting = new Pending(world.broker.purgeStream(CALLER, 'orders', { offset: 4 }, NO_FORCE))
    const deleted = new Pending(world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
    client.create('orders')
    for (let i = 0; i < 4; i += 1) client.publish('orders', `new-${i}`)
    await world.flush()
    assert.equal(deleted.value.deleted, true)
    assert.deepEqual([reading.code, waiting.code], ['stream_not_found', 'stream_not_found'])
    const described = await done(world, world.broker.describeStream(CALLER, 'orders'))
    assert.deepEqual([described.first_offset, described.next_offset], [0, 4])
  })

  it('removes what is below its offset, and never gives an offset back', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    await publishAll(client, 'orders', 5)
    const purged = await done(world, world.broker.purgeStream(CALLER, 'orders', { offset: 3, reason: 'old' }, NO_FORCE))
    assert.deepEqual([purged.first_offset, purged.previous_first_offset, purged.removed_records], [3, 0, 3])
    assert.equal(purged.removed_bytes, 3 * Buffer.byteLength('payload of m-0'))
    const again = await done(world, world.broker.purgeStream(CALLER, 'orders', { offset: 1 }, NO_FORCE))
    assert.deepEqual([again.first_offset, again.removed_records], [3, 0])
    const beyond = await refusalOf(world, world.broker.purgeStream(CALLER, 'orders', { offset: 6 }, NO_FORCE))
    assert.equal(beyond.code, 'invalid_request')
    const both = [4, 5].map((offset) => new Pending(world.broker.purgeStream(CALLER, 'orders', { offset }, NO_FORCE)))
    await world.flush()
    assert.deepEqual(
      both.map(({ value }) => value.removed_records),
      [1, 1],
    )
    await client.now(client.publish('orders', 'next'))
    await world.close()
    await world.open()
    assert.deepEqual(await client.messages('orders'), ['next'])
    assert.equal((await client.now(client.describe('orders'))).next_offset, 6)
    await world.close()
  })
})

describe('a group that is sought', () => {
  it('is given everything from there on again, and old deliveries end', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    await publishAll(client, 'orders', 4)
    const [a, b, c] = (await client.now(client.claim('orders', { max_messages: 3 }))) as [Delivery, Delivery, Delivery]
    await client.now(client.ack(a))
    await client.now(client.ack(b))
    const sought = await done(world, world.broker.seekGroup(CALLER, GROUP, { offset: 1, reason: 'a bug' }))
    assert.deepEqual([sought.offset, sought.previous_offset, sought.reason], [1, 2, 'a bug'])
    const again = await client.now(client.claim('orders', { max_messages: 9 }))
    assert.deepEqual(
      again.map((delivery) => [delivery.offset, delivery.attempt]),
      [1, 2, 3].map((offset) => [offset, 1]),
    )
    const late = client.ack(c)
    await world.flush()
    assert.equal(late.code, 'delivery_not_found')
    for (const delivery of again) await client.now(client.ack(delivery))
    await world.close()
    await world.open()
    assert.equal((await client.now(client.describeGroup('orders'))).progress_offset, 4)
    assert.equal((await kinds(client)).at(-1), 'group_sought')
    await world.close()
  })

  it('goes to the first record of a time, and wakes who waits', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    for (const event of [100, 200, 300]) {
      await done(world, world.broker.publish(CALLER, 'orders', { ...inputOf(`m-${event}`), eventTimeMs: event }))
    }
    for (const delivery of await client.now(client.claim('orders', { max_messages: 3 })))
      await client.now(client.ack(delivery))
    const waiting = client.claim('orders', { max_messages: 9, wait_millis: 10_000 })
    await world.flush()
    const seek = { event_time_ms: 150, reason: 'again' }
    assert.equal((await done(world, world.broker.seekGroup(CALLER, GROUP, seek))).offset, 1)
    await world.flush()
    assert.deepEqual(
      waiting.value.map(({ offset }) => offset),
      [1, 2],
    )
    for (const body of [{ reason: 'x' }, { offset: 0, event_time_ms: 1, reason: 'x' }, { offset: 9, reason: 'x' }]) {
      assert.equal((await refusalOf(world, world.broker.seekGroup(CALLER, GROUP, body))).code, 'invalid_request')
    }
    await world.close()
  })
})

describe('a group that is deleted', () => {
  it('is gone with its leases and cursors; tokens of one of its name go on', async () => {
    const { world, client } = await opened(8192)
    await client.now(client.create('filler', { retention: { max_bytes: 1 } }))
    await client.now(client.create('orders'))
    await publishAll(client, 'orders', 2)
    const tokenOf = async (): Promise<number> => {
      const body = { lease_timeout_millis: 1000 }
      const answer = await done(world, world.broker.claim(CALLER, GROUP, body, { onAbandoned: () => {} }))
      return jsonOf<{ deliveries: { fencing_token: number }[] }>(answer).deliveries[0]!.fencing_token
    }
    assert.deepEqual([await tokenOf(), await tokenOf()], [1, 2])
    await done(world, world.broker.commitCursor(CALLER, GROUP, 'c', 1))
    const { consumer_groups, group_count } = await done(world, world.broker.listGroups(CALLER, 'orders'))
    assert.equal(group_count, 1)
    assert.deepEqual(consumer_groups[0], {
      consumer_group: 'g1',
      progress_offset: 0,
      lag_messages: 2,
      in_flight_count: 2,
      delayed_count: 0,
      cursor_count: 1,
      oldest_unfinished_age_millis: 0,
    })
    await done(world, world.broker.deleteGroup(CALLER, GROUP, NO_FORCE))
    assert.equal((await refusalOf(world, world.broker.deleteGroup(CALLER, GROUP, NO_FORCE))).code, 'not_found')
    assert.equal((await refusalOf(world, world.broker.deleteCursor(CALLER, GROUP, 'c', NO_FORCE))).code, 'not_found')
    assert.deepEqual([world.core.state.totals.leased, world.core.state.groupCount], [0, 0])
    await checkpoint(world, client)
    await world.close()
    await world.open()
    assert.deepEqual([await tokenOf(), await tokenOf()], [3, 4])
    await world.close()
  })
})

describe('a claim with an id', () => {
  const claimOf = async (world: BrokerWorld, id: string | null, max = 2) => {
    const body = { claim_id: id, max_messages: max, lease_timeout_millis: 1000 }
    const answer = await done(world, world.broker.claim(CALLER, GROUP, body, { onAbandoned: () => {} }))
    const { deliveries, subscription_id } = jsonOf<{
      subscription_id: string
      deliveries: { delivery_id: string; offset: number; fencing_token: number; lease_expires_at_ms: number }[]
    }>(answer)
    return { subscription_id, deliveries: deliveries.map((each) => ({ ...each, lease_remaining_millis: 0 })) }
  }

  it('is given the same deliveries again while they live, over restarts, and then others', async () => {
    const { world, client } = await opened(8192)
    await client.now(client.create('filler', { retention: { max_bytes: 1 } }))
    await client.now(client.create('orders'))
    await publishAll(client, 'orders', 4)
    const first = await claimOf(world, 'mine')
    assert.deepEqual(
      first.deliveries.map(({ offset }) => offset),
      [0, 1],
    )
    assert.deepEqual(await claimOf(world, 'mine', 1), first)
    await checkpoint(world, client)
    await world.close()
    await world.open()
    assert.deepEqual(await claimOf(world, 'mine'), first)
    assert.deepEqual(
      (await claimOf(world, null, 1)).deliveries.map(({ offset }) => offset),
      [2],
    )
    const [gone, left] = first.deliveries
    const path = { stream: 'orders', subscriptionId: first.subscription_id }
    await done(world, world.broker.ack(CALLER, { ...path, deliveryId: gone!.delivery_id }))
    const renew = { extend_by_millis: 500 }
    await done(world, world.broker.renew(CALLER, { ...path, deliveryId: left!.delivery_id }, renew))
    const second = await claimOf(world, 'mine')
    const renewed = { ...left, lease_expires_at_ms: left!.lease_expires_at_ms + 500 }
    assert.deepEqual(second, { ...first, deliveries: [renewed] })
    await done(world, world.broker.ack(CALLER, { ...path, deliveryId: left!.delivery_id }))
    const third = await claimOf(world, 'mine')
    assert.deepEqual(
      third.deliveries.map(({ offset }) => offset),
      [3],
    )
    assert.notEqual(third.subscription_id, first.subscription_id)
    await world.close()
  })
})

describe('a replay that waits', () => {
  const replay = (
    world: BrokerWorld,
    waitMs: number,
    start: { by: 'offset'; offset: number } | { by: 'event_time'; timeMs: number },
  ) =>
    new Pending(
      world.broker
        .replay(CALLER, 'orders', {
          start,
          maxRecords: 10,
          maxPayloadBytes: null,
          consumer: null,
          waitMs,
          legacy: false,
        })
        .then((bytes) =>
          jsonOf<{ records: { message_id: string }[] }>(bytes).records.map(({ message_id }) => message_id),
        ),
    )

  it('is answered with the record it waits for, or with nothing when its time is over', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    await publishAll(client, 'orders', 2)
    const there = replay(world, 1000, { by: 'offset', offset: 1 })
    const next = replay(world, 1000, { by: 'offset', offset: 2 })
    const later = replay(world, 1000, { by: 'offset', offset: 3 })
    const byTime = replay(world, 1000, { by: 'event_time', timeMs: 2 ** 50 })
    await world.flush()
    assert.deepEqual(there.value, ['m-1'])
    assert.deepEqual(
      [next, later, byTime].map(({ outcome }) => outcome.kind),
      ['pending', 'pending', 'pending'],
    )
    await client.now(client.publish('orders', 'm-2'))
    await world.flush()
    assert.deepEqual(next.value, ['m-2'])
    assert.deepEqual([later.outcome.kind, byTime.outcome.kind], ['pending', 'pending'])
    await world.advance(1001)
    await world.flush()
    assert.deepEqual([later.value, byTime.value], [[], []])
    const gone = replay(world, 1000, { by: 'offset', offset: 3 })
    await world.flush()
    await done(world, world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
    await world.flush()
    assert.equal(gone.code, 'stream_not_found')
    await world.close()
  })

  it('is refused when its stream is deleted while it reads, though another one has its name', async () => {
    const { world, client } = await opened()
    await client.now(client.create('orders'))
    await publishAll(client, 'orders', 1)
    world.holdsReads = true
    const waiting = replay(world, 1000, { by: 'event_time', timeMs: 2 ** 50 })
    const deleted = new Pending(world.broker.deleteStream(CALLER, 'orders', NO_FORCE))
    client.create('orders')
    client.publish('orders', 'new')
    await world.flush()
    assert.equal(deleted.value.deleted, true)
    assert.equal(waiting.code, 'stream_not_found')
    await world.close()
  })
})
