/**
 * One segment's part of a query: counts what matches and offers it to the page.
 *
 * The entries of a segment are cut into spans: entries of damaged frames that are already known (they are counted apart and
 * never shown), entries beyond the snapshot (they do not exist for this query), and all others.
 */
import type { ActiveIndex } from '../index/active-index.ts'
import type { RowValuesReader } from '../compact/row-values.ts'
import type { BundleSearch, Partition } from '../index/reader.ts'
import type { RecordView } from '../search/record-view.ts'
import { isBefore } from '../time-words.ts'
import type { Deadline } from './deadline.ts'
import { EntryList } from './entry-list.ts'
import type { MatchedRows } from './matched-rows.ts'
import type { PageSelection } from './page-selection.ts'
import { isInRange, overlaps } from './plan.ts'
import type { QueryPlan } from './plan.ts'
import type { QuarantinedRange } from './task.ts'

/** Entries [from, to). */
interface Span {
  readonly from: number
  readonly to: number
}

/** What a scan needs to know of an index to place positions in it. */
export interface SegmentIndex {
  /** Entries of frames before `frameOffset`, and of records before `recordNumber` in that frame. */
  entriesBefore(frameOffset: number, recordNumber: number): number
}

/** What a query may see of a segment's entries. */
export interface ScanBounds {
  /** Entries below it exist for this query. */
  readonly visible: number
  /** Ascending, disjoint, below `visible`. */
  readonly damaged: readonly Span[]
  /** Among the entries at the time of `plan.resume`, those from this one on come after it; in descending order those before it. */
  readonly resumeEntry: number
}

/** The bounds in a segment, whose entries stand in the order in which they came. @param base position of the segment */
export function boundsOf(
  { snapshot, resume, descending }: QueryPlan,
  base: number,
  index: SegmentIndex,
  quarantined: readonly QuarantinedRange[],
): ScanBounds {
  const visible = index.entriesBefore(snapshot - base, 0)
  const ofResume = descending ? 0 : 1
  return {
    visible,
    resumeEntry: resume === null ? 0 : index.entriesBefore(resume.position - base, resume.recordNumber + ofResume),
    damaged: disjoint(
      quarantined.map(({ from, to }) => ({
        from: index.entriesBefore(from - base, 0),
        to: Math.min(visible, index.entriesBefore(to - base, 0)),
      })),
    ),
  }
}

/** How many entries are looked at between two looks at the clock. */
export const ENTRIES_PER_CHECK = 8192

export class SegmentScan {
  /** Whether `found` needs a view of the record. */
  readonly needsViews: boolean = false
  /** Reads what the scan needs of the records of a compacted block from its columns; records that these do not decide need a view. Null: it needs nothing. */
  readonly rowValues: RowValuesReader | null = null
  /** With a search: number of the partition whose records have to be searched, block by block or frame by frame; -1: search the candidates. */
  partitionToSearch = -1
  matched = 0
  quarantined = 0
  /** With a search: entries that may match, whose records have to be read. */
  readonly candidates = new EntryList()
  readonly visible: number
  readonly damaged: readonly Span[]
  readonly plan: QueryPlan
  readonly deadline: Deadline
  readonly #page: PageSelection
  readonly #source: number
  readonly #resumeEntry: number

  /** @param source  number of the segment among all, in the order of their positions */
  constructor(plan: QueryPlan, page: PageSelection, deadline: Deadline, source: number, bounds: ScanBounds) {
    this.plan = plan
    this.deadline = deadline
    this.#page = page
    this.#source = source
    this.visible = bounds.visible
    this.damaged = bounds.damaged
    this.#resumeEntry = bounds.resumeEntry
  }

