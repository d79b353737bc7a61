/**
 * Which files make a log as it was at a position.
 *
 * P1  inside the range of a snapshot its own files suffice (S3 of snapshot.ts)
 * P2  between two snapshots, the older one has what the state needs of the past, and the newer ones have what was written since, if they follow
 *     without a gap and their logs have the same history
 * P3  a segment that has a stand-in is restored as a whole: a position in the middle of it needs a snapshot that has its frames. So are all segments
 *     that have moved into one merged file
 */
import { StoreError } from '../errors.ts'
import { SEGMENT_FOOTER_BYTES } from '../log/segment-format.ts'
import { isStandIn, movedInto } from './snapshot.ts'
import type { Snapshot, StoredCheckpoint, StoredFile, StoredLog, StoredSegment } from './snapshot.ts'

export interface RestorePlan {
  readonly log: StoredLog
  readonly segments: readonly StoredSegment[]
  readonly checkpoints: readonly StoredCheckpoint[]
  readonly others: readonly StoredFile[]
  /** Frames behind it are cut off; at most the end of the segments. */
  readonly position: number
  /** P2. The chain that the restored log must have at this position, so that its history is that of the snapshot; null: nothing to compare. */
  readonly passes: { readonly position: number; readonly chain: number } | null
}

/** The log as its snapshot has it. */
export const planOfWhole = (log: StoredLog): RestorePlan => ({
  log,
  segments: log.segments,
  checkpoints: log.checkpoints,
  others: log.others,
  position: log.position,
  passes: null,
})

/**
 * @param snapshots oldest first
 * @param place     of the log
 * @throws StoreError notFound backup_position_unknown, which names what can be restored
 */
export function planTo(snapshots: readonly Snapshot[], place: string, position: number): RestorePlan {
  const logs = snapshots.flatMap(({ logs }) => logs.filter((log) => log.place === place))
  for (const [index, log] of Array.from(logs.entries()).reverse()) {
    if (position < log.from) continue
    const plan =
      position <= log.position ? planInside(log, position) : planBetween(log, logs.slice(index + 1), position)
    if (plan !== null) return plan
  }
  const ranges = logs.map(({ from, position: to }) => `${from} to ${to}`).join(', ')
  throw new StoreError(
    'notFound',
    'backup_position_unknown',
    `no snapshot has position ${position}: the snapshots have ${ranges || 'none'}`,
  )
}

/** P1. Null: the position is in the middle of a stand-in or a merged file (P3). */
function planInside(log: StoredLog, position: number): RestorePlan | null {
  const segments = log.segments.filter(({ base }) => base < position)
  if (cutsStandIn(segments, position)) return null
  const checkpoints = log.checkpoints.filter((checkpoint) => checkpoint.position <= position)
  return { ...planOfWhole(log), segments, checkpoints, position }
}

/** P3 */
function cutsStandIn(segments: readonly StoredSegment[], position: number): boolean {
  const last = segments.at(-1)
  if (last === undefined) return false
  const first = segments[0]!.base
  const isCut = (segment: StoredSegment): boolean => {
    const merged = movedInto(segment)
    return merged !== null && (merged.base < first || merged.end > position)
  }
  return (position < last.end && isStandIn(last)) || segments.some(isCut)
}

/** P2. Null: nothing leads there without a gap, or the position is in the middle of a stand-in or a merged file (P3). */
function planBetween(log: StoredLog, later: readonly StoredLog[], position: number): RestorePlan | null {
  const last = log.segments.at(-1)
  const segments = [...log.segments]
  if (last !== undefined && !last.sealed) segments.pop()
  const begin = last?.base ?? log.begin // of the first segment, when there is none before it
  for (const newer of later) {
    if (newer.logId !== log.logId || !followsOn(log, newer)) return null
    for (const segment of newer.segments) {
      const previous = segments.at(-1)
      const expected = previous === undefined ? begin : previous.end + SEGMENT_FOOTER_BYTES
      if (previous !== undefined && !previous.sealed && previous.base === segment.base) segments.pop()
      else if (segment.base !== expected) continue
      segments.push(segment)
    }
    if ((segments.at(-1)?.end ?? 0) < position) continue
    const kept = segments.filter(({ base }) => base < position)
    if (cutsStandIn(kept, position)) return null
    const passes = last === undefined ? null : { position: last.end, chain: last.chain }
    return { ...planOfWhole(log), segments: kept, position, passes }
  }
  return null
}

/** Whether sealed segments that both have are the same. A chain of 0 is not known, as the stand-in that had it was damaged. */
function followsOn(log: StoredLog, newer: StoredLog): boolean {
  const known = new Map(log.segments.map((segment) => [segment.base, segment]))
  return newer.segments.every(({ base, end, chain }) => {
    const before = known.get(base)
    return (
      before === undefined ||
      !before.sealed ||
      (before.end === end && (before.chain === chain || [before.chain, chain].includes(0)))
    )
  })
}
