/**
 * A start finds what merging left of the segments.
 *
 * A1  a merged file counts if one of its segments needs it: the segment has moved, or no form of it opens (A3). Otherwise the file is removed: the bundles
 *     that it was made of are all there, and they are merged again
 * A2  a moved segment without a merged file that opens is damaged, and an incident names it; if its `records.log` is there, that counts instead. A merged
 *     file that does not open is first copied from another directory of the log that has it whole
 * A3  a segment of which no form opens is taken to have moved, if a merged file over it has its records. Its stand-in is then made again from what the
 *     merged file says, and no damage is reported (recovery V10)
 */
import { StoreError } from '../../errors.ts'
import { TEMPORARY_SUFFIX, withOpenFile } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import type { Log, SegmentInfo } from '../../log/log.ts'
import { MOVED_REASON, chosenMerged, hasMoved, mergedIn, mergedName, needsMerged } from '../../log/merged.ts'
import type { MergedRange } from '../../log/merged.ts'
import { QUARANTINE_NAME } from '../../log/quarantine.ts'
import { MERGED_PREFIX, SEGMENT_FOOTER_BYTES } from '../../log/segment-format.ts'
import { STAND_IN_NAME, encodeStandInHeader, publishStandIn } from '../../log/stand-in.ts'
import type { StandIn } from '../../log/stand-in.ts'
import type { MendAtStart } from './adopt.ts'
import type { Bundle } from '../index/manifest.ts'
import { CompactIndex } from './compact-index.ts'
import { bundleOfCompact } from './compact-segment.ts'
import { encodeMoved } from './moved.ts'
import { PieceCache } from './piece-cache.ts'

/**
 * @param segments    sealed ones, ascending
 * @param onMadeAgain called with each segment whose stand-in was made again (A3)
 * @returns the merged bundles, ascending
 * @throws what the file system throws
 */
export function adoptMerged(
  files: Files,
  log: Pick<Log, 'id' | 'reportDamage'>,
  segments: readonly SegmentInfo[],
  onMadeAgain: (segment: SegmentInfo) => void = () => {},
  mend: MendAtStart = () => false,
): readonly Bundle[] {
  const moved = segments.filter(({ base, directory }) => needsMerged(files, directory, log.id, base))
  let ranges = segments.flatMap((segment) => rangesIn(files, log.id, segment, segments))
  const opened = new Map<StandIn, Bundle>()
  let chosen: StandIn[] = []
  for (let isSettled = false; !isSettled;) {
    chosen = chosenMerged(
      moved.map(({ base }) => base),
      ranges,
    )
    const isOpen = (range: StandIn): boolean =>
      opened.has(range) || open(files, directoryOf(segments, range), range, opened)
    const bad = chosen.find((range) => !isOpen(range) && !(mend({ ...range, isMerged: true }) && isOpen(range)))
    isSettled = bad === undefined
    ranges = ranges.filter((range) => range !== bad)
  }
  removeUnused(files, log.id, segments, ranges)
  for (const segment of moved) {
    const { base, directory } = segment
    const over = chosen.find((range) => range.base <= base && base < range.end)
    if (over === undefined) giveUp(files, log, segment)
    else if (!hasMoved(files, directory, log.id, base) && makeAgain(files, segment, over, opened.get(over)!))
      onMadeAgain(segment)
  }
  return chosen.map((range) => opened.get(range)!)
}

/** The merged files in the directory of a segment that end where some segment ends. Removes files that a crash left half-written. */
function rangesIn(
  files: Files,
  logId: number,
  { base, directory }: SegmentInfo,
  segments: readonly SegmentInfo[],
): readonly StandIn[] {
  for (const name of files.list(directory) ?? []) {
    const isLeftOver = name.startsWith(MERGED_PREFIX) && name.endsWith(TEMPORARY_SUFFIX)
    if (isLeftOver) files.removeFile(`${directory}/${name}`)
  }
  return mergedIn(files, directory, logId, base).filter(({ end }) => areInRow(segments, base, end))
}

/** Whether segments cover the range from `base` to `end` without a gap. */
function areInRow(segments: readonly SegmentInfo[], base: number, end: number): boolean {
  let at = segments.findIndex((segment) => segment.base === base)
  while (segments[at] !== undefined && segments[at]!.end < end) {
    if (segments[at + 1]?.base !== segments[at]!.end + SEGMENT_FOOTER_BYTES) return false
    at++
  }
  return segments[at]?.end === end
}

const directoryOf = (segments: readonly SegmentInfo[], { base }: MergedRange): string =>
  segments.find((segment) => segment.base === base)!.directory

/** Adds the bundle to `opened`. False: the file is damaged. */
function open(files: Files, directory: string, range: StandIn, opened: Map<StandIn, Bundle>): boolean {
  try {
    const bundle = withOpenFile(files, `${directory}/${mergedName(range.end)}`, (file) =>
      bundleOfCompact(new CompactIndex(file, range.base, new PieceCache(0))),
    )
    opened.set(range, { ...bundle, isMerged: true })
    return true
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== 'corrupt') throw error
    return false
  }
}

/** A1 */
function removeUnused(
  files: Files,
  logId: number,
  segments: readonly SegmentInfo[],
  ranges: readonly MergedRange[],
): void {
  for (const range of ranges) {
    const itsSegments = segments.filter(({ base }) => range.base <= base && base < range.end)
    if (itsSegments.some(({ base, directory: its }) => needsMerged(files, its, logId, base))) continue
    const directory = directoryOf(segments, range)
    files.removeFile(`${directory}/${mergedName(range.end)}`)
    files.syncDirectory(directory)
  }
}

/** A3. False: the stand-in could not be written; the next start tries again. */
function makeAgain(files: Files, { base, end, directory }: SegmentInfo, over: StandIn, facts: Bundle): boolean {
  const { logId, epoch } = over
  const lastHeaderCrc = end === over.end ? over.lastHeaderCrc : 0 // lost for the other segments, like the number of frames: only their stand-ins had them
  const content = encodeMoved(facts)
  const header = encodeStandInHeader({ logId, base, end, frameCount: 0, epoch, lastHeaderCrc }, [content])
  try {
    const quarantine = `${directory}/${QUARANTINE_NAME}`
    if (files.exists(quarantine)) files.removeFile(quarantine) // an earlier start reported the segment as lost
    publishStandIn(files, directory, [header, content])
    return true
  } catch {
    return false
  }
}

/** A2 */
function giveUp(files: Files, log: Pick<Log, 'id' | 'reportDamage'>, segment: SegmentInfo): void {
  const { base, end, directory, recordsPath } = segment
  if (files.exists(recordsPath)) {
    files.removeFile(`${directory}/${STAND_IN_NAME}`)
    files.syncDirectory(directory)
    return
  }
  const reason = hasMoved(files, directory, log.id, base) ? MOVED_REASON : `${STAND_IN_NAME} is damaged`
  log.reportDamage(segment, { from: base, to: end, reason })
}
