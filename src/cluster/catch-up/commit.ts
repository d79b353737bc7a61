/**
 * Replaces the log of a data directory by a copy. No thread has the log open meanwhile.
 *
 *   catch-up/plan.json   ──► FORMAT goes ──► catch-up/applying.json ──► files move ──► FORMAT is written ──► catch-up/ goes
 *   the old log, whole       no service starts on the directory                       the new log, whole
 *
 * P1  until plan.json has its name, the old log is whole. From then on every start ends with the new log: `finishCopy` continues where the last one stopped
 * P2  every step may be repeated: a file that was moved is no longer in `catch-up/`
 * P3  a plan applies only to the log that it was made for. If that log was written to since, as by a start outside of the cluster, it stays as it is
 */
import { checkpointName, checkpointPositions } from '../../log/checkpoint.ts'
import { decodeCheckedJson, encodeCheckedJson } from '../../log/checked-json.ts'
import { DurableMark, MARK_NAME } from '../../log/durable-mark.ts'
import { TEMPORARY_SUFFIX, makeDurableDirectory, parentOf, publishFile, readWhole } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import { FORMAT_NAME, writeFormat } from '../../log/format.ts'
import { RECORDS_NAME, segmentBaseOf, segmentName } from '../../log/segment-format.ts'
import { StoreError } from '../../errors.ts'
import { LogSource, STAGING_NAME, withFile } from '../../maintenance/source.ts'
import type { Anchor } from '../history.ts'
import { hasSegment, hostsOf } from './copy.ts'
import type { Listing, LogLocation } from './listing.ts'

export interface CommitParts extends LogLocation {
  readonly files: Files
  /** Directories that mirror the log: they are emptied, and the next start fills them. */
  readonly replicas: readonly string[]
  readonly writeAnchor: (files: Files, directory: string, anchor: Anchor) => void
}

interface Plan {
  readonly listing: Listing
  /** P3 */
  readonly replaces: string
}

const PLAN_NAME = 'plan.json'
const APPLYING_NAME = 'applying.json'

/** P1. @param listing that `copyLog` returned. @throws StoreError when the copy is not whole; what files throw */
export function commitCopy(parts: CommitParts, listing: Listing): void {
  const { files, directory, segmentsName } = parts
  const staging = `${directory}/${STAGING_NAME}`
  const local = new LogSource(files, { directory, segmentsName, logId: listing.logId })
  const hosts = hostsOf(listing)
  for (const segment of listing.segments) {
    const isStaged = [segment.file, segment.merged].every((file) => !file || files.exists(`${staging}/${file.path}`))
    if (!isStaged && (hosts.has(segment.base) || !hasSegment(local, segment)))
      throw new StoreError(
        'unavailable',
        'catch_up_incomplete',
        `${directory} lost a segment while the log was being copied`,
      )
  }
  syncNames(parts, listing)
  const plan: Plan = { listing, replaces: nameOf(parts) }
  publishFile(files, staging, PLAN_NAME, [encodeCheckedJson(plan)])
  finishCopy(parts)
}

/** An earlier process may have copied files whose names are not durable yet. */
function syncNames({ files, directory, segmentsName }: CommitParts, { segments }: Listing): void {
  const staging = `${directory}/${STAGING_NAME}`
  for (const { file } of segments) {
    const folder = parentOf(`${staging}/${file.path}`)
    if (files.exists(folder)) files.syncDirectory(folder)
  }
  for (const folder of [`${staging}/${segmentsName}`, staging, directory]) files.syncDirectory(folder)
}

/** P1. Called before a log is opened: completes the replacement that an earlier start began, if there is one. @throws what files throw */
export function finishCopy(parts: CommitParts): void {
  const { files, directory } = parts
  const staging = `${directory}/${STAGING_NAME}`
  const planned = planIn(files, `${staging}/${PLAN_NAME}`)
  const format = `${directory}/${FORMAT_NAME}`
  if (planned !== null) {
    const isForAnotherLog = planned.replaces !== nameOf(parts)
    if (isForAnotherLog && files.exists(format)) return removeStaging(files, directory) // P3
    if (files.exists(format)) {
      files.removeFile(format)
      files.syncDirectory(directory)
    }
    files.rename(`${staging}/${PLAN_NAME}`, `${staging}/${APPLYING_NAME}`)
    files.syncDirectory(staging)
  }
  const applying = planIn(files, `${staging}/${APPLYING_NAME}`)
  if (applying === null) return
  if (!files.exists(format)) apply(parts, applying.listing)
  removeStaging(files, directory)
}

