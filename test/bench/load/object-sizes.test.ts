import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LoadObjects } from '../../../bench/load/objectstore/objects.ts'
import { parseSizes } from '../../../bench/load/objectstore/sizes.ts'

const sorted = (text: string): number[] => {
  const sizes = parseSizes('object-size', text)
  return Array.from({ length: 10_000 }, (_, object) => sizes.bytesOf(object)).sort((a, b) => a - b)
}
const about = (actual: number, expected: number): void =>
  assert(Math.abs(actual / expected - 1) < 0.15, `${actual} is not about ${expected}`)

test('objects of one size have that size', () => {
  assert.deepEqual(new Set(sorted('3KiB')), new Set([3072]))
  assert.deepEqual(new Set(sorted('0')), new Set([0]))
})

test('sizes between two are within them, and every doubling is as likely', () => {
  const sizes = sorted('1KiB-64KiB')
  assert(sizes[0]! >= 1024 && sizes.at(-1)! <= 65_536)
  about(sizes[5000]!, 8 * 1024)
  about(sizes[1667]!, 2 * 1024)
})

test('sizes by percentiles have these, and stay within what a server takes', () => {
  const sizes = sorted('p50=4KiB,p99=1MiB')
  about(sizes[5000]!, 4096)
  assert(sizes[9850]! < 1 << 20 && sizes[9950]! > 1 << 20)
  assert(sizes[0]! >= 1 && sizes.at(-1)! <= 16 << 20)
})

test('objects are known by their keys', () => {
  const objects = new LoadObjects('put-1/', parseSizes('object-size', '10B'), 1)
  assert.equal(objects.key(42), 'put-1/000000000042')
  assert.equal(objects.numberOf('put-1/000000000042'), 42)
  for (const key of ['put-1/42', 'put-2/000000000042', 'put-1/00000000004x', 'put-1/'])
    assert.equal(objects.numberOf(key), null)
})
