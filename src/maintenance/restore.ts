/**
 * Writes a data directory from a backup.
 *
 * W1  only into a directory that is empty or not there
 * W2  every byte is compared with the checksum of the snapshot before it counts
 * W3  the FORMAT of every log is written last: no service starts on what an unfinished restore has left
 */
import { createHash } from 'node:crypto'
import { frameBytes } from '../../native-free-codecs/frame.ts'
import { StoreError } from '../errors.ts'
import { DurableMark } from '../log/durable-mark.ts'
import { makeDurableDirectory, parentOf, withOpenFile } from '../log/files.ts'
import type { Files } from '../log/files.ts'
import { writeFormat } from '../log/format.ts'
import { writeQuarantine } from '../log/quarantine.ts'
import { scanFrames } from '../log/read.ts'
import { RECORDS_NAME, SEGMENT_HEADER_BYTES, segmentName } from '../log/segment-format.ts'
import { planOfWhole, planTo } from './plan.ts'
import type { RestorePlan } from './plan.ts'
import { isStandIn } from './snapshot.ts'
import type { Snapshot, StoredFile, StoredLog, StoredSegment } from './snapshot.ts'
import { readSnapshots } from './snapshots.ts'
import { namesIn } from './source.ts'
import type { BackupTarget } from './target.ts'

export interface RestoreOptions {
  readonly files: Files
  readonly target: BackupTarget
  readonly dataDirectory: string
  /** Null: all logs of the snapshot. */
  readonly place: string | null
  /** Null: the newest. */
  readonly sequence: number | null
  /** Position up to which a single log is restored; null: the end of the snapshot. */
  readonly position: number | null
}

export interface RestoredLog {
  readonly place: string
  readonly directory: string
  readonly position: number
  readonly bytes: number
}

/** @throws StoreError, and what files and the target throw */
export async function restore(options: RestoreOptions): Promise<readonly RestoredLog[]> {
  const { files, target, dataDirectory } = options
  demandEmpty(files, dataDirectory)
  const { whole } = await readSnapshots(target)
  const plans = plansOf(whole, options)
  const restored: RestoredLog[] = []
  for (const plan of plans) {
    const { place } = plan.log
    const directory = place === '' ? dataDirectory : `${dataDirectory}/${place}`
    restored.push({ place, directory, ...(await restoreLog(files, target, plan, directory)) })
  }
  for (const [index, { log }] of plans.entries()) writeFormat(files, restored[index]!.directory, log.logId) // W3
  return restored
}

/** W1 */
function demandEmpty(files: Files, directory: string): void {
  if (namesIn(files, directory)?.length === 0 || !files.exists(directory)) return
  const message = `${directory} is not empty: a restore goes into a new directory`
  throw new StoreError('invalid', 'restore_not_empty', message)
}

function plansOf(
  snapshots: readonly Snapshot[],
  { target, place, sequence, position }: RestoreOptions,
): readonly RestorePlan[] {
  const chosen = sequence === null ? snapshots.at(-1) : snapshots.find((snapshot) => snapshot.sequence === sequence)
  if (chosen === undefined) {
    const which = sequence === null ? 'no snapshot that can be read' : `no snapshot ${sequence} that can be read`
    throw new StoreError('notFound', 'backup_missing', `${target.name} has ${which}`)
  }
  const isInside = (log: StoredLog, outer: string): boolean => outer === '' || log.place.startsWith(`${outer}/`)
  const outermost = chosen.logs.filter(
    (log) => !chosen.logs.some((other) => other !== log && isInside(log, other.place)),
  )
  const roots = outermost.filter((log) => place === null || log.place === place)
  const places = outermost.map((log) => (log.place === '' ? 'the data directory itself' : log.place)).join(', ')
  if (roots.length === 0) {
    throw new StoreError('notFound', 'backup_missing', `${target.name} has no ${place} in it: there are ${places}`)
  }
  if (position !== null && roots.length > 1) {
    const message = `--to-position applies to one log: choose one of ${places} with --service`
    throw new StoreError('invalid', 'backup_position_ambiguous', message)
  }
  const upTo = snapshots.filter((snapshot) => snapshot.sequence <= chosen.sequence)
  return chosen.logs
    .filter((log) => roots.some((root) => root === log || isInside(log, root.place)))
    .map((log) => (position !== null && log === roots[0] ? planTo(upTo, log.place, position) : planOfWhole(log)))
}

