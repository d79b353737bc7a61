/** When a checkpoint of the object store is worth it, and what it is a copy of. Who writes it: src/engine/checkpoints.ts. */
import type { StateCopy } from '../../engine/checkpoints.ts'
import { PAGE_BYTES } from '../index/page-memory.ts'
import { copyState } from './checkpoint-content.ts'
import type { Recovered } from './recovery.ts'
import type { StoreState } from './state.ts'

/**
 * A checkpoint is due when the log has grown by so many times the pages of the index, or has so many changes of objects more: to apply one
 * takes as long as to read 20 KiB.
 */
const GROWTH_PER_INDEX = 0.5
const CHANGES_MAX = 200_000
/** A segment with more ends early, as checkpoints are of the ends of segments. */
const CHANGES_PER_SEGMENT_MAX = 100_000

export class CheckpointPlan {
  readonly #state: () => StoreState
  /** Commit sequences: when the segment opened that is written now, and of the newest checkpoint. */
  #segmentSequence: number
  #newestSequence: number

  constructor(state: () => StoreState, { state: { commitSequence }, checkpointSequence }: Recovered) {
    this.#state = state
    this.#newestSequence = checkpointSequence
    this.#segmentSequence = commitSequence
  }

  isWorthwhile(position: number, newest: number): boolean {
    return (
      this.#state().commitSequence - this.#newestSequence >= CHANGES_MAX ||
      position - newest >= GROWTH_PER_INDEX * this.bytes
    )
  }

  /** What one takes on the disk, about. */
  get bytes(): number {
    return PAGE_BYTES * this.#state().index.pages
  }

  /** True when the active segment should end. */
  get isSegmentFull(): boolean {
    return this.#state().commitSequence - this.#segmentSequence >= CHANGES_PER_SEGMENT_MAX
  }

  segmentEnded(): void {
    this.#segmentSequence = this.#state().commitSequence
  }

  copy(): StateCopy {
    const state = this.#state()
    const { commitSequence } = state
    const { head, index } = copyState(state)
    let isBegun = false
    return {
      next() {
        if (isBegun) return index.next()
        isBegun = true
        return head
      },
      abandon: () => index.abandon(),
      written: () => void (this.#newestSequence = commitSequence),
    }
  }
}
