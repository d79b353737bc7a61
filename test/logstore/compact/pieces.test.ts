import assert from 'node:assert/strict'
import { it } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { PieceFile, compressed, pieceOf } from '../../../src/logstore/compact/pieces.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { memorySource } from '../../support/memory-source.ts'

const TEXT = Buffer.from(Array.from({ length: 40_000 }, (_, i) => `order ${i * 7919} paid;`).join(''))

it('a compressed piece holds the memory of its own bytes, and no more', () => {
  for (const length of [0, 1, 1000, 100_000, TEXT.byteLength]) {
    const raw = TEXT.subarray(0, length)
    const { bytes, rawBytes } = compressed(raw)
    assert.deepEqual(rawBytes === 0 ? bytes : zstdDecompressSync(bytes), raw)
    const isOfPool = bytes.buffer.byteLength === Buffer.poolSize
    assert(isOfPool || bytes.buffer.byteLength === bytes.byteLength, `${length} bytes`)
  }
})

it('what compression would make longer stands as it is', () => {
  const random = mulberry32(1)
  const raw = Buffer.from(Array.from({ length: 50_000 }, () => random() * 256))
  assert.deepEqual(compressed(raw), { bytes: raw, rawBytes: 0 })
})

it('pieces that were read and left do not gather in memory', () => {
  const written = compressed(Buffer.alloc(1024 * 1024, TEXT))
  const file = new PieceFile(memorySource(written.bytes), '0')
  const before = process.memoryUsage().arrayBuffers
  let most = 0
  for (let i = 0; i < 100; i++) {
    assert.equal(file.piece({ at: 0, ...pieceOf(written) }).byteLength, 1024 * 1024)
    most = Math.max(most, process.memoryUsage().arrayBuffers - before)
  }
  assert(most < 20 * 1024 * 1024, `${most} bytes`)
})
