import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { GroupAges } from '../../../src/broker/operations/group-ages.ts'
import { GroupSeries } from '../../../src/broker/operations/group-series.ts'
import { DEFAULT_STREAM_CONFIG } from '../../../src/broker/state/state.ts'
import type { BrokerState, Group } from '../../../src/broker/state/state.ts'
import { GroupState } from '../../../src/broker/state/group.ts'
import { BrokerWorld, CALLER, Pending } from '../../support/broker-world.ts'

const TENANT = CALLER.tenant
const RECORD = {
  payload: { text: 'p', encoding: 'utf8' },
  key: null,
  eventTimeMs: null,
  headers: {},
  durability: null,
} as const

const finish = (state: BrokerState, group: Group, offset: number): void =>
  state.applyResolution(group, { verb: 'ack', offset, attempt: 1, atMs: 1, valueMs: 0 })

const seriesOf = ({ core }: BrokerWorld, max: number): GroupSeries => new GroupSeries(core, new GroupAges(core), max)

/** A stream whose records have these ages, and a group of it without claims. */
async function streamWith(world: BrokerWorld, name: string, agesMs: readonly number[]): Promise<Group> {
  const done = async (asked: Promise<unknown>): Promise<void> => {
    const pending = new Pending(asked)
    await world.flush()
    assert.equal(pending.outcome.kind, 'answered')
  }
  await done(world.broker.createStream(CALLER, name, {}))
  for (const [i, ageMs] of agesMs.entries()) {
    const wallSkewMs = world.wallSkewMs
    world.wallSkewMs -= ageMs
    await done(world.broker.publish(CALLER, name, { ...RECORD, messageId: `m-${i}` }))
    world.wallSkewMs = wallSkewMs
  }
  const { state } = world.core
  return state.applyGroupCreated(state.groups.length, state.stream(TENANT, name)!, 'g')
}

