/** The state that is rebuilt from the disk answers every question as the state did that was lived. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { dumpOf } from './dump.ts'
import type { Dump } from './dump.ts'
import { GROUPS } from './asking.ts'
import { History, STEP_KINDS } from './history.ts'
import type { StepKind } from './history.ts'
import { CONFIGS } from './record-steps.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'
import { stepsOf } from '../../support/random-history.ts'
import { modelRuns } from '../../support/seed.ts'

/** What brings a state about; what breaks it is elsewhere. */
const QUIET: ReadonlySet<StepKind> = new Set([
  'journalDies',
  'failSync',
  'fillDisk',
  'freeDisk',
  'wallClock',
  'quiesce',
])
const kinds = STEP_KINDS.filter(([kind]) => !QUIET.has(kind))

/** What a broker says that begins with these files, at the same time. */
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
    await fc.assert(
      fc.asyncProperty(
        fc.integer(),
        fc.nat(CONFIGS.length - 1),
        stepsOf(kinds, 100),
        fc.nat(),
        async (seed, config, steps, some) => {
          const history = new History(seed)
          const { world } = history
          await history.begin(config)
          for (const each of steps) await history.run(each)
          const lived = await history.quiesce()
          const isWhole = world.log.segments[0]!.base === 0
          assert.deepEqual(await dumpOfCopy(world, () => {}), lived, 'from checkpoint and sidecars')
          assert.deepEqual(await dumpOfCopy(world, (copy) => remove(copy, isSidecar)), lived, 'without sidecars')
          const someGone = (path: string): boolean => isSidecar(path) && (path.length + some) % 2 === 0
          assert.deepEqual(await dumpOfCopy(world, (copy) => remove(copy, someGone)), lived, 'without some sidecars')
          const newest = world.files.paths().findLast(isCheckpoint)
          const flip = (copy: BrokerWorld): void => {
            if (newest) copy.files.damage(newest, (bytes) => bytes.fill(0xff, bytes.byteLength >> 1))
          }
          assert.deepEqual(await dumpOfCopy(world, flip), lived, 'from the checkpoint before')
          const gone = (copy: BrokerWorld): void =>
            remove(copy, (path) => isCheckpoint(path) || (some % 2 === 0 && isSidecar(path)))
          if (isWhole) assert.deepEqual(await dumpOfCopy(world, gone), lived, 'from frames only')
          else await assert.rejects(dumpOfCopy(world, gone), { code: 'broker_checkpoint_missing' })
        },
      ),
      { numRuns: modelRuns(15), includeErrorInReport: true },
    )
  })
})
