/**
 * Which attributes and fields the matching records have, how many records have each, and their most frequent values.
 *
 * `matched_records` is exact. The other counts are of the records that were sampled, whose number is in the answer.
 *
 * F2  if the filter is only a time range, indexes say how many records match, and only the sample is read: evenly spread runs of neighbours, as neighbours
 *     are in one frame
 * F3  otherwise the matching records are read anyway, and every n-th one is sampled
 */
import type { Deadline } from '../query/deadline.ts'
import type { ActiveIndex } from '../index/active-index.ts'
import type { BundleSearch } from '../index/reader.ts'
import { isInRange } from '../query/plan.ts'
import { ENTRIES_PER_CHECK, boundsOf, postingsInRange } from '../query/scan.ts'
import type { SegmentIndex } from '../query/scan.ts'
import { placesOf, usedIndexes } from '../query/segment-reader.ts'
import type { SegmentReader } from '../query/segment-reader.ts'
import type { QueryAnswer } from '../query/task.ts'
import { SearchMatcher } from '../search/matcher.ts'
import type { AttributePlace, FieldName } from '../search/names.ts'
import type { RecordView } from '../search/record-view.ts'
import { answerBody } from './answer-body.ts'
import { KEPT_SAMPLE_CHARACTERS_MAX, KEYS_MAX } from './question.ts'
import type { FieldsQuestion, SurveyTask } from './question.ts'
import { Sample } from './sample.ts'
import { SurveyScan, surveyPlan } from './survey-scan.ts'
import { TimeBuckets } from './time-buckets.ts'
import { countByIndex } from './time-counts.ts'
import type { Counts, SurveyWalk } from './time-counts.ts'
import { fieldText, keyOfText, severityName, textOfValue, valueInAnswer } from '../search/value-text.ts'

/** Most neighbours of a run. */
const RUN_MAX = 16
/** Most attributes of one record that are counted, and characters of their names. */
const ATTRIBUTES_MAX = 128
const NAME_LENGTH_MAX = 256

/** Fields that have few values, or that people search for. */
const FIELDS: readonly FieldName[] = [
  'severity_text',
  'event_name',
  'name',
  'kind',
  'status.code',
  'status.message',
  'scope.name',
  'scope.version',
]

type Place = AttributePlace | 'field'
const ATTRIBUTE_PLACES: readonly AttributePlace[] = ['resource', 'scope', 'record']
const PREFIXES: Readonly<Record<Place, string>> = {
  record: 'attributes.',
  scope: 'scope.attributes.',
  resource: 'resource.attributes.',
  field: '',
}

/** Name and value in turn. */
type Seen = readonly string[]

type Totals = Pick<Counts, 'matched' | 'quarantined' | 'scanned'>

/** One bucket for everything. */
const ALL_TIME = new TimeBuckets(0n, 1n << 64n, 1)

export function answerFields(reader: SegmentReader, task: SurveyTask<FieldsQuestion>, deadline: Deadline): QueryAnswer {
  const { request, snapshot } = task
  const { dataset, filter, sampleMax } = request
  const plan = surveyPlan(task, dataset, filter, true)
  const sources = reader.sourcesOf(snapshot, plan)
  reader.bundles.expectIndexes(sources)
  const matcher = new SearchMatcher(plan.search!, () => deadline.check()) // surveyPlan sets it
  const sample = new Sample<Seen>(sampleMax, KEPT_SAMPLE_CHARACTERS_MAX)
  const look = (view: RecordView): void => {
    if (!sample.isNext()) return
    const seen = seenOf(view)
    sample.add(
      seen,
      seen.reduce((sum, { length }) => sum + length, 0),
    )
  }
  const walk = { reader, task, deadline, plan, sources, matcher, look }
  const isOfTimeOnly = filter.recordId === null && filter.traceId === null && filter.search === null
  const totals = isOfTimeOnly ? lookAtRuns(walk) : lookAtMatches(walk)
  const looked = sample.items
  const keys = countKeys(looked)
  return answerBody(task, dataset, totals, usedIndexes(filter), {
    sampled: looked.length < totals.matched,
    sampled_records: looked.length,
    fields: keys.slice(0, KEYS_MAX).map((key) => replyOfKey(key, request.valuesMax)),
    ...(keys.length > KEYS_MAX && { left_out_fields: keys.length - KEYS_MAX }),
  })
}

interface Walk extends SurveyWalk<FieldsQuestion> {
  readonly matcher: SearchMatcher
  readonly look: (view: RecordView) => void
}

/** F3 */
function lookAtMatches({ reader, task, deadline, plan, sources, matcher, look }: Walk): Totals {
  const totals: Totals = { matched: 0, quarantined: 0, scanned: 0 }
  const { snapshot } = task
  for (const source of sources) {
    deadline.check()
    const scan = reader.scan(
      source,
      plan,
      snapshot,
      (bounds) => new SurveyScan(plan, deadline, bounds, (_high, _low, view) => look(view!)),
    )
    if (scan === null) continue
    reader.search(scan, source, matcher, snapshot)
    totals.matched += scan.matched
    totals.quarantined += scan.quarantined
    totals.scanned++
  }
  return totals
}

/** The first `length` of every `stride` records, counted over all segments. */
interface Runs {
  readonly length: number
  readonly stride: number
}

