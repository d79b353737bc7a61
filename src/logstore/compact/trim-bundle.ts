/**
 * Writes a compacted bundle again without the records that have expired by the retention of datasets, on the compaction thread.
 *
 *   trim          a `compact.bin`: writes what is kept into a merged file over the one segment; `settle` of merge-bundles.ts then moves the segment into it
 *                 a merged file: writes what is kept of each segment into a `compact.bin` of its own, in place of the moved stand-in
 *   settle-apart  removes the merged file
 *
 * So the old bundle and the new one have different names, and the rules of merged files say which of them counts (src/log/merged.ts): a process that dies
 * at any point leaves the old bundle, or the new one. Both hold everything that is kept.
 *
 * T1  a file gets its name only after it was read back and compared with what is kept
 * T2  a merged file is removed only when each of its segments durably has a form of its own again, in that directory of the log
 * T3  a bundle with known damage stays as it is
 */
import { StoreError } from '../../errors.ts'
import { withOpenFile } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import { overlapsOther, removeUnusedMerged } from '../../log/merged-copy.ts'
import { mergedName } from '../../log/merged.ts'
import { QUARANTINE_NAME } from '../../log/quarantine.ts'
import { segmentName } from '../../log/segment-format.ts'
import { STAND_IN_NAME, encodeStandInHeader, publishStandIn, readStandIn } from '../../log/stand-in.ts'
import type { StandIn } from '../../log/stand-in.ts'
import { expiredBy } from '../expired.ts'
import type { Bundle } from '../index/manifest.ts'
import { CompactIndex } from './compact-index.ts'
import { footerOf } from './merge-bundles.ts'
import { MergeWriter } from './merge-writer.ts'
import { MERGE_CACHE_BYTES, Stopped, copyToReplicas, readBack, untilStopped, writeMerged } from './merged-file.ts'
import type { EndedEarly } from './merged-file.ts'
import { PieceCache } from './piece-cache.ts'
import { trimDueAt } from './trim-due.ts'
import type { RetentionByTenant } from './trim-due.ts'
import { MemoryScratch } from './scratch.ts'
import { TrimmedRun } from './trim-run.ts'
import type { ExpiredByTenant } from './trim-run.ts'

interface Range {
  readonly base: number
  readonly end: number
}

export interface TrimTask {
  readonly kind: 'trim' | 'settle-apart'
  readonly logId: number
  readonly bundle: Range & { readonly isMerged: boolean }
  /** The segments that it covers, ascending. */
  readonly segments: readonly Range[]
  /** Where the segments are, in each directory of the log that is in use; that of the primary first. */
  readonly segmentsDirectories: readonly string[]
  readonly retention: RetentionByTenant
  /** ns since the Unix epoch. */
  readonly nowNs: bigint
}

export interface Trimmed {
  readonly kind: 'trimmed'
  /** The bundles that replace it, ascending. */
  readonly bundles: readonly Bundle[]
  readonly bytesBefore: number
  readonly bytesAfter: number
  readonly problem: string | null
}

export type TrimResult =
  | Trimmed
  /** `dueAtNs`: when it is due; null: never by this retention. */
  | { readonly kind: 'not-due'; readonly dueAtNs: bigint | null }
  | { readonly kind: 'left'; readonly reason: string }
  | { readonly kind: 'apart' }
  | EndedEarly

/**
 * @param rest called now and then, to leave the processor to other threads; false: the trim stops
 * @throws what the file system throws
 */
export function trimBundle(files: Files, task: TrimTask, rest: () => boolean): TrimResult {
  if (task.kind === 'settle-apart') {
    const { base } = task.bundle
    for (const directory of task.segmentsDirectories)
      removeUnusedMerged(files, `${directory}/${segmentName(base)}`, task.logId, base)
    return { kind: 'apart' }
  }
  return untilStopped(rest, (restOrStop) => trim(files, task, restOrStop))
}

