/**
 * How many records match in each bucket of time; with a split, for each of the most frequent values.
 *
 * H1  counts are exact and of one snapshot; damaged records are counted apart
 * H2  if the filter is only a time range and there is no split, only indexes are read
 * H3  with a split, records are walked once if their values are few, else twice: the first walk finds the most frequent values, the second one counts
 *     them. value-counts.ts bounds the memory of both
 * H4  in compacted blocks, values are taken from the columns where these know them; otherwise records are read
 */
import { UNKNOWN_VALUE, rowValuesOf } from '../compact/row-values.ts'
import type { Deadline } from '../query/deadline.ts'
import type { MatchedRows } from '../query/matched-rows.ts'
import { boundsOf } from '../query/scan.ts'
import { keptFrom } from '../expired.ts'
import { placesOf, refused, usedIndexes } from '../query/segment-reader.ts'
import type { SegmentReader, Source } from '../query/segment-reader.ts'
import type { QueryAnswer } from '../query/task.ts'
import { SearchMatcher } from '../search/matcher.ts'
import { BUCKETS_MAX } from './question.ts'
import type { HistogramQuestion, SurveyTask } from './question.ts'
import { answerBody } from './answer-body.ts'
import { SurveyScan, isOfTimeOnly, surveyPlan } from './survey-scan.ts'
import type { BlockCounter, Found } from './survey-scan.ts'
import { TimeBuckets, rangeUnion } from './time-buckets.ts'
import type { TimeRange } from './time-buckets.ts'
import { addScan, countByIndex, noCounts, timesOfActive, timesOfKept } from './time-counts.ts'
import type { Counts, SurveyWalk } from './time-counts.ts'
import { ValueCounts } from './value-counts.ts'
import { keyOfText, nameOfSeverity, readerOf, valueInAnswer } from '../search/value-text.ts'

type Walk = SurveyWalk<HistogramQuestion>

/** What one walk over the records counted. */
interface RecordCounts extends Counts {
  readonly ofNone: Float64Array
  readonly values: ValueCounts
}

export function answerHistogram(
  reader: SegmentReader,
  task: SurveyTask<HistogramQuestion>,
  deadline: Deadline,
): QueryAnswer {
  const { request, snapshot } = task
  const { dataset, filter, splitBy } = request
  const plan = surveyPlan(task, dataset, filter, splitBy !== null || filter.search !== null)
  const sources = reader.sourcesOf(snapshot, plan)
  reader.bundles.expectIndexes(sources)
  const walk: Walk = { reader, task, deadline, plan, sources }
  const range = rangeOf(walk)
  const buckets = bucketsOf(request, range)
  if ('problem' in buckets) return refused('invalid_query', buckets.problem)
  const { counts, series, isTopCertain } = countAll(walk, buckets)
  return answerBody(task, dataset, counts, usedIndexes(filter), {
    interval_nano: String(buckets.width),
    buckets: Array.from(counts.ofAll, (records, bucket) => ({
      start_time_unix_nano: String(buckets.beginOf(bucket)),
      records,
    })),
    ...(splitBy !== null && { split_by: splitBy, series }),
    ...(!isTopCertain && { top_is_certain: false }),
  })
}

/** The time range of the filter. Records of the dataset that have not expired set an open end. Null: there is no time in the range. */
function rangeOf({ reader, task, deadline, plan, sources }: Walk): TimeRange | null {
  const { startTime, endTime } = task.request.filter
  if (startTime !== null && endTime !== null) return startTime < endTime ? { from: startTime, to: endTime } : null
  let found: TimeRange | null = null
  for (const source of sources) {
    deadline.check()
    found = rangeUnion(found, timesOf({ reader, task, deadline, plan }, source))
  }
  if (found === null) return null
  const range = { from: startTime ?? found.from, to: endTime ?? found.to }
  return range.from < range.to ? range : null
}

function timesOf({ reader, task, deadline, plan }: Omit<Walk, 'sources'>, source: Source): TimeRange | null {
  const { tenant, dataset } = plan
  if (source.kind === 'bundle') {
    return reader.inBundle(source, (index) => {
      const partition = index.findPartition(tenant, dataset)
      return partition === null ? null : timesOfKept(index, partition, keptFrom(plan.expired, dataset))
    })
  }
  const { index, base } = source
  const partition = index.findPartition(tenant, dataset)
  if (partition < 0) return null
  const bounds = boundsOf(plan, base, placesOf(index), task.snapshot.quarantined)
  return timesOfActive(new SurveyScan(plan, deadline, bounds, () => {}), index, partition)
}

/** No buckets if there is no range. With an interval, buckets begin at its multiples, so that those of two requests fit together. */
function bucketsOf({ width }: HistogramQuestion, range: TimeRange | null): TimeBuckets | { readonly problem: string } {
  if (range === null) return new TimeBuckets(0n, 'interval' in width ? width.interval : 1n, 0)
  const { from, to } = range
  if ('buckets' in width) {
    const equal = dividedUp(to - from, BigInt(width.buckets))
    return new TimeBuckets(from, equal, Number(dividedUp(to - from, equal)))
  }
  const origin = from - (from % width.interval)
  const count = dividedUp(to - origin, width.interval)
  if (count <= BUCKETS_MAX) return new TimeBuckets(origin, width.interval, Number(count))
  const problem = `interval_nano makes ${count} buckets of the time range, and ${BUCKETS_MAX} are allowed: raise it or narrow the range`
  return { problem }
}

const dividedUp = (a: bigint, b: bigint): bigint => (a + b - 1n) / b

