/**
 * Samples of damage to any stored file: the file is cut at a byte, one of its bits is flipped, or it is gone. Then a broker is opened on the
 * files and asked for everything, twice. Allowed outcomes:
 *
 *   refusal   a start that says in one line what is wrong
 *   right     everything as it was
 *   signed    everything that is shown is as it was; what is missing is counted, and an incident says so
 *
 * Never: a changed record, a record that is missing without a sign, a stream that is gone without an incident, an offset that is given
 * again, a crash.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { testSeed } from '../../support/seed.ts'
import { mix32, Random } from '../../../bench/load/random.ts'
import { BrokerWorld, CALLER, resultAfterFlush } from '../../support/broker-world.ts'
import { assertWorks, compare, factsOf, openDamaged, storedBroker } from './stored-broker.ts'
import type { Facts } from './stored-broker.ts'

const seed = testSeed()
/** Interval at which the broker looks for what is due. */
const TICK_MS = 20
/** Samples for each kind of file. */
const CASES = Number(process.env['SOAK_CASES'] ?? 20)

interface Fixture {
  readonly stored: BrokerWorld
  readonly pristine: Facts
}

async function fixtureOf(rounds: number): Promise<Fixture> {
  const stored = await storedBroker(new Random(rounds), rounds)
  const undamaged = stored.copy(1)
  await undamaged.open()
  return { stored, pristine: await factsOf(undamaged) }
}

interface Damage {
  readonly path: string
  readonly how: string
  /** Changes the content; null: the file is removed. */
  readonly change: ((content: Buffer) => Buffer) | null
  /** The end of the file is missing. */
  readonly isCut: boolean
}

const gone = (path: string): Damage => ({ path, how: 'gone', change: null, isCut: true })

const cut = (path: string, at: number): Damage => ({
  path,
  how: `cut at byte ${at}`,
  change: (content) => content.subarray(0, at),
  isCut: true,
})

const flip = (path: string, at: number, bit: number): Damage => ({
  path,
  how: `with bit ${bit} of byte ${at} flipped`,
  change(content) {
    content[at]! ^= 1 << bit
    return content
  },
  isCut: false,
})

type Outcome = 'refusal' | 'right' | 'signed'

/** Opens the damaged files twice: the second broker shows what the first one showed after its repairs. */
async function outcomeOf({ stored, pristine }: Fixture, { path, change, isCut }: Damage): Promise<Outcome> {
  const world = stored.copy(2)
  if (change) world.files.damage(path, change)
  else world.files.removeFile(path)
  if ((await openDamaged(world)) !== null) return 'refusal'
  const outcome = compare(await factsOf(world), pristine, isCut)
  await assertWorks(world, pristine)
  const used = await factsOf(world)
  await world.close()
  assert.equal(await openDamaged(world), null)
  await world.advance(TICK_MS)
  assert.deepEqual(await factsOf(world), used, 'another start finds another state')
  await world.close()
  return outcome
}

/** Damages the files of a kind at random places, CASES times. */
async function outcomes(fixture: Fixture, pattern: RegExp, random: Random): Promise<Map<Outcome, number>> {
  const { files } = fixture.stored
  const paths = files.paths().filter((path) => pattern.test(path))
  assert(paths.length > 0)
  const counts = new Map<Outcome, number>()
  for (let n = 0; n < CASES; n++) {
    const path = paths[random.between(0, paths.length - 1)]!
    const damage = anyDamage(random, path, files.contentOf(path).byteLength)
    try {
      const outcome = await outcomeOf(fixture, damage)
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      throw new Error(`${path} ${damage.how} (TRILOG_TEST_SEED=${seed}): ${problem}`, { cause: error })
    }
  }
  return counts
}

function anyDamage(random: Random, path: string, bytes: number): Damage {
  const choice = random.between(1, 10)
  if (choice === 1) return gone(path)
  if (choice === 2) return cut(path, random.pick([0, bytes - 1]))
  if (choice <= 5) return cut(path, random.between(0, bytes - 1))
  return flip(path, random.between(0, bytes - 1), random.between(0, 7))
}

