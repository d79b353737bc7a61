/**
 * Makes the sealed segments of a returned replica directory equal to those of the primary one, while the log goes on. So
 * little is left to copy when a restart in place takes the directory in (readmission.ts).
 *
 * C1  nothing is written unless the directory holds this very log: an empty one may be the mount point of a disk that is not there. A directory that
 *     disappears meanwhile is not made again
 * C2  a segment gets its name when it is whole and durable
 * C3  a segment that the primary cannot read without damage is left as it is: the replica may have the good one
 * C4  bytes that were not synced when the directory was lost are copied again, because a failed sync may have left them only in memory
 * C5  what a segment has moved into (merged.ts) is copied before the segment
 * C6  what the primary has dropped is dropped here (drop-forgotten.ts)
 * C7  a segment gets the form that it has in the primary, when that is a whole stand-in
 * C8  the replica has the checkpoints of the primary before it drops the segments that they stand for
 */
import { StoreError } from '../errors.ts'
import { completeCheckpoints } from './checkpoint-copies.ts'
import { dropForgotten } from './drop-forgotten.ts'
import type { CatchUpTask } from './environment.ts'
import { makeDurableInParent, publishInSteps, withOpenFile } from './files.ts'
import type { Files, OpenFile } from './files.ts'
import { readFormat } from './format.ts'
import { copyMerged, mergedNear, overlapsOther } from './merged-copy.ts'
import { isMoved, mergedName, mergedOver } from './merged.ts'
import { QUARANTINE_NAME } from './quarantine.ts'
import { readFooter, replaySegment } from './read.ts'
import { recoverDirectory } from './recovery.ts'
import { atOnce } from '../steps.ts'
import type { Steps } from '../steps.ts'
import { RECORDS_NAME, SEGMENT_FOOTER_BYTES, segmentName } from './segment-format.ts'
import { STAND_IN_NAME, clearBesideStandIn, isStandInWhole, readStandIn } from './stand-in.ts'

const PIECE_BYTES = 1 << 20

/**
 * @param rest called after each piece that was copied, so that others can use the disks
 * @returns the bytes that were copied
 * @throws StoreError unavailable log_replica_empty (C1); as `readFormat` and `recoverDirectory`; and what the file system throws
 */
export function catchUp(files: Files, task: CatchUpTask, rest: () => void): number {
  const { replica, segmentsName, logId, segments, syncedUpTo, begin } = task
  if (readFormat(files, replica, segmentsName) !== logId) {
    const message = `${replica} does not hold this log. Bring its files back, and it is used again; if it is empty, a restart fills it`
    throw new StoreError('unavailable', 'log_replica_empty', message)
  }
  let copied = 0
  for (const { base, end } of segments) {
    if (end <= syncedUpTo && isSame(files, task, base) && isSameForm(files, task, base)) continue
    copied += copySegment(files, task, base, end, rest)
  }
  const end = segments.at(-1)?.end ?? 0
  for (const _ of completeCheckpoints(files, [task.primary], replica, end)) rest() // C8
  if (begin !== null) atOnce(dropForgotten(files, replica, segmentsName, logId, begin)) // C6
  atOnce(recoverDirectory({ files, directory: replica, segmentsName, logId, dryRun: true })) // throws where the restart in place would
  return copied
}

function isSame(files: Files, { primary, replica, segmentsName, logId }: CatchUpTask, base: number): boolean {
  const [one, other] = [primary, replica].map((directory) => {
    const segment = `${directory}/${segmentsName}/${segmentName(base)}`
    const path = `${segment}/${RECORDS_NAME}`
    return files.exists(path) ? withOpenFile(files, path, readFooter) : readStandIn(files, segment, logId, base)
  })
  if (!one || !other) return false
  return one.end === other.end && one.lastHeaderCrc === other.lastHeaderCrc && one.epoch === other.epoch
}

/** C7 */
function isSameForm(files: Files, { primary, replica, segmentsName, logId }: CatchUpTask, base: number): boolean {
  const [own, other] = [primary, replica].map((directory) => {
    const segment = `${directory}/${segmentsName}/${segmentName(base)}`
    return files.exists(`${segment}/${RECORDS_NAME}`) ? null : readStandIn(files, segment, logId, base)
  })
  return !own || (own.contentCrc === other?.contentCrc && own.fileBytes === other.fileBytes)
}

