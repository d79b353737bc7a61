import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KeyIndex } from '../../../src/objectstore/index/key-index.ts'
import { Random } from '../../../bench/load/random.ts'
import { valueOf } from './support.ts'

const PAGE_BYTES = 8192
const VALUE = valueOf(1)
const random = (): ((limit: number) => number) => {
  const source = new Random(1)
  return (limit) => source.between(0, limit - 1)
}

/** A key of 40 bytes. */
const scatteredKey = (number: number): Buffer => {
  const hex = Math.imul(number, 0x9e37_79b1) >>> 0
  return Buffer.from(
    `tenants/${String(hex % 100).padStart(2, '0')}/photos/${hex.toString(16).padStart(8, '0')}${String(number).padStart(8, '0')}.jpeg`.slice(
      0,
      40,
    ),
  )
}

/** Number of pages that the same keys take when they are put in order, which leaves next to nothing free. */
function packedPages(index: KeyIndex, bucket: number): number {
  const packed = KeyIndex.create()
  for (const { key, value } of index.scan(bucket, { max: Infinity }).keys) packed.put(bucket, key, value)
  return packed.pages
}

describe('the memory of the key index', () => {
  it('is under 100 bytes a key for many keys of 40 bytes in no order', () => {
    const index = KeyIndex.create()
    for (let i = 0; i < 40_000; i++) index.put(1, scatteredKey(i), VALUE)
    assert.equal(index.size(1), 40_000)
    assert.ok(PAGE_BYTES * index.pages < 100 * 40_000, `${PAGE_BYTES * index.pages} bytes`)
  })

  it('is under 65 bytes a key for keys of 40 bytes in order, also in many streams at once', () => {
    const index = KeyIndex.create()
    for (let i = 0; i < 5000; i++) {
      for (let stream = 0; stream < 10; stream++) {
        index.put(1, Buffer.from(`backups/host-${stream}/2026/11/20/${String(i).padStart(9, '0')}.zst`), VALUE)
      }
    }
    const pagesBytes = PAGE_BYTES * index.pages
    assert.ok(pagesBytes < 65 * 50_000, `${pagesBytes} bytes`)
  })

  it('stays within twice what is live while keys come and go at random', () => {
    const below = random()
    const index = KeyIndex.create()
    const live: number[] = []
    let number = 0
    for (const aim of [8000, 2000, 8000, 500]) {
      for (let i = 0; i < 16_000; i++) {
        if (below(2 * aim) >= live.length) {
          live.push(number)
          index.put(1, scatteredKey(number++), VALUE)
        } else {
          const at = below(live.length)
          index.delete(1, scatteredKey(live[at]!))
          live[at] = live.at(-1)!
          live.pop()
        }
      }
      const packed = packedPages(index, 1)
      assert.ok(index.pages <= 2 * packed, `${index.pages} pages for ${packed}`)
    }
  })

  it('is given back when few of many keys stay, wherever they are', () => {
    const index = KeyIndex.create()
    for (let i = 0; i < 40_000; i++) index.put(1, scatteredKey(i), VALUE)
    const pagesBefore = index.pages
    for (let i = 0; i < 40_000; i++) if (i % 50 !== 0) index.delete(1, scatteredKey(i))
    assert.equal(index.size(1), 800)
    assert.ok(index.pages <= 2 * packedPages(index, 1), `${index.pages} pages`)
    assert.ok(index.pages < pagesBefore / 10, `${index.pages} of ${pagesBefore} pages`)
    for (let i = 0; i < 100_000; i += 50) index.delete(1, scatteredKey(i))
    assert.equal(index.pages, 1)
  })

  it('does not grow when values change', () => {
    const index = KeyIndex.create()
    for (let i = 0; i < 10_000; i++) index.put(1, scatteredKey(i), VALUE)
    const { pages } = index
    for (let i = 0; i < 10_000; i++) index.put(1, scatteredKey(i), valueOf(i))
    assert.equal(index.pages, pages)
  })
})
