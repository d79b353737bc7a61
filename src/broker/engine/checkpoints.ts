/**
 * What makes a start fast: the sidecar of each segment when it is sealed, and with it a checkpoint of the state as it was at its end.
 *
 * K1  the state is copied when the next segment opens, so it is exactly what the frames before say
 * K2  it is written when those frames are durable; what fails is only missed by the next start, which reads more then
 */
import type { Log, SegmentInfo } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import { encodeSegmentIndex } from '../records/segment-index.ts'
import type { WriteTask } from '../records/write-task.ts'
import { encodeCheckpoint } from './checkpoint-content.ts'
import type { BrokerState } from './state.ts'

export class Checkpoints {
  readonly #log: Log
  readonly #write: (task: WriteTask) => Promise<void>
  readonly #logger: Logger
  readonly #state: () => BrokerState
  #copy: { readonly position: number; readonly parts: readonly Uint8Array<ArrayBuffer>[] } | null = null
  readonly #directories: readonly string[]
  #writing: Promise<void> = Promise.resolve()
  /** Of the newest checkpoint on disk. */
  #newest: number
  /** Of the one before, on which a start falls back: segments before it may go. 0: there is none that is known. */
  #before = 0

  constructor(
    parts: {
      readonly log: Log
      readonly directories: readonly string[]
      readonly write: (task: WriteTask) => Promise<void>
      readonly logger: Logger
      readonly state: () => BrokerState
    },
    position: number,
  ) {
    this.#log = parts.log
    this.#write = parts.write
    this.#logger = parts.logger
    this.#state = parts.state
    this.#directories = parts.directories
    this.#newest = position
    this.#log.onSealed((segment) => this.#onSealed(segment))
  }

  /** Segments that end at or below it are not needed any more, whichever checkpoint the next start can read. */
  get position(): number {
    return this.#before
  }

  /** K1. @param position where the frames end that the state has seen */
  take(position: number): void {
    this.#copy = { position, parts: encodeCheckpoint(this.#state()) }
  }

  /** Forgets a copy of a state whose end was lost. */
  forget(): void {
    this.#copy = null
  }

  writeSidecar(segment: SegmentInfo): void {
    const streams = this.#state().streams.filter((stream) => stream !== undefined)
    const bytes = encodeSegmentIndex(segment, streams)
    this.#queue({ kind: 'segment-index', directory: segment.directory, bytes }, () => {})
  }

  /** Resolves when what was begun is written. */
  idle(): Promise<void> {
    return this.#writing
  }

  /** K2 */
  #onSealed(segment: SegmentInfo): void {
    this.writeSidecar(segment)
    const copy = this.#copy
    if (copy === null || copy.position !== segment.end) return
    this.#copy = null
    const { position, parts } = copy
    this.#queue({ kind: 'checkpoint', directories: this.#directories, position, parts }, () => {
      this.#before = this.#newest
      this.#newest = position
    })
  }

  /** One after the other, in the order they came. */
  #queue(task: WriteTask, done: () => void): void {
    const before = this.#writing
    const write = async (): Promise<void> => {
      await before
      try {
        await this.#write(task)
        done()
      } catch (error) {
        const details = { task: task.kind, reason: String(error) }
        this.#logger.warn(details, 'a sidecar could not be written: the next start reads more')
      }
    }
    this.#writing = write()
  }
}
