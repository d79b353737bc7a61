/** Backups of logs that are written, cleaned and dropped during the backup, on simulated files. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Files } from '../../src/log/files.ts'
import { StoreError } from '../../src/errors.ts'
import { SEGMENT_HEADER_BYTES } from '../../src/log/segment-format.ts'
import { backUp } from '../../src/maintenance/backup.ts'
import type { BackupReport } from '../../src/maintenance/backup.ts'
import { check, isWhole } from '../../src/maintenance/check.ts'
import { restore } from '../../src/maintenance/restore.ts'
import { World } from '../support/log-harness.ts'
import { MemoryTarget } from '../support/memory-target.ts'
import { MovingStore, changingFiles, recovered } from '../support/moving-store.ts'
import { modelRuns, seedOf } from '../support/seed.ts'
import { mulberry32 } from '../support/sim-files.ts'

const backedUp = (
  files: Files,
  target: MemoryTarget,
  options: { readonly keep?: number; readonly replicas?: readonly string[]; readonly dataDirectory?: string } = {},
): Promise<BackupReport> =>
  backUp({
    files,
    dataDirectory: '/data',
    replicas: [],
    target,
    keep: null,
    isLocked: true,
    nowMs: () => 0,
    pace: () => {},
    ...options,
  })

async function restored(
  target: MemoryTarget,
  { position = null as number | null, sequence = null as number | null } = {},
) {
  const world = new World({ seed: 1 })
  const options = { files: world.files, target, dataDirectory: '/restored', place: null, sequence, position }
  const [log] = await restore(options)
  return { ...(await recovered(world, '/restored')), log: log! }
}

function act(store: MovingStore, times: number): void {
  for (let n = 0; n < times; n += 1) store.act()
}

const positionOf = ({ snapshot }: BackupReport): number => snapshot.logs[0]!.position

describe('a backup of a store that goes on', () => {
  it('holds what was stored before it began, and is the store as it was at its position', async (context) => {
    const seed = seedOf(context)
    let moved = 0
    for (let run = 0; run < modelRuns(60); run += 1) {
      const random = mulberry32(seed + run)
      const store = await MovingStore.open(seed + run, random)
      act(store, random() * 400)
      store.settle()
      const target = new MemoryTarget()
      const pace = random() * 0.5
      const replaceShare = random() * 0.01
      const files = changingFiles(store.world.files, () => {
        if (random() < pace) store.act()
        if (random() < replaceShare) store.replaceSegments()
      })
      for (let snapshot = 0; snapshot < 3; snapshot += 1) {
        const before = store.log.committed
        const from = store.log.segments[0]?.base ?? 0
        const report = await backedUp(files, target).catch((error: unknown) => {
          assert(error instanceof StoreError && error.code === 'backup_overtaken', String(error))
          return null
        })
        if (report === null) continue
        moved += Number((store.log.segments[0]?.base ?? 0) > from)
        const position = positionOf(report)
        assert(position >= before, `${position} is before ${before}`)
        const { state, end } = await restored(target)
        assert.equal(end, position)
        assert.deepEqual(state, plain(store.stateAt(position)))
        const { from: lowest } = report.snapshot.logs[0]!
        const earlier = lowest + Math.floor(random() * (position - lowest + 1))
        assert.deepEqual((await restored(target, { position: earlier })).state, plain(store.stateAt(earlier)))
      }
      const report = await check(target)
      assert(report.snapshots.length === 0 || isWhole(report), JSON.stringify(report.problems))
    }
    assert(moved > 10, `segments went during ${moved} backups only`)
  })

  it('can be restored to every position of its range, and between snapshots that follow on each other', async (context) => {
    const seed = seedOf(context)
    let between = 0
    for (let run = 0; run < modelRuns(40); run += 1) {
      const random = mulberry32(seed + run)
      const store = await MovingStore.open(seed + run, random, { cleaningShare: 0.01 })
      const target = new MemoryTarget()
      for (let snapshot = 0; snapshot < 4; snapshot += 1) {
        act(store, random() * 200)
        store.settle()
        await backedUp(store.world.files, target)
      }
      const { snapshots } = await check(target)
      const ranges = snapshots.map(({ logs }) => logs[0]!)
      const lowest = Math.min(...ranges.map(({ from }) => from))
      const highest = Math.max(...ranges.map((log) => log.position))
      for (let n = 0; n < 12; n += 1) {
        const position = lowest + Math.floor(random() * (highest - lowest + 1))
        const isInside = ranges.some((range) => range.from <= position && position <= range.position)
        const found = await restored(target, { position }).catch((error: unknown) => {
          assert(error instanceof StoreError && error.code === 'backup_position_unknown', String(error))
          return null
        })
        if (found === null) {
          assert(!isInside, `position ${position} is in the range of a snapshot`)
          continue
        }
        if (!isInside) between += 1
        assert(found.end <= position + SEGMENT_HEADER_BYTES, 'no frame behind it')
        assert(found.log.position <= position, `${found.log.position} is above ${position}`)
        assert.deepEqual(found.state, plain(store.stateAt(position)))
      }
    }
    assert(between > 10, `${between} positions between snapshots only`)
  })
})

const plain = (state: ReturnType<MovingStore['stateAt']>): ReadonlyMap<number, { position: number; value: number }> =>
  new Map(Array.from(state, ([key, { position, value }]) => [key, { position, value }]))
