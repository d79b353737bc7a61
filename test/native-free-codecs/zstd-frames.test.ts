import assert from 'node:assert/strict'
import { test } from 'node:test'
import { constants, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { zstdFrameEnds } from '../../native-free-codecs/zstd-frames.ts'

const bodies = fc.oneof(
  fc.uint8Array({ maxLength: 2000 }),
  fc.integer({ min: 0, max: 400_000 }).map((length) => new Uint8Array(length).fill(7)),
  fc.integer({ min: 0, max: 300_000 }).map((length) => Uint8Array.from({ length }, (_, i) => (i * i) >> 3)),
)

test('a zstd stream is whole exactly when nothing is cut off, whatever its checksum and size fields', () => {
  fc.assert(
    fc.property(bodies, fc.boolean(), fc.nat(), (body, checksum, cut) => {
      const stream = zstdCompressSync(body, { params: { [constants.ZSTD_c_checksumFlag]: checksum ? 1 : 0 } })
      const bytes = stream.byteLength
      assert.deepEqual(zstdFrameEnds(stream, 1), [bytes])
      assert.deepEqual(zstdFrameEnds(Buffer.concat([stream, stream]), 2), [bytes, 2 * bytes])
      assert.equal(zstdFrameEnds(stream.subarray(0, cut % bytes), 1), null)
      assert.equal(zstdFrameEnds(Buffer.concat([stream, Buffer.from('junk')]), 2), null)
    }),
    { numRuns: 60 },
  )
})

test('arbitrary bytes never make the walk fail', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void zstdFrameEnds(bytes, 10)))
})

test('a stream of more frames than asked for is refused', () => {
  const frame = zstdCompressSync('frame')
  assert.deepEqual(zstdFrameEnds(Buffer.concat([frame, frame, frame]), 2), null)
})
