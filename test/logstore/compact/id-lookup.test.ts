import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { mergedName } from '../../../src/log/merged.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { BlockHashIndex } from '../../../src/logstore/compact/block-hash-index.ts'
import { ByteReader } from '../../../src/logstore/compact/byte-reader.ts'
import { ByteWriter } from '../../../src/logstore/compact/byte-writer.ts'
import { COUNTS_VERSION, RUNS_VERSION } from '../../../src/logstore/compact/compact-format.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { HashIndex, HashPairs, writeHashIndex } from '../../../src/logstore/compact/hash-index.ts'
import { IdLookup, ROWS_OF_RUN } from '../../../src/logstore/compact/id-lookup.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { PieceFile } from '../../../src/logstore/compact/pieces.ts'
import type { Piece, WrittenPiece } from '../../../src/logstore/compact/pieces.ts'
import { writeBlockHashes } from '../../support/block-hashes.ts'
import { Random } from '../../../bench/load/random.ts'
import { MemoryScratch } from '../../../src/logstore/compact/scratch.ts'
import type { Scratch } from '../../../src/logstore/compact/scratch.ts'
import { ScratchFile } from '../../../src/logstore/compact/scratch-file.ts'
import { seedOf } from '../../support/seed.ts'
import { SimFiles } from '../../support/sim-files.ts'
import { TestStore } from '../../support/stored-segments.ts'

type Pairs = readonly (readonly [hash: number, place: number])[]

const hash = fc.oneof(fc.nat(0xffff_ffff), fc.constantFrom(0, 1, 0xffff_ffff), fc.nat(3))
const bytesOf = (pieces: readonly WrittenPiece[]): Buffer => Buffer.concat(pieces.map(({ bytes }) => bytes))

/** @param directory gets the directory of the pieces */
function writeHashes(directory: ByteWriter, pairs: Pairs, scratch: Scratch): Buffer {
  const hashes = new HashPairs(scratch, 0)
  for (const [key, place] of pairs) hashes.add(key, place)
  const pieces = scratch.list()
  writeHashIndex(directory, hashes, pieces)
  return Buffer.concat([...pieces])
}

const fileScratch = (): Scratch => new ScratchFile(new SimFiles({ seed: 1 }).create('/scratch'))

/** An index of the pairs in either form, and how it is asked. */
const FORMS = {
  'as it is written now': (pairs: Pairs, at: number) => {
    const directory = new ByteWriter()
    const bytes = writeHashes(directory, pairs, new MemoryScratch())
    const beside = new ByteWriter()
    assert.deepEqual(writeHashes(beside, pairs, fileScratch()), bytes)
    assert.deepEqual(beside.written(), directory.written())
    return { bytes, index: new HashIndex(new ByteReader(directory.written()), at) }
  },
  'of version 3': (pairs: Pairs, at: number, places: number) => {
    const directory = new ByteWriter()
    const pieces = writeBlockHashes(directory, pairs, places)
    return { bytes: bytesOf(pieces), index: new BlockHashIndex(new ByteReader(directory.written()), at, places) }
  },
}

describe('an index of hashes', () => {
  for (const [form, indexOf] of Object.entries(FORMS)) {
    it(`${form} finds the places of every key that was added, and hardly any of others`, (context) => {
      const placeCount = fc.constantFrom(1, 200, 300, 40_000)
      const pairsOf = fc.array(fc.tuple(hash, fc.nat(39_999)), { maxLength: 4000, size: 'max' })
      fc.assert(
        fc.property(pairsOf, placeCount, fc.constantFrom(0, 160), (some, count, at) => {
          const pairs = some.map(([key, place]) => [key, place % count] as const)
          const { bytes, index } = indexOf(pairs, at, count)
          assert.equal(index.end, at + bytes.byteLength)
          const find = (key: number): number[] =>
            index.placesOf(key, (piece: Piece) => bytes.subarray(piece.at - at, piece.at - at + piece.bytes))
          for (const [key, place] of pairs) {
            const found = find(key)
            assert(found.includes(place), `${key}`)
            assert(found.every((each, i) => each < count && (i === 0 || found[i - 1]! < each)))
          }
          const others = Array.from({ length: 200 }, (_, i) => find(Math.imul(i + 5, 0x9e3779b1) >>> 0).length)
          assert(others.reduce((a, b) => a + b, 0) < 20)
        }),
        { numRuns: 10, seed: seedOf(context) },
      )
    })
  }
})

/** Look-ups of a bundle whose blocks have this many rows, from a file that holds nothing else. */
function lookupOf(version: number, rows: readonly number[], ids: Pairs, traces: Pairs): IdLookup {
  const directory = new ByteWriter()
  const write = (pairs: Pairs): Buffer =>
    version >= RUNS_VERSION
      ? writeHashes(directory, pairs, new MemoryScratch())
      : bytesOf(writeBlockHashes(directory, pairs, rows.length))
  const bytes = Buffer.concat([write(ids), write(traces)])
  const read = (into: Uint8Array, at: number): number => bytes.copy(into, 0, at, at + into.byteLength)
  const file = new PieceFile({ size: () => bytes.byteLength, read, close: () => {} }, 'b')
  let end = 0
  const blocks = rows.map((each) => ({ firstRow: (end += each) - each, rows: each }))
  const load = (piece: Piece): Buffer => file.pieceOnce(piece)
  return new IdLookup(new ByteReader(directory.written()), 0, version, blocks, file, load)
}

