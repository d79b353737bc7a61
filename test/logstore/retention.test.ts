import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { expiredBundles } from '../../src/logstore/retention.ts'

const SECOND = 1_000_000_000n
const bundle = (base: number, end: number, maxSecond: bigint, receivedSecond = maxSecond) => ({
  base,
  end,
  minTime: 0n,
  maxTime: maxSecond * SECOND,
  receivedUntil: receivedSecond * SECOND,
  records: 1,
  identity: 0,
})
const bundles = [bundle(0, 100, 10n), bundle(100, 200, 30n), bundle(200, 300, 20n)]
const KEEP_ALL = { ageSecondsMax: Infinity, bytesMax: Infinity }

describe('retention', () => {
  it('keeps everything without limits', () => {
    assert.equal(expiredBundles(bundles, 350, KEEP_ALL, 1_000_000n * SECOND), 0)
  })

  it('drops bundles whose newest record is older than the age, oldest first and without gaps', () => {
    assert.equal(expiredBundles(bundles, 350, { ...KEEP_ALL, ageSecondsMax: 5 }, 15n * SECOND), 0)
    assert.equal(expiredBundles(bundles, 350, { ...KEEP_ALL, ageSecondsMax: 5 }, 16n * SECOND), 1)
    assert.equal(expiredBundles(bundles, 350, { ...KEEP_ALL, ageSecondsMax: 5 }, 30n * SECOND), 1)
    assert.equal(expiredBundles(bundles, 350, { ...KEEP_ALL, ageSecondsMax: 5 }, 36n * SECOND), 3)
  })

  it('takes a record whose time is ahead for as old as its receipt', () => {
    const ahead = [bundle(0, 100, 18_000_000_000n, 10n), bundle(100, 200, 30n)]
    const limits = { ...KEEP_ALL, ageSecondsMax: 5 }
    assert.equal(expiredBundles(ahead, 250, limits, 15n * SECOND), 0)
    assert.equal(expiredBundles(ahead, 250, limits, 16n * SECOND), 1)
    assert.equal(expiredBundles(ahead, 250, limits, 36n * SECOND), 2)
  })

  it('drops the oldest while the log is longer than the bytes allowed', () => {
    assert.equal(expiredBundles(bundles, 350, { ...KEEP_ALL, bytesMax: 350 }, 0n), 0)
    assert.equal(expiredBundles(bundles, 350, { ...KEEP_ALL, bytesMax: 349 }, 0n), 1)
    assert.equal(expiredBundles(bundles, 350, { ...KEEP_ALL, bytesMax: 150 }, 0n), 2)
    assert.equal(expiredBundles(bundles, 350, { ...KEEP_ALL, bytesMax: 1 }, 0n), 3)
  })
})
