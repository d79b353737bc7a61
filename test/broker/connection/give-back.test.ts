/** How a connection gives back its leases when it ends. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Connections } from '../../../src/broker/connection/connections.ts'
import { ALL_GRANTS } from '../../../src/broker/grants.ts'
import { SLICE_ENTRIES } from '../../../src/broker/limits.ts'
import type { Session } from '../../../src/broker/connection/session.ts'
import { CALLER } from '../../support/broker-world.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'
import { CONNECTION_LIMITS } from '../../support/connections.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { STREAM, activeLeases, opened, subscribe } from './orders.ts'
import { Talk } from './talk.ts'

const connectionsOf = (world: BrokerWorld, turn: () => Promise<void>): Connections =>
  new Connections({
    operations: world.operations,
    onDenied() {},
    onFailure: (error) => {
      throw error
    },
    counters: { refused() {} },
    bodyBytesMax: 1 << 16,
    limits: CONNECTION_LIMITS,
    defer: (run) => queueMicrotask(run),
    turn,
  })

function connect(connections: Connections): Session {
  const who = { ...CALLER, grants: ALL_GRANTS }
  const session = connections.open({ who, identify: () => who, releasesLeasesOnClose: true })
  session.opened({ bufferedBytes: 0, sendTogether: (send) => send(), send() {}, end: () => session.closed() })
  return session
}

const named = (count: number): string[] => Array.from({ length: count }, (_, i) => `m-${i}`)

describe('what a connection held when it ended', () => {
  it('is given back in slices, a frame for each', async () => {
    const MANY = 3 * SLICE_ENTRIES
    const world = await opened({ segmentBytes: 1 << 20 })
    const talk = new Talk(world)
    talk.text(subscribe(1, MANY, { max_messages: 1 }))
    for (let i = 0; i < MANY; i += SLICE_ENTRIES) talk.publish(i, STREAM, ...named(SLICE_ENTRIES))
    for (let given = -1; given < talk.given.length;) {
      given = talk.given.length
      for (let i = 0; i < 50; i++) await world.flush()
    }
    assert.equal(talk.given.length, MANY)
    const acked = talk.given.at(-1)!
    const { turns } = world
    const inFlight = world.core.appender.inFlight
    talk.close()
    assert.equal(world.core.appender.inFlight, inFlight + 1)
    assert.equal(world.turns, turns + 1)
    const path = { stream: STREAM, subscriptionId: acked.subscription_id, deliveryId: acked.delivery_id }
    const ack = world.broker.ack(CALLER, path) // handled before the slice that would give its lease back
    for (let i = 0; i < 10 && world.core.appender.inFlight < inFlight + 4; i++) await nextTurn()
    assert.equal(world.turns, turns + 2)
    await world.flush()
    assert.equal((await ack).offset, acked.offset)
    assert.equal(await activeLeases(world), 0)
    const other = new Talk(world)
    other.text(subscribe(1, MANY))
    await world.flush()
    assert.equal(other.given.length, MANY - 1)
  })

  it('is given back before the node has stopped', async () => {
    const world = await opened({ segmentBytes: 1 << 20 })
    const connections = connectionsOf(world, nextTurn)
    const session = connect(connections)
    const publish = { id: 2, op: 'publish', stream: STREAM, body: { message_id: 'a', payload: 'a' } }
    session.message(new Uint8Array(Buffer.from(JSON.stringify([subscribe(1, 5), publish]))), false)
    await world.flush()
    assert.equal(await activeLeases(world), 1)
    connections.stop()
    await nextTurn()
    assert.equal(connections.count, 0)
    let isIdle = false
    const idle = connections.idle().then(() => (isIdle = true))
    await nextTurn()
    assert.equal(isIdle, false)
    await world.flush()
    await idle
    assert.equal(await activeLeases(world), 0)
  })

  it('is given back in turn when many end at once', async () => {
    const world = await opened()
    const turns: (() => void)[] = []
    const connections = connectionsOf(world, () => new Promise((resolve) => turns.push(resolve)))
    const sessions = [connect(connections), connect(connections), connect(connections)]
    for (const session of sessions) {
      const publish = { id: 2, op: 'publish', stream: STREAM, body: { message_id: 'a', payload: 'a' } }
      session.message(new Uint8Array(Buffer.from(JSON.stringify([subscribe(1, 1), publish]))), false)
    }
    await world.flush()
    assert.equal(await activeLeases(world), sessions.length)
    const { inFlight } = world.core.appender
    for (const session of sessions) session.closed()
    for (let given = 0; given <= sessions.length; given++) {
      await nextTurn()
      assert.equal(world.core.appender.inFlight, inFlight + given)
      turns.shift()?.()
    }
    await world.flush()
    await connections.idle()
    assert.equal(await activeLeases(world), 0)
  })
})
