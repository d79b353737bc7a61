/** Progress of a group in its stream. */
import type { IntervalSet } from '../interval-set.ts'
import type { GroupState } from './group.ts'

/** The offsets of a stream. */
interface Offsets {
  readonly floor: number
  readonly nextOffset: number
  readonly holes: IntervalSet
}

/**
 * Records of the stream that are finished; one that turned out unreadable later is none. Costs a search for each interval of holes: where nothing
 * was damaged, next to nothing.
 */
export function finishedOf({ floor, nextOffset, holes }: Offsets, queue: GroupState): number {
  let finished = queue.finishedCount - queue.finishedBetween(nextOffset, Infinity) // what is below the floor was forgotten
  if (holes.size === 0) return finished
  for (const [from, to] of holes.entries()) {
    finished -= queue.finishedBetween(Math.max(from, floor), Math.min(to, nextOffset))
  }
  return finished
}

/** First record of the stream that is neither finished nor unreadable. */
export function progressOf({ floor, nextOffset, holes }: Offsets, queue: GroupState): number {
  let at = Math.max(floor, queue.progressOffset())
  for (;;) {
    const readable = holes.firstGap(at)
    if (readable === at || readable >= nextOffset) return Math.min(readable, nextOffset)
    at = queue.unfinishedFrom(readable)
    if (at === readable) return at
  }
}
