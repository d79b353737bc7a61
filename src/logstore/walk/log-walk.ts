/**
 * A walk through the records of datasets in the order in which they were stored, in steps of bounded time and memory.
 *
 * L1  a step reads committed records only, from its place on: later ones may never be stored
 * L2  the next place is behind everything that a step has read, so steps from place to place see every record once
 * L3  records of a frame that is known to be damaged are counted, and left out
 */
import { RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import type { RecordBatch } from '../batch-frame.ts'
import type { ActiveIndex } from '../index/active-index.ts'
import { Deadline } from '../query/deadline.ts'
import { placesOf } from '../query/segment-reader.ts'
import type { Source } from '../query/segment-reader.ts'
import { planQuery } from '../query/plan.ts'
import type { SeveralDatasets } from '../query/plan.ts'
import { NOTHING_EXPIRED, isKept } from '../expired.ts'
import type { KeptFrom } from '../expired.ts'
import { partitionsOf } from '../query/several-scan.ts'
import type { QuarantinedRange, QueryTask } from '../query/task.ts'
import type { Search } from '../search/expression.ts'
import { SearchMatcher } from '../search/matcher.ts'
import type { LogPlace } from './tasks.ts'
import type { WalkParts, WalkedRecord } from './time-walk.ts'

/** A step ends once it has passed this many entries, of whatever dataset. */
const ENTRIES_PER_STEP = 1 << 18

export interface LogWalkRequest {
  /** null: every dataset that may be read. */
  readonly dataset: string | null
  readonly search: Search | null
  /** The place of the first record that is read, or where it would be. */
  readonly from: LogPlace
  /** null: as far as is committed. */
  readonly to: number | null
  readonly deadlineMs: number
}

export interface LogWalkStep {
  readonly next: LogPlace
  readonly damaged: number
  /** Everything up to the end of the walk was read. */
  readonly isAtEnd: boolean
}

/** @param visit called with each record in order, and its place; true: the step ends */
export function walkInLog(parts: WalkParts, task: QueryTask<LogWalkRequest>, visit: VisitRecord): LogWalkStep {
  const { tenant, request, among = null, snapshot } = task
  const { from, dataset, search } = request
  const committed = endOf(task)
  const all = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
  const plan = planQuery(tenant, '', all, 'asc', null, committed)
  const step = new Step(parts, task, visit, {
    several: { among: dataset === null ? among : [dataset] },
    matcher: (check) => (search === null || search.kind === 'all' ? null : new SearchMatcher(search, check)),
  })
  for (const source of parts.reader.sourcesOf(snapshot, plan)) {
    if (source.kind === 'bundle' && source.expected.end <= from.position) continue
    const stoppedAt = step.walk(source)
    if (stoppedAt !== null) return { next: stoppedAt, damaged: step.damaged, isAtEnd: false }
  }
  const next = committed > from.position ? { position: committed, recordNumber: 0 } : from
  return { next, damaged: step.damaged, isAtEnd: true }
}

type VisitRecord = (record: WalkedRecord, position: number, recordNumber: number) => boolean

interface Chosen {
  readonly several: SeveralDatasets
  readonly matcher: (check: () => void) => SearchMatcher | null
}

/** What both kinds of index say of an entry. */
interface Entries {
  entriesBefore(frameOffset: number, recordNumber: number): number
  read(entry: number): void
  partition: number
  frameOffset: number
  recordNumber: number
  unit: number
  number: number
  timeHigh: number
  timeLow: number
  idOf(entry: number): Uint32Array
  readonly partitions: ReadonlyMap<number, KeptFrom>
}

class Step {
  damaged = 0
  readonly #parts: WalkParts
  readonly #task: QueryTask<LogWalkRequest>
  readonly #visit: VisitRecord
  readonly #several: SeveralDatasets
  readonly #deadline: Deadline
  readonly #matcher: SearchMatcher | null
  readonly #endsMs: number
  #looked = 0
  readonly #numbers = new Uint16Array(RECORDS_PER_BATCH_MAX)
  readonly #entries: number[] = []

  constructor(parts: WalkParts, task: QueryTask<LogWalkRequest>, visit: VisitRecord, { several, matcher }: Chosen) {
    this.#parts = parts
    this.#task = task
    this.#visit = visit
    this.#several = several
    this.#deadline = new Deadline(task.deadlineAtMs, parts.nowMs)
    this.#matcher = matcher(() => this.#deadline.check())
    this.#endsMs = parts.nowMs() + parts.bounds.stepMs
  }

  /** Null: the source was read to its end. Else the place where the step stopped. */
  walk(source: Source): LogPlace | null {
    if (source.kind === 'active') {
      return this.#walkEntries(source, activeEntries(source.index, this.#readable(source.index)))
    }
    return this.#parts.reader.inBundle(source, (index) => {
      const entries: Entries = {
        entriesBefore: (frameOffset, recordNumber) => index.entriesBefore(frameOffset, recordNumber),
        read(entry) {
          index.seekEntry(entry)
          this.partition = index.partition
          this.frameOffset = index.frameOffset
          this.recordNumber = index.recordNumber
          this.unit = index.unit
          this.number = index.number
          this.timeHigh = index.timeHigh
          this.timeLow = index.timeLow
        },
        ...NO_ENTRY,
        idOf: (entry) => index.idOf(entry),
        partitions: this.#readable(index),
      }
      return this.#walkEntries(source, entries)
    })
  }

  #readable(index: Parameters<typeof partitionsOf>[0]): ReadonlyMap<number, KeptFrom> {
    const { tenant, expired = NOTHING_EXPIRED } = this.#task
    return partitionsOf(index, tenant, this.#several, expired)
  }

  #walkEntries(source: Source, entries: Entries): LogPlace | null {
    const { base } = source
    const { request, snapshot } = this.#task
    const { from } = request
    if (entries.partitions.size === 0) return null
    let entry = from.position > base ? entries.entriesBefore(from.position - base, from.recordNumber) : 0
    const end = entries.entriesBefore(endOf(this.#task) - base, 0)
    const isDamaged = (frameOffset: number): boolean => contains(snapshot.quarantined, base + frameOffset)
    while (entry < end) {
      this.#entries.length = 0
      entries.read(entry)
      const { frameOffset } = entries
      for (; entry < end; entry++, this.#looked++) {
        entries.read(entry)
        if (entries.frameOffset !== frameOffset) break
        const { timeHigh, timeLow } = entries
        if (isKept(entries.partitions.get(entries.partition), timeHigh, timeLow)) this.#entries.push(entry)
      }
      if (this.#entries.length > 0) {
        if (isDamaged(frameOffset)) this.damaged += this.#entries.length
        else {
          const stoppedAt = this.#walkFrame(source, frameOffset, entries)
          if (stoppedAt !== null) return stoppedAt
        }
      }
      if (entry < end && this.#isOver()) {
        entries.read(entry)
        return { position: base + entries.frameOffset, recordNumber: entries.recordNumber }
      }
    }
    return null
  }

  #isOver(): boolean {
    this.#deadline.check()
    return this.#looked >= ENTRIES_PER_STEP || this.#parts.nowMs() >= this.#endsMs
  }

  /** The place behind the record at which `visit` ended the step; null: all records of the frame were read. */
  #walkFrame(source: Source, frameOffset: number, entries: Entries): LogPlace | null {
    const position = source.base + frameOffset
    for (const entry of this.#matchingOf(source, entries)) {
      entries.read(entry)
      const { recordNumber, unit, number, timeHigh, timeLow } = entries
      const record = { batch: this.#read(source, unit), number, timeHigh, timeLow, id: entries.idOf(entry) }
      if (this.#visit(record, position, recordNumber)) return { position, recordNumber: recordNumber + 1 }
    }
    return null
  }

  #read(source: Source, unit: number): RecordBatch {
    const { reader, frames } = this.#parts
    return reader.readBatch(frames, this.#task.snapshot.logId, source, unit)
  }

  /** The entries that match, in the order of the log, although their records may be read in another order. */
  #matchingOf(source: Source, entries: Entries): readonly number[] {
    const chosen = this.#entries
    if (this.#matcher === null) return chosen
    const placed = chosen.map((entry) => {
      entries.read(entry)
      return { entry, unit: entries.unit, number: entries.number }
    })
    const matching: number[] = []
    for (const [unit, among] of Map.groupBy(placed, ({ unit }) => unit)) {
      among.sort((a, b) => a.number - b.number)
      for (const [at, { number }] of among.entries()) this.#numbers[at] = number
      const matched = (at: number): void => void matching.push(among[at]!.entry)
      this.#matcher.run(this.#read(source, unit), this.#numbers, among.length, matched)
    }
    return matching.sort((a, b) => a - b)
  }
}

const endOf = ({ request: { to }, snapshot: { committed } }: QueryTask<LogWalkRequest>): number =>
  Math.min(to ?? committed, committed)

const NO_ENTRY = { partition: -1, frameOffset: -1, recordNumber: -1, unit: -1, number: -1, timeHigh: 0, timeLow: 0 }

function activeEntries(index: ActiveIndex, partitions: ReadonlyMap<number, KeptFrom>): Entries {
  return {
    ...placesOf(index),
    read(entry) {
      this.partition = index.partition[entry]!
      this.frameOffset = index.frameOffset[entry]!
      this.recordNumber = index.recordNumber[entry]!
      this.unit = this.frameOffset
      this.number = this.recordNumber
      this.timeHigh = index.timeHigh[entry]!
      this.timeLow = index.timeLow[entry]!
    },
    ...NO_ENTRY,
    idOf: (entry) => index.idWords.slice(4 * entry, 4 * entry + 4),
    partitions,
  }
}

const contains = (ranges: readonly QuarantinedRange[], position: number): boolean =>
  ranges.some(({ from, to }) => position >= from && position < to)
