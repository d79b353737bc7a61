import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { SegmentIndexes } from '../../../src/logstore/index/segment-indexes.ts'

const never = (): boolean => false

/** Resident bytes of this process. */
function residentBytes(): number {
  const pages = Number(readFileSync('/proc/self/statm', 'utf8').split(' ')[1])
  return pages * 4096
}

describe('the indexes of a node', () => {
  it('are given out empty, and wait until one is given back', () => {
    const main = SegmentIndexes.create(16, 2)
    const lane = SegmentIndexes.attach(main.handle)
    const [first, second] = [lane.take(never), lane.take(never)]
    assert.deepEqual([first, second], [0, 1])
    lane.at(first).append(Uint32Array.of(1, 2, 3, 4), 0, Uint32Array.of(5, 6, 7, 8), 0, 9, 9, 64, 0, 0, 1, 1)
    lane.at(first).publish(1, 1)
    let looks = 0
    const taken = lane.take(() => {
      if (++looks === 3) main.release(first)
      return false
    })
    assert.equal(taken, first)
    assert.equal(lane.at(first).count, 0)
    assert(new Uint8Array(lane.at(first).shared).every((byte) => byte === 0))
  })

  it('are emptied only after the lane has heard what was announced before', () => {
    const main = SegmentIndexes.create(16, 2)
    const lane = SegmentIndexes.attach(main.handle)
    const number = lane.take(never)
    lane.at(number).append(Uint32Array.of(1, 2, 3, 4), 0, new Uint32Array(4), 0, 9, 9, 64, 0, 0, 1, 1)
    lane.at(number).publish(1, 1)
    main.release(number)
    const seen: number[] = []
    lane.emptyFree(() => seen.push(lane.at(number).count))
    assert.deepEqual([seen, lane.at(number).count], [[1], 0])
    lane.emptyFree(() => assert.fail('nothing is left to be emptied'))
  })

  it('take no memory of the system while they are free', () => {
    const main = SegmentIndexes.create(1 << 19, 1)
    const lane = SegmentIndexes.attach(main.handle)
    const number = lane.take(never)
    const { byteLength } = lane.at(number).shared
    new Uint8Array(lane.at(number).shared).fill(1)
    const used = residentBytes()
    main.release(number)
    lane.emptyFree(never)
    assert(used - residentBytes() > byteLength / 2, `${used - residentBytes()} of ${byteLength} bytes were given back`)
  })
})
