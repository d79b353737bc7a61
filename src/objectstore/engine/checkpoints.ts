/**
 * What makes a start fast: a checkpoint of the state, written in the background when the log has grown enough since the last one, or when
 * segments cannot go for want of one.
 *
 * K1  it is of the state as it was when a segment ended: exactly what the frames before say
 * K2  it is written when those frames are durable; what fails is only missed by the next start, which reads more then
 * K3  one at a time; while one is written, the state goes on
 */
import type { Log, SegmentInfo } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import { PAGE_BYTES } from '../index/page-memory.ts'
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
  /** Of the log. In a later one the segment may not have ended there. */
  readonly generation: number
  /** The highest commit sequence before it. */
  readonly sequence: number
}

export class Checkpoints {
  readonly #log: Log
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
  #before: number
  #isDemanded = false

  constructor(
    parts: {
      readonly log: Log
      readonly directory: string
      readonly write: (task: WriteTask) => Promise<void>
      readonly logger: Logger
      readonly state: () => StoreState
    },
    { state, checkpointPosition, positionBefore, checkpointSequence }: Recovered,
  ) {
    this.#log = parts.log
    this.#directory = parts.directory
    this.#write = parts.write
    this.#logger = parts.logger
    this.#state = parts.state
    this.#newest = checkpointPosition
    this.#before = positionBefore
    this.#newestSequence = checkpointSequence
    this.#segmentSequence = state.commitSequence
    parts.log.onSealed((segment) => this.#onSealed(segment))
  }

  /** What is before need not be read at a start, even when the newest checkpoint is damaged. */
  get position(): number {
    return this.#before
  }

  /** One is due as soon as the log has grown at all. */
  demand(): void {
    this.#isDemanded = true
  }

  /** Whether one would be taken if the segment ended at the position. */
  isDue(position: number): boolean {
    if (this.#taken !== null || position <= this.#newest) return false // K3
    return (
      this.#isDemanded ||
      this.#state().commitSequence - this.#newestSequence >= CHANGES_MAX ||
      position - this.#newest >= GROWTH_PER_INDEX * this.bytes
    )
  }

  /** K1. @param position where the segment ends: the state has seen the frames before it */
  take(position: number): void {
    const state = this.#state()
    this.#segmentSequence = state.commitSequence
    if (!this.isDue(position)) return
    this.#isDemanded = false
    const { generation, segments } = this.#log
    this.#taken = { position, generation, sequence: state.commitSequence, ...copyState(state) }
    const last = segments.at(-1)
    if (last?.sealed && last.end === position) this.#onSealed(last)
  }

  /** What one takes on the disk, about. */
  get bytes(): number {
    return PAGE_BYTES * this.#state().index.pages
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
    if (taken.generation !== this.#log.generation) return this.forget()
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