for (const [name, rounds] of [
  ['a stored broker', 16],
  ['a young broker, whose log is one segment', 1],
] as const) {
  describe(`${name}, with a damaged file (TRILOG_TEST_SEED=${seed})`, async () => {
    const random = new Random(mix32(seed))
    const fixture = await fixtureOf(rounds)
    const isYoung = rounds === 1

    it('is refused, or right, when FORMAT is damaged', async () => {
      const found = await outcomes(fixture, /FORMAT$/, random)
      assert(!found.has('signed'))
    })

    it('has lost nothing when DURABLE is damaged', async () => {
      assert.deepEqual([...(await outcomes(fixture, /DURABLE$/, random)).keys()], ['right'])
    })

    it('says what is lost when a segment is damaged, and serves everything else', async () => {
      const found = await outcomes(fixture, /records\.log$/, random)
      assert((found.get('signed') ?? 0) > 0)
    })

    if (isYoung) return
    it('has lost nothing when a sidecar or its manifest is damaged', async () => {
      const found = await outcomes(fixture, /(index\.bin|manifest\.json)$/, random)
      assert.deepEqual([...found.keys()], ['right'])
    })

    it('has lost nothing when a checkpoint is damaged, as there is one before it', async () => {
      assert.deepEqual([...(await outcomes(fixture, /checkpoint-/, random)).keys()], ['right'])
    })
  })
}

describe('the audit stream, when the frame of its creation is damaged', () => {
  const GROUP = { stream: 'orders', group: 'workers' }

  /** A closed broker whose audit stream has three events. */
  async function audited(): Promise<BrokerWorld> {
    const world = await BrokerWorld.open()
    const { broker } = world
    for (const name of ['orders', 'dead']) await resultAfterFlush(world, broker.createStream(CALLER, name, {}))
    await resultAfterFlush(world, broker.commitCursor(CALLER, GROUP, 'cursor', 0))
    await resultAfterFlush(world, broker.rewindCursor(CALLER, GROUP, 'cursor', { offset: 0, reason: 'again' }))
    await world.close()
    return world
  }

  function damageFrameOf(world: BrokerWorld, text: string): void {
    const path = world.files.paths().find((each) => each.endsWith('records.log'))!
    world.files.damage(path, (content) => {
      const at = content.indexOf(text)
      assert(at >= 0)
      content[at]! ^= 1
      return content
    })
  }

  const CREATION = '"stream":"system.audit"'
  const creationOf = (stream: string): string => `"stream":"${stream}","default_durability"`

  it('has its events and its number still: what is created behind it is found again, too', async () => {
    const world = await audited()
    await world.open()
    const pristine = await factsOf(world)
    await world.close()
    assert.deepEqual([...pristine.events.keys()], [0, 1, 2])
    damageFrameOf(world, CREATION)
    await world.open()
    const { incidents, ...found } = await factsOf(world)
    assert.deepEqual({ ...found, incidents: 0 }, pristine)
    assert.equal(incidents, 1)
    await resultAfterFlush(world, world.broker.createStream(CALLER, 'new', {}))
    const used = await factsOf(world)
    assert.deepEqual([...used.events.keys()], [0, 1, 2, 3])
    await world.close()
    await world.open()
    assert.deepEqual(await factsOf(world), used)
  })

  it('begins behind every event there may have been, when nothing else tells of it', async () => {
    const world = await BrokerWorld.open()
    await resultAfterFlush(world, world.broker.createStream(CALLER, 'orders', {}))
    await world.close()
    damageFrameOf(world, CREATION)
    damageFrameOf(world, creationOf('orders'))
    await world.open()
    assert.deepEqual((await factsOf(world)).events, new Map())
    await world.close()
    await world.open()
    await resultAfterFlush(world, world.broker.createStream(CALLER, 'new', {}))
    const used = await factsOf(world)
    assert([...used.events.keys()].every((offset) => offset > 0))
    assert.equal(used.events.size, 1)
    await world.close()
    await world.open()
    assert.deepEqual(await factsOf(world), used)
  })

  it('is no reason to guess: the start is refused when its number may have been that of another stream', async () => {
    const world = await audited()
    damageFrameOf(world, CREATION)
    damageFrameOf(world, creationOf('orders'))
    assert.match((await openDamaged(world)) ?? '', /belongs to a stream or consumer group whose creation is damaged/)
  })
})
