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

it('pieces in a row are read at once, and each is verified', () => {
  const texts = [TEXT.subarray(0, 100), TEXT.subarray(100, 100), TEXT.subarray(100, 4096)]
  const source = memorySource(Buffer.concat(texts))
  let reads = 0
  const counted = {
    ...source,
    size: () => source.size(),
    read: (into: Uint8Array, at: number) => (reads++, source.read(into, at)),
  }
  const pieces = texts.map((bytes, i) => ({
    at: i === 0 ? 0 : 100,
    ...pieceOf({ bytes: Buffer.from(bytes), rawBytes: 0 }),
  }))
  assert.deepEqual(new PieceFile(counted, '0').piecesInRow(pieces), texts)
  assert.equal(reads, 1)
  const damaged = Buffer.concat(texts)
  damaged[2000]! ^= 1
  const read = (): unknown => new PieceFile(memorySource(damaged), '0').piecesInRow(pieces)
  assert.throws(read, { code: 'bundle_block_corrupt' })
})

it('pieces in a row that are compressed are those that each is', () => {
  const texts = [TEXT.subarray(0, 5000), TEXT.subarray(5000, 9000)]
  const written = texts.map((text) => compressed(Buffer.from(text)))
  const file = new PieceFile(memorySource(Buffer.concat(written.map(({ bytes }) => bytes))), '0')
  const pieces = written.map((piece, i) => ({ at: i === 0 ? 0 : written[0]!.bytes.byteLength, ...pieceOf(piece) }))
  assert.deepEqual(file.piecesInRow(pieces), texts)
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
