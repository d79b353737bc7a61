/**
 * Writes the sidecar of each segment, which holds where its records are: when the segment is sealed, or at a start that finds none.
 *
 * K1  a sidecar shows the index at the moment its segment ended. It keeps records that retention removes later, as the removal may be lost
 * K2  a failed write costs only time: the next start reads the segment instead
 */
import type { Log, SegmentInfo } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import { encodeSegmentIndex } from '../records/segment-index.ts'
import type { SidecarTask, StreamRuns } from '../records/segment-index.ts'
import type { BrokerState, StreamState } from '../state/state.ts'
import type { Recovered } from './recovery.ts'

/** K1 */
interface Copy {
  /** Where the segment ends. */
  readonly position: number
  /** Generation of the log. In a later one the segment may end elsewhere. */
  readonly generation: number
  readonly streams: readonly StreamRuns[]
}

export class Sidecars {
  readonly #log: Log
  readonly #write: (task: SidecarTask) => Promise<void>
  readonly #logger: Logger
  /** Copies for segments that are not sealed yet. */
  #copies: Copy[] = []
  #writing: Promise<void> = Promise.resolve()

  constructor({
    log,
    write,
    logger,
  }: {
    readonly log: Log
    readonly write: (task: SidecarTask) => Promise<void>
    readonly logger: Logger
  }) {
    this.#log = log
    this.#write = write
    this.#logger = logger
    log.onSealed((segment) => this.#onSealed(segment))
  }

  /** K1. @param position where the segment ends: the state has seen the frames before it */
  take(state: BrokerState, position: number): void {
    const { generation, segments } = this.#log
    this.#copies = this.#copies.filter((copy) => copy.generation === generation)
    const sealed = segments.findLast((segment) => segment.sealed)
    if (sealed?.end === position || this.#copies.at(-1)?.position === position) return
    const from = this.#copies.at(-1)?.position ?? sealed?.end ?? 0
    const streams = state.streams.filter((stream) => stream !== undefined).map((stream) => runsOf(stream, from))
    this.#copies.push({ position, generation, streams })
  }

  /** Forgets copies of a state whose end was lost. */
  forget(): void {
    this.#copies = []
  }

  /** Writes the sidecars that recovery found missing. */
  complete({ state, unindexed }: Recovered): void {
    const streams = state.streams.filter((stream) => stream !== undefined)
    for (const segment of unindexed) this.#queue(segment, streams)
  }

  /** Resolves when what was begun is written. */
  idle(): Promise<void> {
    return this.#writing
  }

  #onSealed(segment: SegmentInfo): void {
    const copy = this.#copies.find(({ position }) => position === segment.end)
    if (copy === undefined) return
    this.#copies = this.#copies.filter(({ position }) => position > segment.end)
    this.#queue(segment, copy.streams)
  }

  /** Writes sidecars one after the other, in the order of the calls. */
  #queue(segment: SegmentInfo, streams: Iterable<StreamRuns>): void {
    const { directory } = segment
    const bytes = encodeSegmentIndex(segment, streams)
    this.#writing = this.#writing
      .then(() => this.#write({ kind: 'sidecar', directory, bytes }))
      .catch((error: unknown) => {
        this.#logger.warn(
          { directory, reason: String(error) },
          'a sidecar could not be written: the next start reads its segment instead',
        )
      })
  }
}

/** The runs of a stream from a position on. Those of the segment that ends do not change any more, even when its index forgets them. */
function runsOf({ number, index }: StreamState, from: number): StreamRuns {
  const runs = index.runsFrom(from)
  return { number, index: { runsIn: (base) => runs.filter(({ segmentBase }) => segmentBase === base) } }
}
