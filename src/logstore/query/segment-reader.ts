/**
 * The segments of one snapshot as questions read them: which there are, what their indexes find, and the records behind it. Whatever is
 * asked, what cannot be read is told with its bundle, and what is damaged with its place.
 */
import { StoreError } from '../../errors.ts'
import { ActiveIndex } from '../index/active-index.ts'
import type { StoredBatch } from '../batch-frame.ts'
import { Catalog } from '../index/catalog.ts'
import type { BundleIndex, ExpectedIndex } from '../index/reader.ts'
import type { SearchMatcher } from '../search/matcher.ts'
import type { QueryFilter } from './cursor.ts'
import { DamagedFrameError } from './frame-reader.ts'
import type { FrameReader } from './frame-reader.ts'
import type { OpenBundles } from './open-bundles.ts'
import { overlaps } from './plan.ts'
import type { QueryPlan } from './plan.ts'
import { boundsOf, scanActive, scanBundle } from './scan.ts'
import type { ScanBounds, SegmentIndex, SegmentScan } from './scan.ts'
import { ActivePlaces, searchRecords } from './search-scan.ts'
import { scanActiveOfSeveral, scanBundleOfSeveral } from './several-scan.ts'
import type { QueryIncident, QueryRefusal, QuerySnapshot } from './task.ts'

/** That are told ahead of a search. */
const EXPECTED_FRAMES_MAX = 4096

/** A segment of the snapshot that may hold results, in the order of positions. */
export type Source = BundleSource | { readonly kind: 'active'; readonly base: number; readonly index: ActiveIndex }

export interface BundleSource {
  readonly kind: 'bundle'
  readonly base: number
  readonly expected: ExpectedIndex
}

export interface SegmentReaderParts {
  readonly bundles: OpenBundles
  readonly frames: FrameReader
  /** For searches, which read everything once: the batches of pages stay where they are. */
  readonly scans: FrameReader
}

export class SegmentReader {
  readonly #parts: SegmentReaderParts

  constructor(parts: SegmentReaderParts) {
    this.#parts = parts
  }

  get bundles(): OpenBundles {
    return this.#parts.bundles
  }

  /** For the records of a page. */
  get frames(): FrameReader {
    return this.#parts.frames
  }

