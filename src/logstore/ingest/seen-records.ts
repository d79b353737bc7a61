/**
 * Finds what is stored already, in the idempotency window of ingest.
 *
 * R1  a batch is stored already when a frame holds its records and no others: the same ids in the same order. An id stands for tenant,
 *     dataset and every byte that is kept. The frame is found by its first record
 * R2  a record is stored already when its id is, in whatever batch it came
 * R3  the window is what is not a bundle yet, the newest IDEMPOTENCY_BUNDLES bundles, and those of the last IDEMPOTENCY_SECONDS before
 *     the newest, up to IDEMPOTENCY_BUNDLES_MAX. A merged bundle counts as the number of full segments that its records fill. These are at most the
 *     bundles that were merged, so merging does not shorten the window; and the window's tables take at most the memory of so many full segments
 *
 * The search looks into the active segment, into sealed segments whose sidecar is not published yet, and into the newest bundles. A
 * record with a time of its own can only stand in a segment whose times enclose it, so records that arrive in order of time
 * are looked for nowhere.
 */
import type { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import type { Position } from '../../log/log-writer.ts'
import type { ActiveIndex } from '../index/active-index.ts'
import { IDEMPOTENCY_BUNDLES, IDEMPOTENCY_BUNDLES_MAX, IDEMPOTENCY_SECONDS, SEGMENT_ENTRIES_MAX } from '../limits.ts'

/** What de-duplication needs of a bundle's sidecar. Times are u64 nanoseconds as doubles, which keeps their order. */
export interface SeenBundle {
  readonly base: number
  readonly end: number
  readonly records: number
  readonly minTime: number
  readonly maxTime: number
  /** When the last of its batches was received. */
  readonly receivedUntil: number
  mayContainId(w0: number, w1: number, w2: number, w3: number): boolean
  containsId(w0: number, w1: number, w2: number, w3: number): boolean
  /**
   * R1. Where in the segment the frame begins; null: the bundle does not have the batch.
   *
   * @param framesMax the search may look only at this many of the newest frames that begin with the batch's first record
   */
  frameOfBatch(ids: Uint32Array, records: number, framesMax: number): number | null
  close(): void
}

const WORD = 2 ** 32
/**
 * A sender can make any number of frames that begin with the same record. If one segment has more of them than this, a repeat of an older one is
 * stored a second time.
 */
const FRAMES_LOOKED_AT = 1024

interface BundleInWindow {
  readonly receivedUntil: number | bigint
  readonly records: number
}

const fullSegmentsOf = ({ records }: BundleInWindow): number => Math.max(1, Math.ceil(records / SEGMENT_ENTRIES_MAX))

/** R3: how many bundles of these, oldest first, are in the window. */
export function windowLength(bundles: readonly BundleInWindow[]): number {
  const from = Number(bundles.at(-1)?.receivedUntil ?? 0) - IDEMPOTENCY_SECONDS * 1e9
  let counted = 0
  let length = 0
  for (const bundle of bundles.toReversed()) {
    if (counted >= (Number(bundle.receivedUntil) < from ? IDEMPOTENCY_BUNDLES : IDEMPOTENCY_BUNDLES_MAX)) break
    counted += fullSegmentsOf(bundle)
    length++
  }
  return length
}

/** A segment of the log and the ActiveIndex of its records. */
export interface IndexedSegment {
  /** NO_SEGMENT while the log has none that is open. */
  readonly base: number
  /** Number of the index among the node's SegmentIndexes. */
  readonly number: number
  readonly index: ActiveIndex
}

export const NO_SEGMENT = -1

export class SeenRecords {
  #active: IndexedSegment
  /** Sealed segments without a sidecar, oldest first. */
  #sealing: IndexedSegment[]
  /** Newest last. */
  #bundles: SeenBundle[] = []
  /** Where records of the current batch can stand. */
  readonly #candidateIndexes: IndexedSegment[] = []
  readonly #candidates: SeenBundle[] = []

  constructor(active: IndexedSegment, sealing: readonly IndexedSegment[] = []) {
    this.#active = active
    this.#sealing = [...sealing]
  }

  get active(): IndexedSegment {
    return this.#active
  }

  /** A new segment was opened; the one before is sealed and has no sidecar yet. */
  openSegment(segment: IndexedSegment): void {
    if (this.#active.base !== NO_SEGMENT) this.#sealing.push(this.#active)
    this.#active = segment
  }

  /** The sidecar of a sealed segment is published: its index may be given to another segment, its bundle is asked instead. */
  closeSealed(base: number): void {
    this.#sealing = this.#sealing.filter((sealed) => sealed.base !== base)
  }

  /** Replaces the bundles whose range the new one covers. */
  addBundle(bundle: SeenBundle): void {
    const isIn = ({ base }: SeenBundle): boolean => base >= bundle.base && base < bundle.end
    for (const { base } of this.#bundles.filter(isIn)) this.dropBundle(base)
    this.#bundles.push(bundle)
    this.#bundles.sort((a, b) => a.base - b.base)
    while (this.#bundles.length > windowLength(this.#bundles)) this.#bundles.shift()?.close()
  }

  dropBundle(base: number): void {
    const dropped = this.#bundles.find((bundle) => bundle.base === base)
    if (!dropped) return
    this.#bundles = this.#bundles.filter((bundle) => bundle !== dropped)
    dropped.close()
  }

  /** Selects where records of this batch can stand; call before `has`. False: nowhere. */
  beginBatch(batch: OtlpBatch): boolean {
    let earliest = Infinity
    let latest = -Infinity
    for (let record = 0; record < batch.recordCount; record++) {
      let time = batch.timeHigh[record]! * WORD + batch.timeLow[record]!
      if (time === 0) {
        earliest = 0 // stored under the time of its receipt, which is not known here
        time = Infinity
      }
      if (time < earliest) earliest = time
      if (time > latest) latest = time
    }
    this.#candidateIndexes.length = 0
    for (const segment of [...this.#sealing, this.#active]) {
      if (segment.index.mayHoldTimes(earliest, latest)) this.#candidateIndexes.push(segment)
    }
    this.#candidates.length = 0
    for (const bundle of this.#bundles) {
      if (bundle.minTime <= latest && bundle.maxTime >= earliest) this.#candidates.push(bundle)
    }
    return this.#candidateIndexes.length > 0 || this.#candidates.length > 0
  }

  /** R1. Position of the frame of the batch that `beginBatch` was called with; null: it is not stored. */
  placeOfBatch(ids: Uint32Array, records: number): Position | null {
    for (const { base, index } of this.#candidateIndexes) {
      const frame = frameIn(index, ids, records)
      if (frame !== null) return base + frame
    }
    for (const bundle of this.#candidates) {
      if (!bundle.mayContainId(ids[0]!, ids[1]!, ids[2]!, ids[3]!)) continue
      const frame = bundle.frameOfBatch(ids, records, FRAMES_LOOKED_AT)
      if (frame !== null) return bundle.base + frame
    }
    return null
  }

  /** R2 */
  has(w0: number, w1: number, w2: number, w3: number): boolean {
    for (const { index } of this.#candidateIndexes) if (index.newestOfId(w0, w1, w2, w3) >= 0) return true
    for (const bundle of this.#candidates) {
      if (bundle.mayContainId(w0, w1, w2, w3) && bundle.containsId(w0, w1, w2, w3)) return true
    }
    return false
  }
}

/** As `frameOfBatch`. */
function frameIn(index: ActiveIndex, ids: Uint32Array, records: number): number | null {
  const { appended, frameOffset, recordNumber, idWords } = index
  let first = index.newestOfId(ids[0]!, ids[1]!, ids[2]!, ids[3]!)
  for (let looked = 0; first >= 0 && looked < FRAMES_LOOKED_AT; first = index.olderOfId(first), looked++) {
    const end = first + records
    if (recordNumber[first] !== 0 || end > appended) continue
    if (frameOffset[end - 1] !== frameOffset[first] || recordNumber[end - 1] !== records - 1) continue
    if (end < appended && frameOffset[end] === frameOffset[first]) continue
    if (sameIds(idWords, 4 * first, ids, records)) return frameOffset[first]!
  }
  return null
}

function sameIds(words: Uint32Array, at: number, ids: Uint32Array, records: number): boolean {
  for (let word = 0; word < 4 * records; word++) if (words[at + word] !== ids[word]) return false
  return true
}
