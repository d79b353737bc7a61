import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { MERGED_POSITIONS_MAX } from '../../../src/log/merged.ts'
import { SEGMENT_FOOTER_BYTES } from '../../../src/log/segment-format.ts'
import { MERGED_ENTRIES_MAX, RUN_LENGTH, RUN_LENGTH_MIN, nextRun } from '../../../src/logstore/compact/merge-plan.ts'
import type { Bundle } from '../../../src/logstore/index/manifest.ts'
import { expiredBundles } from '../../../src/logstore/retention.ts'
import { testSeed } from '../../support/seed.ts'

const MIB = 1024 * 1024
const SECOND = 1_000_000_000n
const KEEP_ALL = { ageSecondsMax: Infinity, bytesMax: Infinity }

interface Sealed {
  readonly bytes: number
  readonly records: number
  /** Seconds until the next one was sealed. */
  readonly seconds: number
}

const merged = (run: readonly Bundle[]): Bundle => ({
  ...run[0]!,
  end: run.at(-1)!.end,
  maxTime: run.reduce((last, { maxTime }) => (maxTime > last ? maxTime : last), 0n),
  receivedUntil: run.at(-1)!.receivedUntil,
  records: run.reduce((sum, { records }) => sum + records, 0),
  isMerged: true,
  level: 1 + Math.max(...run.map(({ level = 0 }) => level)),
})

/** A log whose segments are sealed and compacted one after the other. Everything that may be merged is merged at once. */
class Life {
  bundles: Bundle[] = []
  nowSeconds = 1000
  logEnd = 0
  writtenBytes = 0
  sealedBytes = 0
  runs: (readonly Bundle[])[] = []
  readonly limits: typeof KEEP_ALL

  constructor(limits = KEEP_ALL) {
    this.limits = limits
  }

  seal({ bytes, records, seconds }: Sealed, isCompacted = true): void {
    const base = this.logEnd === 0 ? 0 : this.logEnd + SEGMENT_FOOTER_BYTES
    this.logEnd = base + bytes
    const nowNs = BigInt(this.nowSeconds) * SECOND
    const times = { minTime: nowNs, maxTime: nowNs, receivedUntil: nowNs }
    this.bundles.push({ base, end: this.logEnd, ...times, records, identity: 0, isCompacted, level: 0 })
    this.sealedBytes += bytes
    this.nowSeconds += seconds
    this.#retain()
    for (let run = this.next(); run !== null; run = this.next()) this.#merge(run)
  }

  get situation() {
    return { limits: this.limits, logEnd: this.logEnd, nowNs: BigInt(this.nowSeconds) * SECOND }
  }

  next(): readonly Bundle[] | null {
    return nextRun(this.bundles, this.situation)
  }

  #merge(run: readonly Bundle[]): void {
    this.runs.push(run)
    this.writtenBytes += run.reduce((sum, { base, end }) => sum + end - base, 0)
    const { base } = run[0]!
    const { end } = run.at(-1)!
    this.bundles = [...this.bundles.filter((each) => each.base < base || each.end > end), merged(run)]
    this.bundles.sort((a, b) => a.base - b.base)
  }

  #retain(): void {
    const newest = this.bundles.at(-1)!.base
    const expired = expiredBundles(this.bundles, newest, this.logEnd, this.limits, this.situation.nowNs)
    this.bundles.splice(0, expired)
  }
}

const sealed = fc.record({
  bytes: fc.integer({ min: 1, max: 128 * MIB }).map((bytes) => 8 * Math.ceil(bytes / 8)),
  records: fc.integer({ min: 1, max: 1 << 19 }),
  seconds: fc.integer({ min: 0, max: 600 }),
})

