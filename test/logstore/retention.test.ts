import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ActiveIndex } from '../../src/logstore/index/active-index.ts'
import { createLogger } from '../../src/observability/logger.ts'
import { enforceRetention, expiredBundles } from '../../src/logstore/retention.ts'

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
    assert.equal(expiredBundles(bundles, 300, 350, KEEP_ALL, 1_000_000n * SECOND), 0)
  })

  it('drops bundles whose newest record is older than the age, oldest first and without gaps', () => {
    assert.equal(expiredBundles(bundles, 300, 350, { ...KEEP_ALL, ageSecondsMax: 5 }, 15n * SECOND), 0)
    assert.equal(expiredBundles(bundles, 300, 350, { ...KEEP_ALL, ageSecondsMax: 5 }, 16n * SECOND), 1)
    assert.equal(expiredBundles(bundles, 300, 350, { ...KEEP_ALL, ageSecondsMax: 5 }, 30n * SECOND), 1)
    assert.equal(expiredBundles(bundles, 300, 350, { ...KEEP_ALL, ageSecondsMax: 5 }, 36n * SECOND), 3)
  })

  it('takes a record whose time is ahead for as old as its receipt', () => {
    const ahead = [bundle(0, 100, 18_000_000_000n, 10n), bundle(100, 200, 30n)]
    const limits = { ...KEEP_ALL, ageSecondsMax: 5 }
    assert.equal(expiredBundles(ahead, 200, 250, limits, 15n * SECOND), 0)
    assert.equal(expiredBundles(ahead, 200, 250, limits, 16n * SECOND), 1)
    assert.equal(expiredBundles(ahead, 200, 250, limits, 36n * SECOND), 2)
  })

  it('drops bundles from which every record was taken, unless one with records comes before', () => {
    const empty = (base: number) => ({ ...bundle(base, base + 100, 0n, 10n), records: 0 })
    assert.equal(expiredBundles([empty(0), empty(100), bundle(200, 300, 5n)], 300, 350, KEEP_ALL, 0n), 2)
    assert.equal(expiredBundles([bundle(0, 100, 5n), empty(100)], 300, 350, KEEP_ALL, 0n), 0)
  })

  it('keeps the newest segment, also when it is a bundle', () => {
    assert.equal(expiredBundles(bundles, 200, 300, { ageSecondsMax: 5, bytesMax: 1 }, 1_000_000n * SECOND), 2)
  })

  it('drops the oldest while the log is longer than the bytes allowed', () => {
    assert.equal(expiredBundles(bundles, 300, 350, { ...KEEP_ALL, bytesMax: 350 }, 0n), 0)
    assert.equal(expiredBundles(bundles, 300, 350, { ...KEEP_ALL, bytesMax: 349 }, 0n), 1)
    assert.equal(expiredBundles(bundles, 300, 350, { ...KEEP_ALL, bytesMax: 150 }, 0n), 2)
    assert.equal(expiredBundles(bundles, 300, 350, { ...KEEP_ALL, bytesMax: 1 }, 0n), 3)
  })
})

describe('retention of a merged bundle', () => {
  const merged = [{ ...bundle(0, 500, 30n), isCompacted: true, isMerged: true }, bundle(500, 600, 40n)]

  it('drops all of it when its newest record has expired, or its first is beyond the bytes allowed', () => {
    assert.equal(expiredBundles(merged, 600, 650, { ...KEEP_ALL, ageSecondsMax: 5 }, 35n * SECOND), 0)
    assert.equal(expiredBundles(merged, 600, 650, { ...KEEP_ALL, ageSecondsMax: 5 }, 36n * SECOND), 1)
    assert.equal(expiredBundles(merged, 600, 650, { ...KEEP_ALL, bytesMax: 649 }, 0n), 1)
  })

  it('keeps one that has the newest segment in it', () => {
    assert.equal(
      expiredBundles(merged.slice(0, 1), 400, 500, { ageSecondsMax: 5, bytesMax: 1 }, 1_000_000n * SECOND),
      0,
    )
  })

  it('drops its segments together', () => {
    const calls: unknown[] = []
    const note = (what: string) => (at: number) => void calls.push([what, at])
    enforceRetention({
      log: {
        committed: 650,
        segments: [{ base: 600, end: 650, sealed: false, directory: '', recordsPath: '' }],
        seal: () => {},
        dropBefore: note('log'),
      },
      registry: { bundles: merged, drop: note('registry'), newest: () => null },
      limits: { ...KEEP_ALL, bytesMax: 300 },
      logger: createLogger('silent'),
      nowNs: () => 0n,
      onDropped: note('lane'),
    })
    assert.deepEqual(calls, [
      ['registry', 0],
      ['lane', 0],
      ['log', 500],
    ])
  })
})

describe('the active segment', () => {
  /** What retention asks of the log at a time. Null: the segment is empty; else it has a record of `receivedSecond` and one of 1000 s later. */
  function asked(ageSecondsMax: number, receivedSecond: bigint | null, nowSecond: bigint): string[] {
    const index = ActiveIndex.create(8)
    if (receivedSecond !== null) {
      const received = receivedSecond * SECOND
      for (const later of [0n, 1_000n * SECOND]) {
        index.append(Uint32Array.of(Number(later & 1023n), 1, 1, 1), 0, new Uint32Array(4), 0, 1, 1, 64, 0, 0, 1, 1)
        const at = received + later
        index.publish(Number(at >> 32n), Number(at & 0xffff_ffffn))
      }
    }
    const calls: string[] = []
    enforceRetention({
      log: {
        committed: 0,
        segments: [],
        seal: () => void calls.push('seal'),
        dropBefore: () => void calls.push('drop'),
      },
      registry: { bundles: [], drop: () => {}, newest: () => index.handle },
      limits: { ...KEEP_ALL, ageSecondsMax },
      logger: createLogger('silent'),
      nowNs: () => nowSecond * SECOND,
      onDropped: () => {},
    })
    return calls
  }

  it('is sealed when what it received first is older than an eighth of the age', () => {
    assert.deepEqual(asked(80, 1_700_000_000n, 1_700_000_010n), [])
    assert.deepEqual(asked(80, 1_700_000_000n, 1_700_000_011n), ['seal'])
  })

  it('is left alone while it has nothing, and when everything is kept', () => {
    assert.deepEqual(asked(80, null, 1_700_000_000n), [])
    assert.deepEqual(asked(Infinity, 1_700_000_000n, 1_800_000_000n), [])
  })
})
