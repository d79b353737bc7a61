import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import * as fc from 'fast-check'
import { IntervalSet } from '../../src/broker/interval-set.ts'
import { TaggedIntervals } from '../../src/broker/state/tagged-intervals.ts'

describe('a set of offsets', () => {
  it('merges neighbours and what overlaps into one interval', () => {
    const set = new IntervalSet()
    set.add(10, 20)
    set.add(30, 40)
    set.add(20, 30)
    set.add(5, 12)
    assert.deepEqual([...set.entries()], [[5, 40]])
    assert.equal(set.size, 35)
    assert.equal(set.intervalCount, 1)
  })

  it('splits an interval where a part is removed', () => {
    const set = new IntervalSet()
    set.add(0, 10)
    set.remove(3, 5)
    assert.deepEqual(
      [...set.entries()],
      [
        [0, 3],
        [5, 10],
      ],
    )
    assert.equal(set.firstGap(1), 3)
    assert.equal(set.nextCovered(3), 5)
    assert.equal(set.coveredBetween(2, 6), 2)
  })

  it('takes an empty range for nothing', () => {
    const set = new IntervalSet()
    set.add(7, 7)
    set.add(9, 8)
    set.add(0, 5)
    set.remove(3, 3)
    set.remove(4, 1)
    assert.deepEqual([...set.entries()], [[0, 5]])
    assert.equal(set.coveredBetween(4, 2), 0)
  })

  it('covers nothing when it is empty', () => {
    const set = new IntervalSet()
    assert.equal(set.has(0), false)
    assert.equal(set.firstGap(3), 3)
    assert.equal(set.nextCovered(3), Infinity)
    assert.equal(set.coveredBetween(0, 2 ** 48), 0)
    assert.deepEqual(IntervalSet.decode(set.encode()).size, 0)
  })

  it('holds the highest offsets there are', () => {
    const set = new IntervalSet()
    set.add(2 ** 48 - 2, 2 ** 48)
    set.add(2 ** 32 - 1, 2 ** 32 + 1)
    assert.equal(set.has(2 ** 48 - 1), true)
    assert.equal(set.nextCovered(2 ** 32 + 1), 2 ** 48 - 2)
    assert.equal(set.size, 4)
  })

  it('keeps 500 000 intervals in 24 bytes each, grown upwards', () => {
    const set = new IntervalSet()
    for (let i = 0; i < 500_000; i++) set.add(2 * i, 2 * i + 1)
    assert.equal(set.intervalCount, 500_000)
    assert.ok(set.bytes <= 24 * 500_000 * 1.01, `${set.bytes} bytes`)
    for (let i = 0; i < 500_000; i++) set.add(2 * i + 1, 2 * i + 2)
    assert.deepEqual([...set.entries()], [[0, 1_000_000]])
    assert.ok(set.bytes < 20_000, `${set.bytes} bytes`)
  })
})

const UNIVERSE = 4000

const range = fc
  .tuple(fc.nat(UNIVERSE), fc.oneof(fc.nat(8), fc.nat(UNIVERSE)))
  .map(([from, length]) => ({ from, to: Math.min(UNIVERSE, from + length) }))
/** Every `step`-th offset of a range: enough intervals to fill many chunks. */
const stripes = fc.record({ range, step: fc.integer({ min: 2, max: 5 }) })

const changes = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ tag: fc.integer({ min: -1, max: 2 }), range }) },
    { weight: 1, arbitrary: fc.record({ tag: fc.integer({ min: -1, max: 2 }), stripes }) },
  ),
  { maxLength: 40, size: 'max' },
)

/** The ranges of a change, one after the other. */
function* rangesOf(
  change: { range: { from: number; to: number } } | { stripes: { range: { from: number; to: number }; step: number } },
) {
  if ('range' in change) {
    yield change.range
    return
  }
  const { range, step } = change.stripes
  for (let at = range.from; at < range.to; at += step) yield { from: at, to: at + 1 }
}

/** Tags by offset as maximal runs: [from, to, tag] of all that is not -1. */
function runsOf(tags: Int8Array): [number, number, number][] {
  const runs: [number, number, number][] = []
  for (let at = 0; at < tags.length; at++) {
    const last = runs.at(-1)
    if (tags[at] === -1) continue
    if (last?.[1] === at && last[2] === tags[at]) last[1] = at + 1
    else runs.push([at, at + 1, tags[at]!])
  }
  return runs
}

test('tagged intervals agree with an array of tags after any changes', () => {
  fc.assert(
    fc.property(changes, fc.array(range, { minLength: 20, maxLength: 20 }), (changes, questions) => {
      const intervals = new TaggedIntervals()
      const tags = new Int8Array(UNIVERSE + 10).fill(-1)
      for (const change of changes) {
        for (const { from, to } of rangesOf(change)) {
          if (change.tag < 0) intervals.remove(from, to)
          else intervals.set(from, to, change.tag)
          tags.fill(change.tag, from, Math.max(from, to))
        }
        const runs = runsOf(tags)
        assert.deepEqual([...intervals.entries()], runs)
        assert.equal(intervals.intervalCount, runs.length)
        assert.equal(intervals.size, tags.filter((tag) => tag !== -1).length)
      }
      assert.deepEqual([...intervals.descending()], runsOf(tags).reverse())
      for (const { from, to } of questions) {
        assert.equal(intervals.tagAt(from), tags[from])
        assert.equal(intervals.firstGap(from), tags.indexOf(-1, from))
        const covered = tags.findIndex((tag, at) => at >= from && tag !== -1)
        assert.equal(intervals.nextCovered(from), covered < 0 ? Infinity : covered)
        assert.equal(intervals.coveredBetween(from, to), tags.subarray(from, to).filter((tag) => tag !== -1).length)
      }
    }),
    { numRuns: 60 },
  )
})

test('a set of offsets agrees with a set of numbers after any changes, and after it was encoded and decoded', () => {
  fc.assert(
    fc.property(changes, fc.array(range, { maxLength: 10 }), (changes, questions) => {
      let set = new IntervalSet()
      const numbers = new Set<number>()
      for (const change of changes) {
        for (const { from, to } of rangesOf(change)) {
          if (change.tag < 0) set.remove(from, to)
          else set.add(from, to)
          for (let at = from; at < to; at++) {
            if (change.tag < 0) numbers.delete(at)
            else numbers.add(at)
          }
        }
        assert.equal(set.size, numbers.size)
        if (change.tag === 0) set = IntervalSet.decode(set.encode())
      }
      const covered = [...set.entries()].flatMap(([from, to]) => Array.from({ length: to - from }, (_, i) => from + i))
      assert.deepEqual(
        covered,
        [...numbers].sort((a, b) => a - b),
      )
      for (const { from, to } of questions) {
        assert.equal(set.has(from), numbers.has(from))
        assert.equal(set.coveredBetween(from, to), covered.filter((at) => at >= from && at < to).length)
        assert.equal(set.nextCovered(from), covered.find((at) => at >= from) ?? Infinity)
        let gap = from
        while (numbers.has(gap)) gap++
        assert.equal(set.firstGap(from), gap)
      }
    }),
    { numRuns: 60 },
  )
})
