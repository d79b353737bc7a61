import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { catchUp } from '../../src/log/catch-up.ts'
import type { Log } from '../../src/log/log.ts'
import { chosenMerged, mergedName } from '../../src/log/merged.ts'
import { segmentName } from '../../src/log/segment-format.ts'
import { STAND_IN_NAME } from '../../src/log/stand-in.ts'
import { World, appended, openWriter, payloadOf } from '../support/log-harness.ts'
import { merge, moveOut, writeMerged } from '../support/merged-files.ts'
import { mulberry32 } from '../support/sim-files.ts'
import type { SimFiles } from '../support/sim-files.ts'

const REPLICAS = { replicas: ['/replica-1', '/replica-2'], writeQuorum: 2, segmentBytes: 4096 }
const ALONE = { segmentBytes: 4096 }
const DIRECTORIES = ['/data', ...REPLICAS.replicas]

interface Segment {
  readonly base: number
  readonly end: number
}

const segmentsOf = ({ segments }: Log): Segment[] =>
  segments.filter(({ sealed }) => sealed).map(({ base, end }) => ({ base, end }))

/** A closed log of some segments, and its sealed segments. */
async function written(seed: number, options: object = REPLICAS): Promise<{ world: World; sealed: Segment[] }> {
  const world = new World({ seed })
  const log = await world.open(options)
  const writer = openWriter(log)
  for (let n = 0; n < 40; n += 1) {
    appended(writer, payloadOf(n, 700))
    world.step()
  }
  const sealed = segmentsOf(log)
  await log.close()
  assert(sealed.length >= 6)
  return { world, sealed }
}

/** Opens the log, and asserts that nothing is missing. */
async function opened(world: World, options: object = REPLICAS): Promise<Log> {
  const log = await world.open(options)
  assert.equal(log.state.kind, 'ok')
  assert.deepEqual(log.incidents, [])
  return log
}

const basesOf = (segments: readonly Segment[]): number[] => segments.map(({ base }) => base)

/** Asserts that each segment of the directory has its file, or has moved into a merged file that is there. */
function demandCovered(files: SimFiles, directory: string, sealed: readonly Segment[]): void {
  const segments = `${directory}/segments`
  const names = new Map(sealed.map(({ base }) => [base, files.list(`${segments}/${segmentName(base)}`) ?? []]))
  for (const { base } of sealed) {
    if (names.get(base)!.includes('records.log')) continue
    assert.equal(files.contentOf(`${segments}/${segmentName(base)}/${STAND_IN_NAME}`).byteLength, 128)
    const isIn = sealed.some((first) => {
      const over = sealed.find(({ end }) => end > base && names.get(first.base)!.includes(mergedName(end)))
      return first.base <= base && over !== undefined
    })
    assert(isIn, `${directory}: ${base} is in no merged file`)
  }
}

