import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { CompactJob, CompactResult } from '../../../src/logstore/compact/compact-segment.ts'
import { Compactor } from '../../../src/logstore/compact/compactor.ts'
import type { CompactorParts } from '../../../src/logstore/compact/compactor.ts'
import type { Bundle } from '../../../src/logstore/index/manifest.ts'
import { nextTurn } from '../../support/next-turn.ts'

const MIB = 1024 * 1024

const bundleOf = (base: number, end: number, isCompacted = false): Bundle => ({
  base,
  end,
  minTime: 1n,
  maxTime: 2n,
  receivedUntil: 3n,
  records: 1,
  identity: base + (isCompacted ? 1 : 0),
  isCompacted,
})

/** A compactor over bundles of `mib` each. Its threads have numbers, and a job ends when the test ends it. */
class Rig {
  readonly jobs: { readonly thread: number; readonly job: CompactJob; end(result: CompactResult | Error): void }[] = []
  readonly open = new Set<number>()
  readonly bundles = new Map<number, Bundle>()
  nowMs = 0
  threads = 0
  readonly compactor: Compactor
  #look: () => void = () => {}

  constructor(count: number, mib: number) {
    for (let i = 0; i < count; i++) this.bundles.set(i * mib * MIB, bundleOf(i * mib * MIB, (i + 1) * mib * MIB))
    const bundles = () => [...this.bundles.values()]
    const segments = bundles().map(({ base, end }) => ({
      base,
      end,
      sealed: true,
      directory: `/d/${base}`,
      recordsPath: '',
    }))
    const log = {
      id: 7,
      segments,
      state: { kind: 'ok' },
      committed: Infinity,
      lostReplicas: [],
      roomFor: () => Infinity,
    }
    const registry = {
      takeDamaged: () => null,
      get bundles() {
        return bundles()
      },
      publish: (bundle: Bundle) => void this.bundles.set(bundle.base, bundle),
      olderReleased: () => Promise.resolve(),
    }
    const nothing = () => {}
    this.compactor = new Compactor({
      log,
      registry,
      sidecars: { isBuilding: () => false },
      directories: ['/data'],
      segmentsName: 'bundles',
      startJobs: () => this.#startThread(),
      logger: { info: nothing, warn: nothing, error: nothing },
      clock: {
        nowMs: () => this.nowMs,
        every: (_ms: number, run: () => void) => {
          this.#look = run
          return nothing
        },
      },
      datasetRetention: () => ({ generation: 1, byTenant: new Map() }),
      retentionNowNs: () => 0n,
      mergesWithin: null,
      onCompacted: nothing,
    } as Partial<Record<keyof CompactorParts, unknown>> as CompactorParts)
  }

  #startThread(): ReturnType<CompactorParts['startJobs']> {
    const thread = this.threads++
    this.open.add(thread)
    return {
      run: (job) =>
        new Promise((resolve, reject) => {
          const end = (result: CompactResult | Error) => (result instanceof Error ? reject(result) : resolve(result))
          this.jobs.push({ thread, job: job as CompactJob, end })
        }),
      close: () => {
        this.open.delete(thread)
        for (const each of this.jobs) if (each.thread === thread) each.end(new Error('its pool was closed'))
        return Promise.resolve()
      },
    }
  }

  async look(): Promise<void> {
    this.#look()
    await nextTurn()
  }

  /** Ends the job that was begun last. */
  async end(result: CompactResult | Error): Promise<void> {
    this.jobs.at(-1)!.end(result)
    await nextTurn()
  }

  /** Writes and clears the bundle whose job was begun last. */
  async compactOne(): Promise<void> {
    const { base, end } = this.jobs.at(-1)!.job
    const sizes = { bytesBefore: 10, bytesAfter: 1, directories: ['/data'], problem: null }
    await this.end({ kind: 'written', bundle: bundleOf(base, end, true), ...sizes })
    assert.equal(this.jobs.at(-1)!.job.kind, 'clear')
    await this.end({ kind: 'cleared' })
  }

  get told(): readonly string[] {
    return this.jobs.map(({ thread, job }) => `${thread} ${job.kind} ${job.base / MIB}${job.isUrgent ? ' urgent' : ''}`)
  }
}

describe('compaction in the background', () => {
  it('takes bundle after bundle on one thread, which ends when none came for half a minute', async () => {
    const rig = new Rig(2, 8)
    await rig.look()
    await rig.look()
    assert.deepEqual(rig.told, ['0 write 0'])
    assert.equal(rig.compactor.debtBytes, 16 * MIB)
    await rig.compactOne()
    await rig.compactOne()
    assert.deepEqual(rig.told, ['0 write 0', '0 clear 0', '0 write 8', '0 clear 8'])
    assert.equal(rig.compactor.debtBytes, 0)
    rig.nowMs = 29_000
    await rig.look()
    assert.equal(rig.open.size, 1)
    rig.nowMs = 30_000
    await rig.look()
    assert.equal(rig.open.size, 0)
    await rig.look()
    assert.equal(rig.threads, 1)
    await rig.compactor.close()
  })

  it('is urgent while much is to be compacted, on a thread of its own', async () => {
    const rig = new Rig(5, 128)
    await rig.look()
    for (let left = 5; left > 0; left--) await rig.compactOne()
    const writes = rig.told.filter((each) => each.includes('write'))
    // 640, 512, 384 and 256 MiB are to be compacted, then 128.
    assert.deepEqual(writes, [
      '0 write 0 urgent',
      '0 write 128 urgent',
      '0 write 256 urgent',
      '0 write 384 urgent',
      '1 write 512',
    ])
    assert.deepEqual([...rig.open], [1])
    await rig.compactor.close()
    assert.equal(rig.open.size, 0)
  })

  it('does without rests while more than one bundle of the usual size waits, also in the middle of one', async () => {
    const rig = new Rig(1, 128)
    await rig.look()
    const isLate = (): boolean => Atomics.load(new Int32Array(rig.jobs.at(-1)!.job.isLate), 0) !== 0
    assert.equal(isLate(), false)
    rig.bundles.set(128 * MIB, bundleOf(128 * MIB, 256 * MIB))
    await rig.look()
    assert.equal(rig.jobs.length, 1)
    assert.equal(isLate(), true)
    await rig.compactOne()
    assert.equal(isLate(), false)
    await rig.compactor.close()
  })

  it('goes on behind a bundle that failed or stays as it is, and tries the one again a minute later', async () => {
    const rig = new Rig(3, 8)
    await rig.look()
    await rig.end(new Error('EIO'))
    assert.equal(rig.compactor.failures, 1)
    await rig.end({ kind: 'left', reason: 'damaged' })
    await rig.compactOne()
    assert.deepEqual(rig.told, ['0 write 0', '1 write 8', '1 write 16', '1 clear 16'])
    assert.equal(rig.compactor.debtBytes, 8 * MIB)
    rig.nowMs = 59_000
    await rig.look()
    assert.equal(rig.jobs.length, 4)
    assert.equal(rig.open.size, 0)
    rig.nowMs = 60_000
    await rig.look()
    assert.equal(rig.told.at(-1), '2 write 0')
    await rig.compactor.close()
    assert.equal(rig.open.size, 0)
  })
})
