/**
 * The ActiveIndexes of a node: a fixed set in shared memory, handed out one per segment by the decode lane and given back by
 * the main thread when the segment's sidecar is published and no query reads the index any more.
 *
 * The size of the set bounds how far sidecars may fall behind: then the lane waits for an index, its ring fills, and requests are shed. Most of the time
 * one or two indexes are used. A free one is emptied soon, and its memory goes back to the system until a segment needs it.
 *
 * I1  the main thread announces that a segment became a bundle before it gives the segment's index back. The lane reads announcements after it has seen
 *     a free index and before it empties that index: until then it looks for repeated records there
 */
import { ActiveIndex } from './active-index.ts'
import type { ActiveIndexHandle } from './active-index.ts'
import { SEGMENT_INDEXES } from '../limits.ts'

/** Free and all zero. */
const EMPTY = 0
const TAKEN = 1
/** Free, with the entries of a segment in it. */
const GIVEN_BACK = 2

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
   * A free index, empty; blocks until there is one. Lane only.
   *
   * @param stopping reads the messages of the main thread (I1); true: give up
   * @returns number of the index, or -1 when stopping
   */
  take(stopping: () => boolean): number {
    for (;;) {
      this.emptyFree(stopping)
      for (let number = 0; number < this.#indexes.length; number++) {
        if (Atomics.compareExchange(this.#states, number, EMPTY, TAKEN) === EMPTY) return number
      }
      if (stopping()) return -1
      Atomics.wait(this.#states, 0, TAKEN, 20)
    }
  }

  /** Empties the indexes that were given back. Lane only. @param readMessages reads the messages of the main thread (I1) */
  emptyFree(readMessages: () => void): void {
    for (let number = 0; number < this.#indexes.length; number++) {
      if (Atomics.compareExchange(this.#states, number, GIVEN_BACK, TAKEN) !== GIVEN_BACK) continue
      readMessages()
      this.#indexes[number]!.reset()
      Atomics.store(this.#states, number, EMPTY)
    }
  }

  /** Frees the indexes that a dead lane took and did not announce. Main thread only, while there is no lane. */
  freeAllBut(known: ReadonlySet<number>): void {
    for (let number = 0; number < this.#indexes.length; number++) if (!known.has(number)) this.release(number)
  }

  /** Main thread only. */
  release(number: number): void {
    Atomics.store(this.#states, number, GIVEN_BACK)
    Atomics.notify(this.#states, 0)
  }
}