describe('a log some of whose segments were merged', () => {
  it('opens with all of them, whichever directories have merged what, after a power cut, too', async () => {
    for (let seed = 1; seed <= 12; seed += 1) {
      const { world, sealed } = await written(seed)
      const { files } = world
      const random = mulberry32(seed)
      for (const directory of DIRECTORIES) {
        const segments = `${directory}/segments`
        const bases = basesOf(sealed).slice(0, 4)
        if (random() < 0.3) continue
        if (random() < 0.5) merge(files, segments, bases.slice(0, 2))
        if (random() < 0.7) {
          writeMerged(files, segments, bases)
          for (const base of bases) if (random() < 0.6) moveOut(files, segments, base)
        }
      }
      world.end('crash')
      const log = await opened(world)
      assert.deepEqual(segmentsOf(log).slice(0, sealed.length), sealed)
      for (const directory of DIRECTORIES) demandCovered(files, directory, sealed)
      await log.close()
    }
  })

  it('fills a directory that lost everything, the merged file before what has moved into it', async () => {
    const { world, sealed } = await written(3)
    const { files } = world
    for (const directory of DIRECTORIES) merge(files, `${directory}/segments`, basesOf(sealed).slice(1, 4))
    files.removeDirectory('/replica-1/segments')
    await (await opened(world)).close()
    demandCovered(files, '/replica-1', sealed)
    const [first, last] = [sealed[1]!, sealed[3]!]
    const path = (directory: string) => `${directory}/segments/${segmentName(first.base)}/${mergedName(last.end)}`
    assert(files.contentOf(path('/replica-1')).equals(files.contentOf(path('/data'))))
    assert.deepEqual(files.list(`/replica-1/segments/${segmentName(last.base)}`), [STAND_IN_NAME])
  })

  it('takes a merged file that is missing or damaged from another directory, or the segments as they are there', async () => {
    for (const [seed, isMergedThere] of [true, false].entries()) {
      for (const isMissing of [true, false]) {
        const { world, sealed } = await written(10 + seed)
        const { files } = world
        const bases = basesOf(sealed).slice(0, 3)
        merge(files, '/data/segments', bases)
        if (isMergedThere) for (const { replicas } of [REPLICAS]) merge(files, `${replicas[1]}/segments`, bases)
        const path = `/data/segments/${segmentName(bases[0]!)}/${mergedName(sealed[2]!.end)}`
        if (isMissing) files.removeFile(path)
        else files.damage(path, (content) => content.subarray(0, 1000))
        files.syncDirectory(`/data/segments/${segmentName(bases[0]!)}`)
        await (await opened(world)).close()
        demandCovered(files, '/data', sealed)
      }
    }
  })

  it('tells of what is in no merged file when there is no other directory (V9)', async () => {
    const { world, sealed } = await written(5, ALONE)
    const { files } = world
    const bases = basesOf(sealed).slice(1, 3)
    merge(files, '/data/segments', bases)
    files.removeFile(`/data/segments/${segmentName(bases[0]!)}/${mergedName(sealed[2]!.end)}`)
    const log = await world.open(ALONE)
    assert.deepEqual(
      log.incidents.map(({ segmentBase, from, to }) => [segmentBase, from, to]),
      sealed.slice(1, 3).map(({ base, end }) => [base, base, end]),
    )
    await log.close()
  })

  it('has a segment whose stand-in does not open or is gone in the merged file over it, and says nothing is missing (V10)', async () => {
    const damages: readonly ((content: Buffer) => Buffer)[] = [
      (content) => Buffer.from(content).fill(1, 20, 24),
      (content) => content.subarray(0, 100),
      () => Buffer.alloc(0),
    ]
    for (const [seed, damage] of [...damages, null].entries()) {
      for (const at of [1, 2, 3]) {
        const { world, sealed } = await written(30 + seed, ALONE)
        const { files } = world
        const bases = basesOf(sealed).slice(1, 4)
        merge(files, '/data/segments', bases)
        const segment = `/data/segments/${segmentName(sealed[at]!.base)}`
        if (damage === null) files.removeFile(`${segment}/${STAND_IN_NAME}`)
        else files.damage(`${segment}/${STAND_IN_NAME}`, damage)
        files.syncDirectory(segment)
        const log = await opened(world, ALONE)
        assert.deepEqual(segmentsOf(log).slice(0, sealed.length), sealed)
        await log.close()
        files.removeFile(`/data/segments/${segmentName(bases[0]!)}/${mergedName(sealed[3]!.end)}`)
        const without = await world.open(ALONE)
        assert.deepEqual(
          without.incidents.map(({ segmentBase }) => segmentBase).toSorted((a, b) => a - b),
          bases,
        )
        await without.close()
      }
    }
  })

  it('takes a stand-in that does not open from a directory that has it, before it is made again', async () => {
    const { world, sealed } = await written(41)
    const { files } = world
    const bases = basesOf(sealed).slice(0, 3)
    for (const directory of DIRECTORIES) merge(files, `${directory}/segments`, bases)
    for (const [number, directory] of DIRECTORIES.entries()) {
      const path = (root: string) => `${root}/segments/${segmentName(bases[number]!)}/${STAND_IN_NAME}`
      files.damage(path(directory), (content) => content.subarray(0, 100))
    }
    await (await opened(world)).close()
    for (const base of bases) {
      const path = `segments/${segmentName(base)}/${STAND_IN_NAME}`
      const contents = DIRECTORIES.map((directory) => files.contentOf(`${directory}/${path}`))
      assert.deepEqual(contents.slice(1), [contents[0], contents[0]])
      assert.equal(contents[0]!.byteLength, 128)
    }
  })

  it('has dropped all of what was merged, or none of it, whenever the power fails (V8)', async () => {
    for (const moved of [1, 2, 4]) {
      for (let drops = 0; drops <= 5; drops += 1) {
        const { world, sealed } = await written(20 + drops, ALONE)
        const { files } = world
        const bases = basesOf(sealed).slice(0, 4)
        writeMerged(files, '/data/segments', bases)
        for (const base of bases.slice(0, moved)) moveOut(files, '/data/segments', base)
        const log = await opened(world, ALONE)
        const [lane] = world.lanes
        const post = lane!.post.bind(lane)
        let left = drops
        lane!.post = (message) => {
          if (left-- > 0) post(message)
        }
        log.dropBefore(sealed[3]!.end)
        world.end('crash')
        const again = await opened(world, ALONE)
        // Segments that have moved go with the merged file. The others are whole, and may be there again.
        const first = drops === 0 ? 0 : Math.max(Math.min(drops, 4), moved)
        assert.deepEqual(segmentsOf(again).slice(0, sealed.length - first), sealed.slice(first))
        await again.close()
      }
    }
  })

  it('brings a directory that comes back up to date with merged files', async () => {
    const { world, sealed } = await written(7)
    const { files } = world
    const bases = basesOf(sealed)
    merge(files, '/replica-1/segments', bases.slice(0, 2)) // before the directory went away
    merge(files, '/data/segments', bases.slice(0, 4))
    for (const base of bases.slice(4)) files.removeDirectory(`/replica-1/segments/${segmentName(base)}`)
    const log = await world.open({ ...REPLICAS, replicas: [REPLICAS.replicas[1]!], writeQuorum: 1 })
    const task = {
      primary: '/data',
      replica: '/replica-1',
      segmentsName: 'segments',
      logId: log.id,
      segments: sealed,
      syncedUpTo: Infinity,
      begin: null,
    }
    assert(catchUp(files, task, () => {}) > 0)
    demandCovered(files, '/replica-1', sealed)
    const [first] = bases
    const mergedOf = (directory: string): readonly string[] =>
      files.list(`${directory}/segments/${segmentName(first!)}`)!.filter((name) => name.startsWith('merged-'))
    assert.deepEqual(mergedOf('/replica-1'), mergedOf('/data'))
    assert.equal(
      catchUp(files, task, () => {}),
      0,
    )
    await log.close()
  })
})

describe('the choice of merged files', () => {
  it('is the one that reaches furthest for each segment that has moved, and only those', () => {
    const range = (base: number, end: number) => ({ base, end })
    const ranges = [range(0, 2), range(2, 4), range(0, 4), range(6, 8), range(10, 12)]
    assert.deepEqual(chosenMerged([1, 3, 6], ranges), [range(0, 4), range(6, 8)])
    assert.deepEqual(chosenMerged([2, 3], [range(0, 2), range(2, 4)]), [range(2, 4)])
    assert.deepEqual(chosenMerged([], ranges), [])
  })
})
