/**
 * The segments of one snapshot as questions read them: which there are, what their indexes find, and the records that the entries stand for. For every
 * question, a failed read is reported with its bundle, and damage with its place.
 */
import assert from 'node:assert/strict'
import { errorCode } from '../../log/files.ts'
import { StoreError, messageOf } from '../../errors.ts'
import { ActiveIndex } from '../index/active-index.ts'
import type { RecordBatch } from '../batch-frame.ts'
import { CompactIndex } from '../compact/compact-index.ts'
import { Catalog } from '../index/catalog.ts'
import type { BundleSearch, ExpectedIndex } from '../index/reader.ts'
import type { SearchMatcher } from '../search/matcher.ts'
import type { QueryFilter } from './cursor.ts'
import { BlockSearch } from './block-scan.ts'
import { DamagedFrameError } from './frame-reader.ts'
import { READS_ALL } from './frame-grams.ts'
import type { FrameGrams } from './frame-grams.ts'
import type { FrameReader } from './frame-reader.ts'
import type { OpenBundles } from './open-bundles.ts'
import type { TimeSpan } from './page-order.ts'
import { overlaps } from './plan.ts'
import type { QueryPlan } from './plan.ts'
import { boundsOf, gatherBundleTime, mayHold, postingsInRange, scanActive, scanBundle } from './scan.ts'
import type { ScanBounds, SegmentIndex, SegmentScan } from './scan.ts'
import { ActivePlaces, searchEntries, searchFrames } from './search-scan.ts'
import type { EntryPlaces } from './search-scan.ts'
import { scanActiveOfSeveral, scanBundleOfSeveral } from './several-scan.ts'
import type { QueryIncident, QueryRefusal, QuerySnapshot } from './task.ts'

/** Most frames that are announced ahead of a search. */
const EXPECTED_FRAMES_MAX = 4096
/** Finding an entry by its posting takes at most as long as looking at this many entries in their order. */
const ENTRIES_PER_POSTING = 4

/** The log that is read. */
type Read = Pick<QuerySnapshot, 'logId' | 'generation'>

/** A segment of the snapshot that may hold results, in the order of positions. */
export type Source = BundleSource | ActiveSource

interface ActiveSource extends TimeSpan {
  readonly kind: 'active'
  readonly base: number
  readonly index: ActiveIndex
}

export interface BundleSource extends TimeSpan {
  readonly kind: 'bundle'
  readonly base: number
  readonly expected: ExpectedIndex
}

export interface SegmentReaderParts {
  readonly bundles: OpenBundles
  readonly frames: FrameReader
  /** For searches, which read everything once: so they evict no batches of pages. */
  readonly scans: FrameReader
  /** Which frames need not be searched; null: each is read. */
  readonly grams: FrameGrams | null
}

export class SegmentReader {
  readonly #parts: SegmentReaderParts
  #searching: { readonly matcher: SearchMatcher; readonly search: BlockSearch } | null = null

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

  /** The answer of `run`, or a refusal when it could not read or was too late. */
  answer<Answer>(run: () => Answer): Answer | QueryRefusal {
    try {
      return run()
    } catch (error) {
      if (error instanceof SegmentReadError)
        return refused(this.#parts.bundles.failure, `${error.message}; retry later`, error.incident)
      if (error instanceof StoreError && error.code === 'deadline_exceeded')
        return refused('deadline_exceeded', error.message)
      // The caller gets a clone of what is thrown, which has no code: it could not tell a disk that fails from a bug of ours.
      if (isOfReading(error)) return refused(this.#parts.bundles.failure, `${messageOf(error)}; retry later`)
      throw error
    }
  }

  /** The segments that the catalog does not rule out. Closes bundles that the snapshot does not name. */
  sourcesOf({ indexed, catalog: encoded, generation }: QuerySnapshot, plan: QueryPlan): readonly Source[] {
    const catalog = new Catalog(encoded)
    this.#parts.bundles.keepOnly(catalog, indexed, generation)
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
      const isCompacted = catalog.isCompacted(row)
      const isMerged = catalog.isMerged(row)
      const expected = { base, end: catalog.end(row), identity: catalog.identity(row), isCompacted, isMerged }
      const earliest = doubleOf(catalog.minTimeHigh(row), catalog.minTimeLow(row))
      const latest = doubleOf(catalog.maxTimeHigh(row), catalog.maxTimeLow(row))
      sources.push({ kind: 'bundle', base, expected, earliest, latest })
    }
    for (const { base, index: handle } of indexed) {
      if (base >= plan.snapshot) continue
      const index = ActiveIndex.attach(handle)
      const { earliest, latest } = index
      sources.push({ kind: 'active', base, index, earliest, latest })
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
      if (!mayHold(index, plan)) return null // a look-up ends here for most bundles, and allocates nothing for them
      const scan = scanOf(boundsOf(plan, base, index, quarantined))
      const { several } = plan
      const isSearched = several === null ? scanBundle(scan, index) : scanBundleOfSeveral(scan, index, several)
      return isSearched ? scan : null
    })
  }

