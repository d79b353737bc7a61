/** A replica directory is enough for a start when the data directory is lost, also if it was replaced, or was away while segments were dropped. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerWorld } from '../../support/broker-world.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { Client } from './client.ts'

const OPTIONS = { replicas: ['/replica'], writeQuorum: 1 }

interface Opened {
  readonly world: BrokerWorld
  readonly client: Client
}

async function opened(): Promise<Opened> {
  const world = await BrokerWorld.open(OPTIONS)
  const client = new Client(world)
  await client.now(client.create('kept'))
  await client.now(client.publish('kept', 'k-1'))
  await client.now(client.create('passing', { retention: { max_bytes: 1000 } }))
  return { world, client }
}

/** Publishes until the log begins later than before. */
async function dropSegments({ world, client }: Opened): Promise<void> {
  const first = world.log.segments[0]!.base
  for (let n = 0; world.log.segments[0]!.base === first; n += 1) {
    assert(n < 2000, 'no segment is dropped')
    await client.now(client.publish('passing', `p-${n}`))
    if (n % 10 > 0) continue
    const enforcing = world.retainer.enforce()
    await world.flush()
    await enforcing
    await world.flush()
  }
}

const isDegraded = ({ world }: Opened): boolean => world.log.state.kind === 'degraded'

async function takeReplicaAway(all: Opened): Promise<void> {
  const { world } = all
  world.files.rename('/replica', '/replica-away')
  world.files.syncDirectory('/')
  await world.advance(1000)
  for (const lane of world.world.lanes) lane.idle()
  assert(isDegraded(all))
}

/** The data directory is lost, and the next start has the replica alone. */
async function assertReplicaIsEnough({ world, client }: Opened): Promise<void> {
  world.end('crash')
  world.files.removeDirectory('/data')
  await world.open()
  await world.flush()
  assert.deepEqual(await client.messages('kept'), ['k-1'])
  assert.deepEqual(world.log.incidents, [])
}

const replicaSegments = ({ world }: Opened): Set<string> =>
  new Set(
    world.files
      .paths()
      .filter((path) => path.startsWith('/replica/segments/') && path.endsWith('records.log'))
      .map((path) => path.replace('/replica', '/data')),
  )

describe('the replica directory of a broker', () => {
  it('that was replaced is enough for a start, without another checkpoint', async () => {
    const all = await opened()
    const { world } = all
    await dropSegments(all)
    await world.close()
    world.files.removeDirectory('/replica')
    await world.open()
    await assertReplicaIsEnough(all)
  })

  it('gives its checkpoints to a data directory that was replaced', async () => {
    const all = await opened()
    const { world, client } = all
    await dropSegments(all)
    await world.close()
    world.files.removeDirectory('/data')
    await world.open()
    world.end('crash')
    world.files.removeDirectory('/replica')
    await world.open()
    assert.deepEqual(await client.messages('kept'), ['k-1'])
  })

  it('that was away while segments were dropped is enough for a start when it is taken in', async () => {
    const all = await opened()
    const { world } = all
    await takeReplicaAway(all)
    await dropSegments(all)
    await dropSegments(all)
    world.files.rename('/replica-away', '/replica')
    world.files.syncDirectory('/')
    await world.advance(20 * 60_000)
    for (let look = 0; isDegraded(all); look += 1) {
      assert(look < 100, 'the replica is not taken in')
      for (const tick of world.world.timers.slice()) tick()
      await world.flush()
      await nextTurn()
    }
    await assertReplicaIsEnough(all)
  })

  it('gets no checkpoints while it is away: its place may be the mount point of a missing disk', async () => {
    const all = await opened()
    await takeReplicaAway(all)
    all.world.files.makeDirectory('/replica')
    await dropSegments(all)
    assert.deepEqual(all.world.files.list('/replica'), [])
  })

  it('that missed a whole run has only the segments of the log after the next start', async () => {
    const all = await opened()
    const { world } = all
    await world.close()
    const alone = new BrokerWorld({}, world.world)
    await alone.open()
    const meanwhile = { world: alone, client: new Client(alone) }
    await dropSegments(meanwhile)
    await dropSegments(meanwhile)
    await alone.close()
    await world.open()
    assert.deepEqual(replicaSegments(all), new Set(world.log.segments.map(({ recordsPath }) => recordsPath)))
    await assertReplicaIsEnough(all)
  })
})
