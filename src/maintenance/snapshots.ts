/** The snapshots of a place, and the rules by which a run adds one and takes old ones away. */
import { StoreError } from '../errors.ts'
import {
  LOGS_PREFIX,
  SNAPSHOTS_PREFIX,
  decodeSnapshot,
  filesOf,
  logIdText,
  sequenceOf,
  snapshotKey,
} from './snapshot.ts'
import type { Snapshot, StoredLog } from './snapshot.ts'
import { readAll } from './target.ts'
import type { BackupTarget } from './target.ts'

export interface Snapshots {
  /** Oldest first. */
  readonly whole: readonly Snapshot[]
  /** Sequences of those that cannot be read. */
  readonly damaged: readonly number[]
}

/** @throws StoreError when the place cannot be read */
export async function readSnapshots(target: BackupTarget): Promise<Snapshots> {
  const listed = await target.list(SNAPSHOTS_PREFIX)
  const sequences = listed.flatMap(({ key }) => sequenceOf(key) ?? []).sort((a, b) => a - b)
  const whole: Snapshot[] = []
  const damaged: number[] = []
  for (const sequence of sequences) {
    const snapshot = decodeSnapshot(await readAll(target, snapshotKey(sequence)))
    if (snapshot?.sequence === sequence) whole.push(snapshot)
    else damaged.push(sequence)
  }
  return { whole, damaged }
}

/** A target holds one store: with snapshots of two, a restore of "the newest" could bring the wrong one. */
export function demandSameStore(name: string, before: Snapshot | undefined, logIds: ReadonlyMap<string, number>): void {
  for (const { place, logId } of before?.logs ?? []) {
    const now = logIds.get(place)
    if (now === logId) continue
    const shown = place === '' ? 'the store' : place
    const message =
      now === undefined
        ? `${name} holds backups with ${shown} in them, and this data directory has none: choose another place`
        : `${name} holds backups of another store (${shown} has the log ${logIdText(logId)} there, and ${logIdText(now)} here): choose another place`
    throw new StoreError('invalid', 'backup_of_another_store', message)
  }
}

/** The keys that no snapshot names any more when only the newest are kept. */
export function prunedKeys(
  snapshots: readonly Snapshot[],
  kept: number,
): { readonly sequences: readonly number[]; readonly keys: readonly string[] } {
  const gone = snapshots.slice(0, Math.max(0, snapshots.length - kept))
  const needed = keysOf(snapshots.slice(gone.length))
  return {
    sequences: gone.map(({ sequence }) => sequence),
    keys: [...keysOf(gone)].filter((key) => !needed.has(key)),
  }
}

/** Files of a place that no snapshot names: a backup that was killed left them. */
export async function leftovers(target: BackupTarget, snapshots: readonly Snapshot[]): Promise<readonly string[]> {
  const needed = keysOf(snapshots)
  const listed = await target.list(LOGS_PREFIX)
  return listed.map(({ key }) => key).filter((key) => !needed.has(key))
}

const keysOf = (snapshots: readonly Snapshot[]): Set<string> =>
  new Set(snapshots.flatMap(({ logs }) => logs.flatMap((log: StoredLog) => filesOf(log).map(({ key }) => key))))