  /** Searches the records that the scan left to be searched, and reports to it those that match. */
  search(scan: SegmentScan, source: Source, matcher: SearchMatcher, snapshot: Read): void {
    if (source.kind === 'active')
      return this.#searchFrames(scan, source, new ActivePlaces(source.index), matcher, snapshot)
    this.inBundle(source, (index) => {
      if (!(index instanceof CompactIndex)) {
        this.#gatherFew(scan, index)
        this.#searchFrames(scan, source, index, matcher, snapshot)
      } else if (scan.partitionToSearch >= 0) {
        this.#blockSearch(scan, matcher).run(scan, index, scan.partitionToSearch)
      } else {
        const ordered = inUnits(index, scan.candidates.sorted())
        searchEntries(scan, ordered, index, matcher, (unit) => index.readRecords(index.blocks[unit]!))
      }
    })
  }

  /** Searches a segment that is not compacted. */
  #searchFrames(
    scan: SegmentScan,
    source: Source,
    places: EntryPlaces,
    matcher: SearchMatcher,
    { logId, generation }: Read,
  ): void {
    const { bundles, scans, grams } = this.#parts
    const { base } = source
    const read = (unit: number) => this.readBatch(scans, logId, source, unit)
    const end = source.kind === 'bundle' ? source.expected.end : Infinity
    const frames = grams?.search(matcher.required, base, generation, end) ?? READS_ALL
    if (scan.partitionToSearch >= 0) return searchFrames(scan, places, matcher, read, frames)
    const entries = scan.candidates.sorted()
    if (bundles.readsAhead) bundles.expectFrames(framesOf(entries, places, base))
    searchEntries(scan, entries, places, matcher, read, frames)
  }

  /** Gathers candidates if the frames to read have to be announced, or if the candidates are much fewer than the entries of the bundle. */
  #gatherFew(scan: SegmentScan, index: BundleSearch): void {
    const { plan, partitionToSearch } = scan
    const partition = partitionToSearch < 0 ? null : index.findPartition(plan.tenant, plan.dataset)
    if (partition === null) return
    const { from, to } = postingsInRange(plan, index, partition)
    if (!this.bundles.readsAhead && (to - from) * ENTRIES_PER_POSTING >= index.entryCount) return
    gatherBundleTime(scan, index, partition)
    scan.partitionToSearch = -1
  }

  /** Made once for a search, which goes through many bundles. */
  #blockSearch({ plan }: SegmentScan, matcher: SearchMatcher): BlockSearch {
    assert(plan.search !== null)
    if (this.#searching?.matcher !== matcher)
      this.#searching = { matcher, search: new BlockSearch(plan.search, matcher) }
    return this.#searching.search
  }

  /** Where the record of an entry stands. */
  locate(source: Source, entry: number): RecordLocation {
    if (source.kind === 'active') {
      const { idWords } = source.index
      const frameOffset = source.index.frameOffset[entry]!
      const recordNumber = source.index.recordNumber[entry]!
      const id = idWords.slice(4 * entry, 4 * entry + 4)
      return { frameOffset, recordNumber, unit: frameOffset, number: recordNumber, id }
    }
    return this.inBundle(source, (index) => {
      index.seekEntry(entry)
      const { frameOffset, recordNumber, unit, number } = index
      return { frameOffset, recordNumber, unit, number, id: index.idOf(entry) }
    })
  }

  /** @param frames `scans` for what is read once */
  readBatch(frames: FrameReader, logId: number, source: Source, unit: number): RecordBatch {
    const { base } = source
    try {
      if (source.kind === 'active' || !source.expected.isCompacted) return frames.read(logId, base, unit)
      return this.inBundle(source, (index) => {
        assert(index instanceof CompactIndex)
        return index.records(index.blocks[unit]!)
      })
    } catch (error) {
      if (!(error instanceof StoreError) || error.code === 'deadline_exceeded') throw error
      if (error instanceof SegmentReadError) throw error
      const { position } = error instanceof DamagedFrameError ? error : { position: null }
      throw new SegmentReadError(error, position === null ? null : { kind: 'frame', base, position })
    }
  }

  /** Runs `read` on a bundle's index. A failure names the bundle. */
  inBundle<Result>({ base, expected }: BundleSource, read: (index: BundleSearch) => Result): Result {
    try {
      return read(this.#parts.bundles.index(expected))
    } catch (error) {
      const isOfIndex = error instanceof StoreError && !(error instanceof SegmentReadError)
      if (!isOfIndex || error.code === 'deadline_exceeded') throw error
      this.#parts.bundles.forget(base)
      throw new SegmentReadError(
        error,
        error.kind === 'corrupt' ? { kind: expected.isCompacted ? 'stand-in' : 'index', base } : null,
      )
    }
  }
}

