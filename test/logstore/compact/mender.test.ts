import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { BackgroundResult } from '../../../src/logstore/compact/background.ts'
import type { MendJob } from '../../../src/logstore/compact/mend-bundle.ts'
import { Mender } from '../../../src/logstore/compact/mender.ts'
import type { MenderParts } from '../../../src/logstore/compact/mender.ts'
import type { BundlePlace } from '../../../src/logstore/index/catalog.ts'
import { SegmentIndexes } from '../../../src/logstore/index/segment-indexes.ts'
import { SegmentRegistry } from '../../../src/logstore/index/segment-registry.ts'

const STRIDE = 1000
const MENDED = { kind: 'mended', from: '/replica/bundles', to: ['/data/bundles'], problem: null } as const
const PACE = { isUrgent: false, isLate: new SharedArrayBuffer(4) }

/** Two compacted bundles in two directories; each job ends as the test says. */
class Rig {
  readonly registry = new SegmentRegistry(SegmentIndexes.create(16, 1))
  readonly jobs: MendJob[] = []
  readonly mended: BundlePlace[] = []
  readonly errors: string[] = []
  directories = ['/data/bundles', '/replica/bundles']
  segments = [0, STRIDE].map((base) => ({ base, end: base + 900, sealed: true, directory: `/data/bundles/${base}` }))
  nowMs = 0
  roomBytes = Infinity
  readonly mender: Mender

  constructor() {
    for (const { base, end } of this.segments) {
      const times = { minTime: 1n, maxTime: 2n, receivedUntil: 3n }
      this.registry.publish({ base, end, ...times, records: 1, identity: 7, isCompacted: true })
    }
    const log = { id: 7, roomFor: () => this.roomBytes }
    Object.defineProperty(log, 'segments', { get: () => this.segments })
    const nothing = (): void => {}
    this.mender = new Mender({
      log,
      registry: this.registry,
      logger: {
        info: nothing,
        warn: nothing,
        error: (_details: object, message: string) => void this.errors.push(message),
      },
      clock: { nowMs: () => this.nowMs },
      segmentsDirectories: () => this.directories,
      onMended: (bundle: BundlePlace) => void this.mended.push(bundle),
    } as Partial<Record<keyof MenderParts, unknown>> as MenderParts)
  }

  /** Runs the next job, which ends with `end`. @returns the base of the bundle; null: there is nothing to do */
  async step(end: BackgroundResult | Error, meanwhile = (): void => {}): Promise<number | null> {
    const bundle = this.mender.next()
    if (bundle === null) return null
    const run = async (job: MendJob): Promise<BackgroundResult> => {
      this.jobs.push(job)
      meanwhile()
      if (end instanceof Error) throw end
      return end
    }
    await this.mender.run({ run }, bundle, PACE)
    return bundle.base
  }
}

describe('what mends bundles', () => {
  it('reads a bundle through once a minute, however often damage is met in it, and whatever came of it', async () => {
    for (const end of [{ kind: 'lost' }, { kind: 'whole' }, MENDED, new Error('ENOSPC')] as const) {
      const rig = new Rig()
      rig.registry.noteDamaged(0)
      assert.equal(await rig.step(end), 0)
      rig.registry.noteDamaged(0)
      rig.registry.noteDamaged(STRIDE)
      assert.equal(await rig.step(end), STRIDE) // the other one does not wait for it
      assert.equal(await rig.step(end), null)
      rig.nowMs = 59_999
      assert.equal(await rig.step(end), null)
      rig.nowMs = 60_000
      assert.equal(await rig.step(end), 0) // a query has met the damage since
      assert.equal(await rig.step(end), null)
      rig.nowMs = 1e9
      assert.equal(await rig.step(end), null)
      assert.deepEqual(rig.jobs[0]!.directories, [
        '/data/bundles/0000000000000000',
        '/replica/bundles/0000000000000000',
      ])
    }
  })

  it('tells the lane of what was mended, and the log of what was not', async () => {
    const rig = new Rig()
    rig.registry.noteDamaged(STRIDE)
    await rig.step(MENDED)
    assert.deepEqual(
      rig.mended.map(({ base, directory, identity }) => [base, directory, identity]),
      [[STRIDE, `/data/bundles/${STRIDE}`, 7]],
    )
    assert.deepEqual(rig.errors, [])
    for (const end of [{ kind: 'lost' } as const, new Error('ENOSPC')]) {
      rig.nowMs += 60_000
      rig.registry.noteDamaged(STRIDE)
      await rig.step(end)
    }
    assert.equal(rig.errors.length, 2)
    assert.equal(rig.mended.length, 1)
  })

  it('waits for room on the disk', async () => {
    const rig = new Rig()
    rig.roomBytes = 224
    rig.registry.noteDamaged(0)
    assert.equal(await rig.step(MENDED), null)
    rig.roomBytes = 225
    assert.equal(await rig.step(MENDED), 0)
  })

  it('says nothing of what retention dropped meanwhile, or of the end of the process', async () => {
    for (const end of [{ kind: 'lost' } as const, MENDED, new Error('ENOENT')]) {
      const rig = new Rig()
      rig.registry.noteDamaged(0)
      await rig.step(end, () => {
        rig.registry.drop(0)
        rig.segments = rig.segments.slice(1)
      })
      assert.deepEqual([rig.errors, rig.mended], [[], []])
    }
    const rig = new Rig()
    rig.registry.noteDamaged(0)
    await rig.step(new Error('the pool is closed'), () => rig.mender.close())
    assert.deepEqual(rig.errors, [])
  })

  it('does nothing for what was dropped or merged before its turn, or while there is one directory', async () => {
    const rig = new Rig()
    rig.registry.noteDamaged(0)
    rig.registry.drop(0)
    assert.equal(await rig.step(MENDED), null)
    rig.directories = ['/data/bundles']
    rig.registry.noteDamaged(STRIDE)
    assert.equal(await rig.step(MENDED), null)
  })
})
