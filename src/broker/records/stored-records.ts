/** Records as the reader sees them, one at a time: found by place, then measured, rendered or copied. */
import { FrameRecords } from '../frames.ts'
import { damaged } from './frame-source.ts'
import type { Failure } from './frame-source.ts'
import type { JsonText } from './json-text.ts'
import { renderRecord } from './render-record.ts'

/** The record found last. */
export interface FoundRecord {
  readonly payloadBytes: number
  readonly eventTimeMs: number
  readonly ingestTimeMs: number
  /** Null: it was found. */
  find(offset: number, segmentBase: number, place: number): Failure | null
  /** @param asOrigin for another site */
  render(text: JsonText, asOrigin?: boolean): void
}

/** Where frames come from: FrameSource, or the memory of the log. */
export interface FrameFinder {
  // Type and payload of the frame found last, valid until the next `read`.
  readonly type: number
  readonly payload: Buffer
  /** Null: it was found. */
  read(segmentBase: number, place: number): Failure | null
}

const MALFORMED = damaged('the frame does not hold records', 0)
const INGEST_TIME_BYTES = 8
const NO_RECORD = damaged('the frame does not hold the record', 0)

export class StoredRecords implements FoundRecord {
  readonly #frames: FrameFinder
  readonly #records = new FrameRecords()
  #payload: Buffer = Buffer.alloc(0)
  // Segment and place of the frame looked at last: adjacent records are often in one frame.
  #segmentBase = -1
  #place = -1
  #failure: Failure | null = null

  constructor(frames: FrameFinder) {
    this.#frames = frames
  }

  get payloadBytes(): number {
    return this.#records.record.payloadBytes
  }

  get eventTimeMs(): number {
    return this.#records.record.eventTimeMs
  }

  get ingestTimeMs(): number {
    return this.#records.ingestTimeMs
  }

  /** Forgets the frame looked at last: other readers may have moved on since. */
  begin(): void {
    this.#segmentBase = -1
  }

  find(offset: number, segmentBase: number, place: number): Failure | null {
    if (place !== this.#place || segmentBase !== this.#segmentBase) this.#failure = this.#openFrame(segmentBase, place)
    if (this.#failure !== null) return this.#failure
    return this.#records.seek(offset - this.#records.firstOffset) ? null : NO_RECORD
  }

  render(text: JsonText, asOrigin = false): void {
    const { record, firstOffset, ingestTimeMs, number } = this.#records
    renderRecord(text, this.#payload, record, firstOffset + number, ingestTimeMs, asOrigin)
  }

  /** The record as it stands in its frame. */
  copy(text: JsonText): void {
    const { at, end } = this.#records.record
    text.reserve(end - at)
    text.raw(this.#payload, at, end)
  }

  /** Its ingest time, and the record as it stands in its frame. */
  copyWithTime(text: JsonText): void {
    text.reserve(INGEST_TIME_BYTES)
    text.u64(this.ingestTimeMs)
    this.copy(text)
  }

  #openFrame(segmentBase: number, place: number): Failure | null {
    this.#segmentBase = segmentBase
    this.#place = place
    const failure = this.#frames.read(segmentBase, place)
    if (failure !== null) return failure
    this.#payload = this.#frames.payload
    return this.#records.open(this.#frames.type, this.#payload) ? null : MALFORMED
  }
}
