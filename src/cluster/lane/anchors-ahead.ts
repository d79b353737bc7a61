/**
 * Where the anchor may go to when the log has synced what stands before: the newest place, and others on the way there.
 *
 * A follower may have taken far less than it has read of the stream. If only the newest place were known, the anchor would wait for all of that. So
 * would the log, if it cannot go on before a sealed segment is behind the anchor.
 *
 * A2  an anchor that main waits for stays until it, or one behind it, was written: main takes nothing that comes after it before then
 */
import type { Position } from '../../log/log-writer.ts'
import type { Anchor } from '../history.ts'

/** Between two places: far less than a segment. */
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

  /** Main waits until an anchor that ends there, as one of these does, was written. */
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

  /** The newest of which everything is synced; null: none is newer than the last that was written. */
  newest(syncedUpTo: Position): Anchor | null {
    return this.#anchors.findLast(({ end }) => end.position <= syncedUpTo) ?? null
  }

  reached(anchor: Anchor): void {
    this.#reached = anchor
    this.#anchors = this.#anchors.filter(({ sequence }) => sequence > anchor.sequence)
  }
}
