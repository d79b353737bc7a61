/**
 * Merges neighbouring bundles, one run at a time, on the thread of compaction (compactor.ts). Main thread.
 *
 *   write the merged file ──► de-duplication and queries see it ──► no query sees the run any more ──► the run is removed
 *
 * M1  a query sees the run or the merged bundle until it ends: the files of the one that it sees stay until then
 * M2  no merge begins while a bundle waits to be compacted, or while so much comes in that much would wait before the merge ends: searches have to read what
 *     waits. If much waits nevertheless, the merge stops and leaves nothing behind (compactor.ts). Its work was in vain, so the next one waits for AFTER_STOP_MS
 * M3  nothing is written while the disk has little room, or the log takes no frames
 * M4  retention does not wait for a merge. It drops the oldest segment first, and with it the merged file, written or not
 * M5  a run with damage is not merged. Its bundles are read through (mender.ts), and when one of them was mended, the run may be merged after all
 */
import { messageOf } from '../../errors.ts'
import type { Log } from '../../log/log.ts'
import { segmentName } from '../../log/segment-format.ts'
import { hasSegment } from '../../log/segment-list.ts'
import type { Logger } from '../../observability/logger.ts'
import type { BundlePlace } from '../index/catalog.ts'
import type { Bundle } from '../index/manifest.ts'
import type { SegmentRegistry } from '../index/segment-registry.ts'
import type { RetentionLimits } from '../limits.ts'
import type { BackgroundResult, MergeJob } from './background.ts'
import type { MergeTask } from './merge-bundles.ts'
import { nextRun } from './merge-plan.ts'

const RETRY_MS = 60_000
/** Some ten times as long as a merge takes. */
const AFTER_STOP_MS = 600_000
/** M2. More than this in QUIET_MS are too much: some 11 000 records of 400 bytes a second. */
const QUIET_BYTES = 256 * 1024 * 1024
const QUIET_MS = 60_000
const RUNS = 0
const STOPS = 1

interface MergeJobs {
  run(job: MergeJob): Promise<BackgroundResult>
}

export interface MergerParts {
  readonly log: Log
  readonly registry: SegmentRegistry
  readonly limits: RetentionLimits
  readonly logger: Logger
  readonly clock: { nowMs(): number; nowNs(): bigint }
  /** The directories of segments that are in use; that of the primary first. */
  readonly segmentsDirectories: () => readonly string[]
  /** Called before queries see the merged bundle. */
  readonly onMerged: (bundle: BundlePlace) => void
}

type Plan = Omit<MergeTask, 'kind' | 'segmentsDirectories'>

export class Merger {
  readonly #parts: MergerParts
  /** By base: when the bundle may be tried again; Infinity: only after a restart, or after it was mended. */
  readonly #retryAtMs = new Map<number, number>()
  /** Runs with damage (M5). */
  #damaged: readonly Plan[] = []
  readonly #stop = new Int32Array(new SharedArrayBuffer(4))
  #closed = false
  #notBeforeMs = 0
  /** M2. Whether little came in, and the time and position at which the current measurement began. */
  #inflow: { isQuiet: boolean; sinceMs: number; from: number }
  merges = 0
  /** By how many there are fewer bundles. */
  bundles = 0
  bytesBefore = 0
  bytesAfter = 0
  failures = 0

  constructor(parts: MergerParts) {
    this.#parts = parts
    this.#inflow = { isQuiet: true, sinceMs: parts.clock.nowMs(), from: parts.log.committed }
  }

  /** Bytes of the log in bundles that are to be merged. */
  get debtBytes(): number {
    let bytes = 0
    let left = this.#parts.registry.bundles
    for (let run = this.#nextRun(left); run !== null; run = this.#nextRun(left)) {
      const { base } = run[0]!
      const { end } = run.at(-1)!
      bytes += end - base
      left = left.filter((bundle) => bundle.base >= end)
    }
    return bytes
  }

  /** Null: nothing is to be merged now (M2, M3). */
  next(): Plan | null {
    const { log, registry, clock } = this.#parts
    if (this.#closed || !this.#isQuiet() || clock.nowMs() < this.#notBeforeMs) return null
    const run = this.#nextRun(registry.bundles)
    if (run === null) return null
    const plan = this.#planOf(run)
    const { end } = plan.segments.at(-1)!
    const isRoom = log.roomFor('admit') >= end - plan.segments[0]!.base
    return isRoom && end <= log.committed ? plan : null
  }

  /** M2. Called every second while no job runs. */
  #isQuiet(): boolean {
    const { log, clock } = this.#parts
    const nowMs = clock.nowMs()
    const { sinceMs, from } = this.#inflow
    const isMuch = log.committed - from > QUIET_BYTES
    if (isMuch || nowMs - sinceMs >= QUIET_MS) this.#inflow = { isQuiet: !isMuch, sinceMs: nowMs, from: log.committed }
    return this.#inflow.isQuiet
  }

