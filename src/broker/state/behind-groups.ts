/**
 * Groups that are behind the floor of their stream (stream F1). They catch up in slices, also when no request uses them: this frees their
 * memory, and leaves little to do when sums over all groups are read.
 */
import type { Group, StreamState } from './stream.ts'

/** A slice ends after so many groups, or after groups that hold so much memory, as catching up goes through it: it takes some milliseconds. */
const SLICE_GROUPS = 500
const SLICE_BYTES = 1 << 20

export class BehindGroups {
  /** Streams whose floor has risen, with their groups that no slice has reached. Some of these may have caught up since. */
  readonly #left = new Map<StreamState, Iterator<Group>>()

  /** Called when the floor of the stream has risen. */
  add(stream: StreamState): void {
    if (stream.groups.size > 0) this.#left.set(stream, stream.groups.values())
  }

  /** Catches up with one slice. @returns whether groups are left */
  catchUpSome(): boolean {
    let groups = 0
    let bytes = 0
    for (let next = this.#next(); next !== null; next = this.#next()) {
      groups += 1
      bytes += next.queue.bytes // reading `queue` makes the group catch up
      if (groups >= SLICE_GROUPS || bytes >= SLICE_BYTES) return true
    }
    return false
  }

  catchUp(): void {
    while (this.catchUpSome());
  }

  #next(): Group | null {
    for (const [stream, groups] of this.#left) {
      const { done, value } = groups.next()
      if (!done) return value
      this.#left.delete(stream)
    }
    return null
  }
}
