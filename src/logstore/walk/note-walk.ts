/**
 * Notes for searches what stands in the frames that are not compacted yet (src/logstore/query/frame-grams.ts), in the order of the log. One step at a
 * time, from where the last one ended.
 *
 * A frame that cannot be read is passed over: a search that needs it reads it, and tells.
 */
import { StoreError } from '../../errors.ts'
import { planQuery } from '../query/plan.ts'
import type { SegmentIndex } from '../query/scan.ts'
import { ActivePlaces, endOfUnit } from '../query/search-scan.ts'
import type { EntryPlaces } from '../query/search-scan.ts'
import { placesOf } from '../query/segment-reader.ts'
import type { Source } from '../query/segment-reader.ts'
import type { QueryTask } from '../query/task.ts'
import type { NoteRequest } from './tasks.ts'
import type { NoteParts, WalkParts } from './time-walk.ts'

const NO_FILTER = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }

/** @returns whether all that is committed was met */
export function noteFrames(parts: WalkParts, { snapshot }: QueryTask<NoteRequest>): boolean {
  const { reader, notes } = parts
  if (notes === null) return true
  const plan = planQuery('', { among: null }, NO_FILTER, 'asc', null, snapshot.committed)
  const step = new Step(parts, notes, snapshot)
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
  readonly #parts: WalkParts
  readonly #notes: NoteParts
  readonly #snapshot: QueryTask<NoteRequest>['snapshot']
  readonly #endsMs: number

  constructor(parts: WalkParts, notes: NoteParts, snapshot: QueryTask<NoteRequest>['snapshot']) {
    this.#parts = parts
    this.#notes = notes
    this.#snapshot = snapshot
    this.position = notes.noter.begin(snapshot.generation)
    this.#endsMs = parts.nowMs() + parts.bounds.stepMs
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
    const { noter, frames } = this.#notes
    const position = source.base + unit
    this.position = position + 1 // frames are longer
    try {
      const batch = this.#parts.reader.readBatch(frames, this.#snapshot.logId, source, unit)
      noter.note(position, batch, this.position)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      noter.passOver(this.position)
    }
  }
}
