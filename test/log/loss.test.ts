import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { testSeed } from '../support/seed.ts'
import { encodeSegmentHeader } from '../../src/log/segment-format.ts'
import { writeCheckpoint } from '../support/checkpoints.ts'
import { incidentIdOf } from '../../src/log/quarantine.ts'
import type { Log } from '../../src/log/log.ts'
import { World, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import type { Written } from '../support/log-harness.ts'

const SIZE = { segmentBytes: 4096 }

interface Filled {
  readonly world: World
  readonly log: Log
  readonly written: readonly Written[]
}

/** An open log of several segments. */
async function filled(seed = 5, options: Parameters<World['open']>[0] = SIZE): Promise<Filled> {
  const world = new World({ seed })
  const log = await world.open(options)
  const writer = openWriter(log)
  const written: Written[] = []
  for (let n = 0; n < 20; n += 1) {
    written.push(appended(writer, payloadOf(n, 700)))
    world.step()
  }
  assert(log.segments.length > 3)
  return { world, log, written }
}

async function stopped(seed?: number): Promise<Filled> {
  const all = await filled(seed)
  await all.log.close()
  all.world.end('kill')
  return all
}

const ranges = (log: Log): (readonly [number, number])[] => log.incidents.map(({ from, to }) => [from, to])

describe('a log whose oldest segment is gone', () => {
  it('has an incident for it, at every start, until an operator has acknowledged it', async () => {
    const { world, log, written } = await stopped()
    const [oldest, second] = log.segments
    world.files.removeDirectory(oldest!.directory)
    const last = written.at(-1)!
    for (let start = 0; start < 3; start += 1) {
      const again = await world.open(SIZE)
      assert.deepEqual(ranges(again), [[0, second!.base]])
      assert.match(again.incidents[0]!.reason, /missing/)
      const kept = written.filter(({ position }) => position >= second!.base)
      assert.deepEqual(
        replay(again, world.files).frames.map(({ payload }) => payload),
        kept.map(({ payload }) => payload),
      )
      assert(again.committed >= last.end)
      await again.close()
      world.end('kill')
    }
    const file = world.files.create('/data/acknowledged-incidents')
    const id = incidentIdOf({ segmentBase: 0, from: 0, to: 0, reason: '' })
    file.writev([Buffer.from(`# lost with the disk\n${id} restored what there was from a backup\n`)], 0)
    file.close()
    assert.deepEqual((await world.open(SIZE)).incidents, [])
  })

  it('has none any more when the segment was put back', async () => {
    const { world, log, written } = await stopped()
    const { recordsPath, directory } = log.segments[0]!
    const bytes = Buffer.from(world.files.contentOf(recordsPath))
    world.files.removeDirectory(directory)
    await (await world.open(SIZE)).close()
    world.end('kill')
    world.files.makeDirectory(directory)
    world.files.create(recordsPath).writev([bytes], 0)
    const again = await world.open(SIZE)
    assert.deepEqual(again.incidents, [])
    assert.equal(replay(again, world.files).frames.length, written.length)
  })

  it('that a version wrote which kept no beginning has no incident, as nothing says that it was not dropped', async () => {
    const { world, log } = await stopped()
    world.files.removeFile('/data/DURABLE')
    world.files.removeDirectory(log.segments[0]!.directory)
    assert.deepEqual((await world.open(SIZE)).incidents, [])
  })

  it('has its incident after the segments behind it were dropped, too', async () => {
    const { world, log } = await stopped()
    world.files.removeDirectory(log.segments[0]!.directory)
    const again = await world.open(SIZE)
    const [incident] = again.incidents
    again.dropBefore(again.segments[1]!.end)
    await again.close()
    world.end('kill')
    assert.deepEqual((await world.open(SIZE)).incidents, [incident])
  })
})

describe('a log whose oldest segments were dropped', () => {
  it('has no incident, whenever the power fails', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.nat(3), fc.nat(3), async (seed, drops, more) => {
        const { world, log } = await filled(seed)
        for (const { end } of log.segments.slice(0, drops)) log.dropBefore(end)
        const writer = openWriter(log)
        for (let n = 0; n < more; n += 1) {
          appended(writer, payloadOf(n, 100))
          world.step()
          for (const lane of world.lanes) lane.idle()
        }
        world.end('crash')
        const again = await world.open(SIZE)
        assert.deepEqual(again.incidents, [])
        again.dropBefore(again.segments[0]!.end)
        await again.close()
        world.end('crash')
        assert.deepEqual((await world.open(SIZE)).incidents, [])
      }),
      { numRuns: 60, seed: testSeed(), includeErrorInReport: true },
    )
  })

  it('has no incident when the power failed in the middle of a removal', async () => {
    for (let seed = 0; seed < 40; seed += 1) {
      const { world, log } = await filled(seed)
      const removeDirectory = world.files.removeDirectory.bind(world.files)
      world.files.removeDirectory = () => {} // the power fails before the directory is removed
      log.dropBefore(log.segments[1]!.end)
      world.files.removeDirectory = removeDirectory
      world.end('crash')
      assert.deepEqual((await world.open(SIZE)).incidents, [])
    }
  })
})

describe('a directory behind the end of a log that is no segment of it', () => {
  const header = encodeSegmentHeader({ logId: 77, base: 1 << 20, epoch: 1, previousHeaderCrc: 0 })
  for (const [what, content] of [
    ['is empty', null],
    ['holds a file of another log', header],
  ] as const) {
    it(`and ${what} is an incident that names it, and takes nothing from the log`, async () => {
      const { world, log, written } = await stopped()
      const stray = '/data/segments/0000000000100000'
      world.files.makeDirectory(stray)
      if (content) world.files.create(`${stray}/records.log`).writev([content], 0)
      const before = Buffer.from(world.files.contentOf(log.segments.at(-1)!.recordsPath))
      const again = await world.open(SIZE)
      assert.deepEqual(ranges(again), [[1 << 20, 1 << 20]])
      assert(again.incidents[0]!.reason.includes(stray), again.incidents[0]!.reason)
      assert.deepEqual(world.files.contentOf(log.segments.at(-1)!.recordsPath), before)
      const next = appended(openWriter(again), payloadOf(99, 100))
      assert(next.position <= written.at(-1)!.end + 128, 'the log goes on where it ended')
      world.step()
      assert.equal(replay(again, world.files).frames.length, written.length + 1)
      await again.close()
      world.end('kill')
      world.files.removeDirectory(stray)
      assert.deepEqual((await world.open(SIZE)).incidents, [])
    })
  }
})

describe('the checkpoint of a log', () => {
  it('says where the log ended when the mark is older: the loss is an incident, and no position is given again', async () => {
    const { world, log, written } = await filled()
    const [, , third] = log.segments
    world.end('kill')
    writeCheckpoint(world.files, '/data', third!.end, [Buffer.from('state')])
    for (const segment of log.segments.slice(2)) world.files.removeDirectory(segment.directory)
    const again = await world.open(SIZE)
    assert.deepEqual(ranges(again), [[third!.base, third!.end]])
    assert(appended(openWriter(again), payloadOf(99, 100)).position >= third!.end)
    assert.equal(
      replay(again, world.files).frames.length,
      written.filter(({ position }) => position < third!.base).length,
    )
  })
})
