/**
 * Copies merged files (merged.ts) from one directory of a log to another, so that no moved stand-in is there without one (G1), and removes those that no
 * segment needs.
 *
 * K1  a file gets its name when it was read back whole, and is durable (`copyStandIn`)
 * K2  nothing is copied that would overlap another merged file without enclosing it, or lying in it (G2)
 * K3  a file is removed only when each of its segments has a form of its own, durably
 */
import { parentOf } from './files.ts'
import type { Files } from './files.ts'
import { MERGED_POSITIONS_MAX, mergedEndOf, mergedIn, mergedName, needsMerged } from './merged.ts'
import type { MergedRange } from './merged.ts'
import { segmentBaseOf, segmentName } from './segment-format.ts'
import { copyStandIn } from './stand-in.ts'
import type { Steps } from '../steps.ts'

/**
 * @param from the segments' directory that has the file; in `to` its segment has a directory
 * @throws what the file system throws; Error when K1 or K2 does not hold
 */
export function* copyMerged(files: Files, logId: number, range: MergedRange, from: string, to: string): Steps<void> {
  const name = mergedName(range.end)
  if (overlapsOther(files, to, range)) throw new Error(`${name} would overlap another merged file of ${to}`) // K2
  const directory = segmentName(range.base)
  yield* copyStandIn(files, logId, range, name, `${from}/${directory}`, `${to}/${directory}`)
}

/** Whether a merged file over the range would overlap another one of the directory, which neither encloses it nor lies in it. */
export function overlapsOther(files: Files, segmentsDirectory: string, { base, end }: MergedRange): boolean {
  return mergedNear(files, segmentsDirectory, { base, end }).some((other) => {
    const isNested = (other.base <= base && other.end >= end) || (other.base >= base && other.end <= end)
    return other.base < end && base < other.end && !isNested
  })
}

/** The merged files that may overlap a range, by their names. */
export function mergedNear(
  files: Files,
  segmentsDirectory: string,
  { base, end }: MergedRange,
): readonly MergedRange[] {
  return (files.list(segmentsDirectory) ?? []).flatMap((segment) => {
    const first = segmentBaseOf(segment)
    if (first === null || first >= end || first + MERGED_POSITIONS_MAX < base) return []
    const names = files.list(`${segmentsDirectory}/${segment}`) ?? []
    return names.flatMap((name) => {
      const its = mergedEndOf(name)
      return its === null ? [] : [{ base: first, end: its }]
    })
  })
}

/** K3. Removes merged files from the directory of a segment: those that no segment needs, as none has moved into them yet, or none is moved any more. */
export function removeUnusedMerged(files: Files, segmentDirectory: string, logId: number, base: number): void {
  const segmentsDirectory = parentOf(segmentDirectory)
  for (const { end } of mergedIn(files, segmentDirectory, logId, base)) {
    const directories = (files.list(segmentsDirectory) ?? []).flatMap((name) => {
      const its = segmentBaseOf(name)
      return its !== null && its >= base && its < end ? [{ its, directory: `${segmentsDirectory}/${name}` }] : []
    })
    if (directories.some(({ its, directory }) => needsMerged(files, directory, logId, its))) continue
    for (const { directory } of directories) files.syncDirectory(directory) // a process that died may have renamed a file without syncing its directory
    files.removeFile(`${segmentDirectory}/${mergedName(end)}`)
  }
}
