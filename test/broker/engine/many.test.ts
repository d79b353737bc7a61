/** Thousands of streams and groups: tests count the work on the main thread, as times would depend on the machine. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StateCopy, decodeCheckpoint } from '../../../src/broker/engine/checkpoint-content.ts'
import { atOnce } from '../../../src/steps.ts'
import { BrokerState, DEFAULT_STREAM_CONFIG } from '../../../src/broker/state/state.ts'
import type { Group } from '../../../src/broker/state/state.ts'
import { SLICE_ENTRIES } from '../../../src/broker/limits.ts'
import { GroupState } from '../../../src/broker/state/group.ts'
import { Client } from './client.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { BrokerWorld, CALLER } from '../../support/broker-world.ts'

/** Adds streams with this number of groups each. Returns all groups. */
function fill(state: BrokerState, streams: number, groupsEach: number): Group[] {
  const groups: Group[] = []
  for (let i = 0; i < streams; i += 1) {
    const name = `stream-${(i * 7919) % streams}`
    const stream = state.applyStreamCreated(state.streams.length, CALLER.tenant, name, DEFAULT_STREAM_CONFIG, 1)
    for (let k = 0; k < groupsEach; k += 1) groups.push(state.applyGroupCreated(state.groups.length, stream, `g${k}`))
  }
  return groups
}

/** Counts how often groups are asked for the time at which they have something to do. */
function countLooks(): { looks: number; end(): void } {
  const own = Object.getOwnPropertyDescriptor(GroupState.prototype, 'nextDueMs')!
  const counted = { looks: 0, end: () => Object.defineProperty(GroupState.prototype, 'nextDueMs', own) }
  Object.defineProperty(GroupState.prototype, 'nextDueMs', {
    ...own,
    get(this: GroupState) {
      counted.looks += 1
      return own.get!.call(this) as number
    },
  })
  return counted
}

describe('groups with nothing to do', () => {
  it('are not looked at as time passes, and those with leases are when these end', async () => {
    const world = await BrokerWorld.open()
    const groups = fill(world.core.state, 100, 100)
    const busy = groups[4321]!
    const startMs = world.nowMs
    world.core.state.applyClaim(busy, 0, startMs, startMs + 1000, [{ offset: 0, count: 1, attempt: 1 }])
    const counted = countLooks()
    for (let tick = 0; tick < 40; tick += 1) await world.advance(20)
    assert.equal(counted.looks, 0)
    for (let tick = 0; tick < 20; tick += 1) await world.advance(20)
    assert.ok(counted.looks > 0 && counted.looks < 10, `${counted.looks} looks`)
    counted.end()
    assert.equal(busy.queue.leasedCount, 0)
    assert.deepEqual(world.core.state.totals, { leased: 0, delayed: 0 })
    await world.close()
  })

  it('forget what retention removed as time passes, some hundred at a time', async () => {
    const world = await BrokerWorld.open()
    const { state } = world.core
    const [first] = fill(state, 1, 1200)
    state.applyRetained(first!.stream, 7, 0)
    for (let tick = 0; tick < 2; tick += 1) await world.advance(20)
    assert.equal(state.catchUpSome(), false, 'the last 200 are all that was left')
    await world.close()
  })

  it('whose lease was prolonged or ended early are found when it is over, and not lost', async () => {
    const world = await BrokerWorld.open()
    const client = new Client(world)
    await client.now(client.create('orders'))
    for (const id of ['m-1', 'm-2']) await client.now(client.publish('orders', id))
    const [first] = await client.now(client.claim('orders', { lease_timeout_millis: 1000 }))
    const [second] = await client.now(client.claim('orders', { lease_timeout_millis: 5000 }))
    await client.now(client.renew(first!, 2000))
    assert.equal(world.core.state.totals.leased, 2)
    await world.advance(1000)
    await client.now(client.ack(second!))
    assert.equal(world.core.state.totals.leased, 1)
    await world.advance(1999)
    assert.equal(world.core.state.totals.leased, 1)
    await world.advance(1)
    await world.tick()
    assert.equal(world.core.state.totals.leased, 0)
    assert.equal(world.core.counters.expiredLeases, 1)
    await world.close()
  })
})

