import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { NAME_BYTES_MAX } from '../../../src/logstore/limits.ts'

const words = (...values: number[]): Uint32Array => Uint32Array.from(values)

function appendPlain(index: ActiveIndex, id: number, trace: number, frameOffset: number, recordNumber: number): void {
  const partition = index.partitionOf('local', `d${id % 3}`)
  index.append(
    words(id, 1, 2, 3),
    0,
    words(trace, trace && 9, 0, 0),
    0,
    7,
    id,
    frameOffset,
    recordNumber,
    partition,
    1,
    1,
  )
}

describe('an active index', () => {
  it('finds every appended id and trace, and nothing else', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: 0, max: 0xffff_ffff }), { maxLength: 64 }),
        fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 64, maxLength: 64 }),
        fc.integer({ min: 0, max: 0xffff_ffff }),
        (ids, traces, absent) => {
          const index = ActiveIndex.create(64)
          ids.forEach((id, i) => appendPlain(index, id, traces[i]!, 64 * i, i))
          index.publish(0, 0)
          const reader = ActiveIndex.attach(index.handle)
          assert.equal(reader.count, ids.length)
          ids.forEach((id, i) => assert.equal(reader.newestOfId(id, 1, 2, 3), i))
          if (!ids.includes(absent)) assert.equal(reader.newestOfId(absent, 1, 2, 3), -1)
          for (let trace = 1; trace <= 4; trace++) {
            const found: number[] = []
            for (let at = reader.newestOfTrace(trace, 9, 0, 0); at >= 0; at = reader.olderOfTrace(at)) found.push(at)
            const expected = ids.flatMap((_, i) => (traces[i] === trace ? [i] : []))
            assert.deepEqual(found.reverse(), expected)
          }
        },
      ),
    )
  })

  it('finds every entry of an id that came again, newest first', () => {
    const index = ActiveIndex.create(16)
    for (const [entry, id] of [5, 6, 5, 7, 5, 21].entries()) appendPlain(index, id, 0, 64 * entry, 0)
    index.publish(0, 0)
    const entriesOf = (id: number): number[] => {
      const found: number[] = []
      for (let at = index.newestOfId(id, 1, 2, 3); at >= 0; at = index.olderOfId(at)) found.push(at)
      return found
    }
    assert.deepEqual([5, 6, 7, 21, 37].map(entriesOf), [[4, 2, 0], [1], [3], [5], []])
    index.reset()
    appendPlain(index, 5, 0, 64, 0)
    assert.deepEqual(entriesOf(5), [0])
  })

  it('shows a reader only what was published', () => {
    const index = ActiveIndex.create(8)
    const reader = ActiveIndex.attach(index.handle)
    appendPlain(index, 1, 0, 64, 0)
    assert.equal(reader.count, 0)
    index.publish(0, 0)
    assert.equal(reader.count, 1)
  })

  it('counts the entries of frames before an offset, as far as they are whole frames', () => {
    const index = ActiveIndex.create(8)
    for (const [id, frame, record] of [
      [1, 64, 0],
      [2, 64, 1],
      [3, 128, 0],
    ] as const)
      appendPlain(index, id, 0, frame, record)
    index.publish(0, 0)
    assert.deepEqual(
      [64, 65, 128, 129].map((offset) => index.countBefore(offset)),
      [0, 2, 2, 3],
    )
  })

  it('numbers partitions once and names them to readers that attached before they were added', () => {
    const index = ActiveIndex.create(8)
    const reader = ActiveIndex.attach(index.handle)
    assert.equal(reader.findPartition('a', 'x'), -1)
    assert.equal(index.partitionOf('a', 'x'), 0)
    assert.equal(index.partitionOf('a', 'ü"]'), 1)
    assert.equal(index.partitionOf('a', 'x'), 0)
    assert.equal(reader.findPartition('a', 'ü"]'), 1)
    assert.deepEqual(reader.partitions(), [
      { tenant: 'a', dataset: 'x' },
      { tenant: 'a', dataset: 'ü"]' },
    ])
  })

  it('has room for as many of the longest names as it has entries, and takes no memory for more', () => {
    const entries = 8
    const index = ActiveIndex.create(entries)
    const names = Array.from({ length: entries }, (_, i) => String(i).padStart(NAME_BYTES_MAX, 'x'))
    names.forEach((name, i) => {
      assert(index.hasRoom(1, 1))
      assert.equal(index.partitionOf(name, name), i)
    })
    assert.deepEqual(
      ActiveIndex.attach(index.handle).partitions(),
      names.map((name) => ({ tenant: name, dataset: name })),
    )
    assert.ok(index.shared.byteLength < 2 * entries * 2 * NAME_BYTES_MAX)
  })

  it('is empty after a reset, whatever it held', () => {
    const index = ActiveIndex.create(16)
    for (let id = 0; id < 16; id++) appendPlain(index, id, 1 + (id % 2), 64 * id, 0)
    index.publish(0, 0)
    assert(!index.hasRoom(1, 0))
    index.reset()
    assert(index.hasRoom(16, 3))
    assert.equal(index.count, 0)
    assert.equal(index.newestOfId(3, 1, 2, 3), -1)
    assert.equal(index.newestOfTrace(1, 9, 0, 0), -1)
    appendPlain(index, 3, 2, 64, 0)
    index.publish(0, 0)
    assert.equal(index.newestOfId(3, 1, 2, 3), 0)
    assert.equal(index.olderOfTrace(index.newestOfTrace(2, 9, 0, 0)), -1)
  })
})
