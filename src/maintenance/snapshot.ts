/**
 * What a backup consists of: files that never change, and one snapshot for each run that names the files it needs.
 *
 *   BACKUP                                   says that the place holds backups
 *   snapshots/<sequence>.json                one run: checked JSON (src/log/checked-json.ts), `Snapshot` is its content
 *   logs/<log id>/<segment>/records-<identity>.log
 *   logs/<log id>/<segment>/tail-<position>-<identity>.log    a segment that was being written, up to the position
 *   logs/<log id>/<segment>/compact-<identity>.bin            a segment's stand-in (src/log/stand-in.ts)
 *   logs/<log id>/<segment>/merged-<identity>.bin             what this segment and some behind it have moved into (src/log/merged.ts)
 *   logs/<log id>/<segment>/<checksum>-<name>                 a sidecar
 *   logs/<log id>/checkpoint-<position>-<identity>.bin
 *   logs/<log id>/other/<identity>-<name>                     any other file of the directory
 *
 * A file is never replaced by another content: its name says which content it is.
 *
 * S1  a snapshot is written last, when everything that it names is durable. So a backup that dies leaves the snapshots before it whole
 * S3  a restore to any position from `from` to `position` finds every frame that the state at that position needs
 */
import { decodeCheckedJson, encodeCheckedJson } from '../log/checked-json.ts'
import { mergedEndOf } from '../log/merged.ts'
import type { MergedRange } from '../log/merged.ts'
import { segmentBaseOf } from '../log/segment-format.ts'
import { STAND_IN_NAME } from '../log/stand-in.ts'

const SNAPSHOT_VERSION = 1
const SEQUENCE_DIGITS = 8

export const MARKER_KEY = 'BACKUP'
export const SNAPSHOTS_PREFIX = 'snapshots/'
export const LOGS_PREFIX = 'logs/'
export const MARKER = Buffer.from('{"format":"trilog-backup","version":1}\n')

/** A file of a data directory, and where the backup has it. */
export interface StoredFile {
  /** Within the directory of the log. */
  readonly path: string
  readonly key: string
  readonly bytes: number
  /** In hexadecimal digits. */
  readonly sha256: string
}

/** A range of positions that cannot be read. */
export interface Damage {
  readonly from: number
  readonly to: number
  readonly reason: string
}

export interface StoredSegment {
  readonly base: number
  /** Position behind the last frame. */
  readonly end: number
  readonly sealed: boolean
  /** Header checksum of the last frame, which stands for all before it. 0: it is not known. */
  readonly chain: number
  /** The segment's file, or its stand-in (src/log/stand-in.ts). Null: the store lacks the file as well. */
  readonly records: StoredFile | null
  /** If the segment has moved: its merged file, which every segment in that file lists. */
  readonly sidecars: readonly StoredFile[]
  /** Damage that the backup found in every directory of the log. */
  readonly damage: readonly Damage[]
}

export interface StoredCheckpoint {
  readonly position: number
  readonly file: StoredFile
}

/** One log, as it was when it ended at `position`. */
export interface StoredLog {
  /** Its directory in the data directory; empty: the data directory itself. */
  readonly place: string
  readonly segmentsName: string
  readonly logId: number
  readonly epoch: number
  /** Where the log begins, also if the store lacks its first segments. */
  readonly begin: number
  /** S3 */
  readonly from: number
  readonly position: number
  /** Everything before it was durable in the store. If it is behind `position`, the store has lost what is between them. */
  readonly durable: number
  readonly segments: readonly StoredSegment[]
  /** Newest first. */
  readonly checkpoints: readonly StoredCheckpoint[]
  readonly others: readonly StoredFile[]
}

export interface Snapshot {
  readonly version: number
  readonly sequence: number
  /** Wall clock, Unix epoch. */
  readonly createdAtMs: number
  /** By place. */
  readonly logs: readonly StoredLog[]
}

export const newSnapshot = (sequence: number, createdAtMs: number, logs: readonly StoredLog[]): Snapshot => ({
  version: SNAPSHOT_VERSION,
  sequence,
  createdAtMs,
  logs,
})

export const encodeSnapshot = (snapshot: Snapshot): Buffer => encodeCheckedJson(snapshot)

/** Null when it is damaged or of another version. */
export function decodeSnapshot(bytes: Buffer): Snapshot | null {
  const snapshot = decodeCheckedJson(bytes)?.content as Snapshot | undefined // the checksum says we wrote it
  return snapshot?.version === SNAPSHOT_VERSION ? snapshot : null
}

export const snapshotKey = (sequence: number): string =>
  `${SNAPSHOTS_PREFIX}${String(sequence).padStart(SEQUENCE_DIGITS, '0')}.json`

export function sequenceOf(key: string): number | null {
  const digits = /^snapshots\/(\d+)\.json$/.exec(key)?.[1]
  return digits === undefined ? null : Number(digits)
}

export const logIdText = (logId: number): string => logId.toString(16).padStart(8, '0')

export const logPrefix = (logId: number): string => `${LOGS_PREFIX}${logIdText(logId)}/`

/** Whether the segment is a stand-in, which cannot be cut. */
export const isStandIn = ({ records }: StoredSegment): boolean => records?.path.endsWith(`/${STAND_IN_NAME}`) === true

/** The range of the merged file that a segment has moved into; null: it has not moved. */
export function movedInto({ sidecars }: StoredSegment): MergedRange | null {
  for (const { path } of sidecars) {
    const [name, segment] = path.split('/').reverse()
    const [base, end] = [segmentBaseOf(segment ?? ''), mergedEndOf(name!)]
    if (base !== null && end !== null) return { base, end }
  }
  return null
}

/** Without leading segments that have moved into a merged file which begins before all of them (C5 of capture.ts). */
export function withoutPartsOfMerged(segments: readonly StoredSegment[]): readonly StoredSegment[] {
  const first = segments[0]?.base ?? 0
  const isPart = (segment: StoredSegment): boolean => (movedInto(segment)?.base ?? first) < first
  return segments.slice(segments.findLastIndex(isPart) + 1)
}

/** All files of the log, each once. */
export function filesOf(log: StoredLog): readonly StoredFile[] {
  const ofSegments = log.segments.flatMap(({ records, sidecars }) => [...(records ? [records] : []), ...sidecars])
  const all = [...ofSegments, ...log.checkpoints.map(({ file }) => file), ...log.others]
  return [...new Map(all.map((file) => [file.key, file])).values()]
}
