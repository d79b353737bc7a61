/** Several backups in one place: more backups, removals, damage, backups that die, and stores that are damaged themselves. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { atOnce } from '../../src/steps.ts'
import { makeDurableDirectory } from '../../src/log/files.ts'
import { recoverDirectory } from '../../src/log/recovery.ts'
import { StoreError } from '../../src/errors.ts'
import { backUp } from '../../src/maintenance/backup.ts'
import { check, gapsOf, isWhole } from '../../src/maintenance/check.ts'
import { inspect } from '../../src/maintenance/inspect.ts'
import { restore } from '../../src/maintenance/restore.ts'
import { World, appended, openWriter } from '../support/log-harness.ts'
import { MemoryTarget } from '../support/memory-target.ts'
import { MovingStore, changingFiles, recovered } from '../support/moving-store.ts'
import { mulberry32 } from '../support/sim-files.ts'
import type { SimFiles } from '../support/sim-files.ts'

const ACTS = 400

async function storeOf(seed: number, replicas: readonly string[] = [], cleaningShare = 0): Promise<MovingStore> {
  const store = await MovingStore.open(seed, mulberry32(seed), { replicas, cleaningShare })
  goOn(store)
  return store
}

function goOn(store: MovingStore, acts = ACTS): void {
  for (let n = 0; n < acts; n += 1) store.act()
  store.settle()
  for (const lane of store.world.lanes) lane.idle()
}

interface Given {
  readonly keep?: number
  readonly replicas?: readonly string[]
  readonly dataDirectory?: string
  readonly isLocked?: boolean
}

const backedUp = ({ world }: Pick<MovingStore, 'world'>, target: MemoryTarget, given: Given = {}) =>
  backUp({
    files: world.files,
    dataDirectory: '/data',
    replicas: [],
    target,
    keep: null,
    isLocked: true,
    nowMs: () => 0,
    pace: () => {},
    ...given,
  })

async function restored(target: MemoryTarget, sequence: number | null = null) {
  const world = new World({ seed: 1 })
  const options = { files: world.files, target, dataDirectory: '/restored', place: null, sequence, position: null }
  await restore(options)
  return world
}

const hasCode =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof StoreError && error.code === code

/** Flips one bit of a file of the store. */
function flip(files: SimFiles, path: string, at: number): void {
  const file = files.open(path, 'write')
  const byte = Buffer.alloc(1)
  file.read(byte, at)
  byte[0] = byte[0]! ^ 1
  file.writev([byte], at)
  file.fdatasync()
  file.close()
}

describe('a second backup', () => {
  it('copies what is new: the segments since, and the one that was written', async () => {
    const store = await storeOf(1)
    const target = new MemoryTarget()
    const first = await backedUp(store, target)
    const again = await backedUp(store, target)
    assert.equal(again.copiedFiles, 0)
    assert.equal(again.reusedFiles, first.copiedFiles)
    const sealed = store.log.segments.length
    goOn(store)
    const third = await backedUp(store, target)
    assert.equal(third.reusedFiles, sealed - 1)
    assert.equal(third.copiedFiles, store.log.segments.length - sealed + 1)
    const { state, end } = await recovered(await restored(target), '/restored')
    assert.equal(end, store.log.committed)
    assert.equal(state.size, store.stateAt(end).size)
  })

  it('copies again what the place has lost', async () => {
    const store = await storeOf(2)
    const target = new MemoryTarget()
    await backedUp(store, target)
    const lost = target.puts.find((key) => key.includes('/records-'))!
    target.files.delete(lost)
    assert(!isWhole(await check(target)))
    await backedUp(store, target)
    assert(isWhole(await check(target)))
  })

  it('of another store is refused', async () => {
    const target = new MemoryTarget()
    await backedUp(await storeOf(3), target)
    const files = new Map(target.files)
    await assert.rejects(backedUp(await storeOf(4), target), hasCode('backup_of_another_store'))
    assert.deepEqual(target.files, files)
  })
})

describe('--keep', () => {
  it('removes the oldest snapshots, and the files that only they name', async () => {
    const store = await storeOf(5, [], 0.05)
    const target = new MemoryTarget()
    for (let n = 0; n < 4; n += 1) {
      await backedUp(store, target, { keep: 2 })
      goOn(store)
    }
    const report = await check(target)
    assert.deepEqual(
      report.snapshots.map(({ sequence }) => sequence),
      [3, 4],
    )
    assert(isWhole(report))
    const named = report.snapshots.flatMap(({ logs }) =>
      logs.flatMap(({ segments, checkpoints }) => [
        ...segments.map(({ records }) => records!.key),
        ...checkpoints.map(({ file }) => file.key),
      ]),
    )
    const kept = [...target.files.keys()].filter((key) => key.startsWith('logs/'))
    assert.deepEqual(kept.sort(), [...new Set(named)].sort())
  })
})

