import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SEGMENT_FOOTER_BYTES } from '../../../src/log/segment-format.ts'
import type { BackgroundJob, BackgroundResult, TrimJob } from '../../../src/logstore/compact/background.ts'
import { trimDueAt } from '../../../src/logstore/compact/trim-due.ts'
import { Trimmer } from '../../../src/logstore/compact/trimmer.ts'
import type { DatasetRetention, TrimmerParts } from '../../../src/logstore/compact/trimmer.ts'
import type { BundlePlace } from '../../../src/logstore/index/catalog.ts'
import type { Bundle } from '../../../src/logstore/index/manifest.ts'
import { createLogger } from '../../../src/observability/logger.ts'
import { nextTurn } from '../../support/next-turn.ts'

const SECOND = 1_000_000_000n
const STRIDE = 1000
const QUARTER_OF_AN_HOUR = 900n

const bundleOf = (number: number, receivedSecond = 10n): Bundle => ({
  base: number * STRIDE,
  end: (number + 1) * STRIDE - SEGMENT_FOOTER_BYTES,
  minTime: SECOND,
  maxTime: 2n * SECOND,
  receivedUntil: receivedSecond * SECOND,
  records: 5,
  identity: number,
  isCompacted: true,
})

class Rig {
  readonly jobs: { readonly job: BackgroundJob; end(result: BackgroundResult | Error): void }[] = []
  readonly announced: BundlePlace[] = []
  readonly damaged: number[] = []
  bundles: Bundle[]
  segments: { base: number; end: number; sealed: boolean; directory: string; recordsPath: string }[]
  retention: DatasetRetention = { generation: 1, byTenant: new Map([['acme', new Map([['debug', 60]])]]) }
  nowNs = 10_000n * SECOND
  nowMs = 0
  room = Infinity
  release = (): void => {}
  readonly trimmer: Trimmer

  constructor(count: number) {
    this.bundles = Array.from({ length: count }, (_, number) => bundleOf(number))
    this.segments = this.bundles.map(({ base, end }) => ({ base, end, sealed: true, directory: '', recordsPath: '' }))
    const segments = () => this.segments
    const bundles = () => this.bundles
    this.trimmer = new Trimmer({
      log: {
        id: 7,
        committed: 1e9,
        roomFor: () => this.room,
        get segments() {
          return segments()
        },
      },
      registry: {
        get bundles() {
          return bundles()
        },
        publish: (bundle) => {
          const others = this.bundles.filter(({ base }) => base < bundle.base || base >= bundle.end)
          this.bundles = [...others, bundle].sort((a, b) => a.base - b.base)
        },
        noteDamaged: (base) => void this.damaged.push(base),
        olderReleased: () => new Promise<void>((resolve) => (this.release = resolve)),
      },
      logger: createLogger('silent'),
      clock: { nowMs: () => this.nowMs },
      nowNs: () => this.nowNs,
      retention: () => this.retention,
      segmentsDirectories: () => ['/data', '/replica'],
      onTrimmed: (bundle) => void this.announced.push(bundle),
    } satisfies TrimmerParts)
  }

  /** Begins the next job; false: there is none. */
  begin(): boolean {
    const plan = this.trimmer.next()
    if (plan === null) return false
    const run = (job: BackgroundJob): Promise<never> =>
      new Promise((resolve, reject) => {
        const end = (result: BackgroundResult | Error): void =>
          result instanceof Error ? reject(result) : resolve(result as never)
        this.jobs.push({ job, end })
      })
    this.trimmer.run({ run }, plan).catch(() => {})
    return true
  }

  async end(result: BackgroundResult | Error): Promise<void> {
    this.jobs.at(-1)!.end(result)
    await nextTurn()
  }

  get kind(): string {
    return this.jobs.at(-1)!.job.kind
  }

  /** The last job. */
  get trim(): TrimJob {
    const { job } = this.jobs.at(-1)!
    assert('bundle' in job)
    return job
  }
}

const sizes = { bytesBefore: 100, bytesAfter: 60, problem: null }