  #nextRun(bundles: readonly Bundle[]): readonly Bundle[] | null {
    const { limits, log, clock } = this.#parts
    const nowMs = clock.nowMs()
    const situation = { limits, logEnd: log.committed, nowNs: clock.nowNs() }
    return nextRun(bundles, situation, ({ base }) => (this.#retryAtMs.get(base) ?? 0) > nowMs)
  }

  #planOf(run: readonly Bundle[]): Plan {
    const { id: logId, segments } = this.#parts.log
    const [{ base }, { end }] = [run[0]!, run.at(-1)!]
    return {
      logId,
      bundles: run.map(({ isMerged = false, ...bundle }) => ({ base: bundle.base, end: bundle.end, isMerged })),
      segments: segments
        .filter((segment) => segment.sealed && segment.base >= base && segment.end <= end)
        .map((segment) => ({ base: segment.base, end: segment.end })),
    }
  }

  /** M2 */
  stop(): void {
    Atomics.store(this.#stop, 0, STOPS)
  }

  close(): void {
    this.#closed = true
    this.stop()
  }

  async run(jobs: MergeJobs, plan: Plan): Promise<void> {
    try {
      await this.#merge(jobs, plan)
    } catch (error) {
      if (this.#closed || !this.#exists(plan)) return
      this.failures++
      this.#postpone(plan, this.#parts.clock.nowMs() + RETRY_MS)
      this.#parts.logger.error(
        { ...namesOf(plan), reason: messageOf(error) },
        'bundles could not be merged: it is tried again later',
      )
      throw error
    }
  }

  async #merge(jobs: MergeJobs, plan: Plan): Promise<void> {
    const { log, registry, logger, onMerged, segmentsDirectories } = this.#parts
    Atomics.store(this.#stop, 0, this.#closed ? STOPS : RUNS)
    const task = { ...plan, segmentsDirectories: segmentsDirectories(), stop: this.#stop.buffer }
    const result = await jobs.run({ ...task, kind: 'merge' })
    if (result.kind === 'stopped') this.#notBeforeMs = this.#parts.clock.nowMs() + AFTER_STOP_MS
    if (result.kind === 'left') {
      this.#postpone(plan, Infinity)
      logger.info({ ...namesOf(plan), reason: result.reason }, 'bundles stay apart')
    }
    if (result.kind === 'damaged') {
      this.failures++
      this.#postpone(plan, Infinity)
      this.#damaged = [...this.#damaged, plan]
      for (const { base } of plan.bundles) registry.noteDamaged(base) // M5
      logger.error({ ...namesOf(plan), reason: result.reason }, 'bundles could not be merged: one of them is damaged')
    }
    if (result.kind !== 'merged' || this.#closed || !this.#exists(plan)) return
    const { bundle, bytesBefore, bytesAfter, problem } = result
    if (problem !== null)
      logger.warn(
        { ...namesOf(plan), reason: problem },
        'the merged bundle could not be written to a replica directory',
      )
    const { base, end, identity } = bundle
    const directory = log.segments.find((segment) => segment.base === base)!.directory
    onMerged({ base, end, identity, directory, isCompacted: true, isMerged: true })
    registry.publish(bundle)
    this.merges++
    this.bundles += plan.bundles.length - 1
    this.bytesBefore += bytesBefore
    this.bytesAfter += bytesAfter
    logger.info({ ...namesOf(plan), level: bundle.level, bytesBefore, bytesAfter }, 'bundles merged')
    await registry.olderReleased() // M1
    if (!this.#closed && this.#exists(plan)) await jobs.run({ ...task, kind: 'settle' })
  }

  /** M5 */
  retryAfterMending(base: number): void {
    const isOf = ({ bundles }: Plan): boolean => bundles.some((bundle) => bundle.base === base)
    for (const { bundles } of this.#damaged.filter(isOf))
      for (const bundle of bundles) this.#retryAtMs.delete(bundle.base)
    this.#damaged = this.#damaged.filter((plan) => !isOf(plan))
  }

  /** Finishes a merge that an earlier process may not have finished. */
  async settle(jobs: MergeJobs, bundle: Bundle): Promise<void> {
    const plan = this.#planOf([bundle])
    if (plan.segments[0]?.base !== bundle.base) return // retention has dropped it
    const task = { ...plan, segmentsDirectories: this.#parts.segmentsDirectories(), stop: this.#stop.buffer }
    await jobs.run({ ...task, kind: 'settle' })
  }

  #postpone({ bundles }: Plan, untilMs: number): void {
    for (const { base } of bundles) this.#retryAtMs.set(base, untilMs)
  }

  /** M4 */
  #exists({ segments }: Plan): boolean {
    return hasSegment(this.#parts.log.segments, segments[0]!.base)
  }
}

const namesOf = ({ bundles, segments }: Plan) => ({
  segment: segmentName(segments[0]!.base),
  until: segments.at(-1)!.end,
  bundles: bundles.length,
})