describe('look-ups', () => {
  it('name rows of every block that a run reaches into', () => {
    const [first, second] = [0x7000_0000, 0x8000_0000]
    const lookup = lookupOf(
      RUNS_VERSION,
      [ROWS_OF_RUN - 10, 3, 20, 4096],
      [
        [first, 0],
        [second, 1],
      ],
      [],
    )
    assert.deepEqual(lookup.rowsOfId(second), [
      { block: 2, from: 7, to: 20 },
      { block: 3, from: 0, to: ROWS_OF_RUN - 13 },
    ])
    assert.deepEqual(lookup.rowsOfId(first), [
      { block: 0, from: 0, to: ROWS_OF_RUN - 10 },
      { block: 1, from: 0, to: 3 },
      { block: 2, from: 0, to: 7 },
    ])
  })

  it('that name what the bundle has not got are damage', () => {
    const isCorrupt = { code: 'bundle_block_corrupt', kind: 'corrupt' }
    const key = 0x7000_0000
    for (const [version, place] of [
      [RUNS_VERSION, Math.ceil(200 / ROWS_OF_RUN)],
      [COUNTS_VERSION, 2],
    ] as const) {
      const lookup = lookupOf(version, [100, 100], [[key, place]], [[key, 2]])
      assert.throws(() => lookup.rowsOfId(key), isCorrupt)
      assert.throws(() => lookup.blocksOfTrace(key), isCorrupt)
      assert.throws(() => lookup.rowsOfId(key), isCorrupt, 'when they are asked again, too')
    }
  })
})

describe('a record id', () => {
  it('is found in a compacted bundle and in a merged one, wherever its row is, and no other is', (context) => {
    const random = new Random(seedOf(context))
    const store = TestStore.open(context)
    for (let segment = 0; segment < 2; segment++) {
      for (let batch = 0; batch < 30; batch++) {
        // Partitions of many sizes: runs of rows go on from block to block.
        const dataset = `d${Math.min(random.between(0, 30), random.between(0, 30))}`
        const records = Array.from({ length: random.between(1, 40) }, (_, i) => ({
          dataset,
          time: BigInt(1_000_000 + random.between(0, 5000)),
          trace: null,
          text: `order ${segment} ${batch} ${i} was paid`,
        }))
        store.add('acme', records)
      }
      store.seal()
    }
    store.publish()
    store.compact()
    const paths = store.segments.map(({ base }) => [base, `${store.directoryOf(base)}/${STAND_IN_NAME}`] as const)
    const before = paths.map(([base, path]) => assertFindsAll(path, base))
    assert(store.merge(0, 2))
    const merged = `${store.directoryOf(0)}/${mergedName(store.segments.at(-1)!.end)}`
    const ids = assertFindsAll(merged, 0)
    assert.deepEqual([...ids].sort(), before.flat().sort())
  })
})

describe('a piece of the index of record ids', () => {
  it('is read by each look-up from a disk, and once from a bucket, whose reads take long', (context) => {
    const store = TestStore.open(context)
    const records = Array.from({ length: 50 }, (_, i) => ({ dataset: 'd', time: 1n, trace: null, text: `order ${i}` }))
    store.add('acme', records)
    store.seal()
    store.publish()
    store.compact()
    const file = nodeFiles.open(`${store.directoryOf(0)}/${STAND_IN_NAME}`, 'read')
    for (const [isFar, readsExpected] of [
      [false, 3],
      [true, 1],
    ] as const) {
      let reads = 0
      const read = (into: Uint8Array, at: number): number => {
        reads++
        return file.read(into, at)
      }
      const counting = { size: () => file.size(), read, close: () => {} }
      const index = new CompactIndex(counting, 0, new PieceCache(1 << 20), isFar)
      const before = reads
      for (const word of [1, 2, 2, 1]) index.mayContainId(word * 0x1000_0000, 0, 0, 0)
      assert.equal(reads - before, readsExpected)
    }
    file.close()
  })
})

/** @returns all ids */
function assertFindsAll(path: string, base: number): readonly string[] {
  const bytes = readFileSync(path)
  assert.equal(bytes.readUInt32LE(72), RUNS_VERSION)
  const file = nodeFiles.open(path, 'read')
  const index = new CompactIndex(file, base, new PieceCache(8 << 20))
  const ids: string[] = []
  for (let entry = 0; entry < index.entryCount; entry++) {
    const [w0, w1, w2, w3] = index.idOf(entry)
    assert(index.mayContainId(w0!, w1!, w2!, w3!))
    assert.deepEqual(index.findId(w0!, w1!, w2!, w3!), { entry, nextRow: 1 })
    assert.equal(index.findId(w0!, w1!, w2!, w3! ^ 1), null)
    ids.push(`${w0} ${w1} ${w2} ${w3}`)
  }
  file.close()
  return ids
}
