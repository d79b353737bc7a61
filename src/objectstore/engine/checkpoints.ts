/**
 * What makes a start fast: a checkpoint of the state, written in the background when the log has grown enough since the last one.
 *
 * K1  it is of the state as it was when a segment opened: exactly what the frames before say
 * K2  it is written when those frames are durable; what fails is only missed by the next start, which reads more then
 * K3  one at a time; while one is written, the state goes on
 */
import type { Log, SegmentInfo } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import { PAGE_BYTES } from '../index/page.ts'
import { copyState } from './checkpoint-content.ts'
import type { CheckpointCopy } from './checkpoint-content.ts'
import type { Recovered } from './recovery.ts'
import type { StoreState } from './state.ts'
import type { WriteTask } from './write-task.ts'

/**
 * A checkpoint is due when the log has grown by so many times the pages of the index, or has so many changes of objects more: to apply one
 * takes as long as to read 20 KiB.
 */
const GROWTH_PER_INDEX = 0.5
const CHANGES_MAX = 200_000
/** A segment with more ends early, as checkpoints are of the ends of segments. */
const CHANGES_PER_SEGMENT_MAX = 100_000

interface Taken extends CheckpointCopy {
  readonly position: number
  /** The highest commit sequence before it. */
  readonly sequence: number
}

export class Checkpoints {
  readonly #directory: string
  readonly #write: (task: WriteTask) => Promise<void>
  readonly #logger: Logger
  readonly #state: () => StoreState
  /** Commit sequences: when the segment opened that is written now, and of the newest checkpoint. */
  #segmentSequence: number
  #newestSequence: number
  #taken: Taken | null = null
  /** The one that is, or was last, written. */
  #begun: Taken | null = null
  #writing: Promise<void> = Promise.resolve()
  /** Of the newest checkpoint on disk, and of the one before. */
  #newest: number
  #before = 0

  constructor(
    parts: {
      readonly log: Log
      readonly directory: string
      readonly write: (task: WriteTask) => Promise<void>
      readonly logger: Logger
      readonly state: () => StoreState
    },
    { state, checkpointPosition, checkpointSequence }: Recovered,
  ) {
    this.#directory = parts.directory
    this.#write = parts.write
    this.#logger = parts.logger
    this.#state = parts.state
    this.#newest = checkpointPosition
    this.#newestSequence = checkpointSequence
    this.#segmentSequence = state.commitSequence
    parts.log.onSealed((segment) => this.#onSealed(segment))
  }

  /** What is before need not be read at a start, even when the newest checkpoint is damaged. */
  get position(): number {
    return this.#before
  }

  /** K1. @param position where the frames end that the state has seen */
  take(position: number): void {
    const state = this.#state()
    this.#segmentSequence = state.commitSequence
    if (this.#taken !== null) return // K3
    const isDue =
      state.commitSequence - this.#newestSequence >= CHANGES_MAX ||
      position - this.#newest >= GROWTH_PER_INDEX * PAGE_BYTES * state.index.pages
    if (isDue) this.#taken = { position, sequence: state.commitSequence, ...copyState(state) }
  }

  /** Whether the segment that is written now should end. */
  get isSegmentFull(): boolean {
    return this.#state().commitSequence - this.#segmentSequence >= CHANGES_PER_SEGMENT_MAX
  }

  /** Gives up the copy of a state whose end may have been lost. */
  forget(): void {
    this.#taken?.index.abandon()
    this.#taken = null
  }

  /** Resolves when what was begun is written. */
  idle(): Promise<void> {
    return this.#writing
  }

  /** K2 */
  #onSealed(segment: SegmentInfo): void {
    const taken = this.#taken
    if (taken === null || taken === this.#begun || taken.position > segment.end) return // K3
    this.#begun = taken
    this.#writing = this.#writeOut(taken)
  }

  async #writeOut(taken: Taken): Promise<void> {
    const { position, sequence, head, index } = taken
    try {
      await this.#write({ kind: 'begin', directory: this.#directory, position })
      for (let part: Uint8Array<ArrayBuffer> | null = head; part !== null; part = index.next()) {
        if (this.#taken !== taken) return // another one may have begun
        await this.#write({ kind: 'part', bytes: part })
      }
      if (this.#taken !== taken) return
      await this.#write({ kind: 'end' })
      this.#before = this.#newest
      this.#newest = position
      this.#newestSequence = sequence
    } catch (error) {
      index.abandon()
      this.#logger.warn(
        { position, reason: String(error) },
        'a checkpoint could not be written: the next start reads more',
      )
    }
    if (this.#taken === taken) this.#taken = null
  }
}
