import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SEGMENT_FOOTER_BYTES } from '../../../src/log/segment-format.ts'
import { Compactor } from '../../../src/logstore/compact/compactor.ts'
import type { BackgroundJob, BackgroundResult, MergeJob } from '../../../src/logstore/compact/background.ts'
import type { CompactorParts } from '../../../src/logstore/compact/compactor.ts'
import type { BundlePlace } from '../../../src/logstore/index/catalog.ts'
import type { Bundle } from '../../../src/logstore/index/manifest.ts'
import { nextTurn } from '../../support/next-turn.ts'

const MIB = 1024 * 1024
/** From the base of a segment to that of the next. */
const STRIDE = 128 * MIB

function bundleOf(number: number, isCompacted: boolean): Bundle {
  const base = number * STRIDE
  const times = { minTime: 1n, maxTime: 2n, receivedUntil: 3n }
  return {
    base,
    end: base + STRIDE - SEGMENT_FOOTER_BYTES,
    ...times,
    records: 1,
    identity: number,
    isCompacted,
    level: 0,
  }
}

/** A merger over some compacted bundles; a job ends when the test ends it. */
class Rig {
  readonly jobs: { readonly job: BackgroundJob; end(result: BackgroundResult | Error): void }[] = []
  readonly bundles = new Map<number, Bundle>()
  readonly damaged = new Set<number>()
  readonly announced: BundlePlace[] = []
  readonly warned: unknown[] = []
  segments: { base: number; end: number; sealed: boolean; directory: string; recordsPath: string }[]
  nowMs = 0
  committed = 1e15
  roomBytes = Infinity
  release = (): void => {}
  readonly compactor: Compactor
  #look: () => void = () => {}

  constructor(compacted: number, mergesWithin: CompactorParts['mergesWithin'] = KEEP_ALL) {
    for (let number = 0; number < compacted; number++) this.bundles.set(number * STRIDE, bundleOf(number, true))
    this.segments = this.all().map(({ base, end }) => segmentOf(base, end))
    const { segments } = this
    const nothing = (): void => {}
    const log = {
      id: 7,
      state: { kind: 'ok' },
      lostReplicas: [{ directory: '/lost' }],
      roomFor: () => this.roomBytes,
    }
    Object.defineProperty(log, 'segments', { get: () => this.segments ?? segments })
    Object.defineProperty(log, 'committed', { get: () => this.committed })
    const registry = {
      noteDamaged: (base: number) => void this.damaged.add(base),
      takeDamaged: (isWanted: (bundle: Bundle) => boolean) => {
        const base = [...this.damaged].find((each) => isWanted(this.bundles.get(each)!))
        if (base === undefined) return null
        this.damaged.delete(base)
        return this.bundles.get(base)!
      },
      publish: (bundle: Bundle) => {
        for (const base of this.bundles.keys()) if (base >= bundle.base && base < bundle.end) this.bundles.delete(base)
        this.bundles.set(bundle.base, bundle)
      },
      olderReleased: () => new Promise<void>((resolve) => (this.release = resolve)),
    }
    Object.defineProperty(registry, 'bundles', { get: () => this.all() })
    this.compactor = new Compactor({
      log,
      registry,
      sidecars: { isBuilding: () => false },
      directories: ['/data', '/lost', '/replica'],
      segmentsName: 'bundles',
      startJobs: () => ({
        run: (job: BackgroundJob) =>
          new Promise((resolve, reject) => {
            const end = (result: BackgroundResult | Error) =>
              result instanceof Error ? reject(result) : resolve(result)
            this.jobs.push({ job, end })
          }),
        close: async () => this.jobs.at(-1)?.end(new Error('its pool was closed')),
      }),
      logger: { info: nothing, warn: (details: unknown) => void this.warned.push(details), error: nothing },
      clock: {
        nowMs: () => this.nowMs,
        nowNs: () => 0n,
        every: (_ms: number, run: () => void) => {
          this.#look = run
          return nothing
        },
      },
      datasetRetention: () => ({ generation: 1, byTenant: new Map() }),
      retentionNowNs: () => 0n,
      mergesWithin,
      onCompacted: (bundle: BundlePlace) => void this.announced.push(bundle),
    } as Partial<Record<keyof CompactorParts, unknown>> as CompactorParts)
  }

  all(): Bundle[] {
    return [...this.bundles.values()].sort((a, b) => a.base - b.base)
  }

  async look(): Promise<void> {
    this.#look()
    await nextTurn()
  }

