/**
 * The two halves of merging neighbouring bundles, on the thread of compaction.
 *
 *   merge   read the run block by block ──► write the merged file beside ──► sync ──► read it back, compare ──► rename, sync the directory
 *   settle  put moved stand-ins (src/log/merged.ts) in place of the bundles of the run, and remove older merged files
 *
 * W1  nothing is removed before the name of the merged file is durable in that directory of the log: a process that dies at any point leaves the run, or
 *     the merged file with a part of the run, or the merged file alone
 * W2  a merged file that would overlap another one without enclosing it is not written (G2 of merged.ts)
 * W3  a run in which damage is known stays as it is
 * W4  a replica directory without the merged file, or with one that still has expired records because a process died, gets the one of the primary
 */
import { StoreError } from '../../errors.ts'
import { withOpenFile } from '../../log/files.ts'
import type { Files, OpenFile } from '../../log/files.ts'
import { mergedNear, overlapsOther } from '../../log/merged-copy.ts'
import { hasMoved, mergedName } from '../../log/merged.ts'
import { QUARANTINE_NAME } from '../../log/quarantine.ts'
import { readFooter } from '../../log/read.ts'
import { RECORDS_NAME, segmentName } from '../../log/segment-format.ts'
import type { SegmentFooter } from '../../log/segment-format.ts'
import {
  STAND_IN_NAME,
  clearBesideStandIn,
  encodeStandInHeader,
  publishStandIn,
  readStandIn,
} from '../../log/stand-in.ts'
import type { StandIn } from '../../log/stand-in.ts'
import type { Bundle } from '../index/manifest.ts'
import { BLOCKS_MAX, blockCountBound } from './bundle-writer.ts'
import { CompactIndex } from './compact-index.ts'
import { MergeRun } from './merge-rows.ts'
import { MERGE_CACHE_BYTES, copyToReplicas, untilStopped, writeMerged } from './merged-file.ts'
import type { EndedEarly } from './merged-file.ts'
import { encodeMoved } from './moved.ts'
import type { MovedFacts } from './moved.ts'
import { PieceCache } from './piece-cache.ts'

interface Range {
  readonly base: number
  readonly end: number
}

export interface MergeTask {
  readonly kind: 'merge' | 'settle'
  readonly logId: number
  /** The bundles that become one, ascending; those with `isMerged` are merged files already. For `settle` the one that they became. */
  readonly bundles: readonly (Range & { readonly isMerged: boolean })[]
  /** The segments that they cover, ascending. */
  readonly segments: readonly Range[]
  /** Where the segments are, in each directory of the log that is in use; that of the primary first. */
  readonly segmentsDirectories: readonly string[]
}

export type MergeResult =
  | {
      readonly kind: 'merged'
      readonly bundle: Bundle
      readonly bytesBefore: number
      readonly bytesAfter: number
      readonly problem: string | null
    }
  | { readonly kind: 'left'; readonly reason: string }
  | { readonly kind: 'settled' }
  | EndedEarly

/**
 * @param rest called now and then, to leave the processor to other threads; false: a merge stops, and leaves nothing behind
 * @throws what the file system throws
 */
export function mergeBundles(files: Files, task: MergeTask, rest: () => boolean): MergeResult {
  if (task.kind === 'merge') return untilStopped(rest, (restOrStop) => merge(files, task, restOrStop))
  makeEqual(files, task, rest)
  for (const directory of task.segmentsDirectories) settle(files, task, directory, rest)
  return { kind: 'settled' }
}