describe('a backup that dies', () => {
  it('leaves the snapshots before it whole, at whichever file it was, and the next one cleans up', async () => {
    const store = await storeOf(6, [], 0.05)
    const target = new MemoryTarget()
    await backedUp(store, target)
    goOn(store)
    const dying = new MemoryTarget()
    for (let puts = 0; ; puts += 1) {
      dying.files.clear()
      for (const [key, content] of target.files) dying.files.set(key, content)
      let left = puts
      dying.dies = () => left-- === 0
      const ended = await backedUp(store, dying).then(
        () => true,
        () => false,
      )
      const report = await check(dying)
      assert(isWhole(report))
      assert.equal(report.snapshots.length, ended ? 2 : 1)
      if (ended) break
      dying.dies = () => false
      await backedUp(store, dying, { keep: 1 })
      const files = new Map([...dying.files].filter(([key]) => key.startsWith('logs/')))
      const fresh = new MemoryTarget()
      await backedUp(store, fresh)
      assert.deepEqual(
        [...files.keys()].sort(),
        [...fresh.files.keys()].filter((key) => key.startsWith('logs/')).sort(),
      )
    }
  })
})

describe('a bit that flips in a backup', () => {
  it('is found by --check in every file, and never restored', async () => {
    const store = await storeOf(7, [], 0.05)
    const target = new MemoryTarget()
    await backedUp(store, target)
    const random = mulberry32(7)
    assert(target.files.size > 5)
    for (const [key, content] of target.files) {
      if (key === 'BACKUP') continue
      const damaged = Buffer.from(content)
      const bit = Math.floor(random() * damaged.byteLength * 8)
      damaged[bit >> 3] = damaged[bit >> 3]! ^ (1 << (bit & 7))
      target.files.set(key, damaged)
      assert(!isWhole(await check(target)), key)
      const code = key.startsWith('snapshots/') ? 'backup_missing' : 'backup_damaged'
      await assert.rejects(restored(target), hasCode(code), key)
      target.files.set(key, content)
    }
    assert(isWhole(await check(target)))
  })

  it('is found when a file is missing or too short', async () => {
    const store = await storeOf(8)
    const target = new MemoryTarget()
    await backedUp(store, target)
    const [key, content] = [...target.files].find(([name]) => name.startsWith('logs/'))!
    target.files.set(key, content.subarray(0, -1))
    await assert.rejects(restored(target), hasCode('backup_damaged'))
    target.files.delete(key)
    assert(!isWhole(await check(target)))
    await assert.rejects(restored(target), hasCode('backup_file_missing'))
  })
})

describe('a restore', () => {
  it('goes into an empty directory only, and its log has no FORMAT before everything else is there', async () => {
    const store = await storeOf(9)
    const target = new MemoryTarget()
    await backedUp(store, target)
    const world = await restored(target)
    const options = {
      files: world.files,
      target,
      dataDirectory: '/restored',
      place: null,
      sequence: null,
      position: null,
    }
    await assert.rejects(restore(options), hasCode('restore_not_empty'))
    const key = target.puts.findLast((name) => name.startsWith('logs/'))!
    target.files.delete(key)
    await assert.rejects(restore({ ...options, dataDirectory: '/half' }), hasCode('backup_file_missing'))
    assert(!world.files.exists('/half/FORMAT'))
    await assert.rejects(world.open({ directory: '/half' }), hasCode('log_format_missing'))
  })

  it('brings any snapshot back', async () => {
    const store = await storeOf(10, [], 0.05)
    const target = new MemoryTarget()
    const first = await backedUp(store, target)
    goOn(store)
    await backedUp(store, target)
    const { end } = await recovered(await restored(target, 1), '/restored')
    assert.equal(end, first.snapshot.logs[0]!.position)
    await assert.rejects(restored(target, 3), hasCode('backup_missing'))
  })
})

