import type { LogWriter } from '../../log/log-writer.ts'
import type { SpscRing } from '../../pipeline/spsc-ring.ts'
import type { SegmentIndexes } from '../index/segment-indexes.ts'
import { announceSegment } from './outcomes.ts'
import { NO_SEGMENT } from './seen-records.ts'
import type { SeenRecords } from './seen-records.ts'

export interface SegmentParts {
  readonly writer: LogWriter
  readonly outcomes: SpscRing
  readonly indexes: SegmentIndexes
  readonly seen: SeenRecords
  readonly stopping: () => boolean
}

/** Takes an index for the segment that the writer's last frame opens, and tells the main thread which one. False when the service stops meanwhile. */
export function openSegment({ writer, seen, indexes, outcomes, stopping }: SegmentParts): boolean {
  const unused = seen.active.base === NO_SEGMENT
  const number = unused ? seen.active.number : indexes.take(stopping)
  if (number < 0) return false
  seen.openSegment({ base: writer.segmentBase, number, index: indexes.at(number) })
  announceSegment(outcomes, writer.segmentBase, number)
  return true
}