function merge(files: Files, task: MergeTask, rest: () => void): MergeResult {
  const { logId, bundles, segments, segmentsDirectories } = task
  const primary = segmentsDirectories[0]!
  const isDamaged = ({ base }: Range): boolean => files.exists(`${primary}/${segmentName(base)}/${QUARANTINE_NAME}`)
  if (segments.some(isDamaged)) return { kind: 'left', reason: 'it has damaged ranges' } // W3
  const range = rangeOf(segments)
  if (overlapsOther(files, primary, range)) return { kind: 'left', reason: 'it overlaps another merged file' } // W2
  const cache = new PieceCache(MERGE_CACHE_BYTES)
  const open: { readonly file: OpenFile; readonly index: CompactIndex; readonly standIn: StandIn }[] = []
  try {
    for (const { base, end, isMerged } of bundles) {
      const name = isMerged ? mergedName(end) : STAND_IN_NAME
      const directory = `${primary}/${segmentName(base)}`
      const standIn = readStandIn(files, directory, logId, base, name)
      if (standIn?.end !== end) throw new StoreError('corrupt', 'bundle_block_corrupt', `${name} of ${base} is damaged`)
      const file = files.open(`${directory}/${name}`, 'read')
      open.push({ file, index: new CompactIndex(file, base, cache), standIn })
    }
    const run = new MergeRun(open.map(({ index }) => index))
    if (
      mostBlocks(
        run,
        open.map(({ index }) => index),
      ) > BLOCKS_MAX
    )
      return { kind: 'left', reason: 'it is of too many small datasets' }
    const bytesBefore = open.reduce((sum, { standIn }) => sum + standIn.fileBytes, 0)
    const last = open.at(-1)!.standIn
    const footer = {
      frameCount: open.reduce((sum, { standIn }) => sum + standIn.frameCount, 0),
      logId,
      ...range,
      epoch: last.epoch,
      lastHeaderCrc: last.lastHeaderCrc,
    }
    const headers = open.map(({ index }) => index.header)
    const facts = {
      receivedUntil: headers.reduce((until, { receivedUntil }) => (receivedUntil > until ? receivedUntil : until), 0n),
      originalBytes: open.reduce((sum, { index }) => sum + index.originalBytes, 0),
      level: 1 + Math.max(...headers.map(({ level }) => level)),
    }
    const written = writeMerged(files, `${primary}/${segmentName(range.base)}`, footer, run, facts, rest)
    const problem = copyToReplicas(files, logId, range, segmentsDirectories, rest)
    return { kind: 'merged', bytesBefore, problem, ...written }
  } finally {
    for (const { file } of open) file.close()
  }
}

const rangeOf = (segments: readonly Range[]): Range => ({ base: segments[0]!.base, end: segments.at(-1)!.end })

function mostBlocks(run: MergeRun, indexes: readonly CompactIndex[]): number {
  let bytes = 0
  for (const index of indexes) for (const { facts } of index.partitions()) bytes += facts?.bytes ?? 0
  return blockCountBound(run.partitions().length, run.entries, bytes)
}

/** W4. A directory that does not take the file keeps what it has. */
function makeEqual(files: Files, { logId, segments, segmentsDirectories }: MergeTask, rest: () => boolean): void {
  const [primary, ...replicas] = segmentsDirectories
  const range = rangeOf(segments)
  const mergedOf = (directory: string): StandIn | null =>
    readStandIn(files, `${directory}/${segmentName(range.base)}`, logId, range.base, mergedName(range.end))
  const own = mergedOf(primary!)
  if (own === null) return
  const others = replicas.filter((replica) => mergedOf(replica)?.contentCrc !== own.contentCrc)
  copyToReplicas(files, logId, range, [primary!, ...others], rest)
}

/** Does nothing in a directory without the merged file: it keeps the run. */
function settle(files: Files, { logId, segments }: MergeTask, segmentsDirectory: string, rest: () => boolean): void {
  const range = rangeOf(segments)
  const home = `${segmentsDirectory}/${segmentName(range.base)}`
  const name = mergedName(range.end)
  const merged = readStandIn(files, home, logId, range.base, name)
  if (merged === null || merged.end !== range.end) return
  withOpenFile(files, `${home}/${name}`, (file) => {
    const { header, entryCount } = new CompactIndex(file, range.base, new PieceCache(0))
    files.syncDirectory(home) // W1: a process may have died between the rename and the sync
    for (const segment of segments) {
      moveOut(files, `${segmentsDirectory}/${segmentName(segment.base)}`, logId, segment, {
        ...header,
        records: entryCount,
      })
      rest()
    }
  })
  for (const older of mergedNear(files, segmentsDirectory, range)) {
    const isEnclosed = older.base >= range.base && older.end <= range.end
    const isItself = older.base === range.base && older.end === range.end
    if (!isEnclosed || isItself) continue
    files.removeFile(`${segmentsDirectory}/${segmentName(older.base)}/${mergedName(older.end)}`)
  }
}

function moveOut(files: Files, directory: string, logId: number, { base, end }: Range, facts: MovedFacts): void {
  if (!files.exists(directory)) return // retention has dropped it
  if (!hasMoved(files, directory, logId, base)) {
    const footer = footerOf(files, directory, logId, base, end)
    if (footer === null) return // the directory has not got the segment whole: a start makes it equal to the others
    const content = encodeMoved(facts)
    publishStandIn(files, directory, [encodeStandInHeader(footer, [content]), content])
  }
  clearBesideStandIn(files, directory, logId, base)
}

/** The footer of the segment, from whichever form the directory has. Null: it has none whole. */
export function footerOf(
  files: Files,
  directory: string,
  logId: number,
  base: number,
  end: number,
): SegmentFooter | null {
  const standIn = readStandIn(files, directory, logId, base)
  if (standIn?.end === end) return standIn
  const path = `${directory}/${RECORDS_NAME}`
  if (!files.exists(path)) return null
  const footer = withOpenFile(files, path, readFooter)
  return footer?.base === base && footer.end === end && footer.logId === logId ? footer : null
}
