import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { catchUp } from '../../src/log/catch-up.ts'
import { readWhole } from '../../src/log/files.ts'
import { readFormat } from '../../src/log/format.ts'
import type { Log } from '../../src/log/log.ts'
import { decodeSegmentFooter, segmentName } from '../../src/log/segment-format.ts'
import { STAND_IN_NAME, clearBesideStandIn, encodeStandInHeader, publishStandIn } from '../../src/log/stand-in.ts'
import { World, appended, openWriter, payloadOf } from '../support/log-harness.ts'

const OPTIONS = { replicas: ['/replica-1', '/replica-2'], writeQuorum: 2, segmentBytes: 4096 }
const DIRECTORIES = ['/data', ...OPTIONS.replicas]
const CONTENT = Buffer.alloc(900, 'the segment in another form ')

/** A closed log of some segments. */
async function written(seed: number): Promise<World> {
  const world = new World({ seed })
  const log = await world.open(OPTIONS)
  const writer = openWriter(log)
  for (let n = 0; n < 40; n += 1) {
    appended(writer, payloadOf(n, 700))
    world.step()
  }
  await log.close()
  return world
}

const segmentsOf = ({ segments }: Log) => segments.map(({ base, end, sealed }) => ({ base, end, sealed }))

/** Compacts a segment in one directory, like a service. */
function compact({ files }: World, directory: string): void {
  const footer = decodeSegmentFooter(readWhole(files, `${directory}/records.log`)!.subarray(-64))!
  publishStandIn(files, directory, [encodeStandInHeader(footer, [CONTENT]), CONTENT])
  clearBesideStandIn(files, directory, footer.logId, footer.base)
}

describe('a log some of whose segments have a stand-in', () => {
  it('opens with all of them, whichever directories have which form, after a power cut, too', async () => {
    for (let seed = 1; seed <= 8; seed += 1) {
      const world = await written(seed)
      const { files } = world
      const first = await world.open(OPTIONS)
      const before = segmentsOf(first)
      await first.close()
      const sealed = before.filter((segment) => segment.sealed)
      assert(sealed.length >= 4)
      for (const [number, { base }] of sealed.entries()) {
        for (const [replica, directory] of DIRECTORIES.entries()) {
          const path = `${directory}/segments/${base.toString(16).padStart(16, '0')}`
          if ((number + replica + seed) % 3 !== 0) compact(world, path)
        }
      }
      world.end('crash')
      const log = await world.open(OPTIONS)
      assert.equal(log.state.kind, 'ok')
      assert.deepEqual(log.incidents, [])
      // The segment that was open continues at the same position.
      assert.deepEqual(segmentsOf(log).slice(0, before.length), before)
      const { end } = appended(openWriter(log), payloadOf(99, 100))
      world.step()
      assert.equal(log.committed, end)
      await log.close()
      assert(files.paths().some((path) => path.endsWith(STAND_IN_NAME)))
    }
  })

  it('fills a directory that lost everything with the form that the others have', async () => {
    const world = await written(3)
    const { files } = world
    const name = files.list('/data/segments')!.find((each) => !each.startsWith('spare'))!
    for (const directory of DIRECTORIES) compact(world, `${directory}/segments/${name}`)
    for (const path of files.list('/replica-1')!) {
      if (path === 'segments') files.removeDirectory('/replica-1/segments')
    }
    const log = await world.open(OPTIONS)
    assert.equal(log.state.kind, 'ok')
    assert.deepEqual(files.list(`/replica-1/segments/${name}`), [STAND_IN_NAME])
    const path = (directory: string): string => `${directory}/segments/${name}/${STAND_IN_NAME}`
    assert(files.contentOf(path('/replica-1')).equals(files.contentOf(path('/data'))))
    await log.close()
  })

  it('tells of a stand-in that is damaged, and takes it from a directory that has it whole', async () => {
    const world = await written(4)
    const { files } = world
    const name = files.list('/data/segments')!.find((each) => !each.startsWith('spare'))!
    for (const directory of DIRECTORIES) compact(world, `${directory}/segments/${name}`)
    files.damage(`/replica-2/segments/${name}/${STAND_IN_NAME}`, (content) => {
      content[20]! ^= 1 // a byte of its header
      return content
    })
    const log = await world.open(OPTIONS)
    assert.equal(log.state.kind, 'ok')
    assert.deepEqual(log.incidents, [])
    const whole = files.contentOf(`/data/segments/${name}/${STAND_IN_NAME}`)
    assert(files.contentOf(`/replica-2/segments/${name}/${STAND_IN_NAME}`).equals(whole))
    await log.close()
  })

  it('brings a directory that comes back to the form of the primary, wherever the power goes', async () => {
    for (let left = 0; ; left += 1) {
      const world = await written(5)
      const { files } = world
      const first = await world.open(OPTIONS)
      const sealed = first.segments.filter((segment) => segment.sealed).map(({ base, end }) => ({ base, end }))
      await first.close()
      world.end('crash')
      const path = (directory: string, base: number): string => `${directory}/segments/${segmentName(base)}`
      for (const { base } of sealed) compact(world, path('/data', base))
      let faults = left
      const fault = (): string | null => ((faults -= 1) < 0 ? 'EIO' : null)
      files.faults = { sync: fault, write: fault }
      const task = { primary: '/data', replica: '/replica-1', segmentsName: 'segments', segments: sealed, begin: null }
      const logId = readFormat(files, '/data', 'segments')!
      let isDone = true
      try {
        catchUp(files, { ...task, logId, syncedUpTo: Infinity }, () => {})
        for (const { base } of sealed) assert.deepEqual(files.list(path('/replica-1', base)), [STAND_IN_NAME])
      } catch (error) {
        if (faults >= 0) throw error
        isDone = false
      }
      world.end('crash')
      files.faults = {}
      const alone = await world.open({ ...OPTIONS, directory: '/replica-1', replicas: [], writeQuorum: 1 })
      assert.deepEqual([alone.state.kind, alone.incidents], ['ok', []], `after ${left} writes and syncs`)
      await alone.close()
      if (isDone) return
    }
  })
})