  async end(result: BackgroundResult | Error): Promise<void> {
    this.jobs.at(-1)!.end(result)
    await nextTurn()
  }

  get merging(): NonNullable<Compactor['merging']> {
    return this.compactor.merging!
  }

  get last(): MergeJob {
    return this.jobs.at(-1)!.job as MergeJob
  }

  /** Begins, and clears first what earlier lives may have left. */
  async started(): Promise<void> {
    await this.look()
    const { size } = this.bundles
    for (let cleared = 0; cleared < size && this.jobs.at(-1)?.job.kind === 'clear'; cleared++)
      await this.end({ kind: 'cleared' })
  }
}

const KEEP_ALL = { ageSecondsMax: Infinity, bytesMax: Infinity }

const segmentOf = (base: number, end: number) => ({
  base,
  end,
  sealed: true,
  directory: `/data/bundles/${base}`,
  recordsPath: '',
})

const mergedOf = ({ segments }: Pick<MergeJob, 'segments'>, problem: string | null = null): BackgroundResult => ({
  kind: 'merged',
  bundle: {
    ...bundleOf(0, true),
    base: segments[0]!.base,
    end: segments.at(-1)!.end,
    isMerged: true,
    level: 1,
    identity: 99,
  },
  bytesBefore: 100,
  bytesAfter: 80,
  problem,
})