function trim(files: Files, task: TrimTask, rest: () => void): TrimResult {
  const { logId, bundle, segments, segmentsDirectories, retention, nowNs } = task
  const primary = segmentsDirectories[0]!
  const isDamaged = ({ base }: Range): boolean => files.exists(`${primary}/${segmentName(base)}/${QUARANTINE_NAME}`)
  if (segments.some(isDamaged)) return { kind: 'left', reason: 'it has damaged ranges' } // T3
  const directory = `${primary}/${segmentName(bundle.base)}`
  const name = bundle.isMerged ? mergedName(bundle.end) : STAND_IN_NAME
  const standIn = readStandIn(files, directory, logId, bundle.base, name)
  if (standIn?.end !== bundle.end)
    throw new StoreError('corrupt', 'bundle_block_corrupt', `${name} of ${bundle.base} is damaged`)
  return withOpenFile(files, `${directory}/${name}`, (file) => {
    const index = new CompactIndex(file, bundle.base, new PieceCache(MERGE_CACHE_BYTES))
    const dueAtNs = trimDueAt(index, retention)
    if (dueAtNs === null || dueAtNs > nowNs) return { kind: 'not-due', dueAtNs }
    const expired = new Map(Array.from(retention, ([tenant, datasets]) => [tenant, expiredBy(datasets, nowNs)]))
    const source = { index, standIn, expired }
    return bundle.isMerged ? trimApart(files, task, source, rest) : trimIntoMerged(files, task, source, rest)
  })
}

interface Source {
  readonly index: CompactIndex
  readonly standIn: StandIn
  readonly expired: ExpiredByTenant
}

function trimIntoMerged(
  files: Files,
  { logId, bundle, segmentsDirectories }: TrimTask,
  { index, standIn, expired }: Source,
  rest: () => void,
): TrimResult {
  const primary = segmentsDirectories[0]!
  if (overlapsOther(files, primary, bundle)) return { kind: 'left', reason: 'it overlaps a merged file' }
  const run = new TrimmedRun(index, bundle, expired)
  const { receivedUntil, level } = index.header
  const facts = { receivedUntil, level, originalBytes: index.originalBytes }
  const written = writeMerged(files, `${primary}/${segmentName(bundle.base)}`, standIn, run, facts, rest)
  const problem = copyToReplicas(files, logId, bundle, segmentsDirectories, rest)
  const { bytesAfter } = written
  return { kind: 'trimmed', bundles: [written.bundle], bytesBefore: standIn.fileBytes, bytesAfter, problem }
}

function trimApart(
  files: Files,
  { logId, bundle, segments, segmentsDirectories }: TrimTask,
  { index, standIn, expired }: Source,
  rest: () => void,
): TrimResult {
  const bundles: Bundle[] = []
  let bytesAfter = 0
  let problem: string | null = null
  for (const segment of segments) {
    const { base, end } = segment
    const footer = footerOf(files, `${segmentsDirectories[0]!}/${segmentName(base)}`, logId, base, end)
    if (footer === null) return { kind: 'left', reason: `the segment at ${base} is not whole` }
    const run = new TrimmedRun(index, segment, expired)
    const writer = new MergeWriter(run, new MemoryScratch(), rest)
    writer.writeRows()
    const share = (end - base) / (bundle.end - bundle.base)
    const originalBytes = Math.round(index.originalBytes * share)
    const content = [...writer.content({ receivedUntil: index.header.receivedUntil, originalBytes, level: 0 })]
    const header = encodeStandInHeader(footer, content)
    bytesAfter += content.reduce((sum, { byteLength }) => sum + byteLength, header.byteLength)
    for (const [number, directory] of segmentsDirectories.entries()) {
      let written: Bundle | null = null
      try {
        publishStandIn(files, `${directory}/${segmentName(base)}`, [header, ...content], (path) => {
          written = readBack(files, path, base, writer) // T1
        })
      } catch (error) {
        if (number === 0 || error instanceof Stopped) throw error
        problem = `${directory}: ${String(error)}` // the replica keeps the merged file (T2)
      }
      if (number === 0) bundles.push(written!)
    }
  }
  return { kind: 'trimmed', bundles, bytesBefore: standIn.fileBytes, bytesAfter, problem }
}
