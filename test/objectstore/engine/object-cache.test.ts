import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { assert as check, constantFrom, array, integer, property, record } from 'fast-check'
import { ObjectCache } from '../../../src/objectstore/engine/object-cache.ts'
import type { Cached } from '../../../src/objectstore/engine/object-cache.ts'

const BYTES_MAX = 1000

/** A model of the cache: a list whose last entry was used last. */
class ListedCache {
  entries: { readonly position: number; readonly bytes: number }[] = []

  get(position: number): number | undefined {
    const found = this.entries.find((entry) => entry.position === position)
    if (found !== undefined) this.entries = [...this.entries.filter((entry) => entry !== found), found]
    return found?.position
  }

  add(position: number, bytes: number): void {
    if (this.entries.some((entry) => entry.position === position)) return
    this.entries.push({ position, bytes })
    while (this.bytes > BYTES_MAX) this.entries.shift()
  }

  get bytes(): number {
    return this.entries.reduce((sum, { bytes }) => sum + bytes, 0)
  }
}

describe('the cache of objects', () => {
  it('has those that were used last, within its bytes', () => {
    const step = record({
      do: constantFrom('get', 'add'),
      position: integer({ min: 1, max: 12 }),
      bytes: integer({ min: 0, max: 600 }),
    })
    check(
      property(array(step, { maxLength: 60 }), (steps) => {
        const cache = new ObjectCache<Cached>(BYTES_MAX)
        const listed = new ListedCache()
        for (const { do: what, position, bytes } of steps) {
          if (what === 'get') assert.equal(cache.get(position)?.position, listed.get(position))
          else {
            cache.add({ position, bytes })
            listed.add(position, bytes)
          }
          assert.equal(cache.bytes, listed.bytes)
        }
        for (const { position } of Array.from(listed.entries)) assert.equal(cache.get(position)?.position, position)
      }),
    )
  })

  it('takes whatever fits, and what costs much to read again in the place of others', () => {
    const cache = new ObjectCache<Cached>(BYTES_MAX)
    assert.ok(cache.shouldAdd(BYTES_MAX, true))
    assert.ok(!cache.shouldAdd(BYTES_MAX + 1, false))
    cache.add({ position: 1, bytes: BYTES_MAX })
    assert.ok(cache.shouldAdd(10, false))
  })

  it('keeps most of what it has while more than fits is read in turn, again and again', () => {
    const cache = new ObjectCache<Cached>(BYTES_MAX)
    let found = 0
    for (let n = 0; n < 130 * 100; n++) {
      const position = n % 130
      if (cache.get(position) !== undefined) found += 1
      else if (cache.shouldAdd(10, true)) cache.add({ position, bytes: 10 })
    }
    assert.ok(found > (130 * 100) / 2, `${found} found`) // eviction by last use alone would find none
    assert.ok(cache.bytes <= BYTES_MAX)
  })
})
