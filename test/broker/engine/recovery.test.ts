/** The state that a start rebuilds from the disk answers every question like the state that it replaces. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { dumpOf } from './dump.ts'
import type { Dump } from './dump.ts'
import { GROUPS } from './asking.ts'
import { History, STEP_KINDS } from './history.ts'
import type { StepKind } from './history.ts'
import { CONFIGS } from './record-steps.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'
import { stepsOf } from '../../support/random-history.ts'
import { modelRuns, testSeed } from '../../support/seed.ts'
import { mulberry32 } from '../../support/sim-files.ts'

/** Kinds of steps that are left out, as faults have tests of their own. */
const QUIET: ReadonlySet<StepKind> = new Set([
  'journalDies',
  'failSync',
  'fillDisk',
  'freeDisk',
  'wallClock',
  'quiesce',
])
const kinds = STEP_KINDS.filter(([kind]) => !QUIET.has(kind))

/** What another broker shows that starts from a copy of these files, at the same time. */
async function dumpOfCopy(world: BrokerWorld, change: (copy: BrokerWorld) => void): Promise<Dump> {
  const copy = world.copy(7)
  copy.wallSkewMs += world.nowMs - copy.wallMs
  change(copy)
  await copy.open()
  await copy.tick()
  await copy.flush()
  return dumpOf(copy, GROUPS)
}

function remove(world: BrokerWorld, matches: (path: string) => boolean): void {
  for (const path of world.files.paths()) if (matches(path)) world.files.removeFile(path)
}

const isCheckpoint = (path: string): boolean => path.includes('/checkpoint-')
const isSidecar = (path: string): boolean => /\/(index\.bin|manifest\.json)$/.test(path)

describe('a broker that is started', () => {
  it('answers every question as before, from checkpoint and sidecars, from frames only, and from anything between', async () => {
    for (let life = 1; life <= modelRuns(15); life += 1) {
      const seed = testSeed() + life
      const random = mulberry32(seed)
      const history = new History(seed)
      const { world } = history
      await history.begin(life % CONFIGS.length)
      for (const each of stepsOf(kinds, random, 100 * random())) await history.run(each)
      const lived = await history.quiesce()
      const isWhole = world.log.segments[0]!.base === 0
      const same = async (how: string, change: (copy: BrokerWorld) => void): Promise<void> =>
        assert.deepEqual(await dumpOfCopy(world, change), lived, `seed ${seed}, ${how}`)
      await same('from checkpoint and sidecars', () => {})
      await same('without sidecars', (copy) => remove(copy, isSidecar))
      await same('without some sidecars', (copy) =>
        remove(copy, (path) => isSidecar(path) && (path.length + life) % 2 === 0),
      )
      const newest = world.files.paths().findLast(isCheckpoint)
      await same('from the checkpoint before', (copy) => {
        if (newest) copy.files.damage(newest, (bytes) => bytes.fill(0xff, bytes.byteLength >> 1))
      })
      const gone = (copy: BrokerWorld): void =>
        remove(copy, (path) => isCheckpoint(path) || (life % 2 === 0 && isSidecar(path)))
      if (isWhole) await same('from frames only', gone)
      else await assert.rejects(dumpOfCopy(world, gone), { code: 'broker_checkpoint_missing' })
    }
  })
})
