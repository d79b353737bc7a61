/**
 * Records that were published not long ago, rendered on main from the memory of the log: the way to a reader thread and back would take longer.
 *
 * N1  all records of a request are there, or a thread reads them all: it says what is wrong with those that cannot be read
 * N2  main does so for few records with little payload; what is more is a thread's work
 */
import type { RecentFrames } from '../../log/recent-frames.ts'
import type { Failure } from './frame-source.ts'
import { JsonText } from './json-text.ts'
import type { Places } from './places.ts'
import type { RenderedRecords } from './record-reads.ts'
import { StoredRecords } from './stored-records.ts'
import type { FrameFinder } from './stored-records.ts'

/** N2 */
const RECORDS_MAX = 64
const PAYLOAD_BYTES_MAX = 64 << 10
/** Text that is kept for the next request. */
const TEXT_BYTES_KEPT_MAX = 256 << 10

const GONE: Failure = { cause: 'unavailable', reason: 'the frame is not in memory', frameBytes: 0 }

export class RecentRecords {
  readonly #stored: StoredRecords
  #text = new JsonText()

  constructor(frames: RecentFrames) {
    const finder: FrameFinder = {
      get type() {
        return frames.type
      },
      get payload() {
        return frames.payload
      },
      read: (segmentBase, place) => (frames.find(segmentBase + place) ? null : GONE),
    }
    this.#stored = new StoredRecords(finder)
  }

  /** Records in JSON, in memory that is used again by the next call of it. Null: a thread has to read them (N1, N2). */
  deliveries(places: Places): RenderedRecords | null {
    const { count } = places
    if (count > RECORDS_MAX) return null
    const stored = this.#stored
    const text = this.#text
    const ends = new Uint32Array(count)
    text.length = 0
    stored.begin()
    let payloadBytes = 0
    for (let number = 0; number < count; number++) {
      if (stored.find(places.offset(number), places.segmentBase(number), places.place(number)) !== null) return null
      payloadBytes += stored.payloadBytes
      if (payloadBytes > PAYLOAD_BYTES_MAX) return null
      stored.render(text)
      ends[number] = text.length
    }
    if (text.bytes.byteLength > TEXT_BYTES_KEPT_MAX) this.#text = new JsonText()
    return {
      bytes: Buffer.from(text.bytes.subarray(0, text.length)),
      bytesDone: () => {},
      unreadable: [],
      start: (number) => (number === 0 ? 0 : ends[number - 1]!),
      end: (number) => ends[number]!,
    }
  }
}
