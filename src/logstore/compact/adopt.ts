/**
 * A start finds what compaction left of a segment.
 *
 * A1  while `records.log` is there, a stand-in counts only if it is whole. Otherwise it is removed, and the segment is compacted again
 * A2  a stand-in that is alone and does not open is damage: an incident names the whole segment, unless another directory of the log has the stand-in whole
 */
import { StoreError } from '../../errors.ts'
import { withOpenFile } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import type { Log, SegmentInfo } from '../../log/log.ts'
import { STAND_IN_NAME, isStandInWhole, readStandIn } from '../../log/stand-in.ts'
import type { Bundle } from '../index/manifest.ts'
import { CompactIndex } from './compact-index.ts'
import { bundleOfCompact } from './compact-segment.ts'
import { PieceCache } from './piece-cache.ts'

/** Replaces a damaged bundle over positions [base, end) with the one of another directory of the log. False: no directory has it whole. */
export type MendAtStart = (bundle: {
  readonly base: number
  readonly end: number
  readonly isMerged: boolean
}) => boolean

/** Null: the segment is not compacted, or damaged (A2). @throws what the file system throws */
export function adoptCompacted(
  files: Files,
  log: Pick<Log, 'id' | 'reportDamage'>,
  segment: SegmentInfo,
  mend: MendAtStart = () => false,
): Bundle | null {
  const { base, end, directory, recordsPath } = segment
  const path = `${directory}/${STAND_IN_NAME}`
  if (!files.exists(path)) return null
  const standIn = readStandIn(files, directory, log.id, base)
  const hasRecords = files.exists(recordsPath)
  if (hasRecords && (standIn?.end !== end || !isStandInWhole(files, directory, standIn))) {
    files.removeFile(path) // A1
    files.syncDirectory(directory)
    return null
  }
  try {
    return withOpenFile(files, path, (file) => bundleOfCompact(new CompactIndex(file, base, new PieceCache(0))))
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== 'corrupt') throw error
    if (hasRecords) {
      files.removeFile(path) // A1
      files.syncDirectory(directory)
    } else if (mend({ base, end, isMerged: false })) return adoptCompacted(files, log, segment)
    else log.reportDamage(segment, { from: base, to: end, reason: `${STAND_IN_NAME} is damaged` }) // A2
    return null
  }
}
