/**
 * Merged files: what several neighbouring segments hold, in one file, `merged-<end>.bin` in the directory of the first of them. It has the header of a
 * stand-in: base of the first, end, epoch and last checksum of the last, frames of all. What it holds is the service's own.
 *
 * A segment whose content has moved into such a file keeps a stand-in without content, the *moved* one: 128 bytes. So the log has the same segments as
 * before, each with a stand-in, and code that drops, copies or counts segments needs to know of merged files only that they go along.
 *
 *   offset  bytes  of a moved stand-in
 *        0     64  header of the stand-in
 *       64     64  what the service says of the segment
 *
 * A merged file is removed only when another over all of its segments is durable, or when each of them has a form of its own.
 *
 * G1  a moved stand-in gets its name only when a whole merged file over its segment is durable in the same directory of the log
 * G2  the merged files of one directory of the log are disjoint, or one lies in the other, which then replaces it
 */
import type { Files } from './files.ts'
import { MERGED_PREFIX, MERGED_SUFFIX, RECORDS_NAME, segmentBaseOf, segmentName } from './segment-format.ts'
import { STAND_IN_HEADER_BYTES, readStandIn } from './stand-in.ts'
import type { StandIn } from './stand-in.ts'

/** What the service says in a moved stand-in. */
export const MOVED_CONTENT_BYTES = 64
export const MOVED_BYTES = STAND_IN_HEADER_BYTES + MOVED_CONTENT_BYTES

export const isMoved = ({ fileBytes }: Pick<StandIn, 'fileBytes'>): boolean => fileBytes === MOVED_BYTES

/** @param end behind the last frame of the last segment */
export const mergedName = (end: number): string => `${MERGED_PREFIX}${segmentName(end)}${MERGED_SUFFIX}`

/** The end in the name of a merged file; null: it is the name of something else. */
export function mergedEndOf(name: string): number | null {
  if (!name.startsWith(MERGED_PREFIX) || !name.endsWith(MERGED_SUFFIX)) return null
  return segmentBaseOf(name.slice(MERGED_PREFIX.length, -MERGED_SUFFIX.length))
}

/** A merged file by its name: which segments it may be over. */
export interface MergedRange {
  /** The first segment has this base, and the file is in its directory. */
  readonly base: number
  readonly end: number
}

/** The merged files in the directory of a segment that have the length that they say. Their content is not read. */
export function mergedIn(files: Files, segmentDirectory: string, logId: number, base: number): readonly StandIn[] {
  return (files.list(segmentDirectory) ?? []).flatMap((name) => {
    const end = mergedEndOf(name)
    const read = end === null ? null : readStandIn(files, segmentDirectory, logId, base, name)
    return read !== null && read.end === end ? [read] : []
  })
}

/** Whether the content of the segment is in a merged file alone. */
export function hasMoved(files: Files, segmentDirectory: string, logId: number, base: number): boolean {
  const standIn = readStandIn(files, segmentDirectory, logId, base)
  return standIn !== null && isMoved(standIn)
}

/** Whether the merged file over the segment may hold its only whole form: the segment has moved, or no stand-in of it opens. */
export const needsMerged = (files: Files, segmentDirectory: string, logId: number, base: number): boolean =>
  hasMoved(files, segmentDirectory, logId, base) ||
  (!files.exists(`${segmentDirectory}/${RECORDS_NAME}`) && readStandIn(files, segmentDirectory, logId, base) === null)

/**
 * Which merged files count: for each segment that has moved, the one that reaches furthest, and of those the one that begins first. A file that overlaps
 * one that was chosen before is left out; by G2 there is none.
 *
 * @param moved bases of the segments that have moved, ascending
 */
export function chosenMerged<Range extends MergedRange>(moved: readonly number[], ranges: readonly Range[]): Range[] {
  const chosen: Range[] = []
  const furthestFirst = ranges.toSorted((a, b) => b.end - a.end || a.base - b.base)
  for (const base of moved) {
    const last = chosen.at(-1)
    if (last !== undefined && base < last.end) continue
    const next = furthestFirst.find((range) => range.base <= base && base < range.end)
    if (next !== undefined && (last === undefined || next.base >= last.end)) chosen.push(next)
  }
  return chosen
}

const basesIn = (files: Files, segmentsDirectory: string): readonly number[] =>
  (files.list(segmentsDirectory) ?? []).flatMap((name) => segmentBaseOf(name) ?? [])

/**
 * The merged file that a moved segment is read from. It stands in the directory of an earlier segment, or in its own.
 *
 * @param bases of the segments of this directory of the log
 * @returns null: there is none
 */
export function mergedOver(
  files: Files,
  segmentsDirectory: string,
  logId: number,
  base: number,
  bases = basesIn(files, segmentsDirectory),
): StandIn | null {
  const nearestFirst = bases.filter((each) => each <= base).toSorted((a, b) => b - a)
  for (const earlier of nearestFirst) {
    if (base - earlier >= MERGED_POSITIONS_MAX) break
    const found = mergedIn(files, `${segmentsDirectory}/${segmentName(earlier)}`, logId, earlier)
    const over = found.filter(({ end }) => base < end).toSorted((a, b) => b.end - a.end)
    if (over[0] !== undefined) return over[0]
  }
  return null
}

/** A merged file is over fewer positions than this, so that offsets in it stay small integers. */
export const MERGED_POSITIONS_MAX = 2 ** 31 - 8
/** The incident gives this reason when a segment has moved into nothing. */
export const MOVED_REASON = 'it was merged with others, and the merged file is missing or damaged'