describe('taking expired records from bundles in the background', () => {
  it('writes, tells ingest and queries, waits for older queries, and only then removes the old form', async () => {
    const rig = new Rig(2)
    assert(rig.begin())
    assert.equal(rig.kind, 'trim')
    assert.deepEqual(rig.trim.bundle, { base: 0, end: STRIDE - SEGMENT_FOOTER_BYTES, isMerged: false })
    assert.deepEqual(rig.trim.segmentsDirectories, ['/data', '/replica'])
    assert.deepEqual(rig.announced, [])
    const trimmed = { ...bundleOf(0), records: 2, identity: 77, isMerged: true }
    await rig.end({ kind: 'trimmed', bundles: [trimmed], ...sizes })
    assert.deepEqual(
      rig.announced.map(({ base, identity, isMerged }) => [base, identity, isMerged]),
      [[0, 77, true]],
    )
    assert.equal(rig.bundles[0]!.records, 2)
    assert.equal(rig.jobs.length, 1)
    rig.release()
    await nextTurn()
    const { job } = rig.jobs.at(-1)!
    assert(job.kind === 'settle')
    assert.equal(job.bundles[0]!.isMerged, true)
    await rig.end({ kind: 'settled' })
    const { bundles, bytesBefore, bytesAfter, failures } = rig.trimmer
    assert.deepEqual([bundles, bytesBefore, bytesAfter, failures], [1, 100, 60, 0])
  })

  it('gives the segments of a merged bundle bundles of their own at once', async () => {
    const rig = new Rig(3)
    rig.bundles = [{ ...bundleOf(0), end: rig.bundles[1]!.end, isMerged: true }, bundleOf(2)]
    assert(rig.begin())
    assert.equal(rig.kind, 'trim')
    assert.equal(rig.trim.segments.length, 2)
    await rig.end({ kind: 'trimmed', bundles: [bundleOf(0), bundleOf(1)], ...sizes })
    assert.deepEqual(
      rig.bundles.map(({ base, isMerged = false }) => [base, isMerged]),
      [
        [0, false],
        [STRIDE, false],
        [2 * STRIDE, false],
      ],
    )
    rig.release()
    await nextTurn()
    assert.equal(rig.kind, 'settle-apart')
  })

  it('looks at a bundle again when that is due, or when the policy is another one', async () => {
    const rig = new Rig(1)
    assert(rig.begin())
    await rig.end({ kind: 'not-due', dueAtNs: 10_060n * SECOND })
    assert(!rig.begin())
    rig.nowNs = 10_060n * SECOND
    assert(rig.begin())
    await rig.end({ kind: 'not-due', dueAtNs: null })
    rig.nowNs *= 1000n
    assert(!rig.begin())
    rig.retention = { ...rig.retention, generation: 2 }
    assert(rig.begin())
    rig.retention = { generation: 3, byTenant: new Map() }
    assert(!rig.begin())
  })

  it('leaves whole what may be repeated, what has nothing old, and what is not compacted', async () => {
    const rig = new Rig(1)
    const [bundle] = rig.bundles
    const receivedSecond = rig.nowNs / SECOND - QUARTER_OF_AN_HOUR
    const others = [
      { ...bundle!, receivedUntil: receivedSecond * SECOND },
      { ...bundle!, minTime: rig.nowNs - 60n * SECOND },
      { ...bundle!, isCompacted: false },
      { ...bundle!, records: 0 },
    ]
    for (const other of others) {
      rig.bundles = [other]
      assert(!rig.begin())
    }
    rig.bundles = [bundle!]
    const room = (bundle!.end - bundle!.base) / 4
    rig.room = room - 1
    assert(!rig.begin())
    rig.room = room
    assert(rig.begin())
  })

  it('tries again a minute after a failure, what is damaged when it was mended, and takes nothing back that retention dropped', async () => {
    const rig = new Rig(2)
    assert(rig.begin())
    await rig.end(new Error('EIO'))
    assert(rig.begin())
    assert.equal(rig.trim.bundle.base, STRIDE)
    await rig.end({ kind: 'damaged', reason: 'a bit flipped' })
    assert.deepEqual([rig.trimmer.failures, rig.damaged], [2, [STRIDE]])
    assert(!rig.begin())
    rig.nowMs = 60_000
    assert(rig.begin())
    assert.equal(rig.trim.bundle.base, 0)
    assert.equal(rig.trimmer.next()?.bundle.base, 0)
    await rig.end({ kind: 'not-due', dueAtNs: null })
    assert(!rig.begin())
    rig.trimmer.retryAfterMending(STRIDE)
    assert(rig.begin())
    assert.equal(rig.trim.bundle.base, STRIDE)
    rig.retention = { ...rig.retention, generation: 2 }
    await rig.end({ kind: 'not-due', dueAtNs: null })
    assert(rig.begin())
    assert.equal(rig.trim.bundle.base, 0)
    rig.segments = rig.segments.slice(1)
    await rig.end({ kind: 'trimmed', bundles: [bundleOf(0)], ...sizes })
    assert.deepEqual(rig.announced, [])
  })

  it('stops when it is told to, and goes on later', async () => {
    const rig = new Rig(1)
    assert(rig.begin())
    assert.equal(rig.kind, 'trim')
    const word = new Int32Array(rig.trim.stop)
    const isStopped = (): boolean => word[0] !== 0
    assert(!isStopped())
    rig.trimmer.stop()
    assert(isStopped())
    await rig.end({ kind: 'stopped' })
    assert(rig.begin())
    assert(!isStopped())
  })
})

