import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { addKey, filterBytes, mayContain } from '../../native-free-codecs/membership-filter.ts'

const newFilter = (keyCount: number): Uint32Array => new Uint32Array(filterBytes(keyCount) / 4)
const word = fc.nat({ max: 0xffff_ffff })
const keys = fc.array(fc.tuple(word, word, word, word), { maxLength: 300 })

describe('a membership filter', () => {
  it('takes 12 bits a key in whole blocks of 64 bytes', () => {
    assert.equal(filterBytes(1000), 1536)
    assert.equal(filterBytes(0), 64)
    assert.equal(filterBytes(1), 64)
    assert.equal(filterBytes(43), 128)
  })

  it('contains nothing while it is empty', () => {
    assert.equal(mayContain(newFilter(10), 1, 2, 3, 4), false)
  })

  it('tells absent keys apart below 1 %, for random keys, counters and keys of one repeated word', () => {
    const random = (n: number): [number, number, number, number] => {
      const next = (seed: number) => Math.imul(seed ^ (seed >>> 15), 0x2c1b3c6d) >>> 0
      const a = next(n + 1)
      const b = next(a ^ 0x9e3779b9)
      const c = next(b + 0x7f4a7c15)
      return [a, b, c, next(c ^ n)]
    }
    const kinds: Record<string, (n: number) => [number, number, number, number]> = {
      random,
      counter: (n) => [0, 0, 0, n],
      highCounter: (n) => [n, 0, 0, 0],
      repeated: (n) => [n, n, n, n],
    }
    for (const [kind, key] of Object.entries(kinds)) {
      for (const keyCount of [100, 20_000]) {
        const filter = newFilter(keyCount)
        for (let n = 0; n < keyCount; n++) addKey(filter, ...key(n))
        let falsePositives = 0
        for (let n = 0; n < 50_000; n++) if (mayContain(filter, ...key(keyCount + n))) falsePositives++
        assert.ok(falsePositives < 500, `${kind}, ${keyCount} keys: ${falsePositives} of 50000`)
      }
    }
  })
})

test('a key that was added is always found, in a filter of any size', () => {
  fc.assert(
    fc.property(keys, fc.nat({ max: 300 }), (added, sizedFor) => {
      const filter = newFilter(sizedFor)
      for (const key of added) addKey(filter, ...key)
      for (const key of added) assert.ok(mayContain(filter, ...key))
    }),
  )
})