describe('a store that is damaged', () => {
  it('is backed up as it is, says where, and tells it again after the restore', async () => {
    const store = await storeOf(11)
    const [, second] = store.log.segments
    flip(store.world.files, second!.recordsPath, 200)
    const target = new MemoryTarget()
    const { snapshot } = await backedUp(store, target)
    assert.equal(gapsOf(snapshot.logs[0]!).length, 1)
    const world = await restored(target)
    const log = await world.open({ directory: '/restored' })
    assert.equal(log.incidents.length, 1)
    assert.equal(log.incidents[0]!.segmentBase, second!.base)
    assert.equal(log.committed, store.log.committed)
  })

  it('is copied anew when its damage was repaired', async () => {
    const store = await storeOf(12)
    const { recordsPath } = store.log.segments[1]!
    flip(store.world.files, recordsPath, 200)
    const target = new MemoryTarget()
    await backedUp(store, target)
    flip(store.world.files, recordsPath, 200)
    const { snapshot } = await backedUp(store, target)
    assert.deepEqual(gapsOf(snapshot.logs[0]!), [])
    assert.deepEqual((await (await restored(target)).open({ directory: '/restored' })).incidents, [])
  })

  it('whose end is gone says so, and so does what is restored', async () => {
    const store = await storeOf(13)
    const last = store.log.segments.at(-1)!
    const file = store.world.files.open(last.recordsPath, 'write')
    file.truncate(last.end - last.base - 8)
    file.close()
    const target = new MemoryTarget()
    const { snapshot } = await backedUp(store, target)
    assert.equal(gapsOf(snapshot.logs[0]!).length, 1)
    assert.equal((await (await restored(target)).open({ directory: '/restored' })).incidents.length, 1)
  })

  it('with whole replicas is whole in its backup', async () => {
    const replicas = ['/one', '/two']
    const store = await storeOf(14, replicas)
    const [, second, third] = store.log.segments
    flip(store.world.files, second!.recordsPath, 200)
    flip(store.world.files, third!.recordsPath.replace('/data/', '/one/'), 300)
    const target = new MemoryTarget()
    const { snapshot } = await backedUp(store, target, { replicas })
    assert.deepEqual(gapsOf(snapshot.logs[0]!), [])
    assert.deepEqual((await (await restored(target)).open({ directory: '/restored' })).incidents, [])
  })

  it('whose primary directory is gone, or stayed behind, is backed up from a replica', async () => {
    const replicas = ['/one', '/two']
    const store = await storeOf(15, replicas)
    const behind = store.log.committed
    store.world.lanes[0]!.stalled = true
    for (let n = 0; n < 5; n += 1) store.act()
    store.world.files.removeDirectory('/data')
    const target = new MemoryTarget()
    const { snapshot } = await backedUp(store, target, { replicas })
    assert(snapshot.logs[0]!.position >= behind)
    assert.equal((await recovered(await restored(target), '/restored')).end, snapshot.logs[0]!.position)
  })
})

describe('inspect', () => {
  it('finds nothing in a store that drops segments while they are looked at', async () => {
    let dropped = 0
    for (let seed = 1; seed <= 30; seed += 1) {
      const random = mulberry32(seed)
      const store = await MovingStore.open(seed, random)
      while (store.log.segments.length < 6) store.act()
      store.settle()
      const first = store.log.segments[0]!.base
      const files = changingFiles(store.world.files, () => random() < 0.02 && store.replaceSegments())
      assert.deepEqual(inspect(files, '/data')[0]!.problems, [], `seed ${seed}`)
      dropped += Number(store.log.segments[0]!.base > first)
    }
    assert.ok(dropped > 10, `in ${dropped} of the stores`)
  })

  it('finds what a recovery finds, and nothing in a store that is whole, whatever it goes through', async () => {
    for (let seed = 20; seed < 40; seed += 1) {
      const store = await storeOf(seed, [], 0.05)
      const { files } = store.world
      assert.deepEqual(inspect(files, '/data')[0]!.problems, [])
      const random = mulberry32(seed)
      const { log } = store
      const segment = log.segments[Math.floor(random() * log.segments.length)]!
      const at = Math.floor(random() * (segment.end - segment.base))
      flip(files, segment.recordsPath, at)
      const [found] = inspect(files, '/data')
      const dry = { files, directory: '/data', segmentsName: 'segments', logId: log.id, dryRun: true }
      const isTail = segment === log.segments.at(-1)
      if (isTail)
        assert.equal(found!.problems.length > 0, atOnce(recoverDirectory(dry)).incidents.length > 0, `seed ${seed}`)
      else
        assert(
          found!.problems.some(({ where }) => where.includes(segment.directory.slice('/data/'.length))),
          `seed ${seed}, byte ${at}`,
        )
    }
  })

  it('finds missing segments, damaged checkpoints and marks', async () => {
    const store = await storeOf(41, [], 0.05)
    const { files } = store.world
    const checkpoint = files.list('/data')!.find((name) => name.startsWith('checkpoint-'))!
    flip(files, `/data/${checkpoint}`, 40)
    flip(files, '/data/DURABLE', 20)
    flip(files, '/data/DURABLE', 532)
    files.removeDirectory(store.log.segments[1]!.directory)
    const [found] = inspect(files, '/data')
    assert.deepEqual(found!.problems.map(({ where }) => where).sort(), ['DURABLE', checkpoint, 'segments'].sort())
  })

  it('names a directory that cannot be told', async () => {
    const store = await storeOf(42)
    const { files } = store.world
    makeDurableDirectory(files, '/several/one')
    assert.throws(() => inspect(files, '/several'), hasCode('data_directory_empty'))
    files.rename('/data', '/several/one/two')
    flip(files, '/several/one/two/FORMAT', 3)
    const [found] = inspect(files, '/several/one')
    assert.equal(found!.place, 'two')
    assert.match(found!.problems[0]!.reason, /FORMAT is damaged/)
  })
})

