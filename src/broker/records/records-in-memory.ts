/**
 * Renders on the main thread the records that are in memory, because the way to a reader thread and back takes longer. Records that were
 * published recently are in the log's ring; those that were read or written a while ago may be in the page cache.
 *
 * N1  unless all records of a request are in memory, a thread reads them all, which also tells why some cannot be read
 * N2  the main thread does so for few records with little payload; a thread reads larger requests
 * N3  a copy of the last long frame is kept, so that it is verified once and not for each of its records. Only visible records are asked for,
 *     so the frame is written, and its position is not given again
 */
import type { CachedFrame, CachedFrames } from '../../log/cached-frames.ts'
import type { RecentFrames } from '../../engine/recent-frames.ts'
import type { Failure } from './frame-source.ts'
import { JsonText } from './json-text.ts'
import type { Places } from './places.ts'
import type { RenderedRecords } from './rendered-records.ts'
import { StoredRecords } from './stored-records.ts'
import type { FrameFinder } from './stored-records.ts'

/** N2 */
const RENDERED_MAX = { records: 64, payloadBytes: 64 << 10 }
/** Limits for records that are only copied. */
const COPIED_MAX = { records: 1000, payloadBytes: 256 << 10 }
/** Longest buffer for text that is kept for the next request. */
const TEXT_BYTES_KEPT_MAX = 512 << 10
const FRAME_BYTES_MAX = 1 << 20
/** N3 */
const KEPT_BYTES_MIN = 4 << 10
/** Bytes of a frame that are read at first: most records are shorter. */
const FRAME_BYTES_EXPECTED = 1024

const ELSEWHERE: Failure = { cause: 'unavailable', reason: 'the frame is not in memory', frameBytes: 0 }

export class RecordsInMemory {
  readonly #frames: FramesInMemory
  readonly #stored: StoredRecords
  #text = new JsonText()

  /** @param cached null: only the log's ring is looked at */
  constructor(recent: RecentFrames, cached: CachedFrames | null) {
    this.#frames = new FramesInMemory(recent, cached)
    this.#stored = new StoredRecords(this.#frames)
  }

  /** Records in JSON, or as they stand in their frames behind their ingest times. Null: a thread has to read them (N1, N2). */
  deliveries(places: Places, asStored = false): RenderedRecords | null {
    if (places.count > (asStored ? COPIED_MAX : RENDERED_MAX).records) return null
    const ends = new Uint32Array(places.count)
    const areThere = this.#render(places, ends, asStored)
    this.#frames.release()
    const text = this.#text
    if (text.bytes.byteLength > TEXT_BYTES_KEPT_MAX) this.#text = new JsonText()
    if (!areThere) return null
    return {
      bytes: Buffer.from(text.bytes.subarray(0, text.length)),
      bytesDone: () => {},
      unreadable: [],
      start: (number) => (number === 0 ? 0 : ends[number - 1]!),
      end: (number) => ends[number]!,
    }
  }

  #render(places: Places, ends: Uint32Array, asStored: boolean): boolean {
    const payloadBytesMax = (asStored ? COPIED_MAX : RENDERED_MAX).payloadBytes
    const stored = this.#stored
    const text = this.#text
    text.length = 0
    if (!this.#frames.isKept) stored.begin()
    let payloadBytes = 0
    for (let number = 0; number < places.count; number++) {
      if (stored.find(places.offset(number), places.segmentBase(number), places.place(number)) !== null) return false
      payloadBytes += stored.payloadBytes
      if (payloadBytes > payloadBytesMax) return false
      if (asStored) stored.copyWithTime(text)
      else stored.render(text)
      ends[number] = text.length
    }
    return true
  }
}

class FramesInMemory implements FrameFinder {
  type = 0
  payload: Buffer = Buffer.alloc(0)
  readonly #recent: RecentFrames
  readonly #cached: CachedFrames | null
  /** N3. Position of the kept frame; -1: none. */
  #keptPosition = -1
  #keptType = 0
  #kept: Buffer = Buffer.alloc(0)
  /** The frame whose payload is held. */
  #held: CachedFrame | null = null

  constructor(recent: RecentFrames, cached: CachedFrames | null) {
    this.#recent = recent
    this.#cached = cached
  }

  read(segmentBase: number, place: number): Failure | null {
    const position = segmentBase + place
    if (position === this.#keptPosition) return this.#show(this.#keptType, this.#kept)
    this.release()
    if (this.#recent.find(position, FRAME_BYTES_MAX)) return this.#found(position, this.#recent)
    this.#held = this.#cached?.read(position, FRAME_BYTES_EXPECTED) ?? null
    return this.#held === null ? ELSEWHERE : this.#found(position, this.#held)
  }

  /** True when the frame read last is the kept one, whose payload does not change. */
  get isKept(): boolean {
    return this.payload === this.#kept
  }

  release(): void {
    if (this.#held !== null) this.#cached?.release(this.#held.memory)
    this.#held = null
  }

  /** N3 */
  #found(position: number, { type, payload }: { readonly type: number; readonly payload: Buffer }): null {
    if (payload.byteLength < KEPT_BYTES_MIN) return this.#show(type, payload)
    if (payload.byteLength > this.#kept.buffer.byteLength) this.#kept = Buffer.allocUnsafeSlow(payload.byteLength)
    this.#kept = Buffer.from(this.#kept.buffer, 0, payload.byteLength)
    payload.copy(this.#kept)
    this.#keptPosition = position
    this.#keptType = type
    return this.#show(type, this.#kept)
  }

  #show(type: number, payload: Buffer): null {
    this.type = type
    this.payload = payload
    return null
  }
}
