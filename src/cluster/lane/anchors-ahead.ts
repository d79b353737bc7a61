/**
 * The anchors that may be written once the log is synced up to them: the newest one, and some before it.
 *
 * A follower's log may be far behind what the lane has read of the stream. With the newest anchor alone, no anchor could be written until the log has
 * all of that. The log itself may have to wait, too, if it cannot go on before a sealed segment is behind the anchor.
 *
 * A2  an anchor that main waits for is kept until it or a later one is written: until then, main takes nothing behind it
 */
import type { Position } from '../../log/log-writer.ts'
import type { Anchor } from '../history.ts'

/** Least distance between two anchors: far less than a segment. */
const APART_BYTES = 64 << 10

export class AnchorsAhead {
  /** In the order of the stream. */
  #anchors: Anchor[] = []
  #reached: Anchor
  /** A2 */
  #awaitedPosition: Position = 0

  /** @param reached the last one that was written */
  constructor(reached: Anchor) {
    this.#reached = reached
  }

  /** Whether main waits for an anchor that was not written yet. */
  get isAwaited(): boolean {
    return this.#reached.end.position < this.#awaitedPosition
  }

  await(position: Position): void {
    this.#awaitedPosition = position
  }

  add(anchor: Anchor): void {
    const last = this.#anchors.at(-1)
    if (anchor.sequence <= (last ?? this.#reached).sequence) return
    const before = this.#anchors.at(-2) ?? this.#reached
    const isNear = last !== undefined && anchor.end.position - before.end.position < APART_BYTES
    if (isNear && !this.#isAwaitedInsteadOf(last, anchor)) this.#anchors.pop()
    this.#anchors.push(anchor)
  }

  /** A2 */
  #isAwaitedInsteadOf(last: Anchor, next: Anchor): boolean {
    const position = this.#awaitedPosition
    return this.isAwaited && last.end.position === position && next.end.position > position
  }

  /** The newest anchor up to which the log is synced; null: none is newer than the last one written. */
  newest(syncedUpTo: Position): Anchor | null {
    return this.#anchors.findLast(({ end }) => end.position <= syncedUpTo) ?? null
  }

  reached(anchor: Anchor): void {
    this.#reached = anchor
    this.#anchors = this.#anchors.filter(({ sequence }) => sequence > anchor.sequence)
  }
}