  /** What `run` answers, or the refusal that is told when it could not read or was too late. */
  answer<Answer>(run: () => Answer): Answer | QueryRefusal {
    try {
      return run()
    } catch (error) {
      if (error instanceof SegmentReadError)
        return refused(this.#parts.bundles.failure, `${error.message}; retry later`, error.incident)
      if (error instanceof StoreError && error.code === 'deadline_exceeded')
        return refused('deadline_exceeded', error.message)
      throw error
    }
  }

  /** The segments that the catalog does not rule out. Lets go of bundles that the snapshot does not name. */
  sourcesOf({ indexed, catalog: encoded }: QuerySnapshot, plan: QueryPlan): readonly Source[] {
    const catalog = new Catalog(encoded)
    this.#parts.bundles.keepOnly(catalog, indexed)
    if (plan.impossible) return []
    const sources: Source[] = []
    for (let row = 0; row < catalog.length; row++) {
      const base = catalog.base(row)
      const mayMatch =
        base < plan.snapshot &&
        catalog.records(row) > 0 &&
        overlaps(
          plan,
          catalog.minTimeHigh(row),
          catalog.minTimeLow(row),
          catalog.maxTimeHigh(row),
          catalog.maxTimeLow(row),
        )
      if (!mayMatch) continue
      sources.push({ kind: 'bundle', base, expected: { base, end: catalog.end(row), identity: catalog.identity(row) } })
    }
    for (const { base, index } of indexed) {
      if (base < plan.snapshot) sources.push({ kind: 'active', base, index: ActiveIndex.attach(index) })
    }
    return sources.sort((a, b) => a.base - b.base)
  }

  /**
   * Looks into the index of a segment.
   *
   * @returns null when the segment was ruled out by its filter or its partitions
   */
  scan<Scan extends SegmentScan>(
    source: Source,
    plan: QueryPlan,
    { quarantined }: Pick<QuerySnapshot, 'quarantined'>,
    scanOf: (bounds: ScanBounds) => Scan,
  ): Scan | null {
    const { base } = source
    if (source.kind === 'active') {
      const scan = scanOf(boundsOf(plan, base, placesOf(source.index), quarantined))
      const { several } = plan
      const isSearched =
        several === null ? scanActive(scan, source.index) : scanActiveOfSeveral(scan, source.index, several)
      return isSearched ? scan : null
    }
    return this.inBundle(source, (index) => {
      const scan = scanOf(boundsOf(plan, base, index, quarantined))
      const { several } = plan
      const isSearched = several === null ? scanBundle(scan, index) : scanBundleOfSeveral(scan, index, several)
      return isSearched ? scan : null
    })
  }

  /** Finds among the candidates of a scan those whose records match. */
  search(scan: SegmentScan, source: Source, matcher: SearchMatcher, logId: number): void {
    const read = (frameOffset: number) => this.readBatch(this.#parts.scans, logId, source.base, frameOffset)
    if (source.kind === 'active') return searchRecords(scan, new ActivePlaces(source.index), matcher, read)
    this.inBundle(source, (index) => {
      const { bundles } = this.#parts
      if (bundles.readsAhead) bundles.expectFrames(framesOf(scan, index, source.base))
      searchRecords(scan, index, matcher, read)
    })
  }

  /** Where the record of an entry stands. */
  locate(source: Source, entry: number): { frameOffset: number; recordNumber: number; id: Uint32Array } {
    if (source.kind === 'active') {
      const { frameOffset, recordNumber, idWords } = source.index
      return {
        frameOffset: frameOffset[entry]!,
        recordNumber: recordNumber[entry]!,
        id: idWords.slice(4 * entry, 4 * entry + 4),
      }
    }
    return this.inBundle(source, (index) => {
      index.seekEntry(entry)
      const { frameOffset, recordNumber } = index
      return { frameOffset, recordNumber, id: index.idOf(entry) }
    })
  }

  /** @param frames `scans` for what is read once */
  readBatch(frames: FrameReader, logId: number, base: number, frameOffset: number): StoredBatch {
    try {
      return frames.read(logId, base, frameOffset)
    } catch (error) {
      if (!(error instanceof StoreError) || error.code === 'deadline_exceeded') throw error
      const { position } = error instanceof DamagedFrameError ? error : { position: null }
      throw new SegmentReadError(error, position === null ? null : { kind: 'frame', base, position })
    }
  }

  /** Runs something that reads a bundle's index, and says of a failure which bundle it was. */
  inBundle<Result>({ base, expected }: BundleSource, read: (index: BundleIndex) => Result): Result {
    try {
      return read(this.#parts.bundles.index(expected))
    } catch (error) {
      const isOfIndex = error instanceof StoreError && !(error instanceof SegmentReadError)
      if (!isOfIndex || error.code === 'deadline_exceeded') throw error
      this.#parts.bundles.forget(base)
      throw new SegmentReadError(error, error.kind === 'corrupt' ? { kind: 'index', base } : null)
    }
  }
}

/** Where the frames of the candidates begin, in the order of the segment; the first ones where they are many. */
function framesOf(scan: SegmentScan, index: BundleIndex, base: number): { base: number; frameOffset: number }[] {
  const frames: { base: number; frameOffset: number }[] = []
  for (const entry of scan.candidates.sorted()) {
    index.seekEntry(entry)
    const { frameOffset } = index
    if (frameOffset === frames.at(-1)?.frameOffset) continue
    if (frames.length === EXPECTED_FRAMES_MAX) break
    frames.push({ base, frameOffset })
  }
  return frames
}

/** A segment could not be read. */
class SegmentReadError extends StoreError {
  readonly incident: QueryIncident | null

  constructor(cause: StoreError, incident: QueryIncident | null) {
    super(cause.kind, 'bundle_read_failed', cause.message, { cause })
    this.incident = incident
  }
}

export function refused(
  kind: QueryRefusal['kind'],
  message: string,
  incident: QueryIncident | null = null,
): QueryRefusal {
  return { kind, message, incident }
}

/** What the index of an unsealed segment says of places in it. */
export const placesOf = (index: ActiveIndex): SegmentIndex => ({
  entriesBefore: (frameOffset, recordNumber) => activeEntriesBefore(index, frameOffset, recordNumber),
})

/** As BundleIndex.entriesBefore. */
function activeEntriesBefore(active: ActiveIndex, frameOffset: number, recordNumber: number): number {
  let entry = active.countBefore(frameOffset)
  const { count } = active
  while (entry < count && active.frameOffset[entry] === frameOffset && active.recordNumber[entry]! < recordNumber)
    entry++
  return entry
}

/** What an answer names as the indexes that were used. */
export function usedIndexes({ recordId, traceId }: QueryFilter): readonly string[] {
  const used: string[] = []
  if (recordId !== null) used.push('record_id')
  if (traceId !== null) used.push('identity.trace_id')
  return used.length > 0 ? used : ['dataset_time']
}
