import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { readNewestCheckpoint, writeCheckpoint } from '../../../src/log/checkpoint.ts'
import type { Checkpoint } from '../../../src/log/checkpoint.ts'
import { Places } from '../../../src/broker/records/places.ts'
import { RecordIndex } from '../../../src/broker/records/record-index.ts'
import { decodeSegmentIndex, encodeSegmentIndex, readSegmentIndex } from '../../../src/broker/records/segment-index.ts'
import { runWriteTask } from '../../../src/broker/records/write-task.ts'
import { MANIFEST_NAME } from '../../../src/log/sidecar.ts'
import { SimFiles } from '../../support/sim-files.ts'

const SEGMENT = { base: 4096, end: 1 << 20, directory: '/data/segments/x' }

/** Streams 0, 1, … with so many records each, every record in a frame of its own. */
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
  files.makeDirectory(SEGMENT.directory)
  files.syncDirectory('/')
  files.syncDirectory('/data')
  files.syncDirectory('/data/segments')
  const bytes = encodeSegmentIndex(SEGMENT, streams(counts))
  runWriteTask(files, { kind: 'segment-index', directory: SEGMENT.directory, bytes })
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
    files.makeDirectory(SEGMENT.directory)
    const other = { ...SEGMENT, base: 0 }
    const bytes = encodeSegmentIndex(other, streams([10]))
    runWriteTask(files, { kind: 'segment-index', directory: SEGMENT.directory, bytes })
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

describe('checkpoints', () => {
  const DIRECTORY = '/data'
  const contentOf = (position: number): Uint8Array<ArrayBuffer> => new TextEncoder().encode(`state at ${position}`)
  function withCheckpoints(...positions: number[]): SimFiles {
    const files = new SimFiles({ seed: 1 })
    files.makeDirectory(DIRECTORY)
    files.syncDirectory('/')
    for (const position of positions) {
      const content = contentOf(position)
      writeCheckpoint(files, DIRECTORY, position, [content.subarray(0, 3), content.subarray(3)])
    }
    return files
  }
  const shown = (read: Checkpoint | null) => read && { position: read.position, content: read.whole().toString() }
  const checkpointPaths = (files: SimFiles): string[] => files.paths().filter((path) => path.includes('checkpoint'))

  it('keep the newest two', () => {
    const files = withCheckpoints(64, 4096, 65_536)
    assert.deepEqual(checkpointPaths(files), [
      '/data/checkpoint-0000000000001000.bin',
      '/data/checkpoint-0000000000010000.bin',
    ])
    files.crash()
    const newest = readNewestCheckpoint(files, [DIRECTORY], 1 << 20)
    assert.deepEqual(shown(newest), { position: 65_536, content: 'state at 65536' })
    assert.equal(newest!.whole().byteOffset % 8, 0)
  })

  it('may have parts of no bytes, in memory of no bytes', () => {
    const files = withCheckpoints()
    writeCheckpoint(files, DIRECTORY, 64, [contentOf(64), new Uint8Array(new ArrayBuffer(0)), contentOf(1)])
    assert.equal(readNewestCheckpoint(files, [DIRECTORY], 64)?.whole().toString(), 'state at 64state at 1')
  })

  it('are found in whichever directory has the newest', () => {
    const files = withCheckpoints(64)
    files.makeDirectory('/replica')
    writeCheckpoint(files, '/replica', 128, [contentOf(128)])
    assert.equal(readNewestCheckpoint(files, [DIRECTORY, '/replica'], 4096)?.position, 128)
    assert.equal(readNewestCheckpoint(files, [DIRECTORY, '/replica'], 127)?.position, 64)
  })

  it('of a log that lost its end are passed over, then removed', () => {
    const files = withCheckpoints(64, 4096)
    assert.equal(readNewestCheckpoint(files, [DIRECTORY], 4095)?.position, 64)
    assert.equal(readNewestCheckpoint(files, [DIRECTORY], 63), null)
    writeCheckpoint(files, DIRECTORY, 128, [contentOf(128)])
    assert.equal(readNewestCheckpoint(files, [DIRECTORY], 1 << 20)?.position, 128)
    assert.equal(checkpointPaths(files).length, 2)
  })

  it('give way to the one before when they are damaged, whichever bit is flipped and wherever they are cut', () => {
    const whole = withCheckpoints(64, 4096)
    const path = checkpointPaths(whole)[1]!
    fc.assert(
      fc.property(fc.nat(), fc.boolean(), (pick, cut) => {
        const files = whole.clone(1)
        files.damage(path, (content) => {
          if (cut) return content.subarray(0, pick % content.byteLength)
          content[(pick >> 3) % content.byteLength]! ^= 1 << (pick & 7)
          return content
        })
        const damaged: string[] = []
        const read = readNewestCheckpoint(files, [DIRECTORY], 4096, (name) => damaged.push(name))
        assert.deepEqual(shown(read), { position: 64, content: 'state at 64' })
        assert.deepEqual(damaged, ['checkpoint-0000000000001000.bin'])
      }),
    )
  })

  it('are there whole or not at all when the power fails while one is written, and leave nothing behind', () => {
    fc.assert(
      fc.property(fc.nat(), fc.constantFrom('write', 'sync', 'none'), (seed, fault) => {
        const files = withCheckpoints(64, 4096).clone(seed)
        if (fault !== 'none') files.faults = { [fault]: (path: string) => (path.endsWith('.tmp') ? 'EIO' : null) }
        const task = { kind: 'checkpoint', directories: [DIRECTORY], position: 8192, parts: [contentOf(8192)] } as const
        if (fault === 'none') runWriteTask(files, task)
        else assert.throws(() => runWriteTask(files, task), { code: 'EIO' })
        files.faults = {}
        files.crash()
        const read = readNewestCheckpoint(files, [DIRECTORY], 1 << 20)
        const expected = fault === 'none' ? 8192 : 4096
        assert.deepEqual(shown(read), { position: expected, content: `state at ${expected}` })
        assert.ok(files.paths().every((path) => !path.endsWith('.tmp')))
      }),
    )
  })
})
