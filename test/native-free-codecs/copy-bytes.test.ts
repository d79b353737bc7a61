import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { copyBytes } from '../../native-free-codecs/copy-bytes.ts'

const SPACE_BYTES = 2048
const memoryOf = (isShared: boolean): Buffer =>
  Buffer.from(isShared ? new SharedArrayBuffer(SPACE_BYTES) : new ArrayBuffer(SPACE_BYTES))

describe('copyBytes', () => {
  it('writes every byte of the source and no other, from any address to any other, in shared memory or not', () => {
    const offset = fc.nat({ max: 16 })
    const bytes = fc.nat({ max: 1024 })
    fc.assert(
      fc.property(
        fc.boolean(),
        fc.boolean(),
        offset,
        offset,
        bytes,
        (isSourceShared, isTargetShared, from, at, count) => {
          const source = memoryOf(isSourceShared)
          for (let i = 0; i < SPACE_BYTES; i++) source[i] = 1 + (i % 251)
          const target = memoryOf(isTargetShared)
          const end = copyBytes(source.subarray(from, from + count), target, at)
          assert.equal(end, at + count)
          const expected = Buffer.alloc(SPACE_BYTES)
          for (let i = 0; i < count; i++) expected[at + i] = source[from + i]!
          assert.deepEqual(Buffer.from(target), expected)
        },
      ),
    )
  })

  it('refuses what does not fit, short or long, and writes nothing of it', () => {
    for (const count of [8, 1000]) {
      const target = Buffer.alloc(1004)
      assert.throws(() => copyBytes(new Uint8Array(count).fill(1), target, 1000), RangeError)
      assert.deepEqual(target, Buffer.alloc(1004))
    }
  })
})
