import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Redriven } from '../../../src/broker/state/redriven.ts'
import type { RedrivenTo } from '../../../src/broker/state/redriven.ts'

const offset = fc.oneof(fc.nat(60), fc.integer({ min: 2 ** 31, max: 2 ** 31 + 20 }), fc.constant(2 ** 45))
const streamNumber = fc.oneof(fc.nat(3), fc.constant(2_000_000))

test('dead letters that were put back are known by where their records are, as a model says, also from the checkpoint', () => {
  const added = fc.array(fc.record({ copy: fc.nat(60), streamNumber, offset, count: fc.integer({ min: 1, max: 6 }) }))
  fc.assert(
    fc.property(added, fc.nat(20), fc.uniqueArray(fc.tuple(fc.nat(3), fc.nat(70))), (runs, floor, damaged) => {
      const model = new Map<number, RedrivenTo>()
      const live = new Redriven()
      for (const { copy, streamNumber, offset, count } of runs) {
        for (let i = 0; i < count; i++) {
          live.add(copy + i, { streamNumber, offset: offset + i })
          model.set(copy + i, { streamNumber, offset: offset + i })
        }
      }
      live.dropBelow(floor)
      for (const copy of model.keys()) if (copy < floor) model.delete(copy)
      const isDamaged = (stream: number, at: number): boolean => damaged.some(([s, o]) => s === stream && o === at)
      const nextLost = (stream: number, from: number, to: number): number => {
        for (let at = from; at < to; at++) if (isDamaged(stream, at)) return at
        return to
      }
      const { bounds, places } = live.encode()
      for (const redriven of [live, Redriven.decode(bounds, places)]) {
        assert.equal(redriven.size, model.size)
        for (let copy = 0; copy < 80; copy++) {
          const place = model.get(copy)
          const isKnown =
            place !== undefined && Math.abs(place.offset - copy) < 2 ** 32 && place.streamNumber < 2_000_000
          assert.equal(redriven.has(copy), place !== undefined)
          assert.deepEqual(redriven.placeOf(copy), isKnown ? place : null)
        }
        const lost = [...model].filter(([, place]) => isDamaged(place.streamNumber, place.offset)).map(([copy]) => copy)
        const first = Math.min(80, ...lost.filter((copy) => copy >= 5))
        assert.equal(redriven.firstLost(5, 80, nextLost), first)
      }
    }),
    { numRuns: 300 },
  )
})

test('what older versions stored stays used', () => {
  const redriven = Redriven.decode([3, 5], [])
  assert.deepEqual([redriven.has(2), redriven.has(3), redriven.has(4), redriven.firstGap(3)], [false, true, true, 5])
  assert.equal(redriven.placeOf(3), null)
  assert.equal(
    redriven.firstLost(0, 9, (_stream, from) => from),
    9,
  )
})