function copySegment(files: Files, task: CatchUpTask, base: number, end: number, rest: () => void): number {
  const name = `${task.segmentsName}/${segmentName(base)}`
  const source = `${task.primary}/${name}/${RECORDS_NAME}`
  if (!files.exists(source)) return copyStandIn(files, task, base, rest)
  if (!isWhole(files, source, task.logId, base, end)) return 0 // C3
  const bytes = end - base + SEGMENT_FOOTER_BYTES
  const copied = copyFile(files, source, `${task.replica}/${name}`, RECORDS_NAME, bytes, rest)
  const standIn = `${task.replica}/${name}/${STAND_IN_NAME}`
  if (files.exists(standIn)) files.removeFile(standIn)
  return copied
}

/** Copies the stand-in of a compacted segment. A segment that was dropped meanwhile has none, so nothing is copied. */
function copyStandIn(files: Files, task: CatchUpTask, base: number, rest: () => void): number {
  const name = `${task.segmentsName}/${segmentName(base)}`
  const standIn = readStandIn(files, `${task.primary}/${name}`, task.logId, base)
  if (standIn === null || !isStandInWhole(files, `${task.primary}/${name}`, standIn)) return 0 // C3
  const merged = isMoved(standIn) ? copyMergedOver(files, task, base, rest) : 0
  if (merged === null) return 0 // C3
  const source = `${task.primary}/${name}/${STAND_IN_NAME}`
  const copied = copyFile(files, source, `${task.replica}/${name}`, STAND_IN_NAME, standIn.fileBytes, rest)
  clearBesideStandIn(files, `${task.replica}/${name}`, task.logId, base)
  return merged + copied
}

/** C5. @returns the bytes that were copied, 0 if the replica has it; null: the primary's is missing or damaged, or only overlaps one of the replica's own */
function copyMergedOver(files: Files, task: CatchUpTask, base: number, rest: () => void): number | null {
  const { segmentsName, logId } = task
  const [from, to] = [`${task.primary}/${segmentsName}`, `${task.replica}/${segmentsName}`]
  const merged = mergedOver(files, from, logId, base)
  if (merged === null) return null
  const directory = (segments: string): string => `${segments}/${segmentName(merged.base)}`
  const name = mergedName(merged.end)
  const own = readStandIn(files, directory(to), logId, merged.base, name)
  if (own?.end === merged.end && own.contentCrc === merged.contentCrc) return 0
  if (overlapsOther(files, to, merged) || !isStandInWhole(files, directory(from), merged, name)) return null
  makeDurableInParent(files, directory(to))
  for (const _ of copyMerged(files, logId, merged, from, to)) rest()
  for (const { base: first, end } of mergedNear(files, to, merged)) {
    const isReplaced = first >= merged.base && end <= merged.end && (first !== merged.base || end !== merged.end)
    if (isReplaced) files.removeFile(`${to}/${segmentName(first)}/${mergedName(end)}`)
  }
  return merged.fileBytes
}

function copyFile(
  files: Files,
  source: string,
  directory: string,
  name: string,
  bytes: number,
  rest: () => void,
): number {
  return withOpenFile(files, source, (from) => {
    makeDurableInParent(files, directory)
    const dropQuarantine = (): void => {
      if (files.exists(`${directory}/${QUARANTINE_NAME}`)) files.removeFile(`${directory}/${QUARANTINE_NAME}`)
    }
    const steps = publishInSteps(files, directory, name, (to) => copyBytesOf(from, to, bytes), {
      check: dropQuarantine,
      cache: 'short',
    })
    for (const _ of steps) rest() // C2
    return bytes
  })
}

function* copyBytesOf(from: OpenFile, to: OpenFile, bytes: number): Steps<void> {
  const piece = Buffer.alloc(Math.min(bytes, PIECE_BYTES))
  for (let at = 0; at < bytes; at += piece.byteLength) {
    const part = piece.subarray(0, Math.min(piece.byteLength, bytes - at))
    if (from.read(part, at) !== part.byteLength) throw new Error('a sealed segment is shorter than it was')
    to.writev([part], at)
    yield { phase: 'copying', done: at + part.byteLength, total: bytes, unit: 'bytes' }
  }
}

function isWhole(files: Files, recordsPath: string, logId: number, base: number, to: number): boolean {
  let whole = true
  const onDamage = (): void => {
    whole = false
  }
  replaySegment(files, { base, recordsPath }, { logId, to, onFrame() {}, onDamage })
  return whole
}
