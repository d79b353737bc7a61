/**
 * Has compacted bundles mended that were found damaged, on the thread of compaction (compactor.ts, mend-bundle.ts). Main thread.
 *
 * What reads a bundle verifies each piece, so damage is an error, and the request that meets it is refused. Once a replica directory has given its file,
 * threads open it anew: the one that met the damage has forgotten the bundle, others do when they meet it in the file that they have open.
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

export interface MenderParts {
  readonly log: Log
  readonly registry: SegmentRegistry
  readonly logger: Logger
  /** The directories of segments that are in use; that of the primary first. */
  readonly segmentsDirectories: () => readonly string[]
  /** Hears of each that is whole again. */
  readonly onMended: (bundle: BundlePlace) => void
}

interface MendJobs {
  run(job: MendJob): Promise<BackgroundResult>
}

export class Mender {
  readonly #parts: MenderParts

  constructor(parts: MenderParts) {
    this.#parts = parts
  }

  /** What is to be mended now. Null: nothing, or there is nothing to mend it from. */
  next(): Bundle | null {
    const bundle = this.#parts.registry.takeDamaged()
    return this.#parts.segmentsDirectories().length > 1 ? bundle : null
  }

  /** Never throws: what cannot be mended is refused as before. */
  async run(jobs: MendJobs, bundle: Bundle, pace: Pick<MendJob, 'isUrgent' | 'isLate'>): Promise<void> {
    const { log, logger, segmentsDirectories, onMended } = this.#parts
    const { base, end, isMerged = false, identity } = bundle
    const segment = segmentName(base)
    const directories = segmentsDirectories().map((each) => `${each}/${segment}`)
    try {
      const job = { kind: 'mend', logId: log.id, base, end, isMerged, identity, directories, ...pace } as const
      const result = await jobs.run(job)
      const directory = log.segments.find((each) => each.base === base)?.directory
      if (directory === undefined) return // retention dropped it meanwhile
      if (result.kind === 'lost')
        logger.error({ segment }, 'a compacted bundle is damaged in each directory that has it')
      if (result.kind !== 'mended') return
      const { from, to } = result
      logger.warn({ segment, from, to }, 'a compacted bundle was damaged: it was copied from another directory')
      onMended({ base, end, identity, directory, isCompacted: true, isMerged })
    } catch (error) {
      logger.error({ segment, reason: messageOf(error) }, 'a damaged bundle could not be mended')
    }
  }
}