interface TestBlock {
  readonly dataset: string
  readonly bytes: number
  /** Times of its rows. */
  readonly seconds: readonly number[]
}

/** When trimming is due, in seconds; null: never. */
function dueAt(blocks: readonly TestBlock[], retention: Readonly<Record<string, number>>): number | null {
  const datasets = [...new Set(blocks.map(({ dataset }) => dataset))]
  const piece = (bytes: number) => ({ bytes })
  const made = blocks.map(({ dataset, bytes, seconds }) => ({
    dataset,
    seconds,
    rows: seconds.length,
    keys: piece(bytes),
    texts: piece(0),
    numbers: piece(0),
    values: piece(0),
    filter: piece(0),
  }))
  const times = (seconds: readonly number[], word: (time: bigint) => bigint) =>
    Uint32Array.from(seconds, (second) => Number(word(BigInt(second) * SECOND)))
  const index = {
    partitions: () => datasets.map((dataset, number) => ({ tenant: 'acme', dataset, partition: { number } })),
    blocksOf: (number: number) => made.filter(({ dataset }) => dataset === datasets[number]),
    keys: ({ seconds }: { readonly seconds: readonly number[] }) => ({
      timeHigh: times(seconds, (time) => time >> 32n),
      timeLow: times(seconds, (time) => time & 0xffff_ffffn),
    }),
  }
  const byTenant = new Map([['acme', new Map(Object.entries(retention))]])
  const due = trimDueAt(index as unknown as Parameters<typeof trimDueAt>[0], byTenant) // all that it reads is here
  return due === null ? null : Number((due - 1n) / SECOND)
}

const upTo = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i)

describe('a bundle is due', () => {
  it('when a quarter of its bytes has expired', () => {
    const blocks = [
      { dataset: 'debug', bytes: 500, seconds: upTo(160) },
      { dataset: 'orders', bytes: 500, seconds: upTo(160) },
    ]
    assert.equal(dueAt(blocks, { debug: 100 }), 79 + 100)
    assert.equal(dueAt(blocks, { debug: 100, orders: 100 }), 39 + 100)
  })

  it('when all but a little of what ever expires has, if that is less', () => {
    const blocks = [
      { dataset: 'debug', bytes: 100, seconds: [...upTo(159), 1_000_000] },
      { dataset: 'orders', bytes: 900, seconds: upTo(160) },
    ]
    assert.equal(dueAt(blocks, { debug: 100 }), 149 + 100)
  })

  it('never when nothing of it expires, or next to nothing', () => {
    const blocks = [
      { dataset: 'debug', bytes: 10, seconds: upTo(160) },
      { dataset: 'orders', bytes: 990, seconds: upTo(160) },
    ]
    assert.equal(dueAt(blocks, {}), null)
    assert.equal(dueAt(blocks, { debug: 100 }), null)
    assert.equal(dueAt([], { debug: 100 }), null)
  })
})
