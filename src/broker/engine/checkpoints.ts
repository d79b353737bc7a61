/**
 * What makes a start fast: the sidecar of each segment when it is sealed, and with it a checkpoint of the state as it was at its end.
 *
 * K1  both are of the state as it was when the segment ended: exactly what the frames before say. What retention removes later must
 *     not be missing in them, as its frame may be lost
 * K2  they are written when those frames are durable; what fails is only missed by the next start, which reads more then
 */
import type { Log, SegmentInfo } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import { encodeSegmentIndex } from '../records/segment-index.ts'
import type { StreamRuns } from '../records/segment-index.ts'
import type { WriteTask } from '../records/write-task.ts'
import { StateCopy } from './checkpoint-content.ts'
import type { Recovered } from './recovery.ts'
import type { BrokerState, StreamState } from '../state/state.ts'

/** K1 */
interface Copy {
  readonly position: number
  /** Of the log. In a later one the segment may not have ended there. */
  readonly generation: number
  /** Finished in slices, while the state goes on. */
  readonly parts: Promise<readonly Uint8Array<ArrayBuffer>[]>
  /** Of the segment that ends there. */
  readonly streams: readonly StreamRuns[]
}

export class Checkpoints {
  readonly #log: Log
  readonly #write: (task: WriteTask) => Promise<void>
  readonly #turn: () => Promise<void>
  readonly #logger: Logger
  readonly #state: () => BrokerState
  /** Of segments that are not sealed yet. */
  #copies: Copy[] = []
  readonly #directories: readonly string[]
  #writing: Promise<void> = Promise.resolve()
  /** Of the newest checkpoint on disk. */
  #newest: number
  /** Of the one before, on which a start falls back: segments before it may go. 0: there is none. */
  #before: number
  /** Checkpoints that are on their way to the disk. */
  #queued = 0

  constructor(
    parts: {
      readonly log: Log
      readonly directories: readonly string[]
      readonly write: (task: WriteTask) => Promise<void>
      readonly turn: () => Promise<void>
      readonly logger: Logger
      readonly state: () => BrokerState
    },
    { checkpointPosition, positionBefore }: Pick<Recovered, 'checkpointPosition' | 'positionBefore'>,
  ) {
    this.#log = parts.log
    this.#write = parts.write
    this.#turn = parts.turn
    this.#logger = parts.logger
    this.#state = parts.state
    this.#directories = parts.directories
    this.#newest = checkpointPosition
    this.#before = positionBefore
    this.#log.onSealed((segment) => this.#onSealed(segment))
  }

  /** Segments that end at or below it are not needed any more, whichever checkpoint the next start can read. */
  get position(): number {
    return this.#before
  }

  /** Whether one would say more than the newest, and the one that is on its way. */
  isDue(position: number): boolean {
    const { generation, incidents } = this.#log
    const isTaken = this.#queued > 0 || this.#copies.some((copy) => copy.generation === generation)
    const holdsLossBehind = incidents.some(({ to }) => to > position) // the next start would count that loss once more
    return !isTaken && !holdsLossBehind && position > this.#newest
  }

  /** K1. @param position where the segment ends: the state has seen the frames before it */
  take(position: number): void {
    const state = this.#state()
    const { generation, segments } = this.#log
    this.#copies = this.#copies.filter((copy) => copy.generation === generation)
    if (this.#copies.at(-1)?.position === position) return
    const sealed = segments.findLast((segment) => segment.sealed)
    if (sealed?.end === position) {
      if (this.isDue(position)) this.#queueCheckpoint(position, this.#copyOf(state)) // the sidecar is there
      return
    }
    const from = this.#copies.at(-1)?.position ?? sealed?.end ?? 0
    const streams = state.streams.filter((stream) => stream !== undefined).map((stream) => runsOf(stream, from))
    this.#copies.push({ position, generation, parts: this.#copyOf(state), streams })
  }

  /** Forgets copies of a state whose end was lost. */
  forget(): void {
    this.#copies = []
  }

  /** Writes the sidecars that were found missing. */
  complete({ state, unindexed }: Recovered): void {
    const streams = state.streams.filter((stream) => stream !== undefined)
    for (const segment of unindexed) this.#writeSidecar(segment, streams)
  }

  /** Resolves when what was begun is written. */
  idle(): Promise<void> {
    return this.#writing
  }

  #writeSidecar(segment: SegmentInfo, streams: Iterable<StreamRuns>): void {
    const bytes = encodeSegmentIndex(segment, streams)
    const task = { kind: 'segment-index', directory: segment.directory, bytes } as const
    void this.#queue('segment-index', () => this.#write(task))
  }

  /** K2 */
  #onSealed(segment: SegmentInfo): void {
    const copy = this.#copies.find(({ position }) => position === segment.end)
    if (copy === undefined) return
    this.#copies = this.#copies.filter(({ position }) => position > segment.end)
    this.#writeSidecar(segment, copy.streams)
    this.#queueCheckpoint(copy.position, copy.parts)
  }

  #copyOf(state: BrokerState): Copy['parts'] {
    const parts = new StateCopy(state).finish(this.#turn)
    parts.catch(() => {}) // said when it is written
    return parts
  }

  #queueCheckpoint(position: number, parts: Copy['parts']): void {
    this.#queued += 1
    const written = this.#queue('checkpoint', async () => {
      await this.#write({ kind: 'checkpoint', directories: this.#directories, position, parts: await parts })
      this.#before = this.#newest
      this.#newest = position
    })
    void written.then(() => (this.#queued -= 1))
  }

  /** One after the other, in the order they came. */
  #queue(task: WriteTask['kind'], run: () => Promise<void>): Promise<void> {
    const before = this.#writing
    const write = async (): Promise<void> => {
      await before
      try {
        await run()
      } catch (error) {
        this.#logger.warn({ task, reason: String(error) }, 'a sidecar could not be written: the next start reads more')
      }
    }
    this.#writing = write()
    return this.#writing
  }
}

/** The runs of a stream from a position on. Those of the segment that ends do not change any more, whatever its index forgets. */
function runsOf({ number, index }: StreamState, from: number): StreamRuns {
  const runs = index.runsFrom(from)
  return { number, index: { runsIn: (base) => runs.filter(({ segmentBase }) => segmentBase === base) } }
}
