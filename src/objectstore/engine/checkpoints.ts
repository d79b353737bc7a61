/**
 * What makes a start fast: a checkpoint of the state, written in the background when the log has grown enough since the last one.
 *
 * K1  it is of the state as it was when a segment opened: exactly what the frames before say
 * K2  it is written when those frames are durable; what fails is only missed by the next start, which reads more then
 * K3  one at a time; while one is written, the state goes on
 */
import type { Log, SegmentInfo } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import { copyState } from './checkpoint-content.ts'
import type { CheckpointCopy } from './checkpoint-content.ts'
import type { StoreState } from './state.ts'
import type { WriteTask } from './write-task.ts'

/** What is read again at a start, at most so many times the memory of the index, or a segment. */
const GROWTH_PER_INDEX = 0.5

interface Taken extends CheckpointCopy {
  readonly position: number
}

export class Checkpoints {
  readonly #directory: string
  readonly #write: (task: WriteTask) => Promise<void>
  readonly #logger: Logger
  readonly #state: () => StoreState
  #taken: Taken | null = null
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
    position: number,
  ) {
    this.#directory = parts.directory
    this.#write = parts.write
    this.#logger = parts.logger
    this.#state = parts.state
    this.#newest = position
    parts.log.onSealed((segment) => this.#onSealed(segment))
  }

  /** What is before need not be read at a start, even when the newest checkpoint is damaged. */
  get position(): number {
    return this.#before
  }

  /** K1. @param position where the frames end that the state has seen */
  take(position: number): void {
    if (this.#taken !== null) return // K3
    const state = this.#state()
    const isDue = position - this.#newest >= GROWTH_PER_INDEX * state.index.bytes
    if (isDue) this.#taken = { position, ...copyState(state) }
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
    if (taken !== null && taken.position <= segment.end) this.#writing = this.#writeOut(taken)
  }

  async #writeOut(taken: Taken): Promise<void> {
    const { position, head, index } = taken
    try {
      await this.#write({ kind: 'begin', directory: this.#directory, position })
      for (let part: Uint8Array<ArrayBuffer> | null = head; part !== null; part = index.next()) {
        await this.#write({ kind: 'part', bytes: part })
        if (this.#taken !== taken) return
      }
      await this.#write({ kind: 'end' })
      this.#before = this.#newest
      this.#newest = position
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
