/**
 * One run of a backup: every log of a data directory into one snapshot.
 *
 * Each log is copied as it is at a moment of its own: services know nothing of each other.
 */
import type { Files } from '../log/files.ts'
import { readMark } from '../log/durable-mark.ts'
import { captureLog } from './capture.ts'
import type { CaptureCounts } from './capture.ts'
import { LOGS_PREFIX, MARKER, MARKER_KEY, encodeSnapshot, newSnapshot, snapshotKey } from './snapshot.ts'
import type { Snapshot, StoredLog } from './snapshot.ts'
import { demandSameStore, leftovers, prunedKeys, readSnapshots } from './snapshots.ts'
import { LogSource, logsIn } from './source.ts'
import type { LogDirectory } from './source.ts'
import type { BackupTarget } from './target.ts'

export interface BackupOptions {
  readonly files: Files
  readonly dataDirectory: string
  /** Replica directories of its logs, in any order. */
  readonly replicas: readonly string[]
  readonly target: BackupTarget
  /** Snapshots that stay, this one included; null: all. */
  readonly keep: number | null
  /** The target has a lock, so that a file that no snapshot names belongs to no backup under way. */
  readonly isLocked: boolean
  readonly nowMs: () => number
  /** See `CaptureParts`. */
  readonly pace: (bytes: number) => void
}

export interface BackupReport extends CaptureCounts {
  readonly snapshot: Snapshot
  readonly removedSnapshots: readonly number[]
  /** Snapshots of the target that cannot be read any more. */
  readonly damagedSnapshots: readonly number[]
}

/** @throws StoreError, and what the file system throws */
export async function backUp(options: BackupOptions): Promise<BackupReport> {
  const { files, target, keep, nowMs, pace } = options
  const logs = sourcesOf(options)
  const { whole, damaged } = await readSnapshots(target)
  const before = whole.at(-1)
  demandSameStore(target.name, before, new Map(Array.from(logs, ([place, [source]]) => [place, source!.logId])))
  if ((await target.list(MARKER_KEY)).length === 0) await target.put(MARKER_KEY, MARKER.byteLength, [MARKER])
  const present = new Map((await target.list(LOGS_PREFIX)).map(({ key, bytes }) => [key, bytes]))
  const counts: CaptureCounts = { copiedFiles: 0, copiedBytes: 0, reusedFiles: 0, reusedBytes: 0 }
  const stored: StoredLog[] = []
  for (const [place, sources] of logs) {
    const previous = before?.logs.find((log) => log.place === place) ?? null
    stored.push(
      await captureLog({ place, sources: bestFirst(files, sources), target, present, previous, counts, pace }),
    )
  }
  const sequence = 1 + Math.max(0, ...whole.map((snapshot) => snapshot.sequence), ...damaged)
  const snapshot = newSnapshot(sequence, nowMs(), stored)
  const bytes = encodeSnapshot(snapshot)
  await target.put(snapshotKey(sequence), bytes.byteLength, [bytes])
  // The files that a damaged snapshot needs are unknown: nothing is removed while there is one.
  const removedSnapshots = damaged.length > 0 ? [] : await cleanUp(options, [...whole, snapshot], keep)
  return { ...counts, snapshot, removedSnapshots, damagedSnapshots: damaged }
}

/** Snapshots go before the files that they name: half a removal leaves files too many, never too few. */
async function cleanUp(
  { target, isLocked }: BackupOptions,
  snapshots: readonly Snapshot[],
  keep: number | null,
): Promise<readonly number[]> {
  const pruned = prunedKeys(snapshots, keep ?? snapshots.length)
  await target.remove(pruned.sequences.map(snapshotKey))
  await target.remove(pruned.keys)
  const kept = snapshots.slice(pruned.sequences.length)
  if (isLocked) await target.remove(await leftovers(target, kept))
  return pruned.sequences
}

/** By place: the directory of the log, then its replicas. */
function sourcesOf({ files, dataDirectory, replicas }: BackupOptions): ReadonlyMap<string, readonly LogSource[]> {
  const found = replicas.flatMap((directory) => Array.from(replicaLogs(files, directory), ([, log]) => log))
  const logs = primaryLogs(files, dataDirectory, found)
  return new Map(
    Array.from(logs, ([place, log]) => {
      const ofLog = found.filter(({ logId, directory }) => logId === log.logId && directory !== log.directory)
      return [place, [log, ...ofLog].map((each) => new LogSource(files, each))]
    }),
  )
}

/** With replicas, a data directory that was lost is no reason not to copy them. */
function primaryLogs(
  files: Files,
  dataDirectory: string,
  replicas: readonly LogDirectory[],
): ReadonlyMap<string, LogDirectory> {
  try {
    return logsIn(files, dataDirectory)
  } catch (error) {
    const [first] = replicas
    if (first === undefined || replicas.some(({ logId }) => logId !== first.logId)) throw error
    return new Map([['', first]])
  }
}

/** Nothing when the directory cannot be read: a quorum may do without it. */
function replicaLogs(files: Files, directory: string): ReadonlyMap<string, LogDirectory> {
  try {
    return logsIn(files, directory)
  } catch {
    return new Map()
  }
}

/** Replicas R1: the highest epoch, then the longest log. */
function bestFirst(files: Files, sources: readonly LogSource[]): readonly LogSource[] {
  if (sources.length === 1) return sources
  const judged = sources.map((source) => {
    const { epoch } = readMark(files, source.directory, source.logId)
    return { source, epoch, end: source.end() }
  })
  return judged.sort((a, b) => b.epoch - a.epoch || b.end - a.end).map(({ source }) => source)
}
