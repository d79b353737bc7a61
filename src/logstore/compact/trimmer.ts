/**
 * Frees the space of records that have expired by the retention of their dataset: writes bundles again without them, one at a time, on the compaction
 * thread (compactor.ts). Main thread.
 *
 *   open the bundle, is it due? ──► write what is kept ──► de-duplication and queries see it ──► no query sees the old bundle any more ──► it is removed
 *
 * R1  a query sees the old bundle or the new one until it ends: the files of the one that it sees stay until then
 * R2  nothing is trimmed while a bundle waits to be compacted, while the disk has little room, or the log takes no frames
 * R3  a bundle is not trimmed while one of its batches is in the idempotency window: if a batch has lost records, its repetition is not recognised
 * R4  retention of whole bundles does not wait for a trim. It drops the oldest segment first, and with it what is being written
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
/** Room that the log must have, as a share of the segments: a bundle takes a fifth of them, or less. */
export const ROOM_SHARE = 1 / 4
const RUNS = 0
const STOPS = 1
const NEVER = 1n << 64n

interface TrimJobs {
  run(job: TrimJob | MergeJob): Promise<BackgroundResult>
}

/** The retention of datasets by the current policy; a new policy has another generation. */
export interface DatasetRetention {
  readonly generation: number
  readonly byTenant: RetentionByTenant
}

export interface TrimmerParts {
  readonly log: Pick<Log, 'id' | 'committed' | 'roomFor' | 'segments'>
  readonly registry: Pick<SegmentRegistry, 'bundles' | 'noteDamaged' | 'publish' | 'olderReleased'>
  readonly logger: Logger
  readonly clock: { nowMs(): number }
  /** The clock that retention of whole bundles uses. */
  readonly nowNs: () => bigint
  readonly retention: () => DatasetRetention
  readonly segmentsDirectories: () => readonly string[]
  /** Called before queries see the bundle. */
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
  /** By base: when the bundle may be tried again; Infinity: only after a restart, or after it was mended. */
  readonly #retryAtMs = new Map<number, number>()
  /** By base: when the bundle is due, as the last job found. */
  readonly #due = new Map<number, Due>()
  readonly #stop = new Int32Array(new SharedArrayBuffer(4))
  #closed = false
  /** Bundles that were written again. */
  bundles = 0
  bytesBefore = 0
  bytesAfter = 0
  failures = 0

  constructor(parts: TrimmerParts) {
    this.#parts = parts
  }

  /** The bundle that is to be trimmed now, if it is due. Null: there is none (R2, R3). */
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
        (this.#retryAtMs.get(base) ?? 0) <= nowMs &&
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
      this.#retryAtMs.set(plan.bundle.base, this.#parts.clock.nowMs() + RETRY_MS)
      this.#parts.logger.error(
        { segment: segmentName(plan.bundle.base), reason: messageOf(error) },
        'expired records could not be removed from a bundle: it is tried again later',
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
      this.#retryAtMs.set(base, Infinity)
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

  /** The bundle was damaged, and may be trimmed after all. */
  retryAfterMending(base: number): void {
    this.#retryAtMs.delete(base)
  }

  #publish({ bundle: { base } }: Plan, { bundles, bytesBefore, bytesAfter, problem }: Trimmed): void {
    const { log, registry, logger, onTrimmed } = this.#parts
    const segment = segmentName(base)
    if (problem !== null)
      logger.warn(
        { segment, reason: problem },
        'the bundle without its expired records could not be written to a replica directory',
      )
    for (const bundle of bundles) {
      const { directory } = log.segments.find((each) => each.base === bundle.base)!
      const { isMerged = false, end, identity } = bundle
      onTrimmed({ base: bundle.base, end, identity, directory, isCompacted: true, isMerged })
      registry.publish(bundle)
    }
    this.bundles++
    this.bytesBefore += bytesBefore
    this.bytesAfter += bytesAfter
    logger.info({ segment, bytesBefore, bytesAfter }, 'expired records removed from a bundle')
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
