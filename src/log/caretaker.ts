/** What a log looks after from time to time on main: replicas that do not keep up, segments to write in advance, room on the disk. */
import type { SpscRing } from '../pipeline/spsc-ring.ts'
import type { LogEnvironment } from './environment.ts'
import { PRODUCER_OK } from './log-shared.ts'
import type { LogShared } from './log-shared.ts'
import type { SegmentInfo } from './segment-list.ts'
import { sparePath } from './spare.ts'

const LOOK_INTERVAL_MS = 1000
/** The append rate at which it still pays to write a segment in advance. */
const PREPARE_BYTES_PER_INTERVAL_MAX = 20 << 20
/** A disk counts as full when it has less room than the first, until it has the second again. */
export const FULL_BELOW_BYTES = 1 << 20
export const ROOM_AGAIN_BYTES = 16 << 20

export interface CaretakerOptions {
  readonly environment: LogEnvironment
  readonly shared: LogShared
  readonly rings: readonly SpscRing[]
  /** The directory of each replica's segments. */
  readonly segmentsDirectories: readonly string[]
  readonly segmentBytes: number
  /** Free space below which nothing is written in advance. */
  readonly spareSpaceBytes: number
  readonly replicaStallMs: number
  active(): SegmentInfo | undefined
  onStalled(replica: number): void
  readonly onFull: (isFull: boolean) => void
}

export class Caretaker {
  readonly #options: CaretakerOptions
  readonly #stopTimers: (() => void)[] = []
  /** How much each replica had written at the last look. */
  readonly #written: number[] = []
  readonly #stalledLooks: number[] = []
  #appendedAt = 0
  #isPreparing = false
  /** No segment is written in advance before the log has this length: the disk refused one, and the room is needed for what clients send. */
  #prepareFrom = 0
  #isFull = false
  #isStopped = false

  constructor(options: CaretakerOptions) {
    this.#options = options
    const { environment, rings, replicaStallMs, shared } = options
    this.#appendedAt = shared.written(0)
    this.#stopTimers.push(environment.every(LOOK_INTERVAL_MS, () => this.#look()))
    if (rings.length > 1) this.#stopTimers.push(environment.every(replicaStallMs / 2, () => this.#dropStalled()))
  }

  stop(): void {
    this.#isStopped = true
    for (const stop of this.#stopTimers) stop()
  }

  /**
   * Drops a replica that took nothing between two looks, twice, although something waited for it. A look at which the primary is stalled as well
   * does not count: the log would not be better off without the replica.
   */
  #dropStalled(): void {
    const { rings, shared } = this.#options
    const [isPrimaryStalled, ...areStalled] = rings.map((_, replica) => this.#isStalled(replica))
    for (const [i, isStalled] of areStalled.entries()) {
      const replica = i + 1
      if (!isStalled) this.#stalledLooks[replica] = 0
      if (!isStalled || isPrimaryStalled) continue
      const looks = (this.#stalledLooks[replica] ?? 0) + 1
      this.#stalledLooks[replica] = looks
      if (looks >= 2 && shared.isLive(replica)) this.#options.onStalled(replica)
    }
  }

  /** True when the replica has frames in its ring, and has written none since the last look. */
  #isStalled(replica: number): boolean {
    const { rings, shared } = this.#options
    const before = this.#written[replica]
    const written = shared.written(replica)
    this.#written[replica] = written
    return rings[replica]!.usedBytes > 0 && before === written
  }

  #look(): void {
    this.#prepareSpares()
    const { shared, onFull } = this.#options
    if (shared.producerState !== PRODUCER_OK) return // without a write quorum there is no room either, and that has another reason
    const isFull = shared.roomFor('admit') < (this.#isFull ? ROOM_AGAIN_BYTES : FULL_BELOW_BYTES)
    if (isFull !== this.#isFull) onFull(isFull)
    this.#isFull = isFull
  }

  /** A log that fills its segment slowly gets the next one written in advance. */
  #prepareSpares(): void {
    const { environment, shared, segmentsDirectories, segmentBytes, spareSpaceBytes } = this.#options
    const written = shared.written(0)
    const appendedBytes = written - this.#appendedAt
    this.#appendedAt = written
    const active = this.#options.active()
    if (this.#isPreparing || !active || active.sealed || written - active.base < segmentBytes / 4) return
    if (appendedBytes === 0 || appendedBytes > PREPARE_BYTES_PER_INTERVAL_MAX) return
    if (shared.roomFor('admit') < spareSpaceBytes || written < this.#prepareFrom) return
    const paths = segmentsDirectories
      .map((directory) => sparePath(directory, 0))
      .filter((path, replica) => shared.isLive(replica) && !environment.files.exists(path))
    if (paths.length === 0) return
    this.#isPreparing = true
    Promise.all(paths.map((path) => environment.prepareFile(path, segmentBytes, () => this.#isStopped)))
      .catch(() => {
        this.#prepareFrom = written + segmentBytes
      })
      .finally(() => {
        this.#isPreparing = false
      })
  }
}
