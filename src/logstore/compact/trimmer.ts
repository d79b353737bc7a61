/**
 * Gives back the space of records that have expired by the retention of their dataset: writes bundles again without them, one at a time, on the thread of
 * compaction (compactor.ts). Main thread.
 *
 *   open the bundle, is it due? ──► write what is kept ──► de-duplication and queries see it ──► no query sees the old bundle any more ──► that goes
 *
 * R1  queries see the old bundle or the new one: the files of the one that a query began with stay until it ends
 * R2  nothing is trimmed while a bundle waits to be compacted, while the disk has little room, or the log takes nothing
 * R3  a bundle is left whole as long as one of its batches was received in the time for which a repeated batch is recognised: of a batch that has lost some
 *     records a repetition is another batch
 * R4  retention of whole bundles takes no notice. It drops the oldest segment first, and with it what is being written
 */
import { messageOf } from '../../errors.ts'
import type { Log } from '../../log/log.ts'
import { segmentName } from '../../log/segment-format.ts'
import type { Logger } from '../../observability/logger.ts'
import type { BundlePlace } from '../index/catalog.ts'
import type { Bundle } from '../index/manifest.ts'
import type { SegmentRegistry } from '../index/segment-registry.ts'
import { IDEMPOTENCY_SECONDS } from '../limits.ts'
import type { BackgroundResult, MergeJob, TrimJob } from './background.ts'
import type { RetentionByTenant } from './trim-due.ts'
import type { TrimTask, Trimmed } from './trim-bundle.ts'

const RETRY_MS = 60_000
/** The log has this room at least: a bundle is a fifth of its segment, or less. */
export const ROOM_SHARE = 1 / 4
const RUNS = 0
const STOPS = 1
const NEVER = 1n << 64n

interface TrimJobs {
  run(job: TrimJob | MergeJob): Promise<BackgroundResult>
}

/** What the policy says; a new one has another generation. */
export interface DatasetRetention {
  readonly generation: number
  readonly byTenant: RetentionByTenant
}

export interface TrimmerParts {
  readonly log: Pick<Log, 'id' | 'committed' | 'roomFor' | 'segments'>
  readonly registry: Pick<SegmentRegistry, 'bundles' | 'noteDamaged' | 'publish' | 'olderReleased'>
  readonly logger: Logger
  readonly clock: { nowMs(): number }
  /** As retention of whole bundles has it. */
  readonly nowNs: () => bigint
  readonly retention: () => DatasetRetention
  readonly segmentsDirectories: () => readonly string[]
  /** Before queries see the bundle. */
  readonly onTrimmed: (bundle: BundlePlace) => void
}

type Plan = Omit<TrimTask, 'kind' | 'segmentsDirectories'> & { readonly identity: number; readonly generation: number }

interface Due {
  readonly identity: number
  readonly generation: number
  readonly atNs: bigint
}

export class Trimmer {
  readonly #parts: TrimmerParts
  /** By base: when it may be tried again; Infinity: not in this life. */
  readonly #later = new Map<number, number>()
  /** By base: what was found of it. */
  readonly #due = new Map<number, Due>()
  readonly #stop = new Int32Array(new SharedArrayBuffer(4))
  #closed = false
  /** That were written again. */
  bundles = 0
  bytesBefore = 0
  bytesAfter = 0
  failures = 0

  constructor(parts: TrimmerParts) {
    this.#parts = parts
  }

  /** Null: nothing is to be looked at now (R2). */
  next(): Plan | null {
    const { log, registry, clock } = this.#parts
    const retention = this.#parts.retention()
    const shortest = shortestIn(retention.byTenant)
    if (this.#closed || !Number.isFinite(shortest)) return null
    const nowNs = this.#parts.nowNs()
    const nowMs = clock.nowMs()
    const bundle = registry.bundles.find(
      ({ base, end, minTime, receivedUntil, identity, records, isCompacted }) =>
        isCompacted === true &&
        records > 0 &&
        minTime < nowNs - seconds(shortest) &&
        receivedUntil < nowNs - seconds(IDEMPOTENCY_SECONDS) && // R3
        (this.#later.get(base) ?? 0) <= nowMs &&
        this.#dueAt(base, identity, retention.generation) <= nowNs &&
        end <= log.committed &&
        log.roomFor('admit') >= (end - base) * ROOM_SHARE,
    )
    return bundle === undefined ? null : this.#planOf(bundle, retention, nowNs)
  }

  #dueAt(base: number, identity: number, generation: number): bigint {
    const due = this.#due.get(base)
    return due?.identity === identity && due.generation === generation ? due.atNs : 0n
  }

  #planOf({ base, end, isMerged = false, identity }: Bundle, retention: DatasetRetention, nowNs: bigint): Plan {
    const { id: logId, segments } = this.#parts.log
    return {
      logId,
      bundle: { base, end, isMerged },
      segments: segments
        .filter((segment) => segment.sealed && segment.base >= base && segment.end <= end)
        .map((segment) => ({ base: segment.base, end: segment.end })),
      retention: retention.byTenant,
      nowNs,
      identity,
      generation: retention.generation,
    }
  }

