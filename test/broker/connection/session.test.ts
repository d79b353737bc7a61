/** The streaming connection without a socket, on a broker whose disk, threads and time the test controls. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Grants } from '../../../src/broker/grants.ts'
import { SUBSCRIPTIONS_MAX } from '../../../src/broker/connection/limits.ts'
import { CALLER } from '../../support/broker-world.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'
import { CONNECTION_LIMITS } from '../../support/connections.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { STREAM, activeLeases, opened, subscribe } from './orders.ts'
import { Talk } from './talk.ts'
import type { Said } from './talk.ts'

const REPLACED = 'the stream was deleted, and another one has its name'

const publishing = (id: number, message_id: string): object => ({
  id,
  op: 'publish',
  stream: STREAM,
  body: { message_id, payload: message_id },
})
const errorIn = (said: Said | undefined): unknown => {
  const { code, message } = (said?.['error'] ?? {}) as { code?: string; message?: string }
  return said === undefined ? undefined : [said['status'], code, message]
}
const createdIn = ({ core }: BrokerWorld) => ({
  stream_created_at_ms: core.state.stream(CALLER.tenant, STREAM)!.createdAtMs,
})

describe('a publish', () => {
  it('is answered when its frame is stored, by its id, in either form', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.text([publishing(1, 'a'), publishing(2, 'b')])
    talk.publish(10, STREAM, 'c', 'd')
    await nextTurn()
    assert.deepEqual(talk.said, [])
    await world.flush()
    const offsets = [1, 2, 10, 11].map((id) => (talk.answer(id)!['ok'] as { offset: number }).offset)
    assert.deepEqual(offsets, [0, 1, 2, 3])
  })

  it('is refused by itself when it is bad: its neighbours in the frame are stored', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.publish(0, STREAM, 'a', ' ', 'b', '\n', '')
    await world.flush()
    assert.deepEqual(
      [0, 1, 2, 3, 4].map((id) => talk.answer(id)!['status'] ?? talk.answer(id)!['ok']),
      [{ offset: 0 }, 400, { offset: 1 }, 400, 400],
    )
  })
})

describe('both forms', () => {
  it('are given the same answers', async () => {
    const word = fc.constantFrom('a', 'b', ' ', '', 'long name')
    const stream = fc.constantFrom(STREAM, 'nowhere', 'a/b', ' x', 'system.audit')
    const id = fc.constantFrom('sub-?', 'dlv-AAAAAAAAAAAAAAAAAAAAAA', 'sub-AAAAAAAAAAAAAAAAAAAAAA', 7)
    const delivery = { stream, subscription_id: id, delivery_id: id }
    const message = fc.oneof(
      fc.record({ op: fc.constant('publish'), stream, body: fc.record({ message_id: word, payload: word }) }),
      fc.record({ op: fc.constant('ack'), ...delivery }),
      fc.record({ op: fc.constant('nack'), ...delivery, body: fc.constantFrom({}, { reason: 'x', requeue: true }) }),
      fc.record({ op: fc.constant('renew'), ...delivery, body: fc.constantFrom(null, { extend_by_millis: 5 }) }),
      fc.record({ op: fc.constant('retry'), ...delivery, body: fc.constant({ reason: 'x', delay_millis: 0 }) }),
      fc.record({ op: fc.constantFrom('credit', 'unsubscribe'), subscription: fc.constantFrom(1, 'x', null) }),
      fc.record({ op: fc.constantFrom('steal', null, 3, 'toString') }),
      fc.record({ op: fc.constant('publish'), stream, more: fc.constant(1) }),
    )
    const worlds = [await opened(), await opened()]
    const [json, binary] = worlds.map((world) => new Talk(world))
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 5 }), async (messages) => {
        messages.forEach((each, i) => {
          json!.text({ id: i, ...each })
          binary!.request(i, each)
        })
        for (const world of worlds) await world.flush()
        assert.deepEqual(binary!.said.splice(0), json!.said.splice(0))
      }),
      { numRuns: 50 },
    )
  })

  it('of a publish and an acknowledgement are refused in the same words', async () => {
    const world = await opened()
    const talk = new Talk(world)
    for (const stream of ['nowhere', 'a/b', 'system.audit']) {
      talk.publish(1, stream, 'a')
      talk.text({ id: 2, op: 'publish', stream, body: { message_id: 'a', payload: 'a' } })
      const ids = { subscription_id: 'sub-AAAAAAAAAAAAAAAAAAAAAA', delivery_id: 'dlv-AAAAAAAAAAAAAAAAAAAAAA' }
      talk.ack(3, stream, ids)
      talk.text({ id: 4, op: 'ack', stream, ...ids })
      await world.flush()
      assert.deepEqual(errorIn(talk.answer(1)), errorIn(talk.answer(2)))
      assert.deepEqual(errorIn(talk.answer(3)), errorIn(talk.answer(4)))
      assert(talk.answer(1)!['status'] !== undefined && talk.answer(3)!['status'] !== undefined)
    }
  })
})

describe('what is no message', () => {
  it('is refused by id where it says one, and ends the connection where its frames are none', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.session.message(new Uint8Array(Buffer.from('{')), false)
    talk.session.message(new Uint8Array([0xff]), false)
    talk.text('x')
    talk.text({ op: 'publish' })
    talk.text({ id: -1 })
    assert.deepEqual(
      talk.said.map(({ id, status }) => [id, status]),
      Array.from({ length: 5 }, () => [null, 400]),
    )
    talk.session.message(new Uint8Array([1, 2, 3]), true)
    await nextTurn()
    assert.deepEqual(talk.ended, [1002, 'the message does not consist of whole frames'])
    assert.equal(talk.closedCount, 1)
  })

  it('may be long: those behind it wait for it', async () => {
    const world = await opened({ segmentBytes: 1 << 20 })
    const talk = new Talk(world, { bodyBytesMax: 1 << 20 })
    const blank = ' '.repeat(100_000)
    talk.session.message(new Uint8Array(Buffer.from(`${blank}${JSON.stringify(publishing(1, 'first'))}`)), false)
    talk.publish(2, STREAM, 'second')
    talk.text(publishing(3, 'third'))
    for (let i = 0; i < 5; i++) await nextTurn()
    await world.flush()
    assert.deepEqual(
      [1, 2, 3].map((id) => (talk.answer(id)!['ok'] as { offset: number }).offset),
      [0, 1, 2],
    )
  })
})

describe('a subscription', () => {
  for (const form of ['json', 'binary'] as const) {
    it(`is given what there is and what comes, within its credit, as ${form}`, async () => {
      const world = await opened()
      const talk = new Talk(world)
      const ask = ({ id, ...message }: { readonly id: number }): void =>
        form === 'json' ? talk.text({ id, ...message }) : talk.request(id, message)
      talk.publish(1, STREAM, 'a', 'b', 'c')
      await world.flush()
      ask(subscribe(50, 2))
      await world.flush()
      const messageIds = (): string[] => talk.given.map(({ message_id }) => message_id)
      assert.deepEqual(messageIds(), ['a', 'b'])
      const credit = { id: 51, op: 'credit', subscription: 50, credit: 100 }
      ask(credit)
      await world.flush()
      assert.deepEqual(talk.answer(51)!['ok'], { subscription: 50, credit: 100, ...createdIn(world) })
      talk.publish(2, STREAM, 'd')
      await world.flush()
      assert.deepEqual(messageIds(), ['a', 'b', 'c', 'd'])
      for (const { payload_hex, message_id, attempt } of talk.given) {
        assert.deepEqual([Buffer.from(payload_hex, 'hex').toString(), attempt], [message_id, 1])
      }
      const unsubscribe = { id: 52, op: 'unsubscribe', subscription: 50 }
      ask(unsubscribe)
      talk.publish(3, STREAM, 'e')
      await world.flush()
      assert.equal(talk.given.length, 4)
    })
  }

  it('is given nothing while its client has not taken what it was sent', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.text(subscribe(1, 1000))
    talk.bufferedBytes = 2 << 20
    talk.publish(10, STREAM, ...Array.from({ length: 50 }, (_, i) => `m-${i}`))
    await world.flush()
    talk.publish(100, STREAM, 'more')
    await world.flush()
    const held = talk.given.length // given to the claim that was already waiting
    assert(held <= 50)
    assert.equal(world.broker.waitingClaims, 0)
    talk.bufferedBytes = 0
    talk.session.drained()
    await world.flush()
    assert.equal(talk.given.length, 51)
  })

  it('ends with the refusal of its claim', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.text(subscribe(1, 5, { stream: 'nowhere' }))
    talk.text(subscribe(2, 5))
    await world.flush()
    assert.deepEqual(errorIn(talk.answer(1)), [404, 'missing_stream', 'there is no stream of this name'])
    assert.equal(talk.answer(1)!['ended'], true)
    const deleted = world.broker.deleteStream(CALLER, STREAM, true)
    await world.flush()
    await deleted
    await world.advance(31_000)
    await world.flush()
    assert.deepEqual([talk.answer(2)!['ended'], talk.answer(2)!['status']], [true, 404])
  })

  it('ends when its stream is deleted while it has no credit, though another one has its name', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.text([subscribe(1, 1), publishing(2, 'old')])
    await world.flush()
    assert.equal(talk.given.length, 1)
    const deleted = world.broker.deleteStream(CALLER, STREAM, true)
    const created = world.broker.createStream(CALLER, STREAM, {})
    talk.text(publishing(3, 'new'))
    await world.flush()
    await Promise.all([deleted, created])
    talk.text({ id: 4, op: 'credit', subscription: 1, credit: 5 })
    await world.flush()
    assert.deepEqual([talk.answer(1)!['ended'], errorIn(talk.answer(1))], [true, [404, 'missing_stream', REPLACED]])
    assert.equal(talk.given.length, 1)
    talk.text(subscribe(5, 5, { stream_created_at_ms: world.wallMs - 1 }))
    await world.flush()
    assert.deepEqual(errorIn(talk.answer(5)), [404, 'missing_stream', REPLACED])
    talk.text(subscribe(6, 5, createdIn(world)))
    await world.flush()
    assert.deepEqual(
      talk.given.map(({ message_id }) => message_id),
      ['old', 'new'],
    )
  })

  it('waits on when there was nothing for as long as a claim waits', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.text(subscribe(1, 5))
    for (let i = 0; i < 3; i++) {
      await world.advance(31_000)
      await world.flush()
    }
    assert.equal(world.broker.waitingClaims, 1)
    talk.publish(9, STREAM, 'a')
    await world.flush()
    assert.equal(talk.given.length, 1)
    talk.close()
    assert.equal(world.broker.waitingClaims, 0)
  })
})

describe('acknowledgements of many deliveries', () => {
  it('are answered one by one, whichever claims they are of', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.text(subscribe(1, 100, { max_messages: 2 }))
    talk.publish(10, STREAM, 'a', 'b', 'c', 'd', 'e')
    await world.flush()
    assert.equal(talk.given.length, 5)
    assert.equal(new Set(talk.given.map(({ subscription_id }) => subscription_id)).size, 3)
    const unknown = { subscription_id: talk.given[0]!.subscription_id, delivery_id: 'dlv-AAAAAAAAAAAAAAAAAAAAAA' }
    talk.ack(50, STREAM, ...talk.given.slice(0, 4), unknown, talk.given[0]!)
    await world.flush()
    assert.deepEqual(
      [50, 51, 52, 53].map((id) => talk.answer(id)!['ok']),
      talk.given.slice(0, 4).map(({ offset }) => ({ offset, consumer_group: 'g' })),
    )
    assert.deepEqual(
      [54, 55].map((id) => (errorIn(talk.answer(id)) as string[])[1]),
      ['delivery_not_found', 'lease_not_active'],
    )
    assert.equal(await activeLeases(world), 1)
    assert.equal(world.core.counters.acks, 4)
  })

  it('take a delivery and the one that followed its expiry for two, in one frame', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.text(subscribe(1, 1, { lease_timeout_millis: 100 }))
    talk.publish(10, STREAM, 'a')
    await world.flush()
    await world.advance(200)
    talk.text({ id: 2, op: 'credit', subscription: 1, credit: 1 })
    await world.flush()
    assert.deepEqual(
      talk.given.map(({ offset, attempt }) => [offset, attempt]),
      [
        [0, 1],
        [0, 2],
      ],
    )
    talk.ack(50, STREAM, ...talk.given)
    await world.flush()
    assert.equal((errorIn(talk.answer(50)) as string[])[1], 'lease_expired')
    assert.deepEqual(talk.answer(51)!['ok'], { offset: 0, consumer_group: 'g' })
  })
})

describe('a connection that ends', () => {
  for (const releasesLeasesOnClose of [true, false]) {
    it(
      releasesLeasesOnClose
        ? 'gives back what it did not settle, and nothing else'
        : 'leaves its leases to expire when it said so',
      async () => {
        const world = await opened()
        const talk = new Talk(world, { releasesLeasesOnClose })
        talk.text(subscribe(1, 4))
        talk.publish(10, STREAM, 'a', 'b', 'c', 'd', 'e')
        await world.flush()
        talk.ack(50, STREAM, talk.given[0]!)
        const { subscription_id, delivery_id } = talk.given[1]!
        const body = { extend_by_millis: 1000 }
        talk.text({ id: 60, op: 'renew', stream: STREAM, subscription_id, delivery_id, body })
        await world.flush()
        assert.equal(await activeLeases(world), 3)
        talk.close()
        await world.flush()
        assert.equal(await activeLeases(world), releasesLeasesOnClose ? 0 : 3)
        const other = new Talk(world)
        other.text(subscribe(1, 10))
        await world.flush()
        assert.deepEqual(
          other.given.map(({ message_id, attempt }) => [message_id, attempt]),
          releasesLeasesOnClose
            ? [
                ['b', 2],
                ['c', 2],
                ['d', 2],
                ['e', 1],
              ]
            : [['e', 1]],
        )
      },
    )
  }

  it('while a claim is on its way gives that back, too', async () => {
    const world = await opened()
    const talk = new Talk(world, { releasesLeasesOnClose: false })
    talk.text(subscribe(1, 4))
    talk.publish(10, STREAM, 'a', 'b')
    await world.step()
    await nextTurn()
    talk.close()
    await world.flush()
    assert.equal(await activeLeases(world), 0)
    assert.equal(world.broker.waitingClaims, 0)
  })

  it('leaves what it had asked to the log', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.publish(10, STREAM, 'a', 'b')
    talk.close()
    await world.flush()
    assert.deepEqual(talk.said, [])
    const described = world.broker.describeStream(CALLER, STREAM)
    await world.flush()
    assert.equal((await described).next_offset, 2)
  })
})

describe('the bounds of a connection', () => {
  it('are kept: operations in flight, subscriptions, credit, answers that nobody takes', async () => {
    const world = await opened()
    const [inFlightMax, creditMax] = [20, 500]
    const limits = { ...CONNECTION_LIMITS, inFlightMax, creditMax }
    const talk = new Talk(world, { limits, operations: { ...world.operations, publishRecords() {} } })
    for (let id = 0; id < inFlightMax; id++) talk.publish(id, STREAM, 'a')
    assert.deepEqual(talk.said, [])
    talk.publish(inFlightMax, STREAM, 'a')
    assert.equal((errorIn(talk.answer(inFlightMax)) as unknown[])[1], 'quota_exceeded')
    for (let id = 0; id <= SUBSCRIPTIONS_MAX; id++) talk.text(subscribe(100_000 + id, 1, { consumer_group: `g-${id}` }))
    assert.equal((errorIn(talk.answer(100_000 + SUBSCRIPTIONS_MAX)) as unknown[])[1], 'quota_exceeded')
    talk.text({ id: 5, op: 'credit', subscription: 100_000, credit: creditMax + 1 })
    assert.equal((errorIn(talk.answer(5)) as unknown[])[1], 'invalid_request')
    talk.text({ id: 6, op: 'credit', subscription: 100_000, credit: creditMax })
    assert.deepEqual(talk.answer(6)!['ok'], { subscription: 100_000, credit: creditMax, ...createdIn(world) })
    talk.bufferedBytes = 1 << 30
    talk.publish(7, STREAM, 'a')
    await nextTurn()
    assert.equal(talk.ended?.[0], 1008)
  })
})

describe('permissions', () => {
  const only = (
    ...given: (readonly [permission: 'stream.publish' | 'stream.consume', stream: string | null])[]
  ): Grants => new Grants(given.map(([permission, stream]) => ({ permission, stream })))

  it('are asked for with every message, and are those of the routes', async () => {
    const world = await opened()
    const grants = only(['stream.publish', STREAM])
    const talk = new Talk(world, { who: { ...CALLER, grants } })
    talk.publish(1, STREAM, 'a')
    talk.publish(2, 'other', 'a')
    talk.text({ id: 3, op: 'publish', stream: 'a/b', body: {} })
    talk.text(subscribe(4, 1))
    const ids = { subscription_id: 'x', delivery_id: 'y' }
    for (const [id, op] of [
      [5, 'ack'],
      [6, 'nack'],
      [7, 'renew'],
      [8, 'retry'],
      [9, 'dead_letter'],
      [10, 'batch_ack'],
    ] as const) {
      talk.text({ id, op, stream: STREAM, ...ids, body: {} })
    }
    talk.ack(11, STREAM, ids)
    await world.flush()
    assert.deepEqual(talk.answer(1)!['ok'], { offset: 0 })
    for (let id = 2; id <= 11; id++) assert.equal(talk.answer(id)!['status'], 403, String(id))
    assert.equal(talk.denied.length, 10)
  })

  it('that were taken back count from the next message on, and end subscriptions; credentials that are none end the connection', async () => {
    const world = await opened()
    const talk = new Talk(world, {
      who: { ...CALLER, grants: only(['stream.publish', null], ['stream.consume', null]) },
    })
    talk.text(subscribe(1, 10))
    await world.flush()
    talk.session.identified({ ...CALLER, grants: only(['stream.publish', 'other']) })
    await nextTurn()
    assert.deepEqual([talk.answer(1)!['ended'], talk.answer(1)!['status']], [true, 403])
    talk.publish(2, STREAM, 'a')
    await world.flush()
    assert.equal(talk.answer(2)!['status'], 403)
    talk.session.identified(null)
    await nextTurn()
    assert.deepEqual(talk.ended, [4401, 'the credentials were revoked'])
  })
})

describe('a connection that is told to stop', () => {
  it('ends when what it took is answered, and takes nothing more', async () => {
    const world = await opened()
    const talk = new Talk(world)
    talk.text(subscribe(1, 10))
    talk.publish(2, STREAM, 'a')
    talk.session.stop()
    talk.publish(3, STREAM, 'b')
    talk.text(publishing(4, 'c'))
    await nextTurn()
    assert.equal(talk.ended, null)
    await world.flush()
    assert.deepEqual(talk.answer(2)!['ok'], { offset: 0 })
    for (const id of [3, 4]) {
      assert.deepEqual((talk.answer(id)!['error'] as { retryable: boolean }).retryable, true)
    }
    assert.deepEqual(talk.ended, [1001, 'the node is stopping'])
    assert.equal(world.broker.waitingClaims, 0)
  })
})
