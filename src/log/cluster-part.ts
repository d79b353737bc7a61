/**
 * The part that a log takes in a cluster: what main and the cluster's lane share, besides what `LogShared` says of it.
 *
 * C1  a sealed segment is reported when the anchor on the disk has reached its end: no cut reaches below the anchor, so what is written beside
 *     the segment stays true
 * C2  a leader begins with a new segment. Frames that the previous leader had on their way may have ended the last one, on some nodes and not on others
 */
import { SpscRing } from '../pipeline/spsc-ring.ts'
import type { ClusterAck, LogShared, ProducerState } from './log-shared.ts'
import type { Position } from './log-writer.ts'
import type { SegmentInfo } from './segment-list.ts'
import type { Aside } from './set-aside.ts'

export interface ClusterOptions {
  readonly ack: ClusterAck
  /** The id that the log gets in an empty directory: that of the cluster's log. */
  readonly logId: number
  /** What is behind this position is set aside when the log is opened. Null: nothing is. */
  readonly keepUpTo: Position | null
  /** Monotonic, the same in all threads of the process. */
  readonly nowMs: () => number
  onSetAside(aside: Aside): void
}

/** What the lane attaches to. */
export interface ClusterHandle {
  readonly shared: SharedArrayBuffer
  readonly ring: SharedArrayBuffer
}

export class ClusterPart {
  readonly options: ClusterOptions
  readonly ring: SpscRing
  /** Where clients reach the node that leads; null: that is not known. */
  leader: string | null = null
  readonly #shared: LogShared
  /** C1 */
  #sealed: readonly SegmentInfo[] = []

  constructor(options: ClusterOptions, shared: LogShared, ringBytes: number) {
    this.options = options
    this.#shared = shared
    this.ring = SpscRing.create(ringBytes)
  }

  get handle(): ClusterHandle {
    return { shared: this.#shared.shared, ring: this.ring.shared }
  }

  /** Where the log ends: a position, and the header checksum of the frame before it. */
  get end(): { readonly position: Position; readonly chain: number } {
    const state: ProducerState = { tail: 0, base: 0, nextBase: 0, mustOpen: true, chain: 0, frameCount: 0 }
    this.#shared.loadProducer(state)
    return { position: state.tail, chain: state.chain }
  }

  /** Whether this node may answer with what the log holds. */
  get mayAnswer(): boolean {
    return this.#shared.leads && this.options.nowMs() < this.#shared.leaseUntilMs
  }

  /** Milliseconds for which this node may still answer without another acknowledgement. */
  get leaseLeftMs(): number {
    return this.#shared.leads ? Math.max(0, this.#shared.leaseUntilMs - this.options.nowMs()) : 0
  }

  /** Epoch of the term in which this node may answer with what the log holds; null: it may not. */
  get term(): number | null {
    return this.mayAnswer ? this.#shared.frameEpoch : null
  }

  /** Higher than that of every frame that was there when the log was opened. */
  get epoch(): number {
    return this.#shared.epoch
  }

  get leads(): boolean {
    return this.#shared.leads
  }

  get confirmed(): Position {
    return this.#shared.confirmed
  }

  get anchored(): Position {
    return this.#shared.anchored
  }

  /** Frames are of this epoch from here on. The whole log is confirmed, and can be read. */
  lead(epoch: number): void {
    this.#shared.requestSeal() // C2: before a producer on another thread may begin a frame
    this.#shared.lead(epoch, this.end.position)
  }

  follow(): void {
    this.#shared.follow()
  }

  /** C1 */
  sealed(segment: SegmentInfo): void {
    this.#sealed = [...this.#sealed, segment]
  }

  /** After a restart in place: forgets the sealed segments that were cut. */
  keep(segments: readonly SegmentInfo[]): void {
    const ends = new Set(segments.filter(({ sealed }) => sealed).map(({ end }) => end))
    this.#sealed = this.#sealed.filter(({ end }) => ends.has(end))
  }

  /** The sealed segments that may be reported now (C1), each only once. */
  takeReportable(): readonly SegmentInfo[] {
    if (this.#sealed.length === 0) return this.#sealed
    const { anchored } = this
    const settled = this.#sealed.filter(({ end }) => end <= anchored)
    this.#sealed = this.#sealed.filter(({ end }) => end > anchored)
    return settled
  }
}
