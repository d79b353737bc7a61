/** Backups of segments that the service keeps in another form: backup, restore and inspection know only the header of the form. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StoreError } from '../../src/errors.ts'
import { readWhole } from '../../src/log/files.ts'
import type { SegmentInfo } from '../../src/log/log.ts'
import { decodeSegmentFooter } from '../../src/log/segment-format.ts'
import {
  STAND_IN_NAME,
  clearBesideStandIn,
  decodeStandInHeader,
  encodeStandInHeader,
  publishStandIn,
} from '../../src/log/stand-in.ts'
import { backUp } from '../../src/maintenance/backup.ts'
import { check, gapsOf, isWhole } from '../../src/maintenance/check.ts'
import { inspect } from '../../src/maintenance/inspect.ts'
import { restore } from '../../src/maintenance/restore.ts'
import { World } from '../support/log-harness.ts'
import { MemoryTarget } from '../support/memory-target.ts'
import { MovingStore, changingFiles } from '../support/moving-store.ts'
import { mulberry32 } from '../support/sim-files.ts'
import type { SimFiles } from '../support/sim-files.ts'

const CONTENT = Buffer.alloc(700, 'what the segment holds, in another form ')

async function storeOf(seed: number, replicas: readonly string[] = []): Promise<MovingStore> {
  const store = await MovingStore.open(seed, mulberry32(seed), { replicas, cleaningShare: 0 })
  for (let n = 0; n < 300; n += 1) store.act()
  store.settle()
  for (const lane of store.world.lanes) lane.idle()
  return store
}

/** Compacts a segment in one directory of the log, like the service. */
function compact(files: SimFiles, { base, recordsPath, directory }: SegmentInfo): void {
  const footer = decodeSegmentFooter(readWhole(files, recordsPath)!.subarray(-64))!
  publishStandIn(files, directory, [encodeStandInHeader(footer, [CONTENT]), CONTENT])
  clearBesideStandIn(files, directory, footer.logId, base)
}

const backedUp = (files: SimFiles, target: MemoryTarget, replicas: readonly string[] = []) =>
  backUp({
    files,
    dataDirectory: '/data',
    replicas,
    target,
    keep: null,
    isLocked: true,
    nowMs: () => 0,
    pace: () => {},
  })

async function restored(target: MemoryTarget, position: number | null = null): Promise<SimFiles> {
  const { files } = new World({ seed: 1 })
  await restore({ files, target, dataDirectory: '/restored', place: null, sequence: null, position })
  return files
}

const filesIn = (files: SimFiles, { directory }: SegmentInfo, root: string): readonly string[] | null =>
  files.list(directory.replace('/data/', `${root}/`))

