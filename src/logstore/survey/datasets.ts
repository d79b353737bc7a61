/**
 * The datasets that a credential may read, with what each holds: summed over the summaries of bundles and the entries of segments without a
 * bundle. No record is read.
 *
 * Counts are those of one snapshot, so a restart, retention and the removal of a bundle change them as they change queries.
 *
 * D2  memory is bounded by the answer: if there are more datasets than it has room for, those whose names come first are kept
 */
import type { ActiveIndex } from '../index/active-index.ts'
import { signalBit } from '../index/index-file.ts'
import type { BundleSearch, PartitionSummary } from '../index/reader.ts'
import { SIGNAL_LOG, SIGNAL_TRACE, signalName } from '../batch-frame.ts'
import type { Deadline } from '../query/deadline.ts'
import type { QueryPlan } from '../query/plan.ts'
import { ENTRIES_PER_CHECK, boundsOf } from '../query/scan.ts'
import { isKept, keptFrom } from '../expired.ts'
import type { KeptFrom } from '../expired.ts'
import { placesOf } from '../query/segment-reader.ts'
import type { BundleSource, SegmentReader } from '../query/segment-reader.ts'
import type { QueryAnswer } from '../query/task.ts'
import { isBefore } from '../time-words.ts'
import { answerOf } from './answer-body.ts'
import type { BundleSummaries } from './bundle-summaries.ts'
import type { DatasetsQuestion, SurveyTask } from './question.ts'
import { SurveyScan, surveyPlan } from './survey-scan.ts'
import { rangeOfWords, rangeUnion } from './time-buckets.ts'
import type { TimeRange } from './time-buckets.ts'
import { timesOfPartition } from './time-counts.ts'

interface Holding {
  readonly records: number
  /** Null: not known. */
  readonly bytes: number | null
  readonly signals: number | null
  /** Null: there are no records. */
  readonly times: TimeRange | null
  readonly quarantined: number
}

/** The holdings of datasets, as many as an answer has room for (D2). */
class Holdings {
  readonly #question: DatasetsQuestion
  readonly #room: number
  #byDataset = new Map<string, Holding>()
  /** No name at or behind it is kept any more. */
  #bound: string | null = null

  constructor(question: DatasetsQuestion) {
    this.#question = question
    this.#room = question.limit + 1
  }

