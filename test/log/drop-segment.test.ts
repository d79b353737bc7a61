import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { dropInSteps } from '../../src/log/drop-segment.ts'
import { DROPPED_PREFIX, RECORDS_NAME, segmentName } from '../../src/log/segment-format.ts'
import { World, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import { SimFiles } from '../support/sim-files.ts'

const MIB = 1 << 20
const OPTIONS = { segmentBytes: 8192, reserveBytes: 0 }

describe('segments that are dropped', () => {
  it('let frames through between the steps of their removal, and a crash in between loses none', async () => {
    let isWhole = false
    for (let steps = 1; !isWhole; steps++) {
      const world = new World({ seed: steps })
      const log = await world.open(OPTIONS)
      const writer = openWriter(log)
      const append = (n: number) => {
        const { position } = appended(writer, payloadOf(n, 1000))
        world.step()
        assert(log.committed > position)
        return position
      }
      for (let n = 0; n < 30; n++) append(n)
      const { journal } = world.lanes[0]!
      const dropped = log.segments.slice(0, -1)
      const begin = log.segments.at(-1)!.base
      for (const { base } of dropped) journal.drop({ kind: 'drop', base, begin })
      const meanwhile: number[] = []
      for (let step = 0; step < steps && !isWhole; step++) {
        isWhole = !journal.dropStep()
        meanwhile.push(append(100 + step))
      }
      world.end('crash')
      const again = await world.open(OPTIONS)
      assert.deepEqual(again.incidents, [])
      const positions = new Set(replay(again, world.files).frames.map(({ position }) => position))
      assert.deepEqual(
        meanwhile.filter((position) => !positions.has(position)),
        [],
      )
      if (isWhole) assert(steps > 2 * dropped.length)
      world.end('kill')
    }
  })

  it('give their blocks back 4 MiB at a time', () => {
    const files = new SimFiles({ seed: 1 })
    const directory = `/segments/${segmentName(0)}`
    for (const path of ['/segments', directory]) files.makeDirectory(path)
    const file = files.create(`${directory}/${RECORDS_NAME}`)
    file.writev([Buffer.alloc(10 * MIB)], 0)
    const sizes: number[] = []
    for (const _ of dropInSteps(files, '/segments', 0, false)) sizes.push(file.size() / MIB)
    assert.deepEqual(sizes, [10, 6, 2, 0])
    assert.deepEqual(files.list('/segments'), [])
  })

  it('give those of their sidecars back in steps, too, but for one that a thread gives its name meanwhile', () => {
    const files = new SimFiles({ seed: 1 })
    const name = segmentName(0)
    const directory = `/segments/${name}`
    for (const path of ['/segments', directory]) files.makeDirectory(path)
    files.create(`${directory}/${RECORDS_NAME}`)
    const index = files.create(`${directory}/index.bin`)
    index.writev([Buffer.alloc(10 * MIB)], 0)
    files.create(`${directory}/z.tmp`)
    const dropped = (path: string): string => `/segments/${DROPPED_PREFIX}${name}/${path}`
    const sizes: number[] = []
    for (const _ of dropInSteps(files, '/segments', 0, false)) {
      sizes.push(index.size() / MIB)
      if (index.size() === 0 && files.exists(dropped('z.tmp'))) files.rename(dropped('z.tmp'), dropped('z'))
    }
    assert.deepEqual(sizes, [10, 6, 2, 0])
    assert.deepEqual(files.list('/segments'), [])
  })
})