describe('the runs that are merged', () => {
  it('are neighbours of one level without a gap, within the bounds', () => {
    const limits = fc.record({
      ageSecondsMax: fc.constantFrom(Infinity, 3600, 86_400),
      bytesMax: fc.constantFrom(Infinity, 256 * MIB, 8192 * MIB),
    })
    fc.assert(
      fc.property(fc.array(fc.tuple(sealed, fc.nat(9)), { maxLength: 120, size: 'max' }), limits, (all, its) => {
        const life = new Life(its)
        for (const [segment, chance] of all) life.seal(segment, chance > 0)
        for (const run of life.runs) {
          assert(run.length >= RUN_LENGTH_MIN && run.length <= RUN_LENGTH)
          assert.equal(new Set(run.map(({ level }) => level)).size, 1)
          for (const [number, { base, isCompacted }] of run.entries()) {
            assert(isCompacted)
            if (number > 0) assert.equal(base, run[number - 1]!.end + SEGMENT_FOOTER_BYTES)
          }
          const whole = merged(run)
          assert(whole.end - whole.base < MERGED_POSITIONS_MAX && whole.records <= MERGED_ENTRIES_MAX)
          assert(whole.end - whole.base <= its.bytesMax / 8)
          assert(Number(whole.receivedUntil - run[0]!.receivedUntil) / 1e9 <= its.ageSecondsMax / 8)
        }
      }),
      { numRuns: 60, seed: testSeed() },
    )
  })

  it('let the number of small bundles grow with the logarithm of the data, and write each record again once a level', () => {
    const life = new Life()
    let most = 0
    for (let segment = 1; segment <= 4096; segment++) {
      life.seal({ bytes: 64 * 1024, records: 256, seconds: 1 })
      most = Math.max(most, life.bundles.length)
    }
    assert(most <= 7 * 5, `${most} bundles`) // five levels hold 8 ** 4 segments
    assert(life.writtenBytes <= 4.01 * life.sealedBytes) // footers are counted, too
    assert.equal(life.bundles.length, 1)
  })

  it('make an eighth of full segments, each written again once', () => {
    const life = new Life()
    for (let segment = 0; segment < 200; segment++) life.seal({ bytes: 128 * MIB, records: 500_000, seconds: 10 })
    assert.equal(life.bundles.length, 25)
    assert(life.writtenBytes <= 1.01 * life.sealedBytes)
  })

  it('are shorter when a bound stops them, and wait while they may still grow', () => {
    const life = new Life()
    for (let segment = 0; segment < 7; segment++) life.seal({ bytes: 128 * MIB, records: 10, seconds: 10 })
    assert.equal(life.bundles.length, 7)
    const large = new Life()
    for (let segment = 0; segment < 11; segment++) large.seal({ bytes: 400 * MIB, records: 10, seconds: 10 })
    assert.deepEqual(
      large.bundles.map(({ level }) => level),
      [1, 1, 0],
    )
    const huge = new Life()
    for (let segment = 0; segment < 10; segment++) huge.seal({ bytes: 800 * MIB, records: 10, seconds: 10 })
    assert.equal(huge.runs.length, 0)
  })

  it('are not of what retention drops soon', () => {
    const limits = { ageSecondsMax: 8000, bytesMax: Infinity }
    const life = new Life(limits)
    life.nowSeconds = 100_000
    const old = Array.from({ length: 8 }, (_, number) => {
      const time = SECOND * BigInt(100_000 - 7500 + number)
      const times = { minTime: time, maxTime: time, receivedUntil: time }
      return { base: number * 1064, end: number * 1064 + 1000, ...times, records: 1, identity: 0, isCompacted: true }
    })
    assert.equal(nextRun(old, life.situation), null)
    life.nowSeconds -= 1000
    assert.equal(nextRun(old, life.situation)?.length, 8)
  })
})

describe('retention beside merging', () => {
  it('gives back space almost as finely as without', () => {
    fc.assert(
      fc.property(fc.array(sealed, { minLength: 40, maxLength: 160, size: 'max' }), fc.boolean(), (all, byAge) => {
        const limits = byAge
          ? { ageSecondsMax: 7200, bytesMax: Infinity }
          : { ageSecondsMax: Infinity, bytesMax: 2048 * MIB }
        const life = new Life(limits)
        for (const segment of all) {
          life.seal(segment)
          const kept = life.logEnd - life.bundles[0]!.base
          assert(kept <= limits.bytesMax || life.bundles.length === 1)
          // Records older than nine eighths of the age are gone.
          const [{ receivedUntil }] = life.bundles as [Bundle]
          const ageSeconds = life.nowSeconds - Number(receivedUntil / SECOND)
          assert(ageSeconds <= limits.ageSecondsMax || life.bundles.length === 1)
          assert(life.bundles.every(({ base, end }) => end - base <= Math.max(limits.bytesMax / 8, 128 * MIB)))
        }
      }),
      { numRuns: 40, seed: testSeed() },
    )
  })
})
