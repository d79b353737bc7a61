import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { NO_SEGMENT, SeenRecords, windowLength } from '../../../src/logstore/ingest/seen-records.ts'
import { SEGMENT_ENTRIES_MAX } from '../../../src/logstore/limits.ts'
import type { SeenBundle } from '../../../src/logstore/ingest/seen-records.ts'

/** A batch of records at these times; 0 is no time. */
function batchAt(...times: number[]): OtlpBatch {
  const batch = new OtlpBatch()
  times.forEach((time, record) => (batch.timeLow[record] = time))
  batch.recordCount = times.length
  return batch
}

function indexOf(entries: readonly { id: number; time: number }[]): ActiveIndex {
  const index = ActiveIndex.create(64)
  entries.forEach(({ id, time }, i) =>
    index.append(
      Uint32Array.of(id, 0, 0, 0),
      0,
      new Uint32Array(4),
      0,
      0,
      time,
      64 * i,
      0,
      index.partitionOf('t', 'd'),
      1,
      1,
    ),
  )
  index.publish(0, 0)
  return index
}

const segment = (base: number, index: ActiveIndex) => ({ base, number: 0, index })

function bundleOf(
  base: number,
  minTime: number,
  maxTime: number,
  ids: readonly number[],
): SeenBundle & { asked: number } {
  return {
    base,
    end: base + 1,
    records: ids.length,
    minTime,
    maxTime,
    receivedUntil: 0,
    asked: 0,
    mayContainId() {
      this.asked++
      return true
    },
    containsId: (id) => ids.includes(id),
    frameOfBatch: (words, records) =>
      records === ids.length && ids.every((id, record) => words[4 * record] === id) ? 64 : null,
    close: () => {},
  }
}

describe('the records seen before', () => {
  it('are found in the active segment, in sealed ones and in bundles', () => {
    const seen = new SeenRecords(segment(200, indexOf([{ id: 3, time: 30 }])), [
      segment(100, indexOf([{ id: 2, time: 20 }])),
    ])
    seen.addBundle(bundleOf(0, 5, 15, [1]))
    assert(seen.beginBatch(batchAt(10, 20, 30)))
    assert.deepEqual(
      [1, 2, 3, 4].map((id) => seen.has(id, 0, 0, 0)),
      [true, true, true, false],
    )
  })

  it('are looked for nowhere when a batch is newer than everything stored', () => {
    const bundle = bundleOf(0, 5, 15, [1])
    const seen = new SeenRecords(segment(100, indexOf([{ id: 2, time: 20 }])))
    seen.addBundle(bundle)
    assert(!seen.beginBatch(batchAt(21, 22)))
    assert(!seen.has(1, 0, 0, 0))
    assert.equal(bundle.asked, 0)
  })

  it('are looked for everywhere when a record of the batch has no time', () => {
    const seen = new SeenRecords(segment(100, indexOf([{ id: 2, time: 20 }])))
    seen.addBundle(bundleOf(0, 5, 15, [1]))
    assert(seen.beginBatch(batchAt(99, 0)))
    assert(seen.has(1, 0, 0, 0) && seen.has(2, 0, 0, 0))
  })

  it('stay known while their segment is sealed, becomes a bundle, and is dropped with it', () => {
    const seen = new SeenRecords({ base: NO_SEGMENT, number: 0, index: ActiveIndex.create(8) })
    seen.openSegment(segment(0, indexOf([{ id: 1, time: 10 }])))
    seen.openSegment(segment(100, ActiveIndex.create(8)))
    const knows = (): boolean => seen.beginBatch(batchAt(10)) && seen.has(1, 0, 0, 0)
    assert(knows())
    seen.closeSealed(0)
    seen.addBundle(bundleOf(0, 10, 10, [1]))
    assert(knows())
    seen.dropBundle(0)
    assert(!knows())
  })
})

describe('the batches seen before', () => {
  const wordsOf = (ids: readonly number[]): Uint32Array => Uint32Array.from(ids.flatMap((id) => [id, 0, 0, 0]))

  /** An index of these frames; each is given by the ids of its batch. */
  function indexOfFrames(frames: readonly (readonly number[])[]): ActiveIndex {
    const index = ActiveIndex.create(64)
    for (const [frame, ids] of frames.entries()) {
      for (const record of ids.keys()) {
        const partition = index.partitionOf('t', 'd')
        index.append(wordsOf(ids), 4 * record, new Uint32Array(4), 0, 0, 10, 64 * frame, record, partition, 1, 1)
      }
    }
    return index
  }

  it('are those with the same records in the same order, and no others', () => {
    const frames = [[1, 2, 3], [1, 2], [4], [1, 2, 3, 5], [4, 1]]
    const seen = new SeenRecords(segment(0, indexOfFrames(frames)))
    const others = [[1], [2, 3], [1, 3, 2], [1, 2, 3, 5, 6], [4, 1, 1], [5], [2, 1], [1, 2, 3, 1]]
    const knows = (ids: readonly number[]): boolean => {
      assert(seen.beginBatch(batchAt(...ids.map(() => 10))))
      return seen.placeOfBatch(wordsOf(ids), ids.length) !== null
    }
    assert.deepEqual(frames.map(knows), [true, true, true, true, true])
    assert.deepEqual(
      others.map(knows),
      others.map(() => false),
    )
    seen.addBundle(bundleOf(0, 5, 15, [2, 1]))
    assert(knows([2, 1]) && !knows([2]))
  })

  it('reach back over 64 bundles, and over all of the last 15 minutes up to a bound', () => {
    const bundles = (count: number, secondsApart: number, records = 1) =>
      Array.from({ length: count }, (_, i) => ({ receivedUntil: BigInt(i * secondsApart) * 1_000_000_000n, records }))
    assert.equal(windowLength([]), 0)
    assert.equal(windowLength(bundles(10, 3600)), 10)
    assert.equal(windowLength(bundles(100, 3600)), 64)
    assert.equal(windowLength(bundles(500, 10)), 91)
    assert.equal(windowLength(bundles(5000, 0)), 1024)
    const merged = 8 * SEGMENT_ENTRIES_MAX
    assert.equal(windowLength(bundles(100, 3600, merged)), 8)
    assert.equal(windowLength(bundles(5000, 0, merged)), 128)
    assert.equal(windowLength([...bundles(100, 3600, merged), ...bundles(60, 7200)]), 61)
  })
})
