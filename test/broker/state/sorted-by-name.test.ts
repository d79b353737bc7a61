import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SortedByName } from '../../../src/broker/state/sorted-by-name.ts'

test('gives what was added in the order of names, from any name on, whatever came when', () => {
  const names = fc.uniqueArray(fc.string({ maxLength: 3 }), { maxLength: 60 })
  fc.assert(
    fc.property(names, fc.string({ maxLength: 3 }), fc.integer({ min: 1, max: 70 }), (names, behind, max) => {
      const sorted = new SortedByName<{ readonly name: string }>()
      for (const name of names) sorted.add({ name })
      const expected = names.toSorted((a, b) => (a < b ? -1 : 1))
      assert.deepEqual(
        sorted.after(null, max).map(({ name }) => name),
        expected.slice(0, max),
      )
      assert.deepEqual(
        sorted.after(behind, max).map(({ name }) => name),
        expected.filter((name) => name > behind).slice(0, max),
      )
    }),
  )
})

test('keeps its order over many chunks', () => {
  const sorted = new SortedByName<{ readonly name: string }>()
  const count = 5000
  const nameOf = (i: number): string => String(i).padStart(5, '0')
  for (let i = 0; i < count; i += 1) sorted.add({ name: nameOf((i * 1237) % count) })
  const found: string[] = []
  for (let after: string | null = null; ;) {
    const slice: string[] = sorted.after(after, 333).map(({ name }) => name)
    if (slice.length === 0) break
    found.push(...slice)
    after = slice.at(-1)!
  }
  assert.deepEqual(
    found,
    Array.from({ length: count }, (_, i) => nameOf(i)),
  )
})
