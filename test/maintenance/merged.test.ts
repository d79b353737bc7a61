/** Backups of segments that have moved into a merged file: they have the file, and a restore brings all of its segments or none. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StoreError } from '../../src/errors.ts'
import { MOVED_CONTENT_BYTES, mergedName } from '../../src/log/merged.ts'
import { segmentName } from '../../src/log/segment-format.ts'
import { encodeStandInHeader, publishStandIn, readStandIn } from '../../src/log/stand-in.ts'
import type { Files } from '../../src/log/files.ts'
import { backUp } from '../../src/maintenance/backup.ts'
import { check, gapsOf, isWhole } from '../../src/maintenance/check.ts'
import { inspect } from '../../src/maintenance/inspect.ts'
import { restore } from '../../src/maintenance/restore.ts'
import { World } from '../support/log-harness.ts'
import { MemoryTarget } from '../support/memory-target.ts'
import { merge, moveBack, moveOut, writeMerged } from '../support/merged-files.ts'
import { MovingStore, changingFiles } from '../support/moving-store.ts'
import { mulberry32 } from '../support/sim-files.ts'
import type { SimFiles } from '../support/sim-files.ts'

const SEGMENTS = '/data/segments'

async function storeOf(seed: number, replicas: readonly string[] = []): Promise<MovingStore> {
  const store = await MovingStore.open(seed, mulberry32(seed), { replicas, cleaningShare: 0 })
  for (let n = 0; n < 300; n += 1) store.act()
  store.settle()
  for (const lane of store.world.lanes) lane.idle()
  assert(sealedOf(store).length >= 5)
  return store
}

const sealedOf = ({ log }: MovingStore) => log.segments.filter(({ sealed }) => sealed)

async function backedUp(files: Files, target: MemoryTarget, replicas: readonly string[] = []) {
  const options = { dataDirectory: '/data', replicas, target, keep: null, isLocked: true }
  return backUp({ ...options, files, nowMs: () => 0, pace: () => {} })
}

async function restored(target: MemoryTarget, position: number | null = null): Promise<SimFiles> {
  const { files } = new World({ seed: 1 })
  await restore({ files, target, dataDirectory: '/restored', place: null, sequence: null, position })
  return files
}

const pathOf = (first: { base: number }, last: { end: number }, root = '/data'): string =>
  `${root}/segments/${segmentName(first.base)}/${mergedName(last.end)}`

const formsIn = (files: Files, root: string): readonly string[] =>
  inspect(files, root)[0]!.segments.map(({ form }) => form)

const problemsIn = (files: Files, root = '/restored') => inspect(files, root).flatMap(({ problems }) => problems)

const isUnknownPosition = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'backup_position_unknown'

describe('segments that have moved into a merged file', () => {
  it('are backed up with it, once, checked, restored and inspected', async () => {
    const store = await storeOf(1)
    const { files } = store.world
    const [first, second, third, fourth] = sealedOf(store)
    merge(files, SEGMENTS, [first!.base, second!.base])
    merge(files, SEGMENTS, [first!.base, second!.base, third!.base])
    assert.deepEqual(formsIn(files, '/data').slice(0, 4), ['merged', 'merged', 'merged', 'sealed'])
    assert.deepEqual(problemsIn(files, '/data'), [])
    const target = new MemoryTarget()
    const { snapshot, copiedFiles } = await backedUp(files, target)
    assert.deepEqual(gapsOf(snapshot.logs[0]!), [])
    assert(copiedFiles > 0)
    assert.equal((await backedUp(files, target)).copiedFiles, 0)
    assert(isWhole(await check(target)))
    const copy = await restored(target)
    assert.deepEqual(problemsIn(copy), [])
    assert.deepEqual(formsIn(copy, '/restored'), formsIn(files, '/data'))
    const content = copy.contentOf(pathOf(first!, third!, '/restored'))
    assert(content.equals(files.contentOf(pathOf(first!, third!))))
    // The merged run can be restored to its end. For positions inside of it, no snapshot has the segments.
    assert.deepEqual(problemsIn(await restored(target, third!.end)), [])
    for (const position of [first!.end, second!.base + 500, second!.end])
      await assert.rejects(restored(target, position), isUnknownPosition)
    assert.deepEqual(problemsIn(await restored(target, fourth!.end)), [])
  })

  it('are restored from an older snapshot where that has them as they were', async () => {
    const store = await storeOf(2)
    const { files } = store.world
    const sealed = sealedOf(store)
    const target = new MemoryTarget()
    const before = (await backedUp(files, target)).snapshot.logs[0]!.position
    for (let n = 0; n < 200; n += 1) store.act()
    store.settle()
    const now = sealedOf(store)
    const written = now.findIndex(({ end }) => end > before + 8)
    assert(written > 2)
    const bases = now.map(({ base }) => base)
    merge(files, SEGMENTS, bases.slice(1, written + 1))
    await backedUp(files, target)
    const [, second, third] = sealed
    for (const position of [second!.base + 500, second!.end, third!.end]) {
      const copy = await restored(target, position)
      assert.deepEqual(problemsIn(copy), [])
      assert(!formsIn(copy, '/restored').includes('merged'))
    }
    assert.deepEqual(problemsIn(await restored(target, now.at(-1)!.end)), [])
    // This position is behind the end of the older snapshot and inside of a merged run, so neither snapshot has it.
    await assert.rejects(restored(target, now[written]!.end - 8), isUnknownPosition)
  })

  it('are damage when the merged file is missing or damaged, unless a replica directory has it', async () => {
    for (const isMissing of [true, false]) {
      const replicas = ['/one']
      const store = await storeOf(3, replicas)
      const { files } = store.world
      const [first, second] = sealedOf(store)
      for (const directory of [SEGMENTS, '/one/segments']) merge(files, directory, [first!.base, second!.base])
      const path = pathOf(first!, second!)
      if (isMissing) files.removeFile(path)
      else {
        const file = files.open(path, 'write')
        file.writev([Buffer.from('!')], 200)
        file.close()
      }
      assert.equal(problemsIn(files, '/data').length, 2)
      const alone = new MemoryTarget()
      const { snapshot } = await backedUp(files, alone)
      assert.equal(gapsOf(snapshot.logs[0]!).length, 2)
      const target = new MemoryTarget()
      assert.deepEqual(gapsOf((await backedUp(files, target, replicas)).snapshot.logs[0]!), [])
      assert.deepEqual(problemsIn(await restored(target)), [])
    }
  })

  it('are told as they are when a stand-in does not open: nothing is missing, and what is damaged is named', async () => {
    const store = await storeOf(4)
    const { files } = store.world
    const [first, second, third] = sealedOf(store)
    merge(files, SEGMENTS, [first!.base, second!.base, third!.base])
    const before = inspect(files, '/data')[0]!
    const path = `segments/${segmentName(second!.base)}/compact.bin`
    files.damage(`/data/${path}`, (content) => content.subarray(0, 100))
    const { segments, problems } = inspect(files, '/data')[0]!
    assert.deepEqual(
      segments.map(({ base, end, form }) => [base, end, form]),
      before.segments.map(({ base, end, form }) => [base, end, form]),
    )
    assert.equal(problems.length, 1)
    assert.match(JSON.stringify(problems[0]), new RegExp(`${path}.+Nothing is lost: the service writes it again`))
    const target = new MemoryTarget()
    assert.deepEqual(gapsOf((await backedUp(files, target)).snapshot.logs[0]!), [])
    const copy = await restored(target)
    assert.deepEqual(formsIn(copy, '/restored').slice(0, 3), ['merged', 'merged', 'merged'])
    assert.match(JSON.stringify(problemsIn(copy)), /^\[[^[]+Nothing is lost/)
    files.removeFile(pathOf(first!, third!))
    const lost = problemsIn(files, '/data').map((problem) => JSON.stringify(problem))
    assert(lost.some((problem) => problem.includes('cannot be opened, and records.log is missing')))
  })

  it('are copied from a replica directory when a stand-in opens there alone, or with the gap when it opens nowhere', async () => {
    const replicas = ['/one']
    const store = await storeOf(5, replicas)
    const { files } = store.world
    const [first, second] = sealedOf(store)
    for (const directory of [SEGMENTS, '/one/segments']) merge(files, directory, [first!.base, second!.base])
    const path = `/segments/${segmentName(second!.base)}/compact.bin`
    files.damage(`/data${path}`, (content) => Buffer.from(content).fill(1, 20, 24))
    const target = new MemoryTarget()
    assert.deepEqual(gapsOf((await backedUp(files, target, replicas)).snapshot.logs[0]!), [])
    const copy = await restored(target)
    assert.deepEqual(problemsIn(copy), [])
    assert(copy.contentOf(`/restored${path}`).equals(files.contentOf(`/one${path}`)))
    files.removeFile(pathOf(first!, second!))
    const alone = new MemoryTarget()
    assert.equal(gapsOf((await backedUp(files, alone)).snapshot.logs[0]!).length, 2)
  })

  it('are restored to a position between two snapshots, although a stand-in was made again that does not know its last frame', async () => {
    const store = await storeOf(6)
    const { files } = store.world
    const [oldest, first, second, third] = sealedOf(store)
    store.log.dropBefore(oldest!.end) // otherwise the second snapshot alone would have everything
    for (const lane of store.world.lanes) lane.idle()
    merge(files, SEGMENTS, [first!.base, second!.base, third!.base])
    const target = new MemoryTarget()
    const before = (await backedUp(files, target)).snapshot.logs[0]!.position
    const directory = `${SEGMENTS}/${segmentName(second!.base)}`
    const content = Buffer.alloc(MOVED_CONTENT_BYTES)
    const footer = { ...readStandIn(files, directory, store.log.id, second!.base)!, frameCount: 0, lastHeaderCrc: 0 }
    publishStandIn(files, directory, [encodeStandInHeader(footer, [content]), content])
    for (let n = 0; n < 100; n += 1) store.act()
    store.settle()
    const between = sealedOf(store).find(({ end }) => end > before)!.end
    await backedUp(files, target)
    assert.deepEqual(problemsIn(await restored(target, between)), [])
  })

  it('may move, and be dropped together, while they are copied', async () => {
    let dropped = 0
    for (let seed = 10; seed < 50; seed += 1) {
      const store = await storeOf(seed)
      const random = mulberry32(seed)
      const { files } = store.world
      const bases = sealedOf(store).map(({ base }) => base)
      const run = bases.slice(0, 4)
      const waiting: (() => void)[] = [
        () => merge(files, SEGMENTS, run.slice(0, 2)),
        () => writeMerged(files, SEGMENTS, run),
        ...run.map((base) => () => moveOut(files, SEGMENTS, base)),
        () => files.removeFile(pathOf({ base: run[0]! }, sealedOf(store)[1]!)),
        () => store.log.dropBefore(sealedOf(store)[3]!.end),
      ]
      // In half of the runs only the drop happens during the backup, between the copies of segments that are dropped together.
      if (seed % 2 === 0) while (waiting.length > 1) waiting.shift()!()
      const changing = changingFiles(files, () => {
        if (waiting.length > 0 && random() < 0.02) waiting.shift()!()
      })
      const target = new MemoryTarget()
      const { snapshot } = await backedUp(changing, target)
      const [log] = snapshot.logs
      assert.deepEqual(gapsOf(log!), [])
      assert.equal(log!.position, store.log.committed)
      if (log!.segments[0]!.base > 0) dropped += 1
      const copy = await restored(target)
      assert.deepEqual(problemsIn(copy), [])
      assert.deepEqual(
        copy.list('/restored/segments'),
        log!.segments.map(({ base }) => segmentName(base)),
      )
    }
    assert(dropped > 3, `${dropped} lost their beginning`)
  })

  it('may get files of their own again while they are copied and looked at', async () => {
    let apart = 0
    for (let seed = 10; seed < 30; seed += 1) {
      const store = await storeOf(seed)
      const random = mulberry32(seed)
      const { files } = store.world
      const sealed = sealedOf(store)
      const run = sealed.slice(0, 3).map(({ base }) => base)
      merge(files, SEGMENTS, run)
      const waiting: (() => void)[] = [
        ...run.map((base) => () => moveBack(files, SEGMENTS, base)),
        () => files.removeFile(pathOf(sealed[0]!, sealed[2]!)),
      ]
      // In half of the runs only the last steps happen during the backup.
      if (seed % 2 === 0) while (waiting.length > 2) waiting.shift()!()
      const changing = changingFiles(files, () => {
        if (waiting.length > 0 && random() < 0.03) waiting.shift()!()
      })
      assert.deepEqual(problemsIn(changing, '/data'), [])
      const target = new MemoryTarget()
      const { snapshot } = await backedUp(changing, target)
      assert.deepEqual(gapsOf(snapshot.logs[0]!), [])
      if (waiting.length === 0) apart += 1
      assert(isWhole(await check(target)))
      assert.deepEqual(problemsIn(await restored(target)), [])
    }
    assert(apart > 3, `${apart} were apart in the end`)
  })

  it('are no damage when a crash has left them behind a merged file that retention dropped', async () => {
    const store = await storeOf(4)
    const { files } = store.world
    const sealed = sealedOf(store)
    merge(
      files,
      SEGMENTS,
      sealed.slice(0, 3).map(({ base }) => base),
    )
    const [lane] = store.world.lanes
    const post = lane!.post.bind(lane)
    let left = 1
    lane!.post = (message) => {
      if (left-- > 0) post(message)
    }
    store.log.dropBefore(sealed[2]!.end)
    const [inspected] = inspect(files, '/data')
    assert.deepEqual(inspected!.problems, [])
    assert.equal(inspected!.segments[0]!.base, sealed[3]!.base)
    assert.equal(inspected!.leftovers.filter((name) => !name.includes('dropped')).length, 2)
  })
})
