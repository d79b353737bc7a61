/**
 * Compacts bundles in the background, the oldest first, one at a time. Main thread; another thread does the work (compact-segment.ts). That thread is kept
 * while bundles come, as V8 compiles all code again for each new thread, at normal priority. When the thread ends, its memory is freed.
 *
 *   write the stand-in ──► de-duplication and queries see it ──► no query sees the other files any more ──► they are removed
 *
 * J1  a query sees a bundle in one form until it ends: the files of this form stay until then
 * J2  a job that fails is tried again later; a segment that has to stay as it is is not tried again before a restart
 * J3  nothing is written while the disk has little room, or the log takes no frames
 * J4  the thread gives way to ingest, as queries do, and rests. While more than LATE_BYTES are to be compacted, it takes no rests; from URGENT_BYTES on it
 *     takes its share of a core, until less than LATE_BYTES are left. So the data that is not compacted, which searches have to read, does not grow as
 *     long as the load lasts. A thread that has given way cannot take that back before its job is done. So it never gives way to queries: searches on a
 *     full machine would stop it, however late it is
 * J5  damaged bundles are mended first (mender.ts). When no bundle waits, expired records are taken from bundles (trimmer.ts), then bundles are merged
 *     (merger.ts): neither is urgent
 */
import { messageOf } from '../../errors.ts'
import type { Log, SegmentInfo } from '../../log/log.ts'
import { takesFrames } from '../../log/log-options.ts'
import { segmentName } from '../../log/segment-format.ts'
import { hasSegment } from '../../log/segment-list.ts'
import type { Logger } from '../../observability/logger.ts'
import type { JobPool } from '../../pipeline/jobs.ts'
import type { BundlePlace } from '../index/catalog.ts'
import type { SegmentRegistry } from '../index/segment-registry.ts'
import type { Sidecars } from '../index/sidecars.ts'
import type { BackgroundJob, BackgroundResult } from './background.ts'
import type { CompactJob } from './compact-segment.ts'
import { Mender } from './mender.ts'
import type { Bundle } from '../index/manifest.ts'
import { Merger } from './merger.ts'
import type { MergerParts } from './merger.ts'
import { Trimmer } from './trimmer.ts'
import type { TrimmerParts } from './trimmer.ts'

const LOOK_EVERY_MS = 1000
const RETRY_MS = 60_000
/** More than one segment of the usual size. Below URGENT_BYTES, so that threads are not begun and ended all the time. */
const LATE_BYTES = 160 * 1024 * 1024
/** More than two such segments. */
const URGENT_BYTES = 288 * 1024 * 1024
/** From here on, jobs that are not urgent stop, and begin anew later: searches have notes for little more uncompacted data (query/frame-grams.ts). */
const STOP_BYTES = 512 * 1024 * 1024
const CLOSE_WITHIN_MS = 2000
/** A thread ends after this time without a job. */
const IDLE_MS = 30_000
const KEEP_ALL = { ageSecondsMax: Infinity, bytesMax: Infinity }

type Jobs = Pick<JobPool<BackgroundJob, BackgroundResult>, 'run' | 'close'>

export interface CompactorParts {
  readonly log: Log
  readonly registry: SegmentRegistry
  readonly sidecars: Sidecars
  /** The directories of the log; the data directory first. */
  readonly directories: readonly string[]
  readonly segmentsName: string
  readonly startJobs: () => Jobs
  readonly logger: Logger
  readonly clock: MergerParts['clock'] & { every(intervalMs: number, run: () => void): () => void }
  /** What retention keeps. Null: nothing is merged. */
  readonly mergesWithin: MergerParts['limits'] | null
  /** The retention of datasets, and the clock that it uses. */
  readonly datasetRetention: TrimmerParts['retention']
  readonly retentionNowNs: TrimmerParts['nowNs']
  /** Called before queries see the bundle in its new form. */
  readonly onCompacted: (bundle: BundlePlace) => void
}

type BackgroundTask =
  | { readonly kind: 'compact' | 'clear'; readonly segment: SegmentInfo }
  | { readonly kind: 'mend'; readonly bundle: Bundle }
  | { readonly kind: 'settle'; readonly bundle: Bundle }
  | { readonly kind: 'merge'; readonly plan: NonNullable<ReturnType<Merger['next']>> }
  | { readonly kind: 'trim'; readonly plan: NonNullable<ReturnType<Trimmer['next']>> }

