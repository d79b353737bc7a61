/**
 * Consecutive offsets of one stream whose frames are in one segment: 4 bytes a record, and 24 bytes for every 64 records.
 *
 *   places  u32 a record                            where its frame begins in the segment, in bytes
 *   marks   three f64 for every MARK_RECORDS        highest event time, highest ingest time and sum of payload bytes of these records
 *
 *   whole   four f64                                over all marks: the highest, the highest, the sum; bytes of the frames, 0: not known
 *
 * R1  a run only grows at its end, up to RUN_RECORDS_MAX, so that growing never copies much, and a search in it looks at few marks
 * R2  a run is what its segment holds of the stream. That records were dropped or moved since does not change it
 */
const MARK_RECORDS = 64
export const MARK_NUMBERS = 3
/** Numbers of the whole run: those of a mark, and WHOLE_FRAME_BYTES. */
export const WHOLE_NUMBERS = 4
export const RUN_RECORDS_MAX = 65_536

export const MARK_EVENT_TIME = 0
export const MARK_INGEST_TIME = 1
export const MARK_PAYLOAD_BYTES = 2
export const WHOLE_FRAME_BYTES = 3

const CAPACITY_FIRST = 8

export const marksOf = (records: number): number => Math.ceil(records / MARK_RECORDS)

export class RecordRun {
  readonly segmentBase: number
  readonly firstOffset: number
  count: number
  /** May be longer than the run. */
  places: Uint32Array
  marks: Float64Array
  readonly whole: Float64Array

  static begin(segmentBase: number, firstOffset: number): RecordRun {
    const places = new Uint32Array(CAPACITY_FIRST)
    const marks = new Float64Array(MARK_NUMBERS)
    return new RecordRun(segmentBase, firstOffset, 0, places, marks, new Float64Array(WHOLE_NUMBERS))
  }

  constructor(
    segmentBase: number,
    firstOffset: number,
    count: number,
    places: Uint32Array,
    marks: Float64Array,
    whole: Float64Array,
  ) {
    this.segmentBase = segmentBase
    this.firstOffset = firstOffset
    this.count = count
    this.places = places
    this.marks = marks
    this.whole = whole
  }

  /** Offset behind the last record. */
  get end(): number {
    return this.firstOffset + this.count
  }

  place(offset: number): number {
    return this.places[offset - this.firstOffset]!
  }

  /** Place of the next frame that has records of the run; null: there is none. */
  placeAfter(offset: number): number | null {
    const place = this.place(offset)
    let low = offset + 1 - this.firstOffset
    let high = this.count
    if (low < high && this.places[low]! > place) return this.places[low]! // most records have a frame of their own
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.places[middle]! <= place) low = middle + 1
      else high = middle
    }
    return low < this.count ? this.places[low]! : null
  }

  /** Mark that covers an offset. */
  markOf(offset: number): number {
    return Math.floor((offset - this.firstOffset) / MARK_RECORDS)
  }

  /** First offset that a mark covers. */
  markBegin(mark: number): number {
    return this.firstOffset + MARK_RECORDS * mark
  }

  markEnd(mark: number): number {
    return Math.min(this.markBegin(mark + 1), this.end)
  }

  mark(mark: number, number: number): number {
    return this.marks[MARK_NUMBERS * mark + number]!
  }

  /** @param frameBytes the record's share of its frame */
  append(place: number, eventTimeMs: number, ingestTimeMs: number, payloadBytes: number, frameBytes: number): void {
    const { count, whole } = this
    if (count === this.places.length) this.#resize(2 * count)
    const at = MARK_NUMBERS * Math.floor(count / MARK_RECORDS)
    const { marks } = this
    this.places[count] = place
    marks[at] = Math.max(marks[at]!, eventTimeMs)
    marks[at + 1] = Math.max(marks[at + 1]!, ingestTimeMs)
    marks[at + 2]! += payloadBytes
    whole[0] = Math.max(whole[0]!, eventTimeMs)
    whole[1] = Math.max(whole[1]!, ingestTimeMs)
    whole[2]! += payloadBytes
    whole[WHOLE_FRAME_BYTES]! += frameBytes
    this.count = count + 1
  }

  /** Frees the room to grow, because another run follows. */
  settle(): void {
    if (this.count < this.places.length) this.#resize(this.count)
  }

  #resize(capacity: number): void {
    const places = new Uint32Array(capacity)
    places.set(this.places.subarray(0, this.count))
    const marks = new Float64Array(MARK_NUMBERS * marksOf(capacity))
    marks.set(this.marks.subarray(0, MARK_NUMBERS * marksOf(this.count)))
    this.places = places
    this.marks = marks
  }
}
