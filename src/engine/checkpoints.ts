/**
 * Checkpoints make a start fast. Each is the state as it was when a segment ended, written in the background.
 *
 * K1  a checkpoint has exactly the effects of the frames before the segment's end. What is removed later must still be in it, because the
 *     frame that removes it may be lost
 * K2  it is written when those frames are durable. If that fails, the next start only reads more
 * K3  one checkpoint is written at a time, and the state changes meanwhile
 * K4  a directory that the log has lost gets none, as it may be the mount point of a missing disk. It gets what it lacks when the log takes it in again
 */
import type { Log, SegmentInfo } from '../log/log.ts'
import type { CheckpointTask } from './checkpoint-thread.ts'
import type { StartingPoint } from './recovery.ts'

/** A copy of the state as it is at this moment, to be written while the state changes. */
export interface StateCopy {
  /** The next part. Its memory goes to the thread that writes it. Null: there are no more. */
  next(): Uint8Array<ArrayBuffer> | null | Promise<Uint8Array<ArrayBuffer> | null>
  /** The rest is not wanted any more: changes of the state cost nothing for it. */
  abandon(): void
  /** Called when the copy has become the newest checkpoint. */
  written?(): void
}

export interface CheckpointsParts {
  readonly log: Pick<Log, 'generation' | 'incidents' | 'lostReplicas' | 'onSealed' | 'segments'>
  /** Directories of the log, the primary one first: each gets the checkpoints. */
  readonly directories: readonly string[]
  readonly write: (task: CheckpointTask) => Promise<void>
  readonly logger: { warn(details: object, message: string): void }
  /** Whether a checkpoint at `position` is worth writing when the newest one is at `newest`. Null: always. */
  readonly isWorthwhile: ((position: number, newest: number) => boolean) | null
  readonly copy: () => StateCopy
}

interface Taken {
  readonly position: number
  /** Generation of the log. In a later one the segment may not have ended there. */
  readonly generation: number
  readonly copy: StateCopy
}

export class Checkpoints {
  readonly #parts: CheckpointsParts
  #taken: Taken | null = null
  /** The copy that is being written, or was written last. */
  #begun: Taken | null = null
  #writing: Promise<void> = Promise.resolve()
  /** Positions of the newest checkpoint on disk, and of the one before, on which a start falls back. 0: there is none. */
  #newest: number
  #before: number
  #isDemanded = false

  constructor(
    parts: CheckpointsParts,
    { position, positionBefore }: Pick<StartingPoint, 'position' | 'positionBefore'>,
  ) {
    this.#parts = parts
    this.#newest = position
    this.#before = positionBefore
    parts.log.onSealed((segment) => this.#onSealed(segment))
  }

  /** Segments that end at or below it are not needed at a start, even when the newest checkpoint is damaged. */
  get position(): number {
    return this.#before
  }

  /** A checkpoint is due as soon as the log has grown at all. */
  demand(): void {
    this.#isDemanded = true
  }

  /** Whether a checkpoint would be taken if the segment ended at the position. */
  isDue(position: number): boolean {
    const { log, isWorthwhile } = this.#parts
    if (this.#taken?.generation === log.generation || position <= this.#newest) return false // K3
    const holdsLossBehind = log.incidents.some(({ to }) => to > position) // the next start would count that loss once more
    return !holdsLossBehind && (this.#isDemanded || isWorthwhile === null || isWorthwhile(position, this.#newest))
  }

  /** K1. A copy that fails is no reason for the append that ends the segment to fail. @param position where it ends: the state has seen the frames before */
  take(position: number): void {
    if (!this.isDue(position)) return
    this.forget() // a copy of an earlier generation
    this.#isDemanded = false
    const { log, copy } = this.#parts
    try {
      this.#taken = { position, generation: log.generation, copy: copy() }
    } catch (error) {
      return this.#warn(position, error)
    }
    const last = log.segments.at(-1)
    if (last?.sealed && last.end === position) this.#onSealed(last)
  }

  /** Gives up the copy of a state whose end may have been lost. */
  forget(): void {
    this.#taken?.copy.abandon()
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
    if (taken.generation !== this.#parts.log.generation) return this.forget()
    this.#begun = taken
    this.#writing = this.#writeOut(taken)
  }

  async #writeOut(taken: Taken): Promise<void> {
    const { log, write } = this.#parts
    const { position, copy } = taken
    const lost = new Set(log.lostReplicas.map(({ directory }) => directory))
    const directories = this.#parts.directories.filter((directory) => !lost.has(directory)) // K4
    try {
      await write({ kind: 'begin', directories, position })
      for (let part = await copy.next(); part !== null; part = await copy.next()) {
        if (this.#taken !== taken) return // another one may have begun
        await write({ kind: 'part', bytes: part })
      }
      if (this.#taken !== taken) return
      await write({ kind: 'end' })
      this.#before = this.#newest
      this.#newest = position
      copy.written?.()
    } catch (error) {
      copy.abandon()
      this.#warn(position, error)
    }
    if (this.#taken === taken) this.#taken = null
  }

  /** K2 */
  #warn(position: number, error: unknown): void {
    const reason = String(error)
    this.#parts.logger.warn({ position, reason }, 'a checkpoint could not be written: the next start takes longer')
  }
}
