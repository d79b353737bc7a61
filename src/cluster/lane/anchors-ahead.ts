/**
 * Where the anchor may go to when the log has synced what stands before: the newest place, and others on the way there.
 *
 * A1  a follower may have taken far less than it has read of the stream. Were only the newest place known, the anchor would wait for all of that; and so would
 *     the log, if it cannot go on before a sealed segment is behind the anchor
 */
import type { Anchor } from '../history.ts'

/** Between two places: far less than a segment. */
const APART_BYTES = 64 << 10

export class AnchorsAhead {
  /** In the order of the stream. */
  #anchors: Anchor[] = []
  #reached: Anchor

  /** @param reached the last one that was written */
  constructor(reached: Anchor) {
    this.#reached = reached
  }

  add(anchor: Anchor): void {
    const last = this.#anchors.at(-1)
    if (anchor.sequence <= (last ?? this.#reached).sequence) return
    const before = this.#anchors.at(-2) ?? this.#reached
    const isNear = last !== undefined && anchor.end.position - before.end.position < APART_BYTES
    if (isNear) this.#anchors.pop()
    this.#anchors.push(anchor)
  }

  /** The newest of which everything is synced; null: none is newer than the last that was written. */
  newest(syncedUpTo: number): Anchor | null {
    return this.#anchors.findLast(({ end }) => end.position <= syncedUpTo) ?? null
  }

  reached(anchor: Anchor): void {
    this.#reached = anchor
    this.#anchors = this.#anchors.filter(({ sequence }) => sequence > anchor.sequence)
  }
}