describe('a segment with a stand-in', () => {
  it('is backed up, copied once, checked, restored and inspected as the stand-in', async () => {
    const store = await storeOf(1)
    const { files } = store.world
    const [first, second] = store.log.segments
    compact(files, first!)
    compact(files, second!)
    const [inspected] = inspect(files, '/data')
    assert.deepEqual(inspected!.problems, [])
    assert.deepEqual(
      inspected!.segments.slice(0, 3).map(({ form }) => form),
      ['compacted', 'compacted', 'sealed'],
    )
    const target = new MemoryTarget()
    const { snapshot } = await backedUp(files, target)
    assert.deepEqual(gapsOf(snapshot.logs[0]!), [])
    assert.equal(snapshot.logs[0]!.position, store.log.committed)
    assert.equal((await backedUp(files, target)).copiedFiles, 0)
    assert(isWhole(await check(target)))
    const copy = await restored(target)
    assert.deepEqual(filesIn(copy, first!, '/restored'), [STAND_IN_NAME])
    const path = `${first!.directory}/${STAND_IN_NAME}`
    const content = readWhole(copy, path.replace('/data/', '/restored/'))!
    assert(content.equals(readWhole(files, path)!))
    assert.equal(decodeStandInHeader(content)!.end, first!.end)
  })

  it('that is damaged is found by inspect and by a backup, which takes it from a replica that is whole', async () => {
    const replicas = ['/one']
    const store = await storeOf(2, replicas)
    const { files } = store.world
    const [segment] = store.log.segments
    compact(files, segment!)
    const inReplica = { ...segment!, directory: segment!.directory.replace('/data/', '/one/') }
    compact(files, { ...inReplica, recordsPath: segment!.recordsPath.replace('/data/', '/one/') })
    const file = files.open(`${segment!.directory}/${STAND_IN_NAME}`, 'write')
    file.writev([Buffer.from('!')], 200)
    file.close()
    assert.match(inspect(files, '/data')[0]!.problems[0]!.where, /\/compact\.bin$/)
    const alone = await backedUp(files, new MemoryTarget())
    assert.equal(gapsOf(alone.snapshot.logs[0]!).length, 1)
    const target = new MemoryTarget()
    const { snapshot } = await backedUp(files, target, replicas)
    assert.deepEqual(gapsOf(snapshot.logs[0]!), [])
    assert.deepEqual(inspect(await restored(target), '/restored')[0]!.problems, [])
  })

  it('that is a byte short is named by inspect, as the file that does not open', async () => {
    const store = await storeOf(3)
    const { files } = store.world
    const [, segment] = store.log.segments
    compact(files, segment!)
    const file = files.open(`${segment!.directory}/${STAND_IN_NAME}`, 'write')
    file.truncate(file.size() - 1)
    file.close()
    const [problem] = inspect(files, '/data')[0]!.problems
    assert.match(problem!.where, /\/compact\.bin$/)
    assert.match(problem!.reason, /cannot be opened, and records\.log is missing/)
  })

  it('is restored whole: a position inside needs a snapshot that has its frames', async () => {
    const store = await storeOf(3)
    const { files } = store.world
    const [first, second] = store.log.segments
    const inside = second!.base + 1000
    const target = new MemoryTarget()
    compact(files, second!)
    await backedUp(files, target)
    const isUnknown = (error: unknown): boolean =>
      error instanceof StoreError && error.code === 'backup_position_unknown'
    await assert.rejects(restored(target, inside), isUnknown)
    assert.deepEqual(filesIn(await restored(target, second!.end), second!, '/restored'), [STAND_IN_NAME])
    assert.deepEqual(filesIn(await restored(target, first!.end), first!, '/restored'), ['records.log'])

    const other = await storeOf(3)
    const both = new MemoryTarget()
    await backedUp(other.world.files, both)
    compact(other.world.files, other.log.segments[1]!)
    await backedUp(other.world.files, both)
    assert.deepEqual(filesIn(await restored(both, inside), second!, '/restored'), ['records.log'])
    assert.deepEqual(filesIn(await restored(both), second!, '/restored'), [STAND_IN_NAME])
  })

  it('may come into being while the segment is copied', async () => {
    for (let seed = 10; seed < 40; seed += 1) {
      const store = await storeOf(seed)
      const random = mulberry32(seed)
      const { files } = store.world
      const waiting = store.log.segments.filter(({ sealed }) => sealed)
      const target = new MemoryTarget()
      const changing = changingFiles(files, () => {
        if (waiting.length > 0 && random() < 0.03) {
          const [segment] = waiting.splice(Math.floor(random() * waiting.length), 1)
          compact(files, segment!)
        }
      })
      const options = {
        dataDirectory: '/data',
        replicas: [],
        target,
        keep: null,
        isLocked: true,
        nowMs: () => 0,
        pace: () => {},
      }
      const { snapshot } = await backUp({ ...options, files: changing })
      const [log] = snapshot.logs
      assert.deepEqual(gapsOf(log!), [])
      assert.equal(log!.segments.length, store.log.segments.length)
      assert.equal(log!.position, store.log.committed)
      assert.deepEqual(inspect(await restored(target), '/restored')[0]!.problems, [])
    }
  })
})
