import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Log } from '../../src/log/log.ts'
import { SEGMENT_FOOTER_BYTES } from '../../src/log/segment-format.ts'
import { World, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import type { Written } from '../support/log-harness.ts'

const AHEAD = 2048
const PAUSE_MS = 100
const LARGE_BYTES = 33 << 10

const sizeOf = (world: World, log: Log): number => world.files.contentOf(log.segments.at(-1)!.recordsPath).byteLength

async function opened(segmentBytes = 1 << 20): Promise<{ world: World; log: Log; put: (bytes: number) => number }> {
  const world = new World({ seed: 1 })
  const log = await world.open({ ringBytes: 1 << 18, segmentBytes, writeAheadBytes: AHEAD })
  const writer = openWriter(log)
  let n = 0
  const put = (bytes: number): number => {
    const { end } = appended(writer, payloadOf((n += 1), bytes))
    world.step()
    return end - log.segments.at(-1)!.base
  }
  return { world, log, put }
}

describe('zeros before small groups', () => {
  it('come with the group that makes the file longer, and others overwrite them', async () => {
    const { world, log, put } = await opened()
    const end = put(100)
    assert.equal(sizeOf(world, log), end + AHEAD)
    assert(
      world.files
        .contentOf(log.segments[0]!.recordsPath)
        .subarray(end)
        .every((byte) => byte === 0),
    )
    world.nowMs += PAUSE_MS
    put(100)
    assert.equal(sizeOf(world, log), end + AHEAD)
  })

  it('come again when they are used up, but not at once', async () => {
    const { world, log, put } = await opened()
    put(100)
    const end = put(AHEAD)
    assert.equal(sizeOf(world, log), end)
    world.nowMs += PAUSE_MS
    const next = put(100)
    assert.equal(sizeOf(world, log), next + AHEAD)
  })

  it('do not come with a large group', async () => {
    const { world, log, put } = await opened()
    const end = put(LARGE_BYTES)
    assert.equal(sizeOf(world, log), end)
  })

  it('are cut off by the seal', async () => {
    const { world, log, put } = await opened(4096)
    put(1500)
    put(3000)
    const [first] = log.segments
    assert.equal(first!.sealed, true)
    assert.equal(world.files.contentOf(first!.recordsPath).byteLength, first!.end - first!.base + SEGMENT_FOOTER_BYTES)
  })

  it('are given up where they are refused, and what is appended is stored', async () => {
    const { world, log, put } = await opened()
    let writes = 0
    world.files.faults = { write: (path) => (path.endsWith('records.log') && (writes += 1) === 3 ? 'EIO' : null) }
    put(100) // writes header, group and zeros
    assert.equal(writes, 3)
    world.nowMs += PAUSE_MS
    put(AHEAD)
    assert.equal(writes, 4)
    assert.equal(log.state.kind, 'ok')
    assert.equal(replay(log, world.files).frames.length, 2)
  })

  it('are not there where room is scarce', async () => {
    const { world, log, put } = await opened()
    world.files.faults = { free: () => 3 << 20 }
    const end = put(100)
    assert.equal(sizeOf(world, log), end)
  })

  it('take nothing away and add nothing, wherever the power is cut', async () => {
    const step = fc.record({ bytes: fc.nat(1500), synced: fc.boolean(), pauseMs: fc.constantFrom(0, 20, PAUSE_MS) })
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.array(fc.array(step, { maxLength: 12 }), { maxLength: 4 }), async (seed, lives) => {
        const world = new World({ seed })
        const kept: Written[] = []
        for (const life of [...lives, []]) {
          const log = await world.open({ writeAheadBytes: AHEAD })
          const { frames, damage } = replay(log, world.files)
          assert.deepEqual(damage, [])
          assert(frames.length >= kept.length, 'a frame that was synced is lost')
          for (const [i, { payload }] of kept.entries()) assert(payload.equals(frames[i]!.payload))
          const writer = openWriter(log)
          kept.splice(0, kept.length, ...frames)
          const waiting: Written[] = []
          for (const [n, { bytes, synced, pauseMs }] of life.entries()) {
            world.nowMs += pauseMs
            waiting.push(appended(writer, payloadOf(n, bytes)))
            if (!synced) continue
            world.step()
            kept.push(...waiting.splice(0))
          }
          world.end(seed % 2 === 0 ? 'crash' : 'kill')
        }
      }),
      { numRuns: 150 },
    )
  })
})
