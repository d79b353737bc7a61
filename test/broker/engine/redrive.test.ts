/** Dead letters that go back into their origin streams, each once. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RedriveBody } from '../../../src/broker/wire/requests.ts'
import { BrokerWorld, CALLER, Pending } from '../../support/broker-world.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { Client } from './client.ts'

async function opened(segmentBytes = 1 << 20): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open({ segmentBytes })
  const client = new Client(world)
  for (const name of ['orders', 'jobs', 'dead']) await client.now(client.create(name))
  return { world, client }
}

/** Publishes records and dead-letters them. */
async function bury(client: Client, stream: string, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await client.now(client.publish(stream, `${stream}-${i}`))
  for (const delivery of await client.now(client.claim(stream, { max_messages: count }))) {
    await client.now(client.deadLetter(delivery, 'dead'))
  }
}

const redrive = (world: BrokerWorld, body: RedriveBody = {}) => new Pending(world.broker.redrive(CALLER, 'dead', body))

describe('a redrive', () => {
  it('puts all dead letters back where they came from, as they were, and once', async () => {
    const { world, client } = await opened()
    await bury(client, 'orders', 2)
    await bury(client, 'jobs', 1)
    await client.now(client.publish('dead', 'no copy'))
    const before = (await client.now(client.replay('orders'))).records[0]!
    const reply = await client.now(redrive(world, { reason: 'fixed' }))
    assert.deepEqual([reply.redriven_count, reply.next_offset, reply.end_of_stream], [3, 4, true])
    assert.deepEqual(
      reply.results.map(({ dead_letter_offset, stream, offset, error }) => [
        dead_letter_offset,
        stream ?? error!.code,
        offset,
      ]),
      [
        [0, 'orders', 2],
        [1, 'orders', 3],
        [2, 'jobs', 1],
        [3, 'invalid_request', undefined],
      ],
    )
    const after = (await client.now(client.replay('orders'))).records[2]!
    assert.deepEqual({ ...after, offset: 0, ingest_time_ms: before.ingest_time_ms }, before)
    const again = await client.now(redrive(world))
    assert.deepEqual([again.redriven_count, again.results.length], [0, 1])
    const chosen = await client.now(redrive(world, { offsets: [1, 0, 1, 9] }))
    assert.deepEqual(
      chosen.results.map(({ dead_letter_offset, error }) => [dead_letter_offset, error?.code]),
      [
        [0, 'write_not_allowed'],
        [1, 'write_not_allowed'],
        [9, 'not_found'],
      ],
    )
    assert.deepEqual(await client.messages('orders'), ['orders-0', 'orders-1', 'orders-0', 'orders-1'])
    const events = (await client.now(client.events())).filter(({ kind }) => kind === 'dead_letters_redriven')
    assert.deepEqual(
      events.map(({ stream, detail }) => [stream, detail]),
      [
        ['orders', [0, 1], 2],
        ['jobs', [2], 1],
      ].map(([source_stream, dead_letter_offsets, first_source_offset]) => [
        'dead',
        { dead_letter_offsets, source_stream, first_source_offset, reason: 'fixed' },
      ]),
    )
    await world.close()
  })

  it('asked for twice at once happens once', async () => {
    const { world, client } = await opened()
    await bury(client, 'orders', 3)
    const asked = [redrive(world), redrive(world), redrive(world, { offsets: [2] })]
    await world.flush()
    assert.deepEqual(
      asked.map(({ value }) => value.redriven_count),
      [3, 0, 0],
    )
    assert.equal((await client.messages('orders')).length, 6)
    await world.close()
  })

  it('goes on where the request before ended', async () => {
    const { world, client } = await opened()
    await bury(client, 'orders', 5)
    await client.now(redrive(world, { offsets: [1] }))
    const first = await client.now(redrive(world, { max_records: 2 }))
    assert.deepEqual(
      first.results.map(({ dead_letter_offset }) => dead_letter_offset),
      [0, 2],
    )
    assert.deepEqual([first.next_offset, first.end_of_stream], [3, false])
    const second = await client.now(redrive(world, { start_offset: first.next_offset }))
    assert.deepEqual([second.redriven_count, second.end_of_stream], [2, true])
    assert.equal((await client.messages('orders')).length, 10)
    const third = await client.now(redrive(world, { start_offset: 1 })) // all are redriven already
    assert.deepEqual([third.redriven_count, third.next_offset, third.end_of_stream], [0, 5, true])
    await bury(client, 'jobs', 1)
    const fourth = await client.now(redrive(world, { start_offset: third.next_offset }))
    assert.deepEqual([fourth.redriven_count, fourth.next_offset], [1, 6])
    await world.close()
  })

  it('looks at other streams once, however many copies it chooses', async () => {
    const { world, client } = await opened()
    await bury(client, 'orders', 20)
    const other = world.core.state.stream(CALLER.tenant, 'jobs')!
    const { holes } = other
    let looks = 0
    Object.defineProperty(other, 'holes', {
      get: () => {
        looks += 1
        return holes
      },
    })
    assert.equal((await client.now(redrive(world))).redriven_count, 20)
    assert.equal(looks, 1)
    await world.close()
  })

  it('is bounded by bytes, too, and leaves the rest for the next request', async () => {
    const { world, client } = await opened()
    const large = 'x'.repeat(12_000)
    for (let i = 0; i < 6; i += 1) await client.now(client.publish('orders', `${i} ${large}`))
    for (const delivery of await client.now(client.claim('orders', { max_messages: 6 }))) {
      await client.now(client.deadLetter(delivery, 'dead'))
    }
    let requests = 0
    for (let start = 0, ended = false; !ended; requests += 1) {
      const reply = await client.now(redrive(world, { start_offset: start }))
      assert.ok(reply.redriven_count > 0)
      start = reply.next_offset
      ended = reply.end_of_stream
    }
    assert.ok(requests > 1)
    assert.equal((await client.messages('orders')).length, 12)
    await world.close()
  })

  it('says of each whose source is gone that it is, and takes it when it is there again', async () => {
    const { world, client } = await opened()
    await bury(client, 'orders', 1)
    await client.now(new Pending(world.broker.deleteStream(CALLER, 'orders', false)))
    assert.equal((await client.now(redrive(world))).results[0]!.error!.code, 'stream_not_found')
    await client.now(client.create('orders'))
    assert.equal((await client.now(redrive(world))).results[0]!.offset, 0)
    await world.close()
  })

  it('can be dead-lettered anew, hops and all', async () => {
    const { world, client } = await opened()
    await bury(client, 'orders', 1)
    await client.now(redrive(world))
    const [delivery] = await client.now(client.claim('orders'))
    assert.deepEqual(delivery!.record.headers, {})
    await client.now(client.deadLetter(delivery!, 'dead'))
    const { records } = await client.now(client.replay('dead'))
    assert.deepEqual(
      records.map(({ headers }) => headers['x-dead-letter-count']),
      ['1', '1'],
    )
    await world.close()
  })

  for (const how of ['frames', 'checkpoint', 'no sidecar'] as const) {
    it(`is known after a start from ${how}, and happens all or not at all when its frame is lost`, async () => {
      const { world, client } = await opened(how === 'frames' ? 1 << 20 : 4096)
      await bury(client, 'orders', 3)
      const lost = redrive(world)
      while (world.core.appender.inFlight === 0) await nextTurn()
      await world.journalDies()
      await world.flush()
      await world.advance(1000)
      await world.flush()
      if (lost.code === null) assert.equal(lost.value.redriven_count, 3)
      else assert.equal((await client.now(redrive(world))).redriven_count, 3)
      if (how !== 'frames') {
        if (how === 'no sidecar') world.failsWrites = true
        for (let i = 0; i < 8; i += 1) await client.now(client.publish('jobs', `${i} ${'x'.repeat(3000)}`))
        await world.engine.idle()
      }
      const orders = await client.messages('orders')
      const events = await client.now(client.events())
      assert.equal(orders.length, 6)
      await world.close()
      await world.open()
      assert.deepEqual(await client.messages('orders'), orders)
      assert.deepEqual(await client.now(client.events()), events)
      assert.equal((await client.now(redrive(world))).redriven_count, 0)
      await world.close()
    })
  }

  for (const how of ['before', 'behind'] as const) {
    it(`can be done again when its frame turns out damaged ${how} the checkpoint, and then counts`, async () => {
      const { world, client } = await opened(how === 'behind' ? 1 << 20 : 4096)
      await bury(client, 'orders', 3)
      await bury(client, 'jobs', 1)
      assert.equal((await client.now(redrive(world, { offsets: [0, 1, 2] }))).redriven_count, 3)
      assert.equal((await client.now(redrive(world, { offsets: [3] }))).redriven_count, 1)
      if (how === 'before') {
        for (let i = 0; i < 8; i += 1) await client.now(client.publish('orders', `${i} ${'x'.repeat(3000)}`))
        await world.engine.idle()
      }
      await world.close()
      const path = world.files.paths().find((each) => redriveFrameIn(world.files.contentOf(each)) >= 0)!
      world.files.damage(path, (content) => {
        content[redriveFrameIn(content)]! ^= 1
        return content
      })
      await world.open()
      await client.messages('orders') // finds the damage in a segment that a start does not read

      const again = await client.now(redrive(world))
      const end = how === 'before' ? 14 : 6
      assert.deepEqual(
        again.results.map(({ dead_letter_offset, stream, offset }) => [dead_letter_offset, stream, offset]),
        [0, 1, 2].map((copy) => [copy, 'orders', end + copy]),
      )
      await world.close()
      await world.open()
      assert.deepEqual((await client.messages('orders')).slice(-3), ['orders-0', 'orders-1', 'orders-2'])
      assert.equal((await client.now(redrive(world))).redriven_count, 0)
      const [used] = (await client.now(redrive(world, { offsets: [0] }))).results
      assert.equal(used!.error?.code, 'write_not_allowed')
      await world.close()
    })
  }
})

/** Where a byte of the first REDRIVE frame's JSON is in a file; -1: there is none. */
const redriveFrameIn = (content: Buffer): number => content.indexOf('"dead_letter_stream"')
