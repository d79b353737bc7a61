/** Messages of many operations: they are handled in slices, in order, and within the bounds of the connection. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ANSWERS_UNREAD_BYTES_MAX, WAITING_MESSAGE_BYTES } from '../../../src/broker/connection/limits.ts'
import { REQUEST } from '../../../src/broker/wire/connection-frames.ts'
import type { FrameWriter } from '../../../src/broker/wire/connection-frames.ts'
import { CALLER } from '../../support/broker-world.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'
import { CONNECTION_LIMITS } from '../../support/connections.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { STREAM, opened } from './orders.ts'
import { Talk } from './talk.ts'

const MANY = 5000
/** Most operations in a slice. No turn may handle more. */
const SLICE_MAX = 1000
const BODY_BYTES_MAX = 1 << 16

/** Turns of one connection, which the test grants one by one. */
class Turns {
  #come: (() => void)[] = []

  readonly turn = (): Promise<void> => new Promise((resolve) => this.#come.push(resolve))

  /** Grants the turns that are waited for. False: there was none. */
  async next(): Promise<boolean> {
    const coming = this.#come.splice(0)
    for (const come of coming) come()
    await nextTurn()
    return coming.length > 0
  }
}

const ping = (writer: FrameWriter, id: number): void => {
  writer.begin(REQUEST, 0, id, '')
  writer.text('{"op":"ping"}')
  writer.end(1)
}
const publishing = (id: number): object => ({
  id,
  op: 'publish',
  stream: STREAM,
  body: { message_id: `m-${id}`, payload: 'p' },
})
const idsOf = ({ said }: Talk): unknown[] => said.map(({ id }) => id)
const upTo = (count: number): number[] => Array.from({ length: count }, (_, id) => id)
async function recordsIn(world: BrokerWorld): Promise<number> {
  const described = world.broker.describeStream(CALLER, STREAM)
  await world.flush()
  return (await described).next_offset
}

describe('a message of many operations', () => {
  for (const form of ['frames', 'a list'] as const) {
    it(`is handled in slices with other work in between, in order, as ${form}`, async () => {
      const turns = new Turns()
      const talk = new Talk(await opened({ segmentBytes: 1 << 20 }), { bodyBytesMax: 1 << 20, turn: turns.turn })
      if (form === 'frames') talk.frames((writer) => upTo(MANY).forEach((id) => ping(writer, id)))
      else talk.text(upTo(MANY).map((id) => ({ id, op: 'ping' })))
      if (form === 'frames') talk.request(MANY, { op: 'ping' })
      else talk.text({ id: MANY, op: 'ping' })
      for (let i = 0; i < 5; i++) await nextTurn() // until a long text is read
      let before = 0
      do {
        assert(talk.said.length - before <= SLICE_MAX, `${talk.said.length - before} in one turn`)
        before = talk.said.length
      } while (await turns.next())
      assert.deepEqual(idsOf(talk), upTo(MANY + 1))
    })
  }

  it('is kept when its memory is used again', async () => {
    const talk = new Talk(await opened({ segmentBytes: 1 << 20 }))
    const message = talk.frames((writer) => upTo(MANY).forEach((id) => ping(writer, id)))
    message.fill(0)
    while (talk.said.length < MANY && talk.ended === null) await nextTurn()
    assert.deepEqual(idsOf(talk), upTo(MANY))
  })

  it('weighs what an operation is about, not only how many there are', async () => {
    const turns = new Turns()
    const talk = new Talk(await opened({ segmentBytes: 1 << 20 }), { bodyBytesMax: 1 << 20, turn: turns.turn })
    const ids = { subscription_id: 'sub-AAAAAAAAAAAAAAAAAAAAAA', delivery_id: 'dlv-AAAAAAAAAAAAAAAAAAAAAA' }
    for (let i = 0; i < 10; i++) talk.ack(1000 * i, STREAM, ...upTo(1000).map(() => ids))
    await nextTurn()
    assert(idsOf(talk).length < 3000, `${idsOf(talk).length} acknowledgements in one turn`)
    while (await turns.next());
    assert.equal(idsOf(talk).length, 10_000)
  })

  it('is dropped where it is when the connection ends', async () => {
    const world = await opened({ segmentBytes: 1 << 20 })
    const turns = new Turns()
    const talk = new Talk(world, { bodyBytesMax: 1 << 20, turn: turns.turn })
    talk.text(upTo(MANY).map(publishing))
    for (let i = 0; i < 5; i++) await nextTurn()
    await world.flush()
    const stored = await recordsIn(world)
    assert(stored > 0 && stored <= SLICE_MAX)
    talk.close()
    await turns.next()
    assert.equal(await recordsIn(world), stored)
  })
})

describe('many short messages in one turn', () => {
  it('are handled in slices, too; those of a new turn at once', async () => {
    const turns = new Turns()
    const talk = new Talk(await opened({ segmentBytes: 1 << 20 }), { turn: turns.turn })
    for (const id of upTo(MANY)) talk.text({ id, op: 'ping' })
    assert(talk.said.length <= SLICE_MAX, `${talk.said.length} in one turn`)
    while (await turns.next());
    assert.deepEqual(idsOf(talk), upTo(MANY))
    for (const id of upTo(20 * SLICE_MAX)) {
      talk.text({ id, op: 'ping' })
      assert.equal(talk.said.at(-1)!['id'], id)
      if (id % 100 === 0) await nextTurn()
    }
  })

  it('behind a long one end the connection when they are too many, however short', async () => {
    const messageBytesMax = 10 * WAITING_MESSAGE_BYTES
    const limits = { ...CONNECTION_LIMITS, messageBytesMax }
    const talk = new Talk(await opened({ segmentBytes: 1 << 20 }), { limits, turn: new Turns().turn })
    talk.frames((writer) => upTo(MANY).forEach((id) => ping(writer, id)))
    for (let i = 0; i < 19; i++) talk.session.message(new Uint8Array(0), true)
    await nextTurn()
    assert.equal(talk.ended, null)
    talk.session.message(new Uint8Array(0), true)
    talk.session.message(new Uint8Array(0), true)
    await nextTurn()
    assert.deepEqual(talk.ended, [1008, 'the client sent too much before its earlier messages were handled'])
  })
})

describe('a message that is none', () => {
  it('ends the connection: what waited behind it, or stands behind it, is not done', async () => {
    const world = await opened({ segmentBytes: 1 << 20 })
    const talk = new Talk(world, { bodyBytesMax: 1 << 20 })
    talk.session.message(new Uint8Array(Buffer.from(`${' '.repeat(100_000)}{"id":1,"op":"ping"}`)), false)
    talk.frames((writer) => {
      writer.begin(99, 0, 2, '')
      writer.end(1)
      ping(writer, 3)
    })
    talk.publish(4, STREAM, 'a')
    talk.text(publishing(5))
    for (let i = 0; i < 5; i++) await nextTurn()
    await world.flush()
    assert.deepEqual(idsOf(talk), [1])
    assert.deepEqual(talk.ended, [1002, 'the message does not consist of whole frames'])
    assert.equal(await recordsIn(world), 0)
  })
})

describe('answers that the client does not take', () => {
  const bound = ANSWERS_UNREAD_BYTES_MAX + 2 * BODY_BYTES_MAX

  it('end the connection before the next operation, those included that have not gone out', async () => {
    for (const form of ['frames', 'a list'] as const) {
      const talk = new Talk(await opened({ segmentBytes: 1 << 20 }), { bodyBytesMax: BODY_BYTES_MAX })
      talk.bufferedBytes = bound
      if (form === 'frames') talk.frames((writer) => upTo(10).forEach((id) => ping(writer, id)))
      else talk.text(upTo(10).map((id) => ({ id, op: 'ping' })))
      await nextTurn()
      assert.deepEqual(idsOf(talk), [0])
      assert.deepEqual(talk.ended, [1008, 'the client does not read its answers'])
    }
  })

  it('end it in the middle of a message', async () => {
    const talk = new Talk(await opened({ segmentBytes: 1 << 20 }), { bodyBytesMax: BODY_BYTES_MAX })
    talk.takesNothing = true
    talk.bufferedBytes = bound - 50_000
    talk.frames((writer) => upTo(20_000).forEach((id) => ping(writer, id)))
    for (let i = 0; i < 100 && talk.ended === null; i++) await nextTurn()
    assert.deepEqual(talk.ended, [1008, 'the client does not read its answers'])
    assert(talk.said.length < 50_000 / 16)
  })
})
