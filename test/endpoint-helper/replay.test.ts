import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  COPY_BEGIN,
  COPY_END,
  FLAG_COPY,
  checkFrame,
  markFrame,
  recordFrame,
} from '../../src/endpoint-helper/frames.ts'
import type { HelperFrame } from '../../src/endpoint-helper/frames.ts'
import { RECENT_LIMITS } from '../../src/endpoint-helper/recent-objects.ts'
import { Replay } from '../../src/endpoint-helper/replay.ts'

const record = (n: number): HelperFrame => recordFrame({ activationId: 'a', object: String(n) })
const copy = (n: number): HelperFrame => recordFrame({ activationId: 'a', object: String(n) }, FLAG_COPY)
const begin = markFrame(COPY_BEGIN)
const end = markFrame(COPY_END)

/** Objects, oldest first, and the position of the last whole copy. Frame n, from 0, is at position 100 n + 100. */
function replayed(...frames: readonly HelperFrame[]): { objects: number[]; copyFrom: number } {
  const replay = new Replay(RECENT_LIMITS)
  for (const [n, frame] of frames.entries()) replay.visit({ ...frame, position: 100 * n + 100 })
  return { objects: replay.recent.newestFirst('a').reverse().map(Number), copyFrom: replay.copyFrom }
}

describe('the frames of the log', () => {
  it('are the objects in their order', () => {
    assert.deepEqual(replayed(record(1), record(2)), { objects: [1, 2], copyFrom: 0 })
  })

  it('count from the last whole copy on', () => {
    assert.deepEqual(replayed(record(1), record(2), begin, copy(1), copy(2), end, record(3)), {
      objects: [1, 2, 3],
      copyFrom: 300,
    })
  })

  it('count from the last whole copy on when only some of what was copied is dropped yet', () => {
    assert.deepEqual(replayed(record(2), begin, copy(1), copy(2), end).objects, [1, 2])
  })

  it('count without a copy that was cut short', () => {
    assert.deepEqual(replayed(record(1), record(2), begin, copy(1), record(3)), { objects: [1, 2, 3], copyFrom: 0 })
    assert.deepEqual(replayed(record(1), begin, copy(1), record(2), begin, copy(1), copy(2), end), {
      objects: [1, 2],
      copyFrom: 500,
    })
  })

  it('may begin with a copy, whatever of its marks is damaged', () => {
    for (const frames of [
      [begin, copy(1), copy(2), end, record(3)],
      [begin, copy(1), copy(2), record(3)],
      [copy(1), copy(2), end, record(3)],
      [copy(1), copy(2), record(3)],
    ]) {
      assert.deepEqual(replayed(...frames), { objects: [1, 2, 3], copyFrom: 0 })
    }
  })

  it('of a newer version are refused, not misread', () => {
    checkFrame(begin.type, begin.payload, '/data')
    const newer = { name: 'StoreError', kind: 'corrupt', code: 'endpoint_format_newer' }
    assert.throws(() => checkFrame(4, begin.payload, '/data'), newer)
    assert.throws(() => checkFrame(1, Buffer.from([2]), '/data'), newer)
    assert.throws(() => checkFrame(1, Buffer.alloc(0), '/data'), newer)
  })
})