const isInRun = ({ length, stride }: Runs, ordinal: number): boolean => ordinal % stride < length

function runsOf(matched: number, sampleMax: number): Runs {
  const length = Math.min(RUN_MAX, sampleMax)
  const stride = matched <= sampleMax ? length : Math.ceil(matched / Math.floor(sampleMax / length))
  return { length, stride }
}

/** F2 */
function lookAtRuns(walk: Walk): Totals {
  const { reader, task, deadline, plan, sources, matcher, look } = walk
  const counts = countByIndex({ ...walk, plan: { ...plan, search: null } }, ALL_TIME)
  const runs = runsOf(counts.matched, task.request.sampleMax)
  let before = 0
  for (const source of sources) {
    deadline.check()
    const { base } = source
    const scanOf = (places: SegmentIndex) => {
      const bounds = boundsOf(plan, base, places, task.snapshot.quarantined)
      return new SurveyScan(plan, deadline, bounds, (_high, _low, view) => look(view!)) // the matcher gives a view of each record
    }
    let scan: SurveyScan
    if (source.kind === 'active') {
      scan = scanOf(placesOf(source.index))
      before += chooseActive(scan, source.index, before, runs)
    } else {
      scan = reader.inBundle(source, (index) => {
        const scan = scanOf(index)
        before += chooseBundle(scan, index, before, runs)
        return scan
      })
    }
    reader.search(scan, source, matcher, task.snapshot)
  }
  return counts
}

/** Makes the entries of runs candidates. @returns how many match */
function chooseActive(scan: SurveyScan, active: ActiveIndex, before: number, runs: Runs): number {
  const { plan, visible } = scan
  const partition = active.findPartition(plan.tenant, plan.dataset)
  let count = 0
  for (let entry = 0; entry < visible; entry++) {
    if (entry % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    if (active.partition[entry] !== partition) continue
    const high = active.timeHigh[entry]!
    const low = active.timeLow[entry]!
    if (!isInRange(plan, high, low) || scan.isDamaged(entry)) continue
    if (isInRun(runs, before + count)) scan.consider(entry, high, low)
    count++
  }
  return count
}

/** Chooses the records of a bundle by time. Where nothing is damaged, only the postings of runs are read. */
function chooseBundle(scan: SurveyScan, index: BundleSearch, before: number, runs: Runs): number {
  const { plan } = scan
  const partition = index.findPartition(plan.tenant, plan.dataset)
  if (partition === null) return 0
  const { from, to } = postingsInRange(plan, index, partition)
  const isWhole = scan.damaged.length === 0
  let count = 0
  for (let row = from; row < to; row++) {
    if ((row - from) % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    if (isWhole && !isInRun(runs, before + count)) {
      // Skips to where the next run begins.
      const skipped = Math.min(to - row, runs.stride - ((before + count) % runs.stride))
      row += skipped - 1
      count += skipped
      continue
    }
    index.seekPosting(row)
    if (scan.isDamaged(index.postingEntry)) continue
    if (isInRun(runs, before + count)) scan.consider(index.postingEntry, index.postingTimeHigh, index.postingTimeLow)
    count++
  }
  return count
}

/** What a record has: name and value in turn, each name once. */
function seenOf(view: RecordView): Seen {
  const seen: string[] = []
  const names = new Set<string>()
  const add = (place: Place, key: string, text: string | null): void => {
    const name = `${PREFIXES[place]}${key}`
    if (text === null || names.has(name) || names.size >= ATTRIBUTES_MAX || key.length > NAME_LENGTH_MAX) return
    names.add(name)
    seen.push(name, keyOfText(text))
  }
  add('field', 'signal', view.isLog ? 'log' : 'trace')
  add('field', 'severity', severityName(view))
  for (const field of FIELDS) add('field', field, fieldText(view, field))
  for (const place of ATTRIBUTE_PLACES) {
    for (const [key, value] of view.attributes(place)) add(place, key, textOfValue(value))
  }
  return seen
}

interface CountedKey {
  readonly name: string
  records: number
  readonly values: Map<string, number>
}

/** The keys that most records have come first. */
function countKeys(looked: readonly Seen[]): CountedKey[] {
  const keys = new Map<string, CountedKey>()
  for (const seen of looked) {
    for (let at = 0; at < seen.length; at += 2) {
      const name = seen[at]!
      const value = seen[at + 1]!
      let key = keys.get(name)
      if (key === undefined) keys.set(name, (key = { name, records: 0, values: new Map() }))
      key.records++
      key.values.set(value, (key.values.get(value) ?? 0) + 1)
    }
  }
  return [...keys.values()].sort((a, b) => b.records - a.records || (a.name < b.name ? -1 : 1))
}

function replyOfKey({ name, records, values }: CountedKey, valuesMax: number): object {
  const ranked = [...values].sort(([a, countA], [b, countB]) => countB - countA || (a < b ? -1 : 1))
  return {
    name,
    of: ATTRIBUTE_PLACES.find((place) => name.startsWith(PREFIXES[place])) ?? 'field',
    records,
    distinct_values: values.size,
    values: ranked.slice(0, valuesMax).map(([key, count]) => ({ ...valueInAnswer(key), records: count })),
  }
}
