import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SharedCopies } from '../../../src/objectstore/engine/shared-copies.ts'

test('copies keep what they were made of, whatever comes behind them', () => {
  const lengths = fc.array(fc.oneof(fc.nat(300), fc.integer({ min: 15_000, max: 20_000 })), { maxLength: 80 })
  fc.assert(
    fc.property(lengths, (asked) => {
      const copies = new SharedCopies()
      const source = Buffer.alloc(20_000)
      const made = asked.map((length, i) => copies.copyOf(source.fill(i).subarray(0, length)))
      assert.deepEqual(
        made,
        asked.map((length, i) => Buffer.alloc(length, i)),
      )
    }),
    { numRuns: 30 },
  )
})
