import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Appender } from '../../src/engine/appender.ts'
import type { RecentFrames } from '../../src/engine/recent-frames.ts'
import { World } from '../support/log-harness.ts'

const RING_BYTES = 4096

/** An appender whose frames are looked up by position. */
class Rig {
  readonly world = new World({ seed: 1 })
  appender!: Appender
  recent!: RecentFrames

  async open(): Promise<this> {
    const log = await this.world.open({ ringBytes: RING_BYTES })
    this.appender = new Appender(log, {
      segmentEnding: () => {},
      onLost: () => {},
      defer: (run) => run(),
      nowMs: () => 0,
    })
    this.recent = this.appender.keepRecent()
    return this
  }

  /** @returns the position of the frame */
  append(text: string): number {
    const bytes = Buffer.from(text)
    const encode = (target: Buffer, at: number): void => void bytes.copy(target, at)
    const about = { type: 7, payloadBytes: bytes.byteLength, durability: 'sync', purpose: 'admit' } as const
    this.appender.append({ ...about, encode }, { settled: () => {} })
    return this.appender.position
  }

  /** The payload; null: no longer in memory. */
  found(position: number): string | null {
    if (!this.recent.find(position, RING_BYTES)) return null
    assert.equal(this.recent.type, 7)
    return this.recent.payload.toString()
  }
}

describe('frames that were appended not long ago', () => {
  it('are found by position, before and after they are written', async () => {
    const rig = await new Rig().open()
    const positions = ['one', 'two', 'three'].map((text) => rig.append(text))
    assert.deepEqual(
      positions.map((position) => rig.found(position)),
      ['one', 'two', 'three'],
    )
    rig.world.step()
    assert.deepEqual(
      positions.map((position) => rig.found(position)),
      ['one', 'two', 'three'],
    )
    assert.equal(rig.found(positions[1]! + 8), null)
    assert.equal(rig.found(0), null)
  })

  it('are gone, or are themselves, when the ring was used again (F1)', async () => {
    const rig = await new Rig().open()
    const appended: [position: number, text: string][] = []
    for (let i = 0; i < 300; i += 1) {
      const text = `frame ${i} ${'x'.repeat((i * 37) % 200)}`
      appended.push([rig.append(text), text])
      if (i % 5 === 0) rig.world.step()
    }
    const found = appended.filter(([position, text]) => {
      const there = rig.found(position)
      assert.ok(there === null || there === text)
      return there !== null
    })
    assert.ok(found.length > 5 && found.length < 50, `${found.length} are found`)
    assert.deepEqual(found, appended.slice(-found.length), 'the last ones are there')
  })

  it('are not given out when their bytes changed (F1)', async () => {
    const rig = await new Rig().open()
    const position = rig.append('one')
    assert.equal(rig.found(position), 'one')
    rig.recent.payload[1]! ^= 1
    assert.equal(rig.found(position), null)
  })

  it('are forgotten when positions are given again after a loss (F2)', async () => {
    const rig = await new Rig().open()
    const lost = rig.append('lost')
    rig.world.lanes[0]!.die()
    await new Promise((resolve) => setImmediate(resolve))
    for (let steps = 0; steps < 5; steps += 1) rig.world.step()
    const kept = rig.append('kept')
    assert.equal(rig.found(kept), 'kept')
    assert.equal(rig.found(lost), lost === kept ? 'kept' : null)
  })
})