describe('a listing', () => {
  it('of 8000 streams is made in slices, sorted, once each, whatever is created meanwhile', async () => {
    const world = await BrokerWorld.open()
    const { state } = world.core
    fill(state, 8000, 0)
    const before = world.turns
    const listing = world.broker.listStreams(CALLER)
    await nextTurn()
    for (const name of ['', 'stream-3999a', 'zzz']) {
      state.applyStreamCreated(state.streams.length, CALLER.tenant, name, DEFAULT_STREAM_CONFIG, 1)
    }
    const { streams, stream_count } = await listing
    assert.equal(world.turns - before, Math.floor(8001 / SLICE_ENTRIES))
    const names = streams.map(({ stream }) => stream)
    assert.deepEqual(
      names,
      names.toSorted((a, b) => (a < b ? -1 : 1)),
    )
    assert.equal(new Set(names).size, names.length)
    assert.ok(names.length >= 8000 && stream_count === names.length)
    await world.close()
  })

  it('of 10 000 leases is made in slices', async () => {
    const world = await BrokerWorld.open()
    const [group] = fill(world.core.state, 1, 1)
    const nowMs = world.nowMs
    for (let claim = 0; claim < 100; claim += 1) {
      const runs = [{ offset: 100 * claim, count: 100, attempt: 1 }]
      world.core.state.applyClaim(group!, claim, nowMs, nowMs + 1000, runs)
    }
    const before = world.turns
    const { leases } = await world.broker.leases(CALLER, { stream: 'stream-0', group: 'g0' }, false)
    assert.equal(world.turns - before, 10_000 / SLICE_ENTRIES - 1)
    assert.equal(leases.length, 10_000)
    const { tokens } = world.core
    for (const { offset, subscription_id, delivery_id } of [leases[0]!, leases[4321]!, leases[9999]!]) {
      assert.equal(subscription_id, tokens.subscription(group!.number, Math.floor(offset / 100)))
      assert.equal(delivery_id, tokens.delivery(group!.number, offset, 1))
    }
    await world.close()
  })
})

describe('a copy for the checkpoint', () => {
  const whole = async (copy: StateCopy, turn: () => Promise<void>): Promise<Buffer> =>
    Buffer.concat(await copy.finish(turn))

  it('is of the moment it was begun at, whatever changes while it is made in slices', async () => {
    const state = new BrokerState()
    const groups = fill(state, 700, 3)
    for (const group of groups) state.applyClaim(group, 0, 1, 1000, [{ offset: 0, count: 3, attempt: 1 }])
    const expected = await whole(new StateCopy(state), async () => {})
    const copy = new StateCopy(state)
    let turns = 0
    const made = await whole(copy, async () => {
      turns += 1
      for (const group of [groups[0]!, groups[turns * 50]!, groups.at(-1 - turns)!]) {
        state.applyCursor(group, 'c', turns, 5000)
        state.applyClaim(group, 1, 6000, 7000, [{ offset: turns + 3, count: 1, attempt: 1 }])
        state.applyFinished(group, 0, 1, 'stopped', 6500, 'no')
      }
      const stream = state.streams[turns]!
      state.applyRetained(stream, 2, 0)
      state.applyRecords(stream, { segmentBase: 0, place: 0, frameBytes: 9 }, BROUGHT)
      fill(new BrokerState(), 1, 1)
      state.applyGroupCreated(state.groups.length, stream, `new ${turns}`)
    })
    assert.ok(turns > 20, `${turns} turns`)
    assert.ok(made.equals(expected))
    assert.equal(state.copiers.size, 0)
    assert.equal(atOnce(decodeCheckpoint(made)).groups.length, groups.length)
  })

  const BROUGHT = { firstOffset: 0, count: 1, ingestTimeMs: 1, eventTimeMsOf: () => 1, payloadBytesOf: () => 1 }
})
