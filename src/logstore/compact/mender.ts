/**
 * Has damaged compacted bundles mended, on the compaction thread (compactor.ts, mend-bundle.ts). Main thread.
 *
 * Readers verify each piece of a bundle, so damage is an error, and the request that meets it is refused. After mending, threads open the new file: the
 * thread that met the damage has closed the bundle, and other threads close it when they meet the damage in the file that they have open.
 *
 * D1  a bundle is read through at most once in RETRY_MS, whatever the result: every query that meets the damage reports it
 * D2  nothing is written while the disk has little room: a damaged bundle waits until there is some
 * D3  a bundle that retention drops meanwhile counts neither as lost nor as failed
 */
import { messageOf } from '../../errors.ts'
import type { Log } from '../../log/log.ts'
import { segmentName } from '../../log/segment-format.ts'
import type { Logger } from '../../observability/logger.ts'
import type { BundlePlace } from '../index/catalog.ts'
import type { Bundle } from '../index/manifest.ts'
import type { SegmentRegistry } from '../index/segment-registry.ts'
import type { BackgroundResult } from './background.ts'
import type { MendJob } from './mend-bundle.ts'
import { ROOM_SHARE } from './trimmer.ts'

const RETRY_MS = 60_000

export interface MenderParts {
  readonly log: Log
  readonly registry: SegmentRegistry
  readonly logger: Logger
  readonly clock: { nowMs(): number }
  /** The directories of segments that are in use; that of the primary first. */
  readonly segmentsDirectories: () => readonly string[]
  /** Called with each bundle that is whole again. */
  readonly onMended: (bundle: BundlePlace) => void
}

interface MendJobs {
  run(job: MendJob): Promise<BackgroundResult>
}

export class Mender {
  readonly #parts: MenderParts
  /** D1. By base: when the bundle may be read through again. */
  readonly #retryAtMs = new Map<number, number>()
  #closed = false

  constructor(parts: MenderParts) {
    this.#parts = parts
  }

  /** The bundle that is to be mended now. Null: there is none, or there is no replica to mend it from. */
  next(): Bundle | null {
    const { log, registry, clock, segmentsDirectories } = this.#parts
    const nowMs = clock.nowMs()
    const bundle = registry.takeDamaged(
      ({ base, end }) => (this.#retryAtMs.get(base) ?? 0) <= nowMs && log.roomFor('admit') >= (end - base) * ROOM_SHARE, // D1, D2
    )
    return segmentsDirectories().length > 1 ? bundle : null
  }

  close(): void {
    this.#closed = true
  }

  /** Never throws: reads of a bundle that cannot be mended are refused as before. */
  async run(jobs: MendJobs, bundle: Bundle, pace: Pick<MendJob, 'isUrgent' | 'isLate'>): Promise<void> {
    const { log, logger, clock, segmentsDirectories, onMended } = this.#parts
    const { base, end, isMerged = false, identity } = bundle
    const segment = segmentName(base)
    const directories = segmentsDirectories().map((each) => `${each}/${segment}`)
    const directoryNow = (): string | undefined => log.segments.find((each) => each.base === base)?.directory
    try {
      const job = { kind: 'mend', logId: log.id, base, end, isMerged, identity, directories, ...pace } as const
      const result = await jobs.run(job)
      const directory = directoryNow()
      if (directory === undefined) return // D3
      if (result.kind === 'lost')
        logger.error(
          { segment },
          'a compacted bundle is damaged in every directory that has it: nothing can replace it',
        )
      if (result.kind !== 'mended') return
      const { from, to, problem } = result
      if (problem !== null)
        logger.error({ segment, reason: problem }, 'a damaged bundle could not be replaced in a directory')
      logger.warn({ segment, from, to }, 'a compacted bundle was damaged: it was copied from another directory')
      onMended({ base, end, identity, directory, isCompacted: true, isMerged })
    } catch (error) {
      if (this.#closed || directoryNow() === undefined) return // D3
      logger.error(
        { segment, reason: messageOf(error) },
        'a damaged bundle could not be mended: it is tried again later',
      )
    } finally {
      this.#retryAtMs.set(base, clock.nowMs() + RETRY_MS) // D1
    }
  }
}