describe('merging in the background', () => {
  it('writes, tells ingest and queries, waits for older queries, and only then removes what it merged', async () => {
    const rig = new Rig(9)
    assert.equal(rig.merging.debtBytes, 8 * STRIDE - SEGMENT_FOOTER_BYTES)
    await rig.started()
    const { kind, bundles, segments, segmentsDirectories } = rig.last
    assert.deepEqual([kind, bundles.length, segments.length], ['merge', 8, 8])
    assert.deepEqual(segmentsDirectories, ['/data/bundles', '/replica/bundles'])
    assert.deepEqual(rig.announced, [])
    await rig.end(mergedOf(rig.last))
    assert.deepEqual(
      rig.announced.map(({ base, isMerged }) => [base, isMerged]),
      [[0, true]],
    )
    assert.deepEqual(
      rig.all().map(({ base }) => base),
      [0, 8 * STRIDE],
    )
    assert.equal(rig.last.kind, 'merge')
    rig.release()
    await nextTurn()
    assert.equal(rig.last.kind, 'settle')
    assert.deepEqual(rig.last.segments, segments)
    await rig.end({ kind: 'settled' })
    const { merges, debtBytes, bytesBefore, bytesAfter, failures } = rig.merging
    assert.deepEqual([merges, rig.merging.bundles, debtBytes, bytesBefore, bytesAfter, failures], [1, 7, 0, 100, 80, 0])
    await rig.compactor.close()
  })

  it('begins only when no bundle waits to be compacted and the disk has room', async () => {
    const rig = new Rig(8)
    rig.bundles.set(8 * STRIDE, bundleOf(8, false))
    rig.segments.push(segmentOf(8 * STRIDE, 9 * STRIDE - SEGMENT_FOOTER_BYTES))
    rig.roomBytes = 8 * STRIDE - SEGMENT_FOOTER_BYTES - 1
    await rig.started()
    assert.equal(rig.jobs.at(-1)!.job.kind, 'write')
    const sizes = { bytesBefore: 10, bytesAfter: 1, directories: ['/data'], problem: null }
    await rig.end({ kind: 'written', bundle: bundleOf(8, true), ...sizes })
    rig.release()
    await nextTurn()
    await rig.end({ kind: 'cleared' })
    await rig.look()
    assert.equal(rig.jobs.at(-1)!.job.kind, 'clear')
    rig.roomBytes++
    await rig.look()
    assert.equal(rig.last.kind, 'merge')
    await rig.compactor.close()
  })

  it('stops for compaction when much waits, and at the end, without a trace', async () => {
    const rig = new Rig(8)
    await rig.started()
    const isStopped = (): boolean => new Int32Array(rig.last.stop)[0] !== 0
    assert.equal(isStopped(), false)
    for (let number = 8; number < 12; number++) {
      rig.bundles.set(number * STRIDE, bundleOf(number, false))
      rig.segments.push(segmentOf(number * STRIDE, (number + 1) * STRIDE - SEGMENT_FOOTER_BYTES))
      await rig.look()
      assert.equal(isStopped(), false) // 512 MiB are not reached, as the footers are missing
    }
    rig.bundles.set(12 * STRIDE, bundleOf(12, false))
    await rig.look()
    assert.equal(isStopped(), true)
    await rig.end({ kind: 'stopped' })
    assert.equal(rig.jobs.at(-1)!.job.kind, 'write')
    assert.equal(rig.merging.failures, 0)
    // The work of the stopped merge was in vain, so the next merge waits, although nothing is left to be compacted.
    for (const number of rig.bundles.keys()) rig.bundles.set(number, { ...rig.bundles.get(number)!, isCompacted: true })
    assert.equal(rig.merging.next(), null)
    rig.nowMs = 599_000
    assert.equal(rig.merging.next(), null)
    rig.nowMs = 600_000
    assert.equal(rig.merging.next()?.bundles.length, 8)

    const ending = new Rig(8)
    await ending.started()
    const closed = ending.compactor.close()
    assert.notEqual(new Int32Array(ending.last.stop)[0], 0)
    await closed
    assert.deepEqual(ending.announced, [])
  })

  it('begins nothing while much comes in, and some time after that', () => {
    const rig = new Rig(8)
    /** @returns whether a merge may begin at the end of each second */
    const seconds = (count: number, bytes: number): boolean[] =>
      Array.from({ length: count }, () => {
        rig.nowMs += 1000
        rig.committed += bytes
        return rig.merging.next() !== null
      })
    assert.deepEqual([...new Set(seconds(120, 4 * MIB))], [true])
    assert.equal(seconds(13, 20 * MIB).at(-1), false)
    assert.deepEqual([...new Set(seconds(120, 20 * MIB))], [false])
    assert(!seconds(45, 4 * MIB).includes(true))
    assert.equal(seconds(75, 4 * MIB).at(-1), true)
  })

  it('leaves a run for a minute that failed, and one that is damaged until it is mended', async () => {
    const rig = new Rig(8)
    await rig.started()
    await rig.end(new Error('EIO'))
    const begun = rig.jobs.length
    rig.nowMs = 59_000
    await rig.look()
    assert.equal(rig.jobs.length, begun)
    rig.nowMs = 60_000
    await rig.look()
    assert.equal(rig.jobs.length, begun + 1)
    await rig.end({ kind: 'damaged', reason: 'a bit flipped' })
    for (let number = 0; number < 8; number++) {
      const { job } = rig.jobs.at(-1)!
      assert.deepEqual([job.kind, 'base' in job && job.base], ['mend', number * STRIDE])
      await rig.end({ kind: 'whole' })
    }
    rig.nowMs = 1e9
    await rig.look()
    assert.equal(rig.jobs.length, begun + 9)
    assert.equal(rig.merging.failures, 2)
    await rig.compactor.close()

    const other = new Rig(8)
    await other.started()
    await other.end({ kind: 'damaged', reason: 'a bit flipped' })
    for (let number = 0; number < 8; number++) {
      assert.equal(other.jobs.at(-1)!.job.kind, 'mend')
      await other.end(
        number === 5 ? { kind: 'mended', from: '/replica', to: ['/data'], problem: null } : { kind: 'whole' },
      )
    }
    assert.deepEqual([other.last.kind, other.announced.map(({ base }) => base)], ['merge', [5 * STRIDE]])
    await other.end(mergedOf(other.last))
    other.release()
    await nextTurn()
    await other.end({ kind: 'settled' })
    assert.equal(other.merging.merges, 1)
    await other.compactor.close()
  })

  it('tells of a replica directory that keeps the bundles apart, and takes back nothing that retention dropped', async () => {
    const rig = new Rig(8)
    await rig.started()
    rig.segments = rig.segments.slice(3)
    for (let number = 0; number < 3; number++) rig.bundles.delete(number * STRIDE)
    await rig.end(mergedOf(rig.last))
    assert.deepEqual(rig.announced, [])
    assert.equal(rig.all().length, 5)
    await rig.compactor.close()

    const other = new Rig(8)
    await other.started()
    await other.end(mergedOf(other.last, '/replica: it is full'))
    assert.equal(other.warned.length, 1)
    other.release()
    await nextTurn()
    await other.end({ kind: 'settled' })
    await other.compactor.close()
  })

  it('is not done when the settings want none', async () => {
    const rig = new Rig(8, null)
    await rig.started()
    assert.equal(rig.compactor.merging, null)
    assert(rig.jobs.every(({ job }) => job.kind === 'clear'))
    await rig.compactor.close()
  })
})
