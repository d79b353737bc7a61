/**
 * Reads a backup back: every file of every snapshot against its checksum, and whether the snapshots could be started.
 *
 * A file that several snapshots name is read once.
 */
import { StoreError, messageOf } from '../errors.ts'
import { SEGMENT_FOOTER_BYTES, segmentName } from '../log/segment-format.ts'
import { filesOf, snapshotKey } from './snapshot.ts'
import type { StoredLog } from './snapshot.ts'
import { readSnapshots } from './snapshots.ts'
import { verified } from './restore.ts'
import type { BackupTarget } from './target.ts'

interface CheckedSnapshot {
  readonly sequence: number
  readonly createdAtMs: number
  readonly logs: readonly StoredLog[]
  /** Problems of its files; empty: it can be restored. */
  readonly problems: readonly string[]
}

export interface CheckReport {
  readonly snapshots: readonly CheckedSnapshot[]
  /** Problems of the backup as a whole. */
  readonly problems: readonly string[]
  readonly files: number
  readonly bytes: number
}

/** @throws StoreError when the place cannot be read at all */
export async function check(target: BackupTarget): Promise<CheckReport> {
  const { whole, damaged } = await readSnapshots(target)
  const verdicts = new Map<string, string | null>()
  let bytes = 0
  const judge = async (file: ReturnType<typeof filesOf>[number]): Promise<string | null> => {
    const known = verdicts.get(file.key)
    if (known !== undefined) return known
    let verdict: string | null = null
    try {
      for await (const piece of verified(target, file)) bytes += piece.byteLength
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== 'corrupt') throw error
      verdict = messageOf(error)
    }
    verdicts.set(file.key, verdict)
    return verdict
  }
  const snapshots: CheckedSnapshot[] = []
  for (const { sequence, createdAtMs, logs } of whole) {
    const problems: string[] = []
    for (const log of logs) {
      for (const file of filesOf(log)) {
        const verdict = await judge(file)
        if (verdict !== null) problems.push(verdict)
      }
      problems.push(...gapsOf(log))
    }
    snapshots.push({ sequence, createdAtMs, logs, problems })
  }
  const problems = damaged.map((sequence) => `${target.name}: ${snapshotKey(sequence)} is damaged`)
  if (whole.length === 0) problems.push(`${target.name} has no snapshot that can be read`)
  return { snapshots, problems, files: verdicts.size, bytes }
}

export const isWhole = ({ snapshots, problems }: CheckReport): boolean =>
  problems.length === 0 && snapshots.every((snapshot) => snapshot.problems.length === 0)

/** What the backup found damaged or missing in the store itself. */
export function gapsOf({ place, segmentsName, segments, position, durable }: StoredLog): readonly string[] {
  const where = place === '' ? segmentsName : `${place}/${segmentsName}`
  const lostEnd =
    durable > position
      ? [`${where}: the store lacks its end: it was durable up to ${durable}, but can be read only up to ${position}`]
      : []
  const inside = segments.flatMap(({ base, end, damage }, index) => {
    const next = segments[index + 1]
    const isGap = next !== undefined && next.base > end + SEGMENT_FOOTER_BYTES
    return [
      ...damage.map(
        ({ from, to, reason }) =>
          `${where}/${segmentName(base)}: the store is damaged from ${from} to ${to}: ${reason}`,
      ),
      ...(isGap ? [`${where}: the store lacks the segments from ${end + SEGMENT_FOOTER_BYTES} to ${next.base}`] : []),
    ]
  })
  return [...inside, ...lostEnd]
}
