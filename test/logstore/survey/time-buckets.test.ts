import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { TimeBuckets } from '../../../src/logstore/survey/time-buckets.ts'

it('a time is in the bucket that begins at or before it and ends behind it, whatever doubles make of it', () => {
  const TIME_MAX = (1n << 64n) - 1n
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: TIME_MAX }),
      fc.integer({ min: 1, max: 2000 }),
      fc.bigInt({ min: 1n, max: TIME_MAX }),
      fc.integer({ min: 0, max: 1999 }),
      fc.bigInt({ min: 0n, max: TIME_MAX }),
      fc.boolean(),
      (origin, count, most, pick, offset, atEdge) => {
        const width = 1n + ((most - 1n) % ((TIME_MAX - origin) / BigInt(count) + 1n))
        const buckets = new TimeBuckets(origin, width, count)
        const bucket = pick % count
        const time = buckets.beginOf(bucket) + (atEdge ? 0n : offset % width)
        if (time > TIME_MAX) return
        assert.equal(buckets.of(Number(time >> 32n), Number(time & 0xffff_ffffn)), bucket)
      },
    ),
    { numRuns: 2000 },
  )
})
