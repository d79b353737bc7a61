import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { LinkedList } from '../src/linked-list.ts'
import type { Link } from '../src/linked-list.ts'

describe('a linked list', () => {
  it('shows what a Set shows, in the same order', () => {
    const steps = fc.array(fc.record({ removes: fc.boolean(), which: fc.nat(), again: fc.boolean() }), {
      maxLength: 100,
    })
    fc.assert(
      fc.property(steps, (all) => {
        const list = new LinkedList<number>()
        const expected = new Set<number>()
        const links: Link<number>[] = []
        for (const [i, { removes, which, again }] of all.entries()) {
          const link = links[which % links.length]
          if (removes && link) {
            list.remove(link)
            expected.delete(link.value)
            if (again) {
              list.append(link)
              expected.add(link.value)
            }
          } else {
            links.push(list.add(i))
            expected.add(i)
          }
          assert.deepEqual([...list], [...expected])
          assert.equal(list.size, expected.size)
          assert.equal(list.newest?.value, [...expected].at(-1))
          assert.equal(list.oldest?.value, [...expected].at(0))
        }
      }),
      { numRuns: 100 },
    )
  })

  it('goes on with those that are left when some are taken out during an iteration', () => {
    const list = new LinkedList<number>()
    const links = [1, 2, 3, 4, 5].map((value) => list.add(value))
    const seen: number[] = []
    for (const value of list) {
      seen.push(value)
      if (value === 2) for (const at of [1, 2, 3]) list.remove(links[at]!)
      if (value === 5) list.add(6)
    }
    assert.deepEqual(seen, [1, 2, 5])
    assert.deepEqual([...list], [1, 5, 6])
    assert.equal(list.linkOf(6).value, 6)
  })
})