async function restoreLog(
  files: Files,
  target: BackupTarget,
  plan: RestorePlan,
  directory: string,
): Promise<{ readonly position: number; readonly bytes: number }> {
  const { log, segments, checkpoints, others } = plan
  const segmentsDirectory = `${directory}/${log.segmentsName}`
  makeDurableDirectory(files, segmentsDirectory)
  let bytes = 0
  const written = new Set<string>() // a merged file is named by every segment that is in it
  const write = async (file: StoredFile): Promise<void> => {
    if (written.has(file.path)) return
    written.add(file.path)
    await writeFile(files, target, file, `${directory}/${file.path}`)
    bytes += file.bytes
  }
  for (const segment of segments) {
    makeDurableDirectory(files, `${segmentsDirectory}/${segmentName(segment.base)}`)
    if (segment.records !== null) await write(segment.records)
    if (segment.damage.length > 0) {
      writeQuarantine(files, `${segmentsDirectory}/${segmentName(segment.base)}`, segment.damage)
    }
    if (segment.end <= plan.position) for (const sidecar of segment.sidecars) await write(sidecar)
  }
  for (const { file } of checkpoints) await write(file)
  for (const file of others) await write(file)
  demandPassed(files, segmentsDirectory, plan)
  const { end: position, cutBytes } = cut(files, segmentsDirectory, plan)
  const { logId, epoch, begin, durable } = log
  DurableMark.set(files, directory, logId, {
    epoch,
    position: plan.position === log.position && cutBytes === 0 ? durable : position,
    begin,
  })
  return { position, bytes: bytes - cutBytes }
}

/** W2 */
async function writeFile(files: Files, target: BackupTarget, stored: StoredFile, path: string): Promise<void> {
  makeDurableDirectory(files, parentOf(path))
  const file = files.create(path)
  try {
    let at = 0
    for await (const piece of verified(target, stored)) {
      file.writev([piece], at)
      at += piece.byteLength
    }
    file.fdatasync()
  } finally {
    file.close()
  }
  files.syncDirectory(parentOf(path))
}

/** The file's bytes. @throws StoreError backup_damaged at their end, when they are not those of the snapshot */
export async function* verified(target: BackupTarget, { key, bytes, sha256 }: StoredFile): AsyncIterable<Uint8Array> {
  const hash = createHash('sha256')
  let have = 0
  for await (const piece of target.read(key)) {
    hash.update(piece)
    have += piece.byteLength
    yield piece
  }
  if (have === bytes && hash.digest('hex') === sha256) return
  const message = `${target.name}: ${key} is damaged: restore another snapshot, or make a new backup elsewhere`
  throw new StoreError('corrupt', 'backup_damaged', message)
}

/** P2 of plan.ts. */
function demandPassed(files: Files, directory: string, { log, segments, passes }: RestorePlan): void {
  if (passes === null) return
  const at = segments.findLast(({ base }) => base < passes.position)
  if (at !== undefined && isStandIn(at)) return // what it was made of was judged when that was copied
  let chain = -1
  if (at?.records) {
    scanRestored(files, directory, log.logId, at, (end, headerCrc) => {
      if (end === passes.position) chain = headerCrc
    })
  }
  if (chain === passes.chain) return
  const message = `the later snapshots are of a log that differs from this one after position ${passes.position}: choose a position that a snapshot covers`
  throw new StoreError('notFound', 'backup_position_unknown', message)
}

/**
 * Cuts the log behind the last frame that ends at or below the position. The last segment is removed when it has no such frame: the log then ends where the
 * segment before it does, or where it begins.
 */
function cut(
  files: Files,
  directory: string,
  { log, segments, checkpoints, position }: RestorePlan,
): { readonly end: number; readonly cutBytes: number } {
  const last = segments.at(-1)
  if (last === undefined) return { end: position, cutBytes: 0 }
  if (last.end <= position || last.records === null) return { end: last.end, cutBytes: 0 }
  const noFrame = last.base + SEGMENT_HEADER_BYTES
  let end = noFrame
  scanRestored(files, directory, log.logId, last, (frameEnd) => {
    if (frameEnd <= position) end = frameEnd
  })
  const before = segments.at(-2)?.end ?? last.base
  if (end === noFrame && !checkpoints.some((checkpoint) => checkpoint.position > before)) {
    files.removeDirectory(`${directory}/${segmentName(last.base)}`)
    files.syncDirectory(directory)
    return { end: before, cutBytes: last.records.bytes }
  }
  const file = files.open(recordsPath(directory, last), 'write')
  try {
    file.truncate(end - last.base)
    file.fdatasync()
  } finally {
    file.close()
  }
  return { end, cutBytes: last.records.bytes - (end - last.base) }
}

function scanRestored(
  files: Files,
  directory: string,
  logId: number,
  segment: StoredSegment,
  visit: (end: number, headerCrc: number) => void,
): void {
  withOpenFile(files, recordsPath(directory, segment), (file) =>
    scanFrames(file, logId, segment.base, SEGMENT_HEADER_BYTES, segment.end - segment.base, {
      frame: ({ position, payloadBytes, headerCrc }) => visit(position + frameBytes(payloadBytes), headerCrc),
      bad() {}, // the snapshot knows it: see `damage`
    }),
  )
}

const recordsPath = (segmentsDirectory: string, { base }: StoredSegment): string =>
  `${segmentsDirectory}/${segmentName(base)}/${RECORDS_NAME}`
