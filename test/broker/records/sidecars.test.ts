import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Places } from '../../../src/broker/records/places.ts'
import { RecordIndex } from '../../../src/broker/records/record-index.ts'
import {
  decodeSegmentIndex,
  encodeSegmentIndex,
  publishSegmentIndex,
  readSegmentIndex,
} from '../../../src/broker/records/segment-index.ts'
import { makeDurableDirectory } from '../../../src/log/files.ts'
import { MANIFEST_NAME } from '../../../src/log/sidecar.ts'
import { SimFiles } from '../../support/sim-files.ts'

const SEGMENT = { base: 4096, end: 1 << 20, directory: '/data/segments/x' }

/** Streams 0, 1, … with these numbers of records, each record in a frame of its own. */
function streams(counts: readonly number[]): { readonly number: number; readonly index: RecordIndex }[] {
  return counts.map((count, number) => {
    const index = new RecordIndex()
    for (let offset = 0; offset < count; offset++) {
      const place = { segmentBase: SEGMENT.base, place: 64 + 8 * (offset + 1000 * number), frameBytes: 80 }
      index.append(
        place,
        offset,
        1,
        7000 + offset,
        () => offset,
        () => 10 + number,
      )
    }
    return { number, index }
  })
}

function published(counts: readonly number[]): SimFiles {
  const files = new SimFiles({ seed: 1 })
  makeDurableDirectory(files, SEGMENT.directory)
  files.syncDirectory('/')
  files.syncDirectory('/data')
  files.syncDirectory('/data/segments')
  const bytes = encodeSegmentIndex(SEGMENT, streams(counts))
  publishSegmentIndex(files, SEGMENT.directory, bytes)
  return files
}

function placesOf(index: RecordIndex): number[] {
  const places = new Places(index.recordCount)
  index.collect(0, Infinity, index.recordCount, places)
  return [...places.numbers]
}

describe('the sidecar of a segment', () => {
  it('gives every stream its records back, also after a power cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(200), { maxLength: 4 }), (counts) => {
        const files = published(counts)
        files.crash()
        const read = readSegmentIndex(files, SEGMENT)
        assert.ok(read.kind === 'runs')
        const loaded = new Map(counts.map((_, number) => [number, new RecordIndex()]))
        for (const { streamNumber, run } of read.runs) loaded.get(streamNumber)!.adopt(run)
        for (const { number, index } of streams(counts)) {
          const back = loaded.get(number)!
          assert.deepEqual(placesOf(back), placesOf(index))
          assert.deepEqual(back.segments(), index.segments())
          assert.equal(back.storedBytes, index.storedBytes)
          for (const timeMs of [0, 70, 7100]) {
            assert.deepEqual(back.candidates('event', timeMs), index.candidates('event', timeMs))
            assert.deepEqual(back.candidates('ingest', timeMs), index.candidates('ingest', timeMs))
          }
        }
      }),
    )
  })

  it('of an older version does not say how long frames are, and they are taken for usual ones', () => {
    const bytes = encodeSegmentIndex(SEGMENT, streams([70]))
    new Float64Array(bytes.buffer, 48 + 40, 1).fill(0)
    const [read] = decodeSegmentIndex(bytes, SEGMENT)!
    const index = new RecordIndex()
    index.adopt(read!.run)
    assert.equal(index.storedBytes, 70 * (10 + 150))
    index.dropBelow(30)
    assert.equal(index.storedBytes, 40 * (10 + 150))
  })

  it('holds nothing of other segments', () => {
    const files = new SimFiles({ seed: 1 })
    makeDurableDirectory(files, SEGMENT.directory)
    const other = { ...SEGMENT, base: 0 }
    const bytes = encodeSegmentIndex(other, streams([10]))
    publishSegmentIndex(files, SEGMENT.directory, bytes)
    assert.deepEqual(readSegmentIndex(files, other), { kind: 'runs', runs: [] })
    assert.equal(readSegmentIndex(files, SEGMENT).kind, 'damaged')
  })

  it('is missing or damaged, never misread, whichever bit is flipped and wherever it is cut', () => {
    const whole = published([70, 3])
    const paths = whole.paths()
    fc.assert(
      fc.property(fc.constantFrom(...paths), fc.nat(), fc.boolean(), (path, pick, cut) => {
        const files = whole.clone(1)
        files.damage(path, (content) => {
          if (cut) return content.subarray(0, pick % content.byteLength)
          content[(pick >> 3) % content.byteLength]! ^= 1 << (pick & 7)
          return content
        })
        assert.notEqual(readSegmentIndex(files, SEGMENT).kind, 'runs')
      }),
    )
    for (const path of paths) {
      const files = whole.clone(1)
      files.removeFile(path)
      const isManifest = path.endsWith(MANIFEST_NAME)
      assert.equal(readSegmentIndex(files, SEGMENT).kind, isManifest ? 'missing' : 'damaged')
    }
  })
})