const doubleOf = (high: number, low: number): number => high * 2 ** 32 + low

/** Where the frames of the candidates begin, in the order of the segment; only the first ones if there are many. */
function framesOf(entries: Uint32Array, index: EntryPlaces, base: number): { base: number; frameOffset: number }[] {
  const frames: { base: number; frameOffset: number }[] = []
  for (const entry of entries) {
    index.seekEntry(entry)
    const { unit: frameOffset } = index
    if (frameOffset === frames.at(-1)?.frameOffset) continue
    if (frames.length === EXPECTED_FRAMES_MAX) break
    frames.push({ base, frameOffset })
  }
  return frames
}

/** No bundle has as many entries, not even a merged one. */
const ENTRIES = 2 ** 24

/** The same entries in the order in which their records are read. */
function inUnits(index: CompactIndex, entries: Uint32Array): Uint32Array {
  const rows = Float64Array.from(entries, (entry) => {
    index.seekEntry(entry)
    return index.row * ENTRIES + entry
  })
  return Uint32Array.from(rows.sort(), (key) => key % ENTRIES)
}

/** Where a record is. */
export interface RecordLocation {
  /** The place in the log, which cursors name. */
  readonly frameOffset: number
  readonly recordNumber: number
  /** Where it is read, see BundleSearch. */
  readonly unit: number
  readonly number: number
  readonly id: Uint32Array
}

/** True for a failure from outside: `SegmentFiles` reports it as a StoreError, and reads that bypass it throw the error of the system. */
const isOfReading = (error: unknown): boolean => error instanceof StoreError || /^E[A-Z0-9]+$/.test(errorCode(error))

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

/** Finds places in an unsealed segment by its index. */
export function placesOf(index: ActiveIndex): SegmentIndex {
  const places = new ActivePlaces(index)
  return { entriesBefore: (frameOffset, recordNumber) => places.entriesBefore(frameOffset, recordNumber) }
}

/** What an answer names as the indexes that were used. */
export function usedIndexes({ recordId, traceId }: QueryFilter): readonly string[] {
  const used: string[] = []
  if (recordId !== null) used.push('record_id')
  if (traceId !== null) used.push('identity.trace_id')
  return used.length > 0 ? used : ['dataset_time']
}
