/**
 * Notes for searches what stands in the frames that are not compacted yet (frame-grams.ts), in the order of the log. One step at a time, on whichever
 * query thread is free, from where the last one ended.
 *
 * A frame that cannot be read is passed over: a search that needs it reads it, and tells.
 */
import { StoreError } from '../../errors.ts'
import type { FrameNoter } from './frame-grams.ts'
import { planQuery } from './plan.ts'
import type { SegmentIndex } from './scan.ts'
import { ActivePlaces, endOfUnit } from './search-scan.ts'
import type { EntryPlaces } from './search-scan.ts'
import { SegmentReader, placesOf } from './segment-reader.ts'
import type { SegmentReaderParts, Source } from './segment-reader.ts'
import type { NoteQuestion, QueryAnswer, QueryTask, Question } from './task.ts'

/** A question waits for so long at most, and a frame. */
const STEP_MS = 10
const NO_FILTER = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
const encoder = new TextEncoder() // its result has its own buffer, which can be handed to another thread

export const isNote = (task: QueryTask<Question>): task is QueryTask<NoteQuestion> =>
  'kind' in task.request && task.request.kind === 'note'

export interface NoteEngineParts extends SegmentReaderParts {
  readonly nowMs: () => number
}

export class NoteEngine {
  readonly #parts: StepParts

  constructor({ nowMs, ...parts }: NoteEngineParts, noter: FrameNoter) {
    this.#parts = { reader: new SegmentReader(parts), scans: parts.scans, noter, nowMs }
  }

  /** Whether all that is committed was met, as JSON. */
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
    if (source.kind === 'active') step.walk(source, new ActivePlaces(source.index), placesOf(source.index))
    else if (!source.expected.isCompacted && source.expected.end > step.position)
      reader.inBundle(source, (index) => step.walk(source, index, index))
    if (step.isOver) return false
  }
  return true
}

class Step {
  isOver = false
  position: number
  readonly #parts: StepParts
  readonly #snapshot: QueryTask['snapshot']
  readonly #endsMs: number

  constructor(parts: StepParts, snapshot: QueryTask['snapshot']) {
    this.#parts = parts
    this.#snapshot = snapshot
    this.position = parts.noter.begin(snapshot.generation)
    this.#endsMs = parts.nowMs() + STEP_MS
  }

  walk(source: Source, places: EntryPlaces, index: SegmentIndex): void {
    const { base } = source
    let entry = index.entriesBefore(this.position - base, 0)
    const end = index.entriesBefore(this.#snapshot.committed - base, 0)
    while (entry < end && !this.isOver) {
      places.seekEntry(entry)
      const { unit } = places
      entry = endOfUnit(places, entry, end)
      this.#note(source, unit)
      this.isOver = this.#parts.nowMs() >= this.#endsMs
    }
  }

  #note(source: Source, unit: number): void {
    const { reader, scans, noter } = this.#parts
    const position = source.base + unit
    this.position = position + 1 // frames are longer
    try {
      const batch = reader.readBatch(scans, this.#snapshot.logId, source, unit)
      noter.note(position, batch, this.position)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      noter.passOver(this.position)
    }
  }
}
