/**
 * When a service cleans its log: living data of the oldest segment is appended again, and the segment is dropped. A round of cleaning is over when
 * everything that the log held at its beginning has been moved or dropped.
 *
 * C1  cleaning begins when the log is more than twice its living data and four segments more. So in the long run it writes no more than
 *     clients do
 * C2  with little room on the disk it begins with less garbage, although it then moves more for the same space. Otherwise a full disk would
 *     stay full until half of it is garbage
 * C3  it stops while there still is room for other work, such as deletes
 * C4  the service only estimates how much lives. A round measures it: everything that it moved lived when the round began. Bytes moved beyond
 *     the estimate count as living until the next round has measured, so that cleaning ends. The length of the log cannot tell, because
 *     clients go on writing during a round
 */
import type { Log } from '../log/log.ts'
import type { Position } from '../log/log-writer.ts'

/** C1. Also the room that is little (C2). */
const SEGMENTS_SPARED = 4
/** C2: garbage that is left alone then. */
const LIVE_SHARE_SPARED = 1 / 8
const SEGMENT_SHARE_SPARED = 1 / 4
/** C3 */
const SEGMENT_SHARE_LEFT = 1 / 4

/** C4. A round under way. */
interface Round {
  /** Where the log ended when it began. */
  readonly end: Position
  /** The service's estimate at that moment. */
  readonly liveBytes: number
  movedBytes: number
}

export class Cleaning {
  readonly #log: Pick<Log, 'roomFor' | 'segments'>
  readonly #segmentBytes: number
  #round: Round | null = null
  /** C4. What the last round measured, and the estimate that it was measured against. */
  #measured = { movedBytes: 0, liveBytes: 0 }

  constructor(log: Pick<Log, 'roomFor' | 'segments'>, segmentBytes: number) {
    this.#log = log
    this.#segmentBytes = segmentBytes
  }

  /** The disk has little room left (C2). */
  get isShortOfRoom(): boolean {
    return this.#log.roomFor('admit') < SEGMENTS_SPARED * this.#segmentBytes
  }

  /**
   * C1, C2
   *
   * @param from where the part of the log begins that has not been moved out yet
   * @param estimatedBytes what of the log lives, as the service counts it
   */
  isDue(from: Position, estimatedBytes: number): boolean {
    const segmentBytes = this.#segmentBytes
    const liveBytes = estimatedBytes + this.#beyond(estimatedBytes)
    const garbageBytes = this.#logEnd - from - liveBytes
    return this.isShortOfRoom
      ? garbageBytes > Math.max(LIVE_SHARE_SPARED * liveBytes, SEGMENT_SHARE_SPARED * segmentBytes)
      : garbageBytes > liveBytes + SEGMENTS_SPARED * segmentBytes
  }

  /** The oldest segment is about to be moved out; a round begins unless one is under way. */
  begin(estimatedBytes: number): void {
    this.#round ??= { end: this.#logEnd, liveBytes: estimatedBytes, movedBytes: 0 }
  }

  /**
   * C3. Called before anything is appended again.
   *
   * @throws Error when that would take the last room
   */
  demandRoomToMove(bytes: number): void {
    if (this.#log.roomFor('finish') < bytes + SEGMENT_SHARE_LEFT * this.#segmentBytes)
      throw new Error('the disk is too full to move live data out of old segments: delete more, or make room')
    if (this.#round !== null) this.#round.movedBytes += bytes
  }

  /** Nothing that ends at or below the position is needed where it is. */
  movedTo(position: Position): void {
    if (this.#round === null || position < this.#round.end) return
    this.#measured = this.#round
    this.#round = null
  }

  /** What the round moved may be lost: the next segment begins another one. */
  giveUp(): void {
    this.#round = null
  }

  /** C4. If less lives today, so does less of what the estimate leaves out. */
  #beyond(estimatedBytes: number): number {
    const { movedBytes, liveBytes } = this.#measured
    const beyond = Math.max(0, movedBytes - liveBytes)
    return estimatedBytes < liveBytes ? (beyond * estimatedBytes) / liveBytes : beyond
  }

  get #logEnd(): Position {
    return this.#log.segments.at(-1)?.end ?? 0
  }
}
