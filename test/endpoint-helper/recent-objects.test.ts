import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { StoredObject } from '../../src/endpoint-helper/frames.ts'
import { RecentObjects } from '../../src/endpoint-helper/recent-objects.ts'

const object = (activationId: string, n: number): StoredObject => ({ activationId, object: JSON.stringify({ n }) })
const IDS: readonly string[] = ['a', 'b', 'c', 'd', 'e', 'f']
const ids = fc.constantFrom(...IDS)

function recentOf(stored: Iterable<StoredObject>, limits = { activations: 100, bytes: 1e9 }): RecentObjects {
  const recent = new RecentObjects(limits)
  for (const one of stored) recent.add(one)
  return recent
}

describe('the recent objects of an activation', () => {
  it('are its last 100, newest first', () => {
    const recent = recentOf(Array.from({ length: 101 }, (_, n) => object('a', n)))
    const expected = Array.from({ length: 100 }, (_, i) => JSON.stringify({ n: 100 - i }))
    assert.deepEqual(recent.newestFirst('a'), expected)
    assert.equal(recent.newest('a'), '{"n":100}')
  })

  it('are none where nothing was stored', () => {
    assert.equal(recentOf([object('a', 1)]).newest('A'), null)
    assert.deepEqual(recentOf([]).newestFirst('__proto__'), [])
  })
})

describe('the recent objects of all activations', () => {
  it('stay within their bounds, and lose the activations written longest ago', () => {
    fc.assert(
      fc.property(
        fc.array(ids, { minLength: 1, maxLength: 60 }),
        fc.integer({ min: 1, max: 5 }),
        (written, activations) => {
          const recent = recentOf(written.map(object), { activations, bytes: 1e9 })
          const lastWritten = new Set([...new Set(written.toReversed())].slice(0, activations))
          for (const id of IDS) assert.equal(recent.newest(id) !== null, lastWritten.has(id))
        },
      ),
    )
  })

  it('take no more bytes than allowed, unless one activation alone does', () => {
    fc.assert(
      fc.property(
        fc.array(ids, { minLength: 1, maxLength: 60 }),
        fc.integer({ min: 1, max: 2000 }),
        (written, bytes) => {
          const recent = recentOf(written.map(object), { activations: 100, bytes })
          const left = new Set([...recent.all()].map(({ activationId }) => activationId))
          assert(recent.bytes <= bytes || left.size === 1)
          assert(left.has(written.at(-1)!), 'the one written last is never forgotten')
        },
      ),
    )
  })

  it('are the same, and are forgotten in the same order, when they are added again in their order', () => {
    fc.assert(
      fc.property(fc.array(ids, { maxLength: 60 }), fc.array(ids, { maxLength: 20 }), (written, later) => {
        const limits = { activations: 4, bytes: 1500 }
        const original = recentOf(written.map(object), limits)
        const again = recentOf(original.all(), limits)
        for (const [n, id] of later.entries()) {
          original.add(object(id, 1000 + n))
          again.add(object(id, 1000 + n))
        }
        assert.deepEqual([...again.all()], [...original.all()])
        assert.equal(again.bytes, original.bytes)
      }),
    )
  })
})
