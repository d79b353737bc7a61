import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { SortedList } from '../src/sorted-list.ts'

const byValue = (a: number, b: number): number => a - b

describe('a sorted list', () => {
  it('has what was added and not removed, in its order, from anywhere on', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), fc.nat({ max: 5000 })), { size: 'max', maxLength: 6000 })
    fc.assert(
      fc.property(steps, fc.nat({ max: 5000 }), (changes, from) => {
        const list = new SortedList<number>(byValue)
        const expected = new Set<number>()
        for (const [isAdded, number] of changes) {
          if (!isAdded) list.remove(number)
          else if (!expected.has(number)) list.add(number)
          if (isAdded) expected.add(number)
          else expected.delete(number)
        }
        const rest = [...expected].filter((number) => number >= from).sort(byValue)
        assert.deepEqual([...list.from((number) => number >= from)], rest)
      }),
      { numRuns: 30 },
    )
  })

  it('takes a few comparisons for each change and each search, however long it is', () => {
    const count = 20_000
    let looks = 0
    const list = new SortedList<number>((a, b) => {
      looks++
      return a - b
    })
    for (let i = 0; i < count; i++) list.add((i * 7919) % count)
    assert.ok(looks <= 32 * count, `${looks} comparisons`)
    assert.deepEqual([...list.from(() => true)], [...Array(count).keys()])
    let tries = 0
    const first = list.from((number) => {
      tries++
      return number >= 12_345
    })
    assert.equal(first.next().value, 12_345)
    assert.ok(tries <= 32, `${tries} looks`)
    looks = 0
    for (let i = 0; i < count; i++) list.remove(i)
    assert.ok(looks <= 32 * count, `${looks} comparisons`)
    assert.deepEqual([...list.from(() => true)], [])
  })
})
