/**
 * The ActiveIndexes of a node: a fixed set in shared memory, handed out one per segment by the decode lane and given back by
 * the main thread when the segment's sidecar is published and no query reads the index any more.
 *
 * The set is the bound: when sidecars fall behind, the lane waits for an index, its ring fills, and requests are shed.
 */
import { ActiveIndex } from './active-index.ts'
import type { ActiveIndexHandle } from './active-index.ts'
import { SEGMENT_INDEXES } from '../limits.ts'

const FREE = 0
const TAKEN = 1

export interface SegmentIndexesHandle {
  readonly states: SharedArrayBuffer
  readonly indexes: readonly ActiveIndexHandle[]
}

export class SegmentIndexes {
  readonly handle: SegmentIndexesHandle
  readonly #states: Int32Array
  readonly #indexes: readonly ActiveIndex[]

  static create(capacity: number, count: number = SEGMENT_INDEXES): SegmentIndexes {
    const indexes = Array.from({ length: count }, () => ActiveIndex.create(capacity).handle)
    return new SegmentIndexes({ states: new SharedArrayBuffer(4 * count), indexes })
  }

  static attach(handle: SegmentIndexesHandle): SegmentIndexes {
    return new SegmentIndexes(handle)
  }

  private constructor(handle: SegmentIndexesHandle) {
    this.handle = handle
    this.#states = new Int32Array(handle.states)
    this.#indexes = handle.indexes.map((index) => ActiveIndex.attach(index))
  }

  at(number: number): ActiveIndex {
    return this.#indexes[number]!
  }

  /**
   * A free index, emptied; blocks until there is one. Lane only.
   *
   * @param stopping  hears what the main thread says and tells whether to give up. The main thread announces that a segment
   *                  became a bundle before it gives the segment's index back: so the lane has heard it before it empties one
   * @returns number of the index, or -1 when stopping
   */
  take(stopping: () => boolean): number {
    for (;;) {
      for (let number = 0; number < this.#indexes.length; number++) {
        if (Atomics.compareExchange(this.#states, number, FREE, TAKEN) !== FREE) continue
        stopping()
        this.#indexes[number]!.reset()
        return number
      }
      if (stopping()) return -1
      Atomics.wait(this.#states, 0, TAKEN, 20)
    }
  }

  /** Frees what a dead lane took and nobody knows of. Main thread only, while there is no lane. */
  freeAllBut(known: ReadonlySet<number>): void {
    for (let number = 0; number < this.#indexes.length; number++) if (!known.has(number)) this.giveBack(number)
  }

  /** Main thread only. */
  giveBack(number: number): void {
    Atomics.store(this.#states, number, FREE)
    Atomics.notify(this.#states, 0)
  }
}