interface Series {
  readonly kind: 'value' | 'other' | 'none'
  readonly value?: string
  readonly records: number
  readonly counts: readonly number[]
}

function countAll(
  walk: Walk,
  buckets: TimeBuckets,
): { readonly counts: Counts; readonly series: readonly Series[]; readonly isTopCertain: boolean } {
  const { plan, task, deadline } = walk
  const { splitBy, top } = task.request
  if (isOfTimeOnly(plan)) return { counts: countByIndex(walk, buckets), series: [], isTopCertain: true }
  const matcher = plan.search === null ? null : new SearchMatcher(plan.search, () => deadline.check())
  const readValue = splitBy === null ? null : readerOf(splitBy)
  const first = countRecords(walk, buckets, matcher, readValue, ValueCounts.ofAll(buckets.count))
  const keys = first.values.top(top)
  const isTopCertain = first.values.isTopCertain(top)
  let counted = first.values.counted(keys)
  if (counted === null) {
    const second = countRecords(walk, buckets, matcher, readValue, ValueCounts.onlyOf(keys, buckets.count))
    counted = second.values.counted(keys)!
  }
  const series: Series[] = counted
    .toSorted((a, b) => b.records - a.records || (a.key < b.key ? -1 : 1))
    .map(({ key, records, counts }) => ({ kind: 'value', ...valueInAnswer(key), records, counts: [...counts] }))
  const rest = first.ofAll.map((all, bucket) =>
    counted.reduce((left, { counts }) => left - counts[bucket]!, all - first.ofNone[bucket]!),
  )
  for (const [kind, counts] of [
    ['other', rest],
    ['none', first.ofNone],
  ] as const) {
    const records = counts.reduce((sum, count) => sum + count, 0)
    if (records > 0) series.push({ kind, records, counts: [...counts] })
  }
  return { counts: first, series, isTopCertain }
}

/** Counts the records that a query would find, by id, trace or search. */
function countRecords(
  { reader, task, deadline, plan, sources }: Walk,
  buckets: TimeBuckets,
  matcher: SearchMatcher | null,
  readValue: ReturnType<typeof readerOf> | null,
  values: ValueCounts,
): RecordCounts {
  const counts = { ...noCounts(buckets), ofNone: new Float64Array(buckets.count), values }
  const { ofAll, ofNone } = counts
  const { snapshot, request } = task
  const found: Found = (timeHigh, timeLow, view) => {
    const bucket = buckets.of(timeHigh, timeLow)
    ofAll[bucket]! += 1
    if (readValue === null) return
    const text = readValue(view!) // a split reads records, see surveyPlan
    if (text === null) ofNone[bucket]! += 1
    else values.add(keyOfText(text), bucket)
  }
  const blocks = blockCounter(counts, buckets, request.splitBy)
  for (const source of buckets.count === 0 ? [] : sources) {
    deadline.check()
    const scan = reader.scan(source, plan, snapshot, (bounds) => new SurveyScan(plan, deadline, bounds, found, blocks))
    if (scan === null) continue
    if (matcher !== null) reader.search(scan, source, matcher, snapshot)
    addScan(counts, scan)
  }
  return counts
}

/** H4. Null: no column holds the values of the split. */
function blockCounter(
  { ofAll, ofNone, values }: RecordCounts,
  buckets: TimeBuckets,
  splitBy: string | null,
): BlockCounter | null {
  const rowValues = splitBy === null ? null : rowValuesOf(splitBy)
  if (splitBy !== null && rowValues === null) return null
  const add = (text: string | null, bucket: number, records: number): void => {
    if (text === null) ofNone[bucket]! += records
    else values.add(keyOfText(text), bucket, records)
  }
  const tally = new Uint32Array(UNKNOWN_VALUE)
  const countIn = (rows: MatchedRows, from: number, to: number, bucket: number): number => {
    const count = rows.count(from, to)
    ofAll[bucket]! += count
    if (rows.values === null || count === 0) return count
    const { texts, choices } = rows.values
    if (choices === null) {
      add(texts[0]!, bucket, count)
      return count
    }
    const met: number[] = []
    for (let row = from; row < to; row++) {
      if (!rows.matches(row)) continue
      const choice = choices[row]!
      if (tally[choice]!++ === 0) met.push(choice)
    }
    for (const choice of met) {
      add(texts[choice]!, bucket, tally[choice]!)
      tally[choice] = 0
    }
    return count
  }
  return {
    rowValues,
    countAtOnce(count, earliestHigh, earliestLow, latestHigh, latestLow, severityRows) {
      const bucket = buckets.of(earliestHigh, earliestLow)
      if (buckets.of(latestHigh, latestLow) !== bucket) return false
      if (splitBy !== null) {
        if (splitBy !== 'severity' || severityRows === null) return false
        ofNone[bucket]! += count - addSeverities(values, severityRows, bucket)
      }
      ofAll[bucket]! += count
      return true
    },
    countRows(rows) {
      let counted = 0
      for (let row = rows.from; row < rows.to;) {
        const bucket = buckets.of(...rows.timeOf(row))
        const high = buckets.beginHigh(bucket + 1)
        const low = buckets.beginLow(bucket + 1)
        const end = rows.endsBefore(high, low) ? rows.to : rows.rowAt(high, low, row)
        counted += countIn(rows, row, end, bucket)
        row = end
      }
      return counted
    },
  }
}

/** @returns how many records have a severity */
function addSeverities(values: ValueCounts, rows: Uint32Array, bucket: number): number {
  let all = 0
  for (const [severity, records] of rows.entries()) {
    if (records === 0) continue
    values.add(keyOfText(nameOfSeverity(severity)), bucket, records)
    all += records
  }
  return all
}