  stop(): void {
    Atomics.store(this.#stop, 0, STOPS)
  }

  close(): void {
    this.#closed = true
    this.stop()
  }

  async run(jobs: TrimJobs, plan: Plan): Promise<void> {
    try {
      await this.#trim(jobs, plan)
    } catch (error) {
      if (this.#closed || !this.#exists(plan)) return
      this.failures++
      this.#later.set(plan.bundle.base, this.#parts.clock.nowMs() + RETRY_MS)
      this.#parts.logger.error(
        { segment: segmentName(plan.bundle.base), reason: messageOf(error) },
        'expired records could not be taken from a bundle: it is tried again later',
      )
      throw error
    }
  }

  async #trim(jobs: TrimJobs, plan: Plan): Promise<void> {
    const { identity, generation, ...task } = plan
    const { base } = task.bundle
    const { logger, segmentsDirectories } = this.#parts
    Atomics.store(this.#stop, 0, this.#closed ? STOPS : RUNS)
    const common = { segmentsDirectories: segmentsDirectories(), stop: this.#stop.buffer }
    const result = await jobs.run({ ...task, ...common, kind: 'trim' })
    if (result.kind === 'not-due') this.#due.set(base, { identity, generation, atNs: result.dueAtNs ?? NEVER })
    if (result.kind === 'left' || result.kind === 'damaged') {
      if (result.kind === 'damaged') {
        this.failures++
        this.#parts.registry.noteDamaged(base) // mender.ts
      }
      this.#later.set(base, Infinity)
      logger.warn({ segment: segmentName(base), reason: result.reason }, 'a bundle keeps its expired records')
    }
    if (result.kind !== 'trimmed' || this.#closed || !this.#exists(plan)) return
    this.#publish(plan, result)
    await this.#parts.registry.olderReleased() // R1
    if (this.#closed || !this.#exists(plan)) return
    if (task.bundle.isMerged) await jobs.run({ ...task, ...common, kind: 'settle-apart' })
    else {
      const { logId, bundle, segments } = task
      await jobs.run({ logId, segments, bundles: [{ ...bundle, isMerged: true }], ...common, kind: 'settle' })
    }
  }

  /** It was damaged, and can be trimmed after all. */
  mended(base: number): void {
    this.#later.delete(base)
  }

  #publish({ bundle: { base } }: Plan, { bundles, bytesBefore, bytesAfter, problem }: Trimmed): void {
    const { log, registry, logger, onTrimmed } = this.#parts
    const segment = segmentName(base)
    if (problem !== null) logger.warn({ segment, reason: problem }, 'a replica directory keeps the expired records')
    for (const bundle of bundles) {
      const { directory } = log.segments.find((each) => each.base === bundle.base)!
      const { isMerged = false, end, identity } = bundle
      onTrimmed({ base: bundle.base, end, identity, directory, isCompacted: true, isMerged })
      registry.publish(bundle)
    }
    this.bundles++
    this.bytesBefore += bytesBefore
    this.bytesAfter += bytesAfter
    logger.info({ segment, bytesBefore, bytesAfter }, 'expired records taken from a bundle')
  }

  /** R4 */
  #exists({ segments }: Plan): boolean {
    return segments.every(({ base }) => this.#parts.log.segments.some((segment) => segment.base === base))
  }
}

function shortestIn(byTenant: RetentionByTenant): number {
  let shortest = Infinity
  for (const datasets of byTenant.values()) for (const each of datasets.values()) shortest = Math.min(shortest, each)
  return shortest
}

const seconds = (count: number): bigint => BigInt(count) * 1_000_000_000n
