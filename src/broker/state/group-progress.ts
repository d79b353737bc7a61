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
 * The number of finished records of the stream, without those that turned out unreadable later. Makes a search for each interval of holes, of which
 * an undamaged stream has none.
 */
export function finishedOf({ floor, nextOffset, holes }: Offsets, queue: GroupState): number {
  let finished = queue.finishedCount - queue.finishedBetween(nextOffset, Infinity) // offsets below the floor were forgotten
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