/** P2 */
function apply({ files, directory, segmentsName, replicas, writeAnchor }: CommitParts, listing: Listing): void {
  const { logId, epoch, begin, anchor } = listing
  const staging = `${directory}/${STAGING_NAME}`
  const segments = `${directory}/${segmentsName}`
  for (const replica of replicas) emptyLog(files, { directory: replica, segmentsName })
  makeDurableDirectory(files, segments)
  const wanted = new Set(listing.segments.map(({ base }) => base))
  for (const name of files.list(segments) ?? []) {
    const base = segmentBaseOf(name)
    if (base !== null && !wanted.has(base)) files.removeDirectory(`${segments}/${name}`)
  }
  for (const { base, file } of listing.segments) {
    if (!files.exists(`${staging}/${file.path}`)) continue
    const name = segmentName(base)
    files.removeDirectory(`${segments}/${name}`)
    files.syncDirectory(segments)
    files.rename(`${staging}/${segmentsName}/${name}`, `${segments}/${name}`)
  }
  files.syncDirectory(segments)
  files.syncDirectory(`${staging}/${segmentsName}`)
  const checkpoints = new Set(listing.checkpoints.map(({ path }) => path))
  for (const position of checkpointPositions(files, directory)) {
    const name = checkpointName(position)
    if (!checkpoints.has(name)) files.removeFile(`${directory}/${name}`)
  }
  for (const name of checkpoints) {
    if (files.exists(`${staging}/${name}`)) files.rename(`${staging}/${name}`, `${directory}/${name}`)
  }
  if (files.exists(`${directory}/${MARK_NAME}`)) files.removeFile(`${directory}/${MARK_NAME}`)
  files.syncDirectory(directory)
  DurableMark.set(files, directory, logId, { epoch, position: anchor.end.position, begin })
  writeAnchor(files, directory, anchor)
  writeFormat(files, directory, logId)
}

function emptyLog(files: Files, { directory, segmentsName }: LogLocation): void {
  if (!files.exists(directory)) return
  const names = [FORMAT_NAME, MARK_NAME, ...checkpointPositions(files, directory).map(checkpointName)]
  for (const name of names) if (files.exists(`${directory}/${name}`)) files.removeFile(`${directory}/${name}`)
  files.removeDirectory(`${directory}/${segmentsName}`)
  files.syncDirectory(directory)
}

function planIn(files: Files, path: string): Plan | null {
  const bytes = readWhole(files, path)
  const decoded = bytes && decodeCheckedJson(bytes)
  return decoded ? (decoded.content as Plan) : null // the checksum says we wrote it
}

/** P3. Identifies the state of the log by what a start changes: its segments, and the length of the newest one. */
function nameOf({ files, directory, segmentsName }: CommitParts): string {
  const bases = (files.list(`${directory}/${segmentsName}`) ?? []).filter((name) => segmentBaseOf(name) !== null)
  const newest = bases.at(-1)
  const path = `${directory}/${segmentsName}/${newest}/${RECORDS_NAME}`
  const bytes = files.exists(path) ? withFile(files, path, (file) => file.size()) : 0
  return `${bases.join()} ${bytes}`
}

function removeStaging(files: Files, directory: string): void {
  const staging = `${directory}/${STAGING_NAME}`
  for (const name of [PLAN_NAME, `${PLAN_NAME}${TEMPORARY_SUFFIX}`, APPLYING_NAME]) {
    if (files.exists(`${staging}/${name}`)) files.removeFile(`${staging}/${name}`)
  }
  files.syncDirectory(staging)
  files.removeDirectory(staging)
  files.syncDirectory(directory)
}
