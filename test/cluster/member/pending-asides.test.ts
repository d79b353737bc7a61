import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PendingAsides } from '../../../src/cluster/member/pending-asides.ts'
import { setAsideBehind } from '../../../src/log/set-aside.ts'
import { World, appended, openWriter, payloadOf } from '../../support/log-harness.ts'

/** A log of five frames; `cut` cuts it behind the first two, repeatedly. @param third payload number of the third frame */
async function rig(third = 3) {
  const world = new World({ seed: 5 })
  const log = await world.open()
  const writer = openWriter(log)
  const frames = [1, 2, third, 4, 5].map((n) => appended(writer, payloadOf(n, 100)))
  world.step()
  await log.close()
  const last = frames[1]!
  const { base, recordsPath } = log.segments[0]!
  const content = Buffer.from(world.files.contentOf(recordsPath))
  const bytesOf = ({ position, end }: { position: number; end: number }): Buffer =>
    content.subarray(position - base, end - base)
  const warnings: string[] = []
  const asides = new PendingAsides({ warn: (_details, message) => warnings.push(message) })
  const cut = (): Promise<void> =>
    setAsideBehind(last.end, { directory: '/data', cluster: { onSetAside: (aside) => asides.add(aside) } }, world)
  const files = (): readonly string[] => world.files.list('/data/diverged') ?? []
  return { world, frames: frames.map(bytesOf), asides, cut, files, warnings }
}

describe('what was cut from the end of a log', () => {
  it('is removed when the cluster has the same, also when it was cut twice before it came back', async () => {
    for (const cuts of [1, 2, 3]) {
      const { frames, asides, cut, files, warnings } = await rig()
      for (let n = 0; n < cuts; n += 1) await cut()
      assert.equal(files().length, 1)
      asides.compareAll(Buffer.concat(frames.slice(2, 4)))
      assert.equal(files().length, 1)
      asides.compareAll(frames[4]!)
      assert.deepEqual([files(), warnings], [[], []])
      asides.compareAll(Buffer.concat(frames))
    }
  })

  it('stays and is reported when the cluster has another frame there', async () => {
    const { frames, asides, cut, files, warnings } = await rig()
    await cut()
    asides.compareAll((await rig(9)).frames[2]!)
    assert.equal(files().length, 1)
    assert.equal(warnings.length, 1)
    asides.compareAll(frames[3]!)
    assert.equal(warnings.length, 1)
  })
})