describe('a restore to a position', () => {
  const restoreTo = async (target: MemoryTarget, position: number) => {
    const { files } = new World({ seed: 1 })
    const options = { files, target, dataDirectory: '/restored', place: null, sequence: null, position }
    const [log] = await restore(options)
    return { log: log!, found: inspect(files, '/restored')[0]! }
  }

  it('tells where the log ends, never above what was asked, and how much of it there is', async () => {
    const store = await storeOf(60)
    const target = new MemoryTarget()
    await backedUp(store, target)
    const { base, end } = store.log.segments[1]!
    const firstEnd = store.log.segments[0]!.end
    for (const [position, endsAt] of [
      [3, 0],
      [64, 0],
      [65, 0],
      [firstEnd, firstEnd],
      [base, firstEnd],
      [base + 3, firstEnd],
      [base + 65, firstEnd],
      [end, end],
    ] as const) {
      const { log, found } = await restoreTo(target, position)
      assert.deepEqual([log.position, found.end, found.durable], [endsAt, endsAt, endsAt], `to ${position}`)
      assert.deepEqual(found.problems, [], `to ${position}`)
    }
    const middle = base + Math.floor((end - base) / 2)
    const { log, found } = await restoreTo(target, middle)
    assert.deepEqual([found.end, found.problems], [log.position, []])
    assert(log.position <= middle && log.position > base)
    const sidecars = log.bytes - found.bytes
    const { log: whole, found: all } = await restoreTo(target, end)
    assert(sidecars <= whole.bytes - all.bytes, 'bytes behind the position do not count')
  })
})

describe('a store that went back to an earlier position', () => {
  it('is backed up into the same place as what it is now, and the snapshots of before stay', async () => {
    const store = await storeOf(50)
    const target = new MemoryTarget()
    await backedUp(store, target)
    goOn(store)
    const second = await backedUp(store, target)
    const position = second.snapshot.logs[0]!.position
    const middle = store.log.segments[2]!.base + 5000

    const world = new World({ seed: 2 })
    const options = { files: world.files, target, place: null }
    await restore({ ...options, dataDirectory: '/back', sequence: null, position: middle })
    const log = await world.open({ directory: '/back' })
    const writer = openWriter(log)
    for (let n = 0; n < 40; n += 1) {
      appended(writer, Buffer.from(JSON.stringify([n, n, 'another way'.repeat(20)])))
      world.step()
    }
    await log.close()
    const third = await backedUp({ world }, target, { dataDirectory: '/back' })
    assert.deepEqual(gapsOf(third.snapshot.logs[0]!), [])
    assert(isWhole(await check(target)))

    const now = await recovered(await restored(target), '/restored')
    assert.deepEqual([...now.state.keys()].length, 40)
    const before = await recovered(await restored(target, 2), '/restored')
    assert.equal(before.end, position)
    assert.deepEqual(new Set(before.state.keys()), new Set(store.stateAt(position).keys()))
    const other = new World({ seed: 3 })
    const back = { ...options, files: other.files, dataDirectory: '/restored', sequence: 2, position: middle }
    const [log2] = await restore(back)
    assert(log2!.position <= middle)
    assert.deepEqual((await recovered(other, '/restored')).state.size, store.stateAt(middle).size)
  })
})
