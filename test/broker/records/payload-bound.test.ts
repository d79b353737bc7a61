import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { PayloadBound } from '../../../src/broker/records/payload-bound.ts'
import { RecordIndex } from '../../../src/broker/records/record-index.ts'

const MIB = 1 << 20
const FRAME_OVERHEAD_BYTES = 60

interface Frame {
  /** Payload bytes of its records. */
  readonly sizes: readonly number[]
  /** Bytes of other frames behind this one. */
  readonly gap: number
  /** The frame begins a segment. */
  readonly rotates: boolean
}

interface Stored {
  readonly index: RecordIndex
  /** Payload bytes by offset. */
  readonly sizes: readonly number[]
  readonly segmentBytes: (segmentBase: number) => number
}

function stored(frames: readonly Frame[]): Stored {
  const index = new RecordIndex()
  const ends = new Map<number, number>()
  const all: number[] = []
  let segmentBase = 0
  let place = 64
  for (const { sizes, gap, rotates } of frames) {
    if (rotates) [segmentBase, place] = [segmentBase + place + 1000, 64]
    const payloadBytesOf = (number: number): number => sizes[number]!
    index.append({ segmentBase, place, frameBytes: 0 }, all.length, sizes.length, 1, () => 1, payloadBytesOf)
    all.push(...sizes)
    place += FRAME_OVERHEAD_BYTES + sizes.reduce((sum, size) => sum + size, 0)
    ends.set(segmentBase, place)
    place += gap
  }
  return { index, sizes: all, segmentBytes: (base) => ends.get(base)! }
}

function boundOf({ index, segmentBytes }: Stored, offsets: readonly number[]): number {
  const bound = new PayloadBound(index, segmentBytes)
  return offsets.reduce((_, offset) => bound.add(offset), 0)
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n)
const alone = (size: number): Frame => ({ sizes: [size], gap: 0, rotates: false })

describe('the most that records can have in payload', () => {
  const size = fc.oneof({ weight: 5, arbitrary: fc.nat(50) }, { weight: 1, arbitrary: fc.nat(100_000) })
  const frame = fc.record({
    sizes: fc.oneof(fc.tuple(size), fc.array(size, { minLength: 1, maxLength: 150, size: 'max' })),
    gap: fc.oneof(fc.constant(0), fc.nat(5000)),
    rotates: fc.boolean(),
  })

  it('is never less than what they have, whatever was written and whichever they are', () => {
    fc.assert(
      fc.property(fc.array(frame, { minLength: 1 }), fc.array(fc.boolean(), { minLength: 1 }), (frames, pattern) => {
        const stream = stored(frames)
        const chosen = upTo(stream.sizes.length).filter((offset) => pattern[offset % pattern.length])
        const bound = new PayloadBound(stream.index, stream.segmentBytes)
        let sum = 0
        let before = 0
        for (const offset of chosen) {
          sum += stream.sizes[offset]!
          const most = bound.add(offset)
          assert.ok(most >= sum && most >= before, `${most} of ${sum}`)
          before = most
        }
      }),
    )
  })

  it('is what they have where whole marks are asked for', () => {
    const stream = stored([{ sizes: upTo(128), gap: 1 << 20, rotates: false }])
    assert.equal(boundOf(stream, upTo(128)), (127 * 128) / 2)
  })

  it('is what they have and their frames, where each has a frame of its own', () => {
    const stream = stored(upTo(16).map(() => alone(8 * MIB)))
    assert.equal(boundOf(stream, [3, 4, 5]), 3 * (8 * MIB + FRAME_OVERHEAD_BYTES))
    assert.equal(boundOf(stream, [14, 15]), 2 * (8 * MIB + FRAME_OVERHEAD_BYTES))
  })

  it('is nothing for what has no record', () => {
    const stream = stored([alone(5)])
    assert.equal(boundOf(stream, [0, 1, 2]), 5)
  })
})