describe('series of groups', () => {
  it('say lag, age, in flight, delayed and dead letters of each', async () => {
    const world = await BrokerWorld.open()
    const group = await streamWith(world, 'orders', [5000, 4000, 3000, 2000])
    const { state } = world.core
    finish(state, group, 0)
    state.applyClaim(group, 0, world.nowMs, world.nowMs + 1000, [{ offset: 1, count: 2, attempt: 1 }])
    const release = { verb: 'release', offset: 2, attempt: 1, atMs: world.nowMs } as const
    state.applyResolution(group, { ...release, valueMs: world.nowMs + 9000 })
    state.applyFinished(group, 3, 1, 'dead_lettered', world.nowMs, null)
    assert.deepEqual(await seriesOf(world, 10).of(TENANT), [
      { labels: { stream: 'orders', group: 'g' }, lag: 2, oldestAgeMs: 4000, inFlight: 1, delayed: 1, deadLetters: 1 },
    ])
    await world.close()
  })

  it('have the exact age of a record whose neighbours came in long after it', async () => {
    const world = await BrokerWorld.open()
    const HOUR_MS = 3_600_000
    await streamWith(world, 'slow', [100 * HOUR_MS, 50 * HOUR_MS, HOUR_MS, 0])
    const [sample] = await seriesOf(world, 10).of(TENANT)
    assert.equal(sample!.oldestAgeMs, 100 * HOUR_MS)
    await world.close()
  })

  it('and the list of groups say the same age; a group that is done with everything has none', async () => {
    const world = await BrokerWorld.open()
    const HOUR_MS = 3_600_000
    const group = await streamWith(world, 'slow', [100 * HOUR_MS, 50 * HOUR_MS, HOUR_MS])
    const listed = async (): Promise<number | null> => {
      const pending = new Pending(world.broker.listGroups(CALLER, 'slow'))
      await world.flush()
      return pending.value.consumer_groups[0]!.oldest_unfinished_age_millis
    }
    assert.equal(await listed(), 100 * HOUR_MS)
    finish(world.core.state, group, 0)
    assert.equal(await listed(), 50 * HOUR_MS)
    for (const offset of [1, 2]) finish(world.core.state, group, offset)
    assert.equal(await listed(), null)
    await world.close()
  })

  it('do not wait for a disk that does not answer: the age is at least as said', async () => {
    const world = await BrokerWorld.open()
    await streamWith(world, 'slow', [100_000, 50_000, 7000])
    world.holdsReads = true
    const asked = seriesOf(world, 10).of(TENANT)
    await world.advance(500)
    const [sample] = await asked
    assert.equal(sample!.oldestAgeMs, 7500)
    await world.close()
  })

  it('of a tenant are those of its groups, and one for the rest', async () => {
    const world = await BrokerWorld.open()
    const { state } = world.core
    const groups: Group[] = []
    for (const [name, agesMs] of [
      ['a', [1000]],
      ['b', [2000, 1000]],
      ['c', [5000, 4000, 3000]],
      ['d', []],
    ] as const) {
      groups.push(await streamWith(world, name, agesMs))
    }
    const foreign = state.applyStreamCreated(state.streams.length, 'acme', 'a', DEFAULT_STREAM_CONFIG, 1)
    state.applyGroupCreated(state.groups.length, foreign, 'theirs')
    const series = seriesOf(world, 2)
    const shown = async () =>
      (await series.of(TENANT)).map(({ labels, lag, oldestAgeMs }) => [Object.values(labels).join(), lag, oldestAgeMs])
    const rest = 'other,other,true'
    assert.deepEqual(await shown(), [
      ['a,g', 1, 1000],
      ['b,g', 2, 2000],
      [rest, 3, 5000],
    ])
    finish(state, groups[2]!, 0)
    assert.deepEqual((await shown())[2], [rest, 2, 4000])
    state.applyGroupDeleted(groups[0]!)
    assert.deepEqual(await shown(), [
      ['b,g', 2, 2000],
      ['c,g', 2, 4000],
      [rest, 0, 0],
    ])
    assert.deepEqual(
      (await seriesOf(world, 0).of('acme')).map(({ labels }) => labels),
      [{ stream: 'other', group: 'other', summed: 'true' }],
    )
    assert.deepEqual(await series.of('nobody'), [])
    await world.close()
  })

  it('say what is left when a floor has just risen over thousands of groups, which catch up in slices first', async () => {
    const world = await BrokerWorld.open()
    const MANY = 2300
    const group = await streamWith(world, 'orders', [3000, 2000, 1000])
    const { state } = world.core
    for (let i = 1; i < MANY; i += 1) state.applyGroupCreated(state.groups.length, group.stream, `g${i}`)
    for (const each of group.stream.groups.values()) for (const offset of [0, 1]) finish(state, each, offset)
    state.applyRetained(group.stream, 1, 1)
    const before = world.turns
    const [first, rest] = await seriesOf(world, 1).of(TENANT)
    assert.deepEqual([first!.lag, rest!.lag], [1, MANY - 1])
    assert.equal(world.turns - before, Math.floor(MANY / 500))
    assert.equal(state.catchUpSome(), false)
    await world.close()
  })

  it('cost the same with 10 000 streams of 4 groups: a bounded number is looked at, and the oldest is found in turn', async () => {
    const world = await BrokerWorld.open()
    const { state } = world.core
    await streamWith(world, 'first', [1000])
    for (let i = 0; i < 10_000; i += 1) {
      const stream = state.applyStreamCreated(state.streams.length, TENANT, `s-${i}`, DEFAULT_STREAM_CONFIG, 1)
      for (let k = 0; k < 4; k += 1) state.applyGroupCreated(state.groups.length, stream, `g${k}`)
    }
    const forgotten = await streamWith(world, 'last', [90_000])
    const series = seriesOf(world, 1000)
    const own = Object.getOwnPropertyDescriptor(GroupState.prototype, 'progressOffset')!
    let looks = 0
    Object.defineProperty(GroupState.prototype, 'progressOffset', {
      ...own,
      value(this: GroupState) {
        looks += 1
        return own.value.call(this) as number
      },
    })
    let scrapes = 0
    let oldestAgeMs = 0
    for (; oldestAgeMs === 0 && scrapes < 25; scrapes += 1) {
      looks = 0
      const samples = await series.of(TENANT)
      assert.equal(samples.length, 1001)
      oldestAgeMs = samples.at(-1)!.oldestAgeMs
      assert(looks < 3001, `${looks} looks`)
    }
    Object.defineProperty(GroupState.prototype, 'progressOffset', own)
    assert.equal(oldestAgeMs, 90_000, 'the oldest of all is found within a round')
    finish(state, forgotten, 0)
    assert.equal((await series.of(TENANT)).at(-1)!.oldestAgeMs, 0)
    await world.close()
  })
})
