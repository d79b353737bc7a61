/**
 * Groups that the floor of their stream has left behind (stream F1). They catch up in slices, also when no request asks for them: this frees
 * their memory, and a look at sums over all groups finds little left to do.
 */
import type { Group, StreamState } from './stream.ts'

/** A slice ends after so many groups, or after groups that hold so much memory: catching up looks through it. Some milliseconds' worth. */
const SLICE_GROUPS = 500
const SLICE_BYTES = 1 << 20

export class BehindGroups {
  /** Streams whose floor has risen, with their groups that no slice has come to. Some may have caught up since. */
  readonly #left = new Map<StreamState, Iterator<Group>>()

  /** The floor of the stream has risen. */
  add(stream: StreamState): void {
    if (stream.groups.size > 0) this.#left.set(stream, stream.groups.values())
  }

  /** @returns whether some are left */
  catchUpSome(): boolean {
    let groups = 0
    let bytes = 0
    for (let next = this.#next(); next !== null; next = this.#next()) {
      groups += 1
      bytes += next.queue.bytes // `queue` has it catch up
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
