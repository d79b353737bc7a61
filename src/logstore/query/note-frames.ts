/**
 * Notes the frames that are not compacted yet for searches (frame-grams.ts), in the order of the log. One step runs at a time, on any free query thread,
 * and continues where the last one ended.
 *
 * A frame that cannot be read is noted as one that may hold anything: a search that comes to it reads it, and reports the failure.
 */
import { StoreError } from '../../errors.ts'
import type { RecordBatch } from '../batch-frame.ts'
import type { FrameNoter } from './frame-grams.ts'
import { planQuery } from './plan.ts'
import { ActivePlaces } from './search-scan.ts'
import type { EntryPlaces } from './search-scan.ts'
import { SegmentReader } from './segment-reader.ts'
import type { SegmentReaderParts, Source } from './segment-reader.ts'
import type { NoteQuestion, QueryAnswer, QueryTask } from './task.ts'

/** A step ends after the frame during which this time has passed, so a question waits for little longer. */
const STEP_MS = 10
const NO_FILTER = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
const encoder = new TextEncoder() // its result has its own buffer, which can be handed to another thread

export interface NoteEngineParts extends SegmentReaderParts {
  readonly nowMs: () => number
}

export class NoteEngine {
  readonly #parts: StepParts

  constructor({ nowMs, ...parts }: NoteEngineParts, noter: FrameNoter) {
    this.#parts = { reader: new SegmentReader(parts), scans: parts.scans, noter, nowMs }
  }

  /** Answers, as JSON, whether everything that is committed was met. */
  run({ snapshot }: QueryTask<NoteQuestion>): QueryAnswer {
    const { reader } = this.#parts
    return reader.answer((): QueryAnswer => {
      const isAtEnd = noteFrames(this.#parts, snapshot)
      return { kind: 'ok', body: encoder.encode(JSON.stringify(isAtEnd)) }
    })
  }
}

interface StepParts {
  readonly reader: SegmentReader
  readonly scans: SegmentReaderParts['scans']
  readonly noter: FrameNoter
  readonly nowMs: () => number
}

function noteFrames(parts: StepParts, snapshot: QueryTask['snapshot']): boolean {
  const { reader } = parts
  const plan = planQuery('', { among: null }, NO_FILTER, 'asc', null, snapshot.committed)
  const step = new Step(parts, snapshot)
  for (const source of reader.sourcesOf(snapshot, plan)) {
    if (source.kind === 'active') step.walk(source, new ActivePlaces(source.index))
    else if (source.expected.isCompacted) step.skip()
    else if (source.expected.end > step.position) reader.inBundle(source, (index) => step.walk(source, index))
    if (step.isOver) return false
  }
  return true
}

class Step {
  isOver = false
  position: number
  /** No frame with records stands between the one that was noted last and where the walk is. */
  #isUnbroken = false
  readonly #parts: StepParts
  readonly #snapshot: QueryTask['snapshot']
  readonly #endsMs: number

  constructor(parts: StepParts, snapshot: QueryTask['snapshot']) {
    this.#parts = parts
    this.#snapshot = snapshot
    this.position = parts.noter.begin(snapshot.generation)
    this.#endsMs = parts.nowMs() + STEP_MS
  }

  skip(): void {
    this.#isUnbroken = false
  }

  /** The segments of the snapshot come in the order of the log, all of them. */
  walk(source: Source, places: EntryPlaces): void {
    const { base } = source
    if (this.position > base) this.#isUnbroken = true // the frame that was noted last is in this segment, whose frames are all noted in order
    let entry = places.entriesBefore(this.position - base, 0)
    const end = places.entriesBefore(this.#snapshot.committed - base, 0)
    while (entry < end && !this.isOver) {
      places.seekEntry(entry)
      const { unit } = places
      entry = endOfUnit(places, entry, end)
      this.#note(source, unit)
      this.isOver = this.#parts.nowMs() >= this.#endsMs
    }
  }

  #note(source: Source, unit: number): void {
    const position = source.base + unit
    this.#parts.noter.note(position, this.#read(source, unit), this.#isUnbroken)
    this.position = position + 1
    this.#isUnbroken = true
  }

  /** Null: it cannot be read. */
  #read(source: Source, unit: number): RecordBatch | null {
    const { reader, scans } = this.#parts
    try {
      return reader.readBatch(scans, this.#snapshot.logId, source, unit)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      return null
    }
  }
}

/** Where the entries of this entry's unit end: entries of one unit are adjacent. */
function endOfUnit(places: EntryPlaces, entry: number, end: number): number {
  places.seekEntry(entry)
  const { unit } = places
  const isOfUnit = (other: number): boolean => {
    places.seekEntry(other)
    return places.unit === unit
  }
  let low = entry + 1
  let step = 1
  while (low + step < end && isOfUnit(low + step)) {
    low += step + 1
    step *= 2
  }
  let high = Math.min(low + step, end)
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isOfUnit(middle)) low = middle + 1
    else high = middle
  }
  return low
}
