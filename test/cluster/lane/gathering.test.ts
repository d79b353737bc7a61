import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Gathering } from '../../../src/cluster/lane/gathering.ts'

const KIB = 1 << 10

/** A gathering whose frames were confirmed just now, at 10 ms. @param waitingBytes bytes that came meanwhile */
function confirmed({ frames, bytes, waitingBytes = 0 }: { frames: number; bytes: number; waitingBytes?: number }) {
  const gathering = new Gathering()
  gathering.offered(frames, bytes, 9)
  gathering.allSettled(waitingBytes, 10)
  return gathering
}

describe('what waits for the next message', () => {
  it('goes at once when nothing is on its way', () => {
    assert.equal(new Gathering().pause(100, 0), null)
  })

  it('waits for the confirmation of the message before, for 2 ms at most', () => {
    const gathering = new Gathering()
    gathering.offered(1, 100, 5)
    assert.deepEqual(gathering.pause(100, 5.5), { bytes: 128 * KIB, ms: 1.5 })
    assert.equal(gathering.pause(100, 7), null)
    assert.equal(gathering.pause(128 * KIB, 5.5), null)
    gathering.allSettled(0, 6)
    assert.equal(gathering.pause(100, 6), null)
  })

  it('goes at once after few frames, however short it is', () => {
    assert.equal(confirmed({ frames: 3, bytes: 3000 }).pause(8, 10), null)
  })

  it('waits until most of those that were answered are back, for 2 ms at most', () => {
    const gathering = confirmed({ frames: 4, bytes: 4000 })
    assert.deepEqual(gathering.pause(2999, 10.5), { bytes: 3000, ms: 1.5 })
    assert.equal(gathering.pause(3000, 10.5), null)
    assert.equal(gathering.pause(8, 12), null)
  })

  it('waits for them together with those that came meanwhile', () => {
    const gathering = confirmed({ frames: 32, bytes: 4000, waitingBytes: 4000 })
    assert.deepEqual(gathering.pause(4000, 10), { bytes: 6000, ms: 2 })
    assert.equal(gathering.pause(6000, 10), null)
  })

  it('goes at once when it is long itself', () => {
    const gathering = confirmed({ frames: 1000, bytes: 1000 * KIB })
    assert.deepEqual(gathering.pause(127 * KIB, 10), { bytes: 128 * KIB, ms: 2 })
    assert.equal(gathering.pause(128 * KIB, 10), null)
  })

  it('has forgotten frames that were confirmed when others are', () => {
    const gathering = confirmed({ frames: 32, bytes: 4000 })
    gathering.offered(1, 100, 11)
    gathering.allSettled(0, 12)
    assert.equal(gathering.pause(8, 12), null)
  })
})
