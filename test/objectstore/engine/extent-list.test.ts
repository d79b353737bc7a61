import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ExtentList, ExtentListBuilder } from '../../../src/objectstore/engine/extent-list.ts'
import type { Extent } from '../../../src/objectstore/engine/extent-list.ts'
import { testSeed } from '../../support/seed.ts'

const extent = fc.record(
  { position: fc.nat(2 ** 30).map((n) => n * 2 ** 17), bytes: fc.integer({ min: 1, max: 40 }) },
  { noNullPrototype: true },
)
const extents = fc.array(extent, { maxLength: 12 })
const number = fc.nat(12)

describe('a list of extents', () => {
  it('has the extents that it was made of, in their order, and so have its parts', () => {
    const law = fc.property(extents, number, number, (all, from, to) => {
      const list = ExtentList.of(all)
      assert.equal(list.length, all.length)
      assert.deepEqual([...list], all)
      assert.deepEqual([...list.between(from, Math.max(from, to))], all.slice(from, Math.max(from, to)))
      assert.deepEqual([...list.copy()], all)
      assert.deepEqual([...ExtentList.joined([list, ExtentList.EMPTY, list])], [...all, ...all])
    })
    fc.assert(law, { seed: testSeed() })
  })

  it('takes a position and a length as large as they can be, and no larger', () => {
    const largest = { position: 2 ** 48 - 1, bytes: 2 ** 32 - 1 }
    assert.deepEqual(ExtentList.of([largest]).at(0), largest)
    assert.throws(() => ExtentList.of([{ position: 2 ** 48, bytes: 1 }]), RangeError)
    assert.throws(() => ExtentList.of([{ position: 1, bytes: 2 ** 32 }]), RangeError)
  })

  it('has no extent beyond its end', () => {
    assert.throws(() => ExtentList.of([{ position: 1, bytes: 1 }]).at(1), RangeError)
    assert.throws(() => ExtentList.EMPTY.at(0), RangeError)
  })
})

/** For each byte of the body, the number of its extent. */
const ownersOf = (all: readonly Extent[]): number[] => all.flatMap(({ bytes }, i) => Array<number>(bytes).fill(i))

describe('the extents that have a range of a body', () => {
  it('are those that have a byte of it', () => {
    const law = fc.property(extents, fc.nat(200), fc.nat(200), (all, a, b) => {
      const owners = ownersOf(all)
      const [from, to] = [Math.min(a, b), Math.max(a, b)].map((at) => Math.min(at, owners.length)) as [number, number]
      const wanted = new Set(owners.slice(from, to))
      const { first, begin, lowestPosition } = ExtentList.of(all).covering(from, to)
      assert.equal(lowestPosition, Math.min(...Array.from(wanted, (i) => all[i]!.position)))
      assert.equal(first, owners[from] ?? all.length)
      assert.equal(begin, from < owners.length ? owners.indexOf(first) : owners.length)
    })
    fc.assert(law, { seed: testSeed() })
  })
})

describe('the extents that stand in a stretch of the log', () => {
  it('are found one after the other', () => {
    const law = fc.property(fc.array(fc.nat(20), { maxLength: 12 }), fc.nat(20), fc.nat(20), (positions, base, end) => {
      const list = ExtentList.of(positions.map((position) => ({ position, bytes: 1 })))
      const found: number[] = []
      for (let i = list.nextWithin(base, end, 0); i >= 0; i = list.nextWithin(base, end, i + 1)) found.push(i)
      const wanted = [...positions.keys()].filter((i) => positions[i]! >= base && positions[i]! < end)
      assert.deepEqual(found, wanted)
    })
    fc.assert(law, { seed: testSeed() })
  })
})

describe('a list that grows', () => {
  it('gives out what it has so far, which stays as it is', () => {
    const law = fc.property(fc.array(fc.oneof(extent, extents)), (added) => {
      const builder = new ExtentListBuilder()
      const given: { readonly list: ExtentList; readonly all: readonly Extent[] }[] = []
      const all: Extent[] = []
      for (const each of added) {
        if (Array.isArray(each)) builder.addAll(ExtentList.of(each))
        else builder.add(each)
        all.push(...[each].flat())
        given.push({ list: builder.list, all: [...all] })
      }
      for (const { list, all } of given) assert.deepEqual([...list], all)
    })
    fc.assert(law, { seed: testSeed() })
  })
})
