/**
 * Frames of the cluster's leader on their way to the decode lane, which makes them frames of this log.
 *
 * F1  a lane that replaces a dead one gets all frames that were not reported as copied, in their order
 */
import { StoreError } from '../../errors.ts'
import type { DecodeLane } from './decode-lane.ts'
import type { LeaderFrames } from './lane-data.ts'

interface PendingFrames extends LeaderFrames {
  readonly settled: PromiseWithResolvers<void>
}

export class Follower {
  readonly #lane: () => Pick<DecodeLane, 'follow'> | null
  #waiting: readonly PendingFrames[] = []
  #count = 0

  /** @param lane the lane at work; null while another one starts */
  constructor(lane: () => Pick<DecodeLane, 'follow'> | null) {
    this.#lane = lane
  }

  /** Resolves when the frames are in the log and indexed, or when `end` was called. Rejects with the reason when the lane cannot copy them. */
  follow(bytes: Uint8Array): Promise<void> {
    const frames = { number: (this.#count += 1), bytes, settled: Promise.withResolvers<void>() }
    this.#waiting = [...this.#waiting, frames]
    this.#lane()?.follow(frames)
    return frames.settled.promise
  }

  /** F1 */
  laneStarted(lane: Pick<DecodeLane, 'follow'>): void {
    for (const frames of this.#waiting) lane.follow(frames)
  }

  followed(number: number): void {
    for (const { settled } of this.#waiting.filter((frames) => frames.number <= number)) settled.resolve()
    this.#waiting = this.#waiting.filter((frames) => frames.number > number)
  }

  failed(reason: string): void {
    const failed = this.#waiting
    this.#waiting = []
    for (const { settled } of failed) settled.reject(new StoreError('corrupt', 'cluster_frames_refused', reason))
  }

  /** Resolves for all pending frames, which are no longer needed. */
  end(): void {
    this.followed(Infinity)
  }
}
