/**
 * Makes bundles of sealed segments: builds the sidecar in a job, tells the decode lane, then the queries.
 *
 * B1  a segment whose sidecar is missing or does not fit is built again from its frames, at start before the service is ready,
 *     and while it runs when a reader found it damaged
 * B2  a job that fails is tried again, later each time; until it succeeds queries read the segment's ActiveIndex
 * B3  a segment whose frames are all missing is no bundle: there is an incident of the log that says so
 */
import { StoreError, messageOf } from '../../errors.ts'
import type { Files } from '../../log/files.ts'
import type { Log, SegmentInfo } from '../../log/log.ts'
import { segmentName } from '../../log/segment-format.ts'
import { hasSegment } from '../../log/segment-list.ts'
import { openFailure } from '../../log/service-log.ts'
import type { Logger } from '../../observability/logger.ts'
import type { ReadErrors } from '../../observability/read-errors.ts'
import type { JobPool } from '../../pipeline/jobs.ts'
import type { Step } from '../../steps.ts'
import { readBundleManifest } from './manifest.ts'
import type { Bundle } from './manifest.ts'
import type { IndexSegmentTask, IndexedSegmentFacts } from './publish.ts'
import type { BundlePlace } from './catalog.ts'
import type { CatalogRow } from './catalog.ts'
import type { SegmentRegistry } from './segment-registry.ts'

const RETRY_FIRST_MS = 100
const RETRY_LAST_MS = 10_000

export interface SidecarParts {
  readonly log: Log
  readonly files: Files
  readonly registry: SegmentRegistry
  readonly jobs: JobPool<IndexSegmentTask, IndexedSegmentFacts>
  readonly logger: Logger
  readonly readErrors: Pick<ReadErrors, 'noteFailed'>
  /** Calls once after a while; does not keep the process alive. */
  readonly after: (delayMs: number, run: () => void) => void
  /** The bundle of a segment that has a stand-in; null: it has none. */
  readonly compactedBundle: (segment: SegmentInfo) => Bundle | null
  /** The merged bundles over these segments. */
  readonly mergedBundles: (sealed: readonly SegmentInfo[]) => readonly Bundle[]
  /** Called with the progress of `recover`. */
  readonly onStep?: (step: Step) => void
}

export class Sidecars {
  readonly #parts: SidecarParts
  readonly #building = new Set<number>()
  readonly #listeners: ((bundle: BundlePlace) => void)[] = []
  #closed = false

  constructor(parts: SidecarParts) {
    this.#parts = parts
    parts.log.onSealed((segment) => this.#build(segment, RETRY_FIRST_MS))
  }

  isBuilding(base: number): boolean {
    return this.#building.has(base)
  }

  get pending(): number {
    return this.#building.size
  }

  /** Opens the bundles of all sealed segments, building what is missing (B1). */
  async recover(): Promise<void> {
    const { log, files, registry, logger, onStep = () => {} } = this.#parts
    const { segments } = log
    const merged = this.#parts.mergedBundles(segments.filter(({ sealed }) => sealed))
    for (const bundle of merged) registry.publish(bundle)
    const isMerged = ({ base }: SegmentInfo): boolean => merged.some((over) => over.base <= base && base < over.end)
    for (const [done, segment] of segments.entries()) {
      onStep({ phase: 'opening the indexes of segments', done, total: segments.length, unit: 'segments' })
      if (!segment.sealed || isMerged(segment)) continue
      const compacted = this.#parts.compactedBundle(segment)
      if (compacted !== null) registry.publish(compacted)
      if (compacted !== null || !files.exists(segment.recordsPath)) continue // B3
      const known = readBundleManifest(files, segment)
      if (known) registry.publish(known)
      else {
        const details = { segment: segmentName(segment.base) }
        logger.warn(details, 'the sidecar of a segment is missing or damaged: building it again')
        const built = this.#run(segment, true).catch((error: unknown) => {
          throw openFailure(`${segment.directory} cannot be indexed`, error)
        })
        registry.publish(await built)
      }
    }
  }

  /** A reader found the sidecar of a bundle damaged. */
  rebuild(base: number): void {
    if (this.#parts.registry.isCompacted(base)) return // its file is not derived, and cannot be built again
    const segment = this.#parts.log.segments.find((candidate) => candidate.base === base && candidate.sealed)
    if (segment) this.#build(segment, RETRY_FIRST_MS, true)
  }

  /** Called before queries see the bundle. */
  onPublished(listener: (bundle: BundlePlace) => void): void {
    this.#listeners.push(listener)
  }

  async close(): Promise<void> {
    this.#closed = true
  }

  #build(segment: SegmentInfo, retryMs: number, fromFrames = false): void {
    if (this.#building.has(segment.base) || this.#closed || !hasSegment(this.#parts.log.segments, segment.base)) return
    this.#building.add(segment.base)
    this.#run(segment, fromFrames)
      .then((row) => this.#publish(segment, row))
      .catch((error: unknown) => {
        const reason = messageOf(error)
        const details = { segment: segmentName(segment.base), reason }
        if (fromFrames) this.#parts.readErrors.noteFailed(`segment ${details.segment}`, error)
        this.#parts.logger.error(details, 'the sidecar of a segment could not be built')
        this.#parts.after(retryMs, () => this.#build(segment, Math.min(2 * retryMs, RETRY_LAST_MS), fromFrames))
      })
      .finally(() => this.#building.delete(segment.base))
  }

  async #run(segment: SegmentInfo, fromFrames: boolean): Promise<Bundle> {
    const { log, registry, jobs } = this.#parts
    const { base, end, directory, recordsPath } = segment
    const index = fromFrames ? null : registry.indexOf(base)
    const { damaged, ...row } = await jobs.run({ logId: log.id, base, end, directory, recordsPath, index })
    for (const range of damaged) log.reportDamage(segment, range)
    return row
  }

  #publish({ base, end, directory }: SegmentInfo, row: Bundle): void {
    if (this.#closed || !hasSegment(this.#parts.log.segments, base)) return
    for (const listener of this.#listeners) listener({ base, end, identity: row.identity, directory })
    this.#parts.registry.publish(row)
    this.#parts.logger.info({ segment: segmentName(base), records: row.records }, 'bundle published')
  }
}

/** What the decode lane needs to open a bundle. */
export const placeOf = (
  log: Log,
  { base, end, identity, isCompacted = false, isMerged = false }: CatalogRow,
): BundlePlace => {
  const segment = log.segments.find((candidate) => candidate.base === base)
  if (!segment) throw new StoreError('corrupt', 'segment_missing', `there is no segment ${segmentName(base)}`)
  return { base, end, identity, directory: segment.directory, isCompacted, isMerged }
}