  isWanted(dataset: string): boolean {
    const { datasets, after } = this.#question
    if (after !== null && dataset <= after) return false
    if (this.#bound !== null && dataset >= this.#bound) return false
    return datasets === null || datasets.includes(dataset)
  }

  add(dataset: string, more: Holding): void {
    const known = this.#byDataset.get(dataset)
    this.#byDataset.set(dataset, known === undefined ? more : sumOf(known, more))
    if (this.#byDataset.size > 4 * this.#room) this.#cut()
  }

  /** In the order of their names. One more than the answer has room for, if there are more: then another page follows. */
  sorted(): (readonly [dataset: string, holding: Holding])[] {
    this.#cut()
    return [...this.#byDataset]
  }

  #cut(): void {
    const sorted = [...this.#byDataset].sort(([a], [b]) => (a < b ? -1 : 1))
    this.#bound = sorted[this.#room]?.[0] ?? this.#bound
    this.#byDataset = new Map(sorted.slice(0, this.#room))
  }
}

const sumOf = (a: Holding, b: Holding): Holding => ({
  records: a.records + b.records,
  bytes: a.bytes === null || b.bytes === null ? null : a.bytes + b.bytes,
  signals: a.signals === null || b.signals === null ? null : a.signals | b.signals,
  times: rangeUnion(a.times, b.times),
  quarantined: a.quarantined + b.quarantined,
})

export function answerDatasets(
  reader: SegmentReader,
  summaries: BundleSummaries,
  task: SurveyTask<DatasetsQuestion>,
  deadline: Deadline,
): QueryAnswer {
  const { tenant, request, snapshot } = task
  const filter = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
  const plan = surveyPlan(task, '', filter, false)
  const sources = reader.sourcesOf(snapshot, plan)
  summaries.keepOnly(new Set(sources.map(({ base }) => base)))
  reader.bundles.expectIndexes(sources)
  const holdings = new Holdings(request)
  for (const source of sources) {
    deadline.check()
    if (source.kind === 'active') {
      const { index, base } = source
      const bounds = boundsOf(plan, base, placesOf(index), snapshot.quarantined)
      addActive(holdings, new SurveyScan(plan, deadline, bounds, () => {}), index)
      continue
    }
    const { base, expected } = source
    const damaged = snapshot.quarantined.some(({ from, to }) => from < expected.end && to > base)
    for (const summary of summaries.of(reader, source, tenant)) {
      if (!holdings.isWanted(summary.dataset)) continue
      const whole = holdingOf(summary)
      const isWhole = !damaged && !hasExpired(plan, summary)
      const holding = isWhole ? whole : visiblePart(reader, source, task, plan, deadline, summary, whole)
      if (holding.records + holding.quarantined > 0) holdings.add(summary.dataset, holding)
    }
  }
  const { limit, after } = request
  const found = holdings.sorted()
  const shown = found.slice(0, limit)
  return answerOf(task, {
    datasets: shown.map(([dataset, holding]) => ({ dataset, ...replyOf(holding) })),
    page: {
      limit,
      cursor: after === null ? null : encodeDatasetCursor(after),
      next_cursor: found.length > limit ? encodeDatasetCursor(shown.at(-1)![0]) : null,
    },
  })
}

function replyOf({ records, bytes, signals, times, quarantined }: Holding): object {
  return {
    records,
    bytes,
    first_time_unix_nano: times === null ? null : String(times.from),
    last_time_unix_nano: times === null ? null : String(times.to - 1n),
    signals:
      signals === null
        ? null
        : [SIGNAL_LOG, SIGNAL_TRACE].filter((signal) => (signals & signalBit(signal)) !== 0).map(signalName),
    ...(quarantined > 0 && { quarantined_records: quarantined }),
  }
}

const holdingOf = ({ partition, facts }: PartitionSummary): Holding => ({
  records: partition.records,
  bytes: facts?.bytes ?? null,
  signals: facts?.signals ?? null,
  times: timesOfPartition(partition),
  quarantined: 0,
})

const hasExpired = ({ expired }: QueryPlan, { dataset, partition }: PartitionSummary): boolean =>
  timesOfPartition(partition).from < (expired.get(dataset) ?? 0n)

/** Leaves out expired records and those of damaged frames. The bytes and signals of the rest are not known, so those of all records stay. */
function visiblePart(
  reader: SegmentReader,
  source: BundleSource,
  { snapshot }: SurveyTask,
  plan: QueryPlan,
  deadline: Deadline,
  { dataset, partition }: PartitionSummary,
  whole: Holding,
): Holding {
  return reader.inBundle(source, (index) => {
    const bounds = boundsOf(plan, source.base, index, snapshot.quarantined)
    const scan = new SurveyScan(plan, deadline, bounds, () => {})
    const kept = keptFrom(plan.expired, dataset)
    const first = index.lowerBoundPosting(partition, kept.high, kept.low, 0)
    const records = partition.firstPosting + partition.records - first
    let quarantined = 0
    for (const { from, to } of scan.damaged) {
      for (let entry = from; entry < to; entry++) {
        if ((entry - from) % ENTRIES_PER_CHECK === 0) deadline.check()
        index.seekEntry(entry)
        if (index.partition === partition.number && isKept(kept, index.timeHigh, index.timeLow)) quarantined++
      }
    }
    const times = timesOfUndamaged(scan, index, first, records)
    return { ...whole, records: records - quarantined, times, quarantined }
  })
}

/** The times of the first and the last posting that are not damaged: postings are sorted by time. */
function timesOfUndamaged(scan: SurveyScan, index: BundleSearch, first: number, records: number): TimeRange | null {
  const end = first + records
  const seek = (row: number): boolean => {
    if ((row - first) % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    index.seekPosting(row)
    return !scan.isDamaged(index.postingEntry)
  }
  let from = first
  while (from < end && !seek(from)) from++
  if (from === end) return null
  const { postingTimeHigh, postingTimeLow } = index
  let last = end - 1
  while (!seek(last)) last--
  return rangeOfWords(postingTimeHigh, postingTimeLow, index.postingTimeHigh, index.postingTimeLow)
}

/** Counts the entries of a segment that is no bundle yet, by partition. */
function addActive(holdings: Holdings, scan: SurveyScan, active: ActiveIndex): void {
  const { tenant } = scan.plan
  const partitions = active.partitions()
  const tallies = partitions.map((names) =>
    names.tenant === tenant && holdings.isWanted(names.dataset)
      ? new Tally(keptFrom(scan.plan.expired, names.dataset))
      : null,
  )
  const { timeHigh, timeLow, recordBytes, signal, partition } = active
  for (let entry = 0; entry < scan.visible; entry++) {
    if (entry % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    const tally = tallies[partition[entry]!]
    if (tally === null || tally === undefined || !isKept(tally.kept, timeHigh[entry]!, timeLow[entry]!)) continue
    if (scan.damaged.length > 0 && scan.isDamaged(entry)) tally.quarantined++
    else tally.add(timeHigh[entry]!, timeLow[entry]!, recordBytes[entry]!, signalBit(signal[entry]!))
  }
  for (const [number, tally] of tallies.entries()) {
    if (tally !== null && tally.records + tally.quarantined > 0)
      holdings.add(partitions[number]!.dataset, tally.holding)
  }
}

class Tally {
  readonly kept: KeptFrom
  records = 0
  quarantined = 0
  #bytes = 0
  #signals = 0
  #earliestHigh = Infinity
  #earliestLow = 0
  #latestHigh = -1
  #latestLow = 0

  constructor(kept: KeptFrom) {
    this.kept = kept
  }

  add(timeHigh: number, timeLow: number, bytes: number, signals: number): void {
    this.records++
    this.#bytes += bytes
    this.#signals |= signals
    if (isBefore(timeHigh, timeLow, this.#earliestHigh, this.#earliestLow)) {
      this.#earliestHigh = timeHigh
      this.#earliestLow = timeLow
    }
    if (isBefore(this.#latestHigh, this.#latestLow, timeHigh, timeLow)) {
      this.#latestHigh = timeHigh
      this.#latestLow = timeLow
    }
  }

  get holding(): Holding {
    const { records, quarantined } = this
    const times =
      records === 0 ? null : rangeOfWords(this.#earliestHigh, this.#earliestLow, this.#latestHigh, this.#latestLow)
    return { records, bytes: this.#bytes, signals: this.#signals, times, quarantined }
  }
}

/** Names the dataset behind which the next page begins; opaque to clients. */
const encodeDatasetCursor = (dataset: string): string => Buffer.from(dataset).toString('base64url')

/** Null: the text is no cursor. */
export function decodeDatasetCursor(text: string): string | null {
  const dataset = Buffer.from(text, 'base64url').toString('utf8')
  return dataset !== '' && encodeDatasetCursor(dataset) === text ? dataset : null
}
