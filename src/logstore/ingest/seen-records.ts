/**
 * Which record ids are stored already: the idempotency window of ingest.
 *
 * It looks into the active segment, into sealed segments whose sidecar is not published yet, and into the newest bundles. A
 * record with a time of its own can only stand in a segment whose times enclose it, so records that arrive in order of time
 * are looked for nowhere.
 */
import type { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import type { ActiveIndex } from '../index/active-index.ts'
import { IDEMPOTENCY_BUNDLES } from '../limits.ts'

/** What de-duplication needs of a bundle's sidecar. Times are u64 nanoseconds as doubles, which keeps their order. */
export interface SeenBundle {
  readonly base: number
  readonly minTime: number
  readonly maxTime: number
  mayContainId(w0: number, w1: number, w2: number, w3: number): boolean
  containsId(w0: number, w1: number, w2: number, w3: number): boolean
  close(): void
}

const WORD = 2 ** 32

/** A segment of the log and the ActiveIndex of its records. */
export interface IndexedSegment {
  /** NO_SEGMENT while the log has none that is open. */
  readonly base: number
  /** Of the index among the node's SegmentIndexes. */
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
  readonly #candidateIndexes: ActiveIndex[] = []
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

  addBundle(bundle: SeenBundle): void {
    this.dropBundle(bundle.base)
    this.#bundles.push(bundle)
    this.#bundles.sort((a, b) => a.base - b.base)
    if (this.#bundles.length > IDEMPOTENCY_BUNDLES) this.#bundles.shift()?.close()
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
    for (const { index } of [...this.#sealing, this.#active]) {
      if (index.mayHoldTimes(earliest, latest)) this.#candidateIndexes.push(index)
    }
    this.#candidates.length = 0
    for (const bundle of this.#bundles) {
      if (bundle.minTime <= latest && bundle.maxTime >= earliest) this.#candidates.push(bundle)
    }
    return this.#candidateIndexes.length > 0 || this.#candidates.length > 0
  }

  has(w0: number, w1: number, w2: number, w3: number): boolean {
    for (const index of this.#candidateIndexes) if (index.findId(w0, w1, w2, w3) >= 0) return true
    for (const bundle of this.#candidates) {
      if (bundle.mayContainId(w0, w1, w2, w3) && bundle.containsId(w0, w1, w2, w3)) return true
    }
    return false
  }
}
