import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crc32 as zlibCrc32 } from 'node:zlib'
import fc from 'fast-check'
import {
  FRAME_HEADER_BYTES,
  FRAME_PAYLOAD_BYTES_MAX,
  crc32,
  decodeFrameHeader,
  emptyFrameHeader,
  encodeFrameHeader,
  frameBytes,
  paddedBytes,
} from '../../native-free-codecs/frame.ts'

const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const positions = fc.maxSafeNat().map((position) => position - (position % 8))

const headers = fc
  .record({
    position: positions,
    payloadBytes: fc.integer({ min: 0, max: FRAME_PAYLOAD_BYTES_MAX }),
    type: fc.integer({ min: 0, max: 255 }),
    flags: fc.integer({ min: 0, max: 255 }),
    epoch: u32,
    previousHeaderCrc: u32,
    payloadCrc: u32,
    logId: u32,
    behind: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  .map(({ behind, ...header }) => ({ ...header, durableBefore: Math.floor(header.position * behind), headerCrc: 0 }))

describe('a frame header', () => {
  it('reads back as it was written, at any offset', () => {
    fc.assert(
      fc.property(headers, fc.integer({ min: 0, max: 20 }), (header, at) => {
        const bytes = Buffer.alloc(at + FRAME_HEADER_BYTES, 0xaa)
        const headerCrc = encodeFrameHeader(header, bytes, at)
        const read = emptyFrameHeader()
        assert.equal(decodeFrameHeader(bytes, at, read), true)
        assert.deepEqual(read, { ...header, headerCrc })
      }),
    )
  })

  it('with any bit flipped is no header', () => {
    fc.assert(
      fc.property(headers, fc.nat(FRAME_HEADER_BYTES * 8 - 1), (header, bit) => {
        const bytes = Buffer.alloc(FRAME_HEADER_BYTES)
        encodeFrameHeader(header, bytes, 0)
        bytes[bit >> 3]! ^= 1 << (bit & 7)
        assert.equal(decodeFrameHeader(bytes, 0, emptyFrameHeader()), false)
      }),
    )
  })

  it('is not found in zeros', () => {
    assert.equal(decodeFrameHeader(Buffer.alloc(FRAME_HEADER_BYTES), 0, emptyFrameHeader()), false)
  })

  it('refuses to be written with a position that is not a multiple of 8', () => {
    const header = { ...emptyFrameHeader(), position: 12 }
    assert.throws(() => encodeFrameHeader(header, Buffer.alloc(FRAME_HEADER_BYTES), 0))
  })
})

describe('crc32', () => {
  it('is the one of zlib', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(20), (bytes, skip) => {
        const from = Math.min(skip, bytes.length)
        assert.equal(crc32(bytes, from, bytes.length), zlibCrc32(bytes.subarray(from)))
      }),
    )
  })

  it('has the check value of its specification', () => {
    assert.equal(crc32(Buffer.from('123456789'), 0, 9), 0xcbf43926)
  })
})

describe('the size of a frame', () => {
  it('is the header and the payload padded to a multiple of 8', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 40 }), (bytes) => {
        const padded = paddedBytes(bytes)
        assert.equal(padded % 8, 0)
        assert.ok(padded >= bytes && padded < bytes + 8)
        assert.equal(frameBytes(bytes), FRAME_HEADER_BYTES + padded)
      }),
    )
  })
})