export class Compactor {
  readonly #parts: CompactorParts
  readonly #merger: Merger
  readonly #mender: Mender
  readonly trimmer: Trimmer
  readonly #stopLooking: () => void
  /** By base: when the segment may be tried again; Infinity: not before a restart. */
  readonly #retryAtMs = new Map<number, number>()
  /** Bundles that may have other files beside their stand-in: a process may have died before it removed them. */
  readonly #unclean: Bundle[]
  /** Whether the running job stops when much waits to be compacted. */
  #isStoppable = false
  #running: Promise<void> | null = null
  #jobs: Jobs | null = null
  /** Whether the thread takes its share of a core (J4). */
  #isUrgent = false
  /** One word, see CompactJob. */
  readonly #isLate = new Int32Array(new SharedArrayBuffer(4))
  #workedAtMs = 0
  #closed = false
  bytesBefore = 0
  bytesAfter = 0
  bundles = 0
  failures = 0

  constructor(parts: CompactorParts) {
    this.#parts = parts
    const { mergesWithin, onCompacted } = parts
    this.#merger = new Merger({
      ...parts,
      limits: mergesWithin ?? KEEP_ALL,
      segmentsDirectories: () => this.#segmentsDirectories(),
      onMerged: onCompacted,
    })
    this.#mender = new Mender({
      ...parts,
      segmentsDirectories: () => this.#segmentsDirectories(),
      onMended: (bundle) => {
        onCompacted(bundle)
        this.#merger.retryAfterMending(bundle.base)
        this.trimmer.retryAfterMending(bundle.base)
      },
    })
    this.trimmer = new Trimmer({
      ...parts,
      retention: parts.datasetRetention,
      nowNs: parts.retentionNowNs,
      segmentsDirectories: () => this.#segmentsDirectories(),
      onTrimmed: onCompacted,
    })
    this.#unclean = parts.registry.bundles.filter(({ isCompacted }) => isCompacted)
    this.#stopLooking = parts.clock.every(LOOK_EVERY_MS, () => this.#look())
  }

  /** Bytes of the log that are to be compacted. Bundles that were given up do not count. */
  get debtBytes(): number {
    return this.#waiting().reduce((sum, { base, end }) => sum + end - base, 0)
  }

  /** Null: the settings turn it off. */
  get merging(): Merger | null {
    return this.#parts.mergesWithin === null ? null : this.#merger
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#mender.close()
    this.#merger.close()
    this.trimmer.close()
    this.#stopLooking()
    await this.#endThread()
    await this.#running
  }

  async #endThread(): Promise<void> {
    const jobs = this.#jobs
    this.#jobs = null
    await jobs?.close({ withinMs: CLOSE_WITHIN_MS })
  }

  #waiting() {
    return this.#parts.registry.bundles.filter(
      ({ base, isCompacted }) => isCompacted !== true && this.#retryAtMs.get(base) !== Infinity,
    )
  }

  #look(): void {
    if (this.#closed) return
    if (this.#isStoppable && this.debtBytes >= STOP_BYTES) {
      this.#merger.stop()
      this.trimmer.stop()
    }
    if (this.#running !== null) return this.#noteLate()
    const task = this.#nextTask()
    if (task === null) {
      if (this.#jobs === null || this.#parts.clock.nowMs() - this.#workedAtMs < IDLE_MS) return
      this.#running = this.#endThread().finally(() => (this.#running = null))
      return
    }
    this.#isStoppable = task.kind === 'merge' || task.kind === 'trim'
    this.#running = this.#run(task).finally(() => {
      this.#running = null
      this.#isStoppable = false
      this.#look()
    })
  }

  /** Null: there is nothing to do now. */
  #nextTask(): BackgroundTask | null {
    const { clock, log, sidecars } = this.#parts
    if (!takesFrames(log.state)) return null // J3
    const damaged = this.#mender.next()
    if (damaged !== null) return { kind: 'mend', bundle: damaged }
    const unclean = this.#unclean.shift()
    if (unclean?.isMerged === true) return { kind: 'settle', bundle: unclean }
    const nowMs = clock.nowMs()
    const next = this.#waiting().find(
      ({ base }) => (this.#retryAtMs.get(base) ?? 0) <= nowMs && !sidecars.isBuilding(base),
    )
    const base = unclean?.base ?? next?.base
    const segment = log.segments.find((each) => each.base === base && each.sealed)
    if (segment !== undefined) {
      if (segment.end > log.committed || log.roomFor('admit') < 2 * (segment.end - segment.base)) return null // J3
      return { kind: unclean === undefined ? 'compact' : 'clear', segment }
    }
    const trim = this.trimmer.next() // J5
    if (trim !== null) return { kind: 'trim', plan: trim }
    const plan = this.merging?.next() ?? null
    return plan === null ? null : { kind: 'merge', plan }
  }

  /** The priority of a thread cannot be raised again, so urgent work has a thread of its own. */
  async #thread(): Promise<Jobs | null> {
    const isUrgent = this.debtBytes >= (this.#isUrgent ? LATE_BYTES : URGENT_BYTES)
    if (isUrgent !== this.#isUrgent) await this.#endThread()
    if (this.#closed) return null
    this.#isUrgent = isUrgent
    this.#jobs ??= this.#parts.startJobs()
    return this.#jobs
  }

  get #pace(): Pick<CompactJob, 'isUrgent' | 'isLate'> {
    this.#noteLate()
    return { isUrgent: this.#isUrgent, isLate: this.#isLate.buffer }
  }

  #noteLate(): void {
    Atomics.store(this.#isLate, 0, this.#isUrgent || this.debtBytes >= LATE_BYTES ? 1 : 0)
  }

  async #run(task: BackgroundTask): Promise<void> {
    const jobs = await this.#thread()
    if (jobs === null) return
    try {
      if (task.kind === 'trim') await this.trimmer.run(jobs, task.plan)
      else if (task.kind === 'merge') await this.#merger.run(jobs, task.plan)
      else if (task.kind === 'mend') await this.#mender.run(jobs, task.bundle, this.#pace)
      else if (task.kind === 'settle') await this.#merger.settle(jobs, task.bundle)
      else await this.#runCompaction(jobs, task.kind, task.segment)
      this.#workedAtMs = this.#parts.clock.nowMs()
    } catch {
      await this.#endThread() // this frees what the thread holds of the failed job
    }
  }

  async #runCompaction(jobs: Jobs, kind: 'compact' | 'clear', segment: SegmentInfo): Promise<void> {
    const { logger, clock } = this.#parts
    try {
      if (kind === 'clear') await this.#clear(jobs, segment, this.#directoriesOf(segment.base))
      else await this.#compact(jobs, segment)
    } catch (error) {
      if (this.#closed || !this.#exists(segment)) return
      this.failures++
      this.#retryAtMs.set(segment.base, clock.nowMs() + RETRY_MS) // J2
      logger.error(
        { segment: segmentName(segment.base), reason: messageOf(error) },
        'a bundle could not be compacted: it is tried again later',
      )
      throw error
    }
  }

  async #compact(jobs: Jobs, segment: SegmentInfo): Promise<void> {
    const { log, registry, logger, onCompacted } = this.#parts
    const { base, end, directory } = segment
    const name = segmentName(base)
    const directories = this.#directoriesOf(base)
    const result = await jobs.run({ kind: 'write', logId: log.id, base, end, directories, ...this.#pace })
    if (result.kind === 'left') {
      this.#retryAtMs.set(base, Infinity)
      logger.info({ segment: name, reason: result.reason }, 'a bundle stays uncompacted')
      return
    }
    if (result.kind !== 'written' || this.#closed || !this.#exists(segment)) return
    const { bundle, bytesBefore, bytesAfter, problem } = result
    if (problem !== null)
      logger.warn(
        { segment: name, reason: problem },
        'the compacted bundle could not be written to a replica directory',
      )
    onCompacted({ base, end, identity: bundle.identity, directory, isCompacted: true })
    registry.publish(bundle)
    this.bundles++
    this.bytesBefore += bytesBefore
    this.bytesAfter += bytesAfter
    logger.info({ segment: name, bytesBefore, bytesAfter }, 'bundle compacted')
    await registry.olderReleased() // J1
    if (!this.#closed && this.#exists(segment)) await this.#clear(jobs, segment, result.directories)
  }

  async #clear(jobs: Jobs, { base, end }: SegmentInfo, directories: readonly string[]): Promise<void> {
    await jobs.run({ kind: 'clear', logId: this.#parts.log.id, base, end, directories, ...this.#pace })
  }

  #directoriesOf(base: number): readonly string[] {
    return this.#segmentsDirectories().map((each) => `${each}/${segmentName(base)}`)
  }

  #segmentsDirectories = (): readonly string[] => segmentsInUse(this.#parts)

  /** False: retention has dropped the segment meanwhile. */
  #exists({ base }: Pick<SegmentInfo, 'base'>): boolean {
    return hasSegment(this.#parts.log.segments, base)
  }
}

/** The directories of segments that are in use, in order. A lost replica is left out: it is brought to the same state when it comes back. */
export function segmentsInUse({
  directories,
  segmentsName,
  log,
}: Pick<CompactorParts, 'directories' | 'segmentsName' | 'log'>): readonly string[] {
  const lost = new Set(log.lostReplicas.map(({ directory }) => directory))
  return directories.filter((each) => !lost.has(each)).map((each) => `${each}/${segmentsName}`)
}