  /** Where a scan in order of time may begin: the place of the resumed page in this segment, or the start of the range. */
  get firstOfPage(): { timeHigh: number; timeLow: number; entry: number } {
    const { resume, fromHigh, fromLow, resumeHigh, resumeLow } = this.plan
    if (resume === null || isBefore(resumeHigh, resumeLow, fromHigh, fromLow)) {
      return { timeHigh: fromHigh, timeLow: fromLow, entry: 0 }
    }
    return { timeHigh: resumeHigh, timeLow: resumeLow, entry: this.#resumeEntry }
  }

  /** Where a scan against the order of time may begin: what is at or after it does not come onto the page. */
  get endOfPage(): { timeHigh: number; timeLow: number; entry: number } {
    const { resume, toHigh, toLow, resumeHigh, resumeLow } = this.plan
    if (resume === null || isBefore(toHigh, toLow, resumeHigh, resumeLow)) {
      return { timeHigh: toHigh, timeLow: toLow, entry: 0 }
    }
    return { timeHigh: resumeHigh, timeLow: resumeLow, entry: this.#resumeEntry }
  }

  isDamaged(entry: number): boolean {
    for (const { from, to } of this.damaged) if (entry >= from && entry < to) return true
    return false
  }

  /** Takes an entry of the right partition. If it is visible and in the time range, it counts, and may come onto the page. */
  consider(entry: number, timeHigh: number, timeLow: number): void {
    if (entry >= this.visible || !isInRange(this.plan, timeHigh, timeLow)) return
    if (this.damaged.length > 0 && this.isDamaged(entry)) this.quarantined++
    else this.count(entry, timeHigh, timeLow)
  }

  /** Takes an entry that matches as far as the indexes say. */
  count(entry: number, timeHigh: number, timeLow: number): void {
    if (this.plan.search === null) this.addMatch(entry, timeHigh, timeLow)
    else this.candidates.add(entry)
  }

  /** Takes an entry that matches. @param _view its record, if a search looked at it; valid during the call */
  addMatch(entry: number, timeHigh: number, timeLow: number, _view: RecordView | null = null): void {
    this.matched++
    if (this.plan.resume !== null && this.#wasShown(entry, timeHigh, timeLow)) return
    this.#page.offer(timeHigh, timeLow, this.#source, entry)
  }

  /** Takes rows of a compacted block that match and whose records were not looked at. */
  foundRows(rows: MatchedRows): void {
    const { timeHigh, timeLow, entry } = rows.keys()
    for (let row = rows.from; row < rows.to; row++)
      if (rows.matches(row)) this.addMatch(entry[row]!, timeHigh[row]!, timeLow[row]!)
  }

  /**
   * Counts matching entries whose times are in [earliest, latest]. False: they have to be reported one by one, as more than their number is wanted.
   *
   * @param _severityRows how many of them have which severity, the others have none; null: it is not known
   */
  countAtOnce(
    count: number,
    earliestHigh: number,
    earliestLow: number,
    latestHigh: number,
    latestLow: number,
    _severityRows: Uint32Array | null = null,
  ): boolean {
    if (this.mayShow(earliestHigh, earliestLow, latestHigh, latestLow)) return false
    this.matched += count
    return true
  }

  /** False: neither this one nor any later one comes onto the page. */
  offer(entry: number, timeHigh: number, timeLow: number): boolean {
    return this.#page.offer(timeHigh, timeLow, this.#source, entry)
  }

  /** False: no entry of a time in [earliest, latest] comes onto the page. */
  mayShow(earliestHigh: number, earliestLow: number, latestHigh: number, latestLow: number): boolean {
    const { resume, resumeHigh, resumeLow, descending } = this.plan
    const wasShown = descending
      ? isBefore(resumeHigh, resumeLow, earliestHigh, earliestLow)
      : isBefore(latestHigh, latestLow, resumeHigh, resumeLow)
    if (resume !== null && wasShown) return false
    return this.#page.hasRoomFor(earliestHigh, earliestLow, latestHigh, latestLow)
  }

  #wasShown(entry: number, timeHigh: number, timeLow: number): boolean {
    const { resumeHigh, resumeLow, descending } = this.plan
    if (timeHigh === resumeHigh && timeLow === resumeLow) return entry < this.#resumeEntry !== descending
    return isBefore(timeHigh, timeLow, resumeHigh, resumeLow) !== descending
  }
}

/** The same entries in spans that are ascending, disjoint and not empty. */
function disjoint(spans: readonly Span[]): readonly Span[] {
  const merged: Span[] = []
  let end = 0
  for (const { from, to } of [...spans].sort((a, b) => a.from - b.from)) {
    if (Math.max(from, end) >= to) continue
    merged.push({ from: Math.max(from, end), to })
    end = to
  }
  return merged
}

/** True when the segment was not pruned, and its index was searched. */
export function scanActive(scan: SegmentScan, active: ActiveIndex): boolean {
  const { plan } = scan
  const partition = active.findPartition(plan.tenant, plan.dataset)
  if (partition < 0 || scan.visible === 0) return false
  if (plan.id !== null) return scanActiveId(scan, active, partition, plan.id)
  if (plan.trace !== null) return scanActiveTrace(scan, active, partition, plan.trace)
  if (plan.search !== null && scan.damaged.length === 0) scan.partitionToSearch = partition
  else scanActiveTime(scan, active, partition)
  return true
}

function scanActiveId(scan: SegmentScan, active: ActiveIndex, partition: number, id: Uint32Array): boolean {
  const { trace } = scan.plan
  let entry = active.newestOfId(id[0]!, id[1]!, id[2]!, id[3]!)
  let found = false
  for (let looked = 1; entry >= 0; entry = active.olderOfId(entry), looked++) {
    if (looked % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    if (entry >= scan.visible) continue
    found = true
    if (active.partition[entry] !== partition) continue
    if (trace !== null && !sameWords(active.traceWords, 4 * entry, trace)) continue
    scan.consider(entry, active.timeHigh[entry]!, active.timeLow[entry]!)
  }
  return found
}

function scanActiveTrace(scan: SegmentScan, active: ActiveIndex, partition: number, trace: Uint32Array): boolean {
  let entry = active.newestOfTrace(trace[0]!, trace[1]!, trace[2]!, trace[3]!)
  const found = entry >= 0
  for (let looked = 1; entry >= 0; entry = active.olderOfTrace(entry), looked++) {
    if (looked % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    if (active.partition[entry] === partition) scan.consider(entry, active.timeHigh[entry]!, active.timeLow[entry]!)
  }
  return found
}

/**
 * A zone that the query sees whole is skipped, or counted at once, if its columns say that none of it or all of it matches. The walk is in the
 * order of the page, so that the zones whose entries come onto it are met first, and the others are only counted. A search gathers its
 * candidates in the order of the file.
 */
function scanActiveTime(scan: SegmentScan, active: ActiveIndex, partition: number): void {
  const { visible } = scan
  const { descending, search } = scan.plan
  const { zoneEntries } = active
  const backwards = descending && search === null
  const zones = zonesToWalk(scan, active)
  const zonesPerCheck = Math.ceil(ENTRIES_PER_CHECK / zoneEntries)
  for (let walked = 0; walked < zones.length; walked++) {
    if (walked % zonesPerCheck === 0) scan.deadline.check()
    const zone = zones[walked]!
    const first = zone * zoneEntries
    const end = first + zoneEntries
    const match = end > visible ? 'some' : zoneMatch(scan, active, partition, zone)
    if (match === 'all, not shown') scan.matched += zoneEntries
    else if (match === 'some') scanActiveEntries(scan, active, partition, first, Math.min(end, visible), backwards)
  }
}

/**
 * The zones that overlap the time range. For a page they are in the order of their times, as senders may deliver old records last. The zone that the
 * query does not see whole has no columns yet, so it comes first.
 */
function zonesToWalk(scan: SegmentScan, active: ActiveIndex): readonly number[] {
  const { plan, visible } = scan
  const { zoneEntries, zoneEarliestHigh, zoneEarliestLow, zoneLatestHigh, zoneLatestLow } = active
  const whole = Math.floor(visible / zoneEntries)
  const zones: number[] = []
  for (let zone = 0; zone < whole; zone++) {
    const isInRange = overlaps(
      plan,
      zoneEarliestHigh[zone]!,
      zoneEarliestLow[zone]!,
      zoneLatestHigh[zone]!,
      zoneLatestLow[zone]!,
    )
    if (isInRange) zones.push(zone)
  }
  const hasPart = whole * zoneEntries < visible
  if (plan.search !== null) return hasPart ? [...zones, whole] : zones
  if (plan.descending) {
    zones.reverse() // the usual order, which is cheap to sort
    zones.sort((a, b) => zoneLatestHigh[b]! - zoneLatestHigh[a]! || zoneLatestLow[b]! - zoneLatestLow[a]!)
  } else zones.sort((a, b) => zoneEarliestHigh[a]! - zoneEarliestHigh[b]! || zoneEarliestLow[a]! - zoneEarliestLow[b]!)
  return hasPart ? [whole, ...zones] : zones
}

/** For a zone that overlaps the time range. 'some' is always a safe answer. */
function zoneMatch(scan: SegmentScan, active: ActiveIndex, partition: number, zone: number): 'all, not shown' | 'some' {
  const earliestHigh = active.zoneEarliestHigh[zone]!
  const earliestLow = active.zoneEarliestLow[zone]!
  const latestHigh = active.zoneLatestHigh[zone]!
  const latestLow = active.zoneLatestLow[zone]!
  const isCounted =
    active.zonePartition[zone] === partition &&
    scan.damaged.length === 0 &&
    scan.plan.search === null &&
    isInRange(scan.plan, earliestHigh, earliestLow) &&
    isInRange(scan.plan, latestHigh, latestLow) &&
    !scan.mayShow(earliestHigh, earliestLow, latestHigh, latestLow)
  return isCounted ? 'all, not shown' : 'some'
}

/** Entries [from, to). */
function scanActiveEntries(
  scan: SegmentScan,
  active: ActiveIndex,
  partition: number,
  from: number,
  to: number,
  backwards: boolean,
): void {
  const { fromHigh, fromLow, toHigh, toLow } = scan.plan
  const partitions = active.partition
  const { timeHigh, timeLow } = active
  const step = backwards ? -1 : 1
  for (let entry = backwards ? to - 1 : from, left = to - from; left > 0; entry += step, left--) {
    if (partitions[entry] !== partition) continue
    const high = timeHigh[entry]!
    const low = timeLow[entry]!
    if (high < fromHigh || (high === fromHigh && low < fromLow)) continue
    if (high > toHigh || (high === toHigh && low >= toLow)) continue
    if (scan.damaged.length > 0 && scan.isDamaged(entry)) scan.quarantined++
    else scan.count(entry, high, low)
  }
}

/** False: the bundle does not have the record id or the trace that is looked for. */
export function mayHold(index: BundleSearch, { id, trace }: Pick<QueryPlan, 'id' | 'trace'>): boolean {
  if (id !== null && !index.mayContainId(id[0]!, id[1]!, id[2]!, id[3]!)) return false
  return trace === null || index.mayContainTrace(trace[0]!, trace[1]!, trace[2]!, trace[3]!)
}

/** True when the bundle was not pruned, and its index was searched. @param index see `mayHold` */
export function scanBundle(scan: SegmentScan, index: BundleSearch): boolean {
  const { plan } = scan
  if (scan.visible === 0) return false
  if (plan.id !== null) return scanBundleId(scan, index, plan.id)
  if (plan.trace !== null) return scanBundleTrace(scan, index, plan.trace)
  const partition = index.findPartition(plan.tenant, plan.dataset)
  if (partition === null || !mayMatch(plan, partition)) return false
  if (plan.search !== null && scan.damaged.length === 0) scan.partitionToSearch = partition.number
  else if (plan.search !== null) gatherBundleTime(scan, index, partition)
  else scanBundleTime(scan, index, partition)
  return true
}

function scanBundleId(scan: SegmentScan, index: BundleSearch, id: Uint32Array): boolean {
  const { plan } = scan
  let found = index.findId(id[0]!, id[1]!, id[2]!, id[3]!)
  const partition = found === null ? null : index.findPartition(plan.tenant, plan.dataset)
  if (partition === null) return true
  for (let looked = 1; found !== null; looked++) {
    if (looked % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    const { entry, nextRow } = found
    if (plan.trace === null || traceHasEntry(index, plan.trace, entry)) considerEntry(scan, index, partition, entry)
    found = index.findId(id[0]!, id[1]!, id[2]!, id[3]!, nextRow)
  }
  return true
}

/** The rows of one trace ascend by entry. */
function traceHasEntry(index: BundleSearch, trace: Uint32Array, entry: number): boolean {
  const rows = index.traceRows(trace[0]!, trace[1]!, trace[2]!, trace[3]!)
  let low = rows.from
  let high = rows.to
  while (low < high) {
    const middle = (low + high) >>> 1
    if (index.traceEntry(middle) < entry) low = middle + 1
    else high = middle
  }
  return low < rows.to && index.traceEntry(low) === entry
}

function scanBundleTrace(scan: SegmentScan, index: BundleSearch, trace: Uint32Array): boolean {
  const { plan } = scan
  const { from, to } = index.traceRows(trace[0]!, trace[1]!, trace[2]!, trace[3]!)
  if (from === to) return true
  const partition = index.findPartition(plan.tenant, plan.dataset)
  if (partition === null || !mayMatch(plan, partition)) return true
  for (let row = from; row < to; row++) {
    if ((row - from) % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    considerEntry(scan, index, partition, index.traceEntry(row))
  }
  return true
}

function considerEntry(scan: SegmentScan, index: BundleSearch, partition: Partition, entry: number): void {
  index.seekEntry(entry)
  if (index.partition === partition.number) scan.consider(entry, index.timeHigh, index.timeLow)
}

/** Counts by two searches in the posting list, less what the query may not see; then walks the list only as far as the page needs. */
function scanBundleTime(scan: SegmentScan, index: BundleSearch, partition: Partition): void {
  const { from, to } = postingsInRange(scan.plan, index, partition)
  const beyond = countMatching(scan, index, partition, scan.visible, index.entryCount)
  for (const span of scan.damaged) scan.quarantined += countMatching(scan, index, partition, span.from, span.to)
  scan.matched += to - from - beyond - scan.quarantined

  const { minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow } = partition
  if (!scan.mayShow(minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow)) return
  if (scan.plan.descending) showDescending(scan, index, partition, from, to)
  else showAscending(scan, index, partition, from, to)
}

/** Rows [from, to) of the postings of the partition that are in the time range. Reads no posting if the times of the partition tell. */
export function postingsInRange(
  plan: QueryPlan,
  index: BundleSearch,
  partition: Partition,
): { from: number; to: number } {
  const { fromHigh, fromLow, toHigh, toLow } = plan
  const { firstPosting, records, minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow } = partition
  const beginsBefore = isBefore(minTimeHigh, minTimeLow, fromHigh, fromLow)
  const endsBefore = isBefore(maxTimeHigh, maxTimeLow, toHigh, toLow)
  return {
    from: beginsBefore ? index.lowerBoundPosting(partition, fromHigh, fromLow, 0) : firstPosting,
    to: endsBefore ? firstPosting + records : index.lowerBoundPosting(partition, toHigh, toLow, 0),
  }
}

function showAscending(scan: SegmentScan, index: BundleSearch, partition: Partition, from: number, to: number): void {
  const { timeHigh, timeLow, entry } = scan.firstOfPage
  let row = Math.max(from, index.lowerBoundPosting(partition, timeHigh, timeLow, entry))
  for (let looked = 1; row < to; row++, looked++) if (!showPosting(scan, index, row, looked)) break
}

function showDescending(scan: SegmentScan, index: BundleSearch, partition: Partition, from: number, to: number): void {
  const { timeHigh, timeLow, entry } = scan.endOfPage
  let row = Math.min(to, index.lowerBoundPosting(partition, timeHigh, timeLow, entry)) - 1
  for (let looked = 1; row >= from; row--, looked++) if (!showPosting(scan, index, row, looked)) break
}

/** False: no posting behind it comes onto the page. */
function showPosting(scan: SegmentScan, index: BundleSearch, row: number, looked: number): boolean {
  if (looked % ENTRIES_PER_CHECK === 0) scan.deadline.check()
  index.seekPosting(row)
  const entry = index.postingEntry
  if (entry >= scan.visible || scan.isDamaged(entry)) return true
  return scan.offer(entry, index.postingTimeHigh, index.postingTimeLow)
}

/** Every entry of the time range, for a search in their records. */
export function gatherBundleTime(scan: SegmentScan, index: BundleSearch, partition: Partition): void {
  const { from, to } = postingsInRange(scan.plan, index, partition)
  for (let row = from; row < to; row++) {
    if ((row - from) % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    index.seekPosting(row)
    scan.consider(index.postingEntry, index.postingTimeHigh, index.postingTimeLow)
  }
}

/** How many of the entries [from, to) are of the partition and in the time range. */
function countMatching(scan: SegmentScan, index: BundleSearch, partition: Partition, from: number, to: number): number {
  let matching = 0
  for (let entry = from; entry < to; entry++) {
    if ((entry - from) % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    index.seekEntry(entry)
    if (index.partition === partition.number && isInRange(scan.plan, index.timeHigh, index.timeLow)) matching++
  }
  return matching
}

export const mayMatch = (
  plan: QueryPlan,
  { minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow }: Pick<Partition, `${'min' | 'max'}Time${'High' | 'Low'}`>,
): boolean => overlaps(plan, minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow)

function sameWords(words: Uint32Array, at: number, key: Uint32Array): boolean {
  return words[at] === key[0] && words[at + 1] === key[1] && words[at + 2] === key[2] && words[at + 3] === key[3]
}
