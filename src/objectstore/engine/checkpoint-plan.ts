/** Decides when a checkpoint of the object store is worthwhile, and copies the state for it. src/engine/checkpoints.ts writes it. */
import type { StateCopy } from '../../engine/checkpoints.ts'
import { PAGE_BYTES } from '../index/page-memory.ts'
import { copyState } from './checkpoint-content.ts'
import type { Recovered } from './recovery.ts'
import type { StoreState } from './state.ts'

/**
 * A checkpoint is due when the log has grown by this multiple of a checkpoint's size, or has CHANGES_MAX changes of objects more: applying one takes as
 * long as reading 20 KiB.
 */
const GROWTH_PER_CHECKPOINT = 0.5
const CHANGES_MAX = 200_000
/** A segment with more changes ends early, as a checkpoint is made of the end of a segment. */
const CHANGES_PER_SEGMENT_MAX = 100_000

export class CheckpointPlan {
  readonly #state: () => StoreState
  /** Commit sequences: at the begin of the segment that is written now, and of the newest checkpoint. */
  #segmentSequence: number
  #newestSequence: number
  /** Bytes of the newest checkpoint. */
  #newestBytes: number

  constructor(state: () => StoreState, { state: { commitSequence }, checkpointSequence, checkpoint }: Recovered) {
    this.#state = state
    this.#newestBytes = checkpoint?.contentBytes ?? 0
    this.#newestSequence = checkpointSequence
    this.#segmentSequence = commitSequence
  }

  isWorthwhile(position: number, newest: number): boolean {
    return (
      this.#state().commitSequence - this.#newestSequence >= CHANGES_MAX ||
      position - newest >= GROWTH_PER_CHECKPOINT * this.bytes
    )
  }

  /** Bytes that a checkpoint takes, about: as many as the newest one, which has uploads and completions, too, or as the index now. */
  get bytes(): number {
    return Math.max(this.#newestBytes, PAGE_BYTES * this.#state().index.pages)
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
    const copied = copyState(state)
    let bytes = 0
    return {
      async next() {
        const part = await copied.next()
        bytes += part?.byteLength ?? 0
        return part
      },
      abandon: () => copied.abandon(),
      written: () => {
        this.#newestSequence = commitSequence
        this.#newestBytes = bytes
      },
    }
  }
}
