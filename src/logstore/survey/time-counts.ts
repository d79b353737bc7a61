/** How many records of one dataset lie in each bucket of time: by indexes alone, their zones or their sorted postings. */
import type { ActiveIndex } from '../index/active-index.ts'
import type { BundleSearch, Partition } from '../index/reader.ts'
import type { Deadline } from '../query/deadline.ts'
import { isInRange, overlaps } from '../query/plan.ts'
import type { QueryPlan } from '../query/plan.ts'
import { ENTRIES_PER_CHECK, boundsOf, mayMatch, postingsInRange } from '../query/scan.ts'
import { isKept, keptFrom } from '../expired.ts'
import type { KeptFrom } from '../expired.ts'
import { placesOf } from '../query/segment-reader.ts'
import type { SegmentReader, Source } from '../query/segment-reader.ts'
import { isBefore } from '../time-words.ts'
import type { SurveyQuestion, SurveyTask } from './question.ts'
import { SurveyScan } from './survey-scan.ts'
import { rangeOfWords } from './time-buckets.ts'
import type { TimeBuckets, TimeRange } from './time-buckets.ts'

/** The times of the partition's records that have not expired; null: there are none. */
export function timesOfActive(scan: SurveyScan, active: ActiveIndex, partition: number): TimeRange | null {
  const { timeHigh, timeLow } = active
  let earliest = -1
  let latest = -1
  const kept = keptFrom(scan.plan.expired, scan.plan.dataset)
  for (let entry = 0; entry < scan.visible; entry++) {
    if (entry % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    if (active.partition[entry] !== partition) continue
    const high = timeHigh[entry]!
    const low = timeLow[entry]!
    if (!isKept(kept, high, low)) continue
    if (earliest < 0 || isBefore(high, low, timeHigh[earliest]!, timeLow[earliest]!)) earliest = entry
    if (latest < 0 || isBefore(timeHigh[latest]!, timeLow[latest]!, high, low)) latest = entry
  }
  if (earliest < 0) return null
  return rangeOfWords(timeHigh[earliest]!, timeLow[earliest]!, timeHigh[latest]!, timeLow[latest]!)
}

export const timesOfPartition = ({ minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow }: Partition): TimeRange =>
  rangeOfWords(minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow)

/** The times of a bundle's records that have not expired; null: there are none. */
export function timesOfKept(index: BundleSearch, partition: Partition, kept: KeptFrom): TimeRange | null {
  const { firstPosting, records, minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow } = partition
  if (isKept(kept, minTimeHigh, minTimeLow)) return timesOfPartition(partition)
  const first = index.lowerBoundPosting(partition, kept.high, kept.low, 0)
  if (first === firstPosting + records) return null
  index.seekPosting(first)
  return rangeOfWords(index.postingTimeHigh, index.postingTimeLow, maxTimeHigh, maxTimeLow)
}

/** What walks over the segments of a snapshot share. */
export interface SurveyWalk<Asked extends SurveyQuestion> {
  readonly reader: SegmentReader
  readonly task: SurveyTask<Asked>
  readonly deadline: Deadline
  readonly plan: QueryPlan
  readonly sources: readonly Source[]
}

export interface Counts {
  /** By bucket. */
  readonly ofAll: Float64Array
  matched: number
  quarantined: number
  /** Segments whose index was searched. */
  scanned: number
}

export const noCounts = (buckets: TimeBuckets): Counts => ({
  ofAll: new Float64Array(buckets.count),
  matched: 0,
  quarantined: 0,
  scanned: 0,
})

export function addScan(counts: Counts, { matched, quarantined }: SurveyScan): void {
  counts.matched += matched
  counts.quarantined += quarantined
  counts.scanned++
}

/** Counts records for a plan that filters by time alone. The buckets cover its whole range. */
export function countByIndex(
  { reader, task, deadline, plan, sources }: SurveyWalk<SurveyQuestion>,
  buckets: TimeBuckets,
): Counts {
  const counts = noCounts(buckets)
  const { ofAll } = counts
  const { tenant, dataset } = plan
  const { quarantined } = task.snapshot
  const found = (timeHigh: number, timeLow: number): void => void (ofAll[buckets.of(timeHigh, timeLow)]! += 1)
  for (const source of buckets.count === 0 ? [] : sources) {
    deadline.check()
    let scan: SurveyScan | null = null
    if (source.kind === 'active') {
      const { index, base } = source
      const partition = index.findPartition(tenant, dataset)
      if (partition < 0) continue
      scan = new SurveyScan(plan, deadline, boundsOf(plan, base, placesOf(index), quarantined), found)
      countActive(scan, index, partition, buckets, ofAll)
    } else {
      scan = reader.inBundle(source, (index) => {
        const partition = index.findPartition(tenant, dataset)
        if (partition === null || !mayMatch(plan, partition)) return null
        const scan = new SurveyScan(plan, deadline, boundsOf(plan, source.base, index, quarantined), found)
        countBundle(scan, index, partition, buckets, ofAll)
        return scan
      })
    }
    if (scan !== null) addScan(counts, scan)
  }
  return counts
}

/** Adds to `counts`. A zone that lies in one bucket, whole and of this partition alone, counts at once. */
function countActive(
  scan: SurveyScan,
  active: ActiveIndex,
  partition: number,
  buckets: TimeBuckets,
  counts: Float64Array,
): void {
  const { zoneEntries } = active
  const { plan, visible } = scan
  const zonesPerCheck = Math.ceil(ENTRIES_PER_CHECK / zoneEntries)
  for (let zone = 0; zone * zoneEntries < visible; zone++) {
    if (zone % zonesPerCheck === 0) scan.deadline.check()
    const first = zone * zoneEntries
    const end = first + zoneEntries
    if (end <= visible) {
      const earliestHigh = active.zoneEarliestHigh[zone]!
      const earliestLow = active.zoneEarliestLow[zone]!
      const latestHigh = active.zoneLatestHigh[zone]!
      const latestLow = active.zoneLatestLow[zone]!
      if (!overlaps(plan, earliestHigh, earliestLow, latestHigh, latestLow)) continue
      const isWhole =
        active.zonePartition[zone] === partition &&
        scan.damaged.length === 0 &&
        isInRange(plan, earliestHigh, earliestLow) &&
        isInRange(plan, latestHigh, latestLow)
      const bucket = isWhole ? buckets.of(earliestHigh, earliestLow) : -1
      if (isWhole && buckets.of(latestHigh, latestLow) === bucket) {
        counts[bucket]! += zoneEntries
        scan.matched += zoneEntries
        continue
      }
    }
    for (let entry = first; entry < Math.min(end, visible); entry++) {
      if (active.partition[entry] === partition) scan.consider(entry, active.timeHigh[entry]!, active.timeLow[entry]!)
    }
  }
}

/** Adds to `counts`. Postings are sorted by time, so that those of a bucket are counted by where it begins and ends. */
function countBundle(
  scan: SurveyScan,
  index: BundleSearch,
  partition: Partition,
  buckets: TimeBuckets,
  counts: Float64Array,
): void {
  const { firstPosting, records } = partition
  const { from, to } = postingsInRange(scan.plan, index, partition)
  if (from >= to) return
  index.seekPosting(from)
  let bucket = buckets.of(index.postingTimeHigh, index.postingTimeLow)
  for (let row = from; row < to; bucket++) {
    scan.deadline.check()
    const isLast = bucket === buckets.count - 1
    const high = buckets.beginHigh(bucket + 1)
    const low = buckets.beginLow(bucket + 1)
    const isToEnd = isLast || isBefore(partition.maxTimeHigh, partition.maxTimeLow, high, low)
    const next = isToEnd ? firstPosting + records : index.lowerBoundPosting(partition, high, low, 0)
    const end = Math.min(next, to)
    counts[bucket]! += end - row
    scan.matched += end - row
    row = end
  }
  const takeOut = (entries: { readonly from: number; readonly to: number }, isDamaged: boolean): void => {
    for (let entry = entries.from; entry < entries.to; entry++) {
      if ((entry - entries.from) % ENTRIES_PER_CHECK === 0) scan.deadline.check()
      index.seekEntry(entry)
      if (index.partition !== partition.number || !isInRange(scan.plan, index.timeHigh, index.timeLow)) continue
      counts[buckets.of(index.timeHigh, index.timeLow)]! -= 1
      scan.matched -= 1
      if (isDamaged) scan.quarantined += 1
    }
  }
  takeOut({ from: scan.visible, to: index.entryCount }, false)
  for (const span of scan.damaged) takeOut(span, true)
}
