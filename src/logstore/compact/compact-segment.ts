/**
 * The two halves of compacting a segment, on a thread of their own.
 *
 *   write   read the segment ──► write the stand-in beside ──► sync ──► read it back, compare every record ──► rename, sync the directory
 *   clear   remove the files that it replaces, and merged files that are not needed
 *
 * W1  nothing is removed before the name of the stand-in is durable in that directory. A process that dies at any point leaves one form of the segment, or
 *     both, which hold the same (T2 of stand-in.ts)
 * W2  the check compares what a reader gets from the file: records with their resources and scopes, ids, traces, times and places
 * W3  a segment with damage, found now or known before, stays as it is
 * W4  a replica directory without a stand-in, or with one that still has expired records because a process died, gets the one of the primary
 */
import { StoreError } from '../../errors.ts'
import { freeMemory } from '../../free-memory.ts'
import { fileBytes, withOpenFile } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import { removeUnusedMerged } from '../../log/merged-copy.ts'
import { QUARANTINE_NAME } from '../../log/quarantine.ts'
import { RECORDS_NAME, segmentName } from '../../log/segment-format.ts'
import {
  STAND_IN_NAME,
  clearBesideStandIn,
  copyStandIn,
  encodeStandInHeader,
  isStandInWhole,
  publishStandIn,
  readStandIn,
} from '../../log/stand-in.ts'
import { atOnce } from '../../steps.ts'
import type { Bundle } from '../index/manifest.ts'
import type { Group } from './block-writer.ts'
import { CompactIndex } from './compact-index.ts'
import { compactContent } from './compact-writer.ts'
import { PieceCache } from './piece-cache.ts'
import type { RemovedFiles } from './removed-files.ts'
import { readSegmentRecords } from './segment-records.ts'
import type { SegmentRecords } from './segment-records.ts'

export interface CompactTask {
  readonly kind: 'write' | 'clear'
  readonly logId: number
  /** Position of the segment, and position behind its last frame. */
  readonly base: number
  readonly end: number
  /** The segment's directory in each directory of the log that is in use; that of the primary first. */
  readonly directories: readonly string[]
}

export interface CompactJob extends CompactTask {
  /** True: the thread takes its share of a core. False: it gives way to ingest. */
  readonly isUrgent: boolean
  /** One word: not 0 while the thread takes no rests. */
  readonly isLate: SharedArrayBuffer
}

export type CompactResult =
  | {
      readonly kind: 'written'
      readonly bundle: Bundle
      readonly bytesBefore: number
      readonly bytesAfter: number
      /** Directories that have the stand-in. */
      readonly directories: readonly string[]
      readonly problem: string | null
    }
  | { readonly kind: 'left'; readonly reason: string }
  | { readonly kind: 'cleared' }

const CHECK_CACHE_BYTES = 8 * 1024 * 1024

/**
 * @param rest    called now and then, to leave the processor to other threads
 * @param removed keeps removed files open for a while; absent: files are removed without that
 * @throws what the file system throws
 */
export function compactSegment(
  files: Files,
  task: CompactTask,
  rest: () => void,
  removed?: RemovedFiles,
): CompactResult {
  const { logId, base, directories } = task
  if (task.kind === 'write') return write(files, task, rest)
  makeEqual(files, task)
  removed?.freeEarlier()
  const remove = removed && ((path: string) => removed.remove(path))
  for (const directory of directories) {
    clearBesideStandIn(files, directory, logId, base, remove)
    removeUnusedMerged(files, directory, logId, base)
  }
  return { kind: 'cleared' }
}

/** W4 */
function makeEqual(files: Files, { logId, base, directories: [primary, ...replicas] }: CompactTask): void {
  const own = readStandIn(files, primary!, logId, base)
  if (own === null) return
  const others = replicas.filter((replica) => readStandIn(files, replica, logId, base)?.contentCrc !== own.contentCrc)
  if (others.length === 0 || !isStandInWhole(files, primary!, own)) return
  for (const replica of others) {
    try {
      atOnce(copyStandIn(files, logId, own, STAND_IN_NAME, primary!, replica))
    } catch {
      continue // the replica keeps the segment in the form that it has
    }
  }
}

function write(files: Files, task: CompactTask, rest: () => void): CompactResult {
  const { logId, base, end, directories } = task
  const primary = directories[0]!
  if (files.exists(`${primary}/${QUARANTINE_NAME}`)) return { kind: 'left', reason: 'it has damaged ranges' } // W3
  return withOpenFile(files, `${primary}/${RECORDS_NAME}`, (file) => {
    const records = readSegmentRecords(file, logId, base, end)
    if (records === null) return { kind: 'left', reason: 'it has frames that cannot be compacted' } // W3
    let content: readonly Buffer<ArrayBuffer>[] | null = null
    try {
      const bytesBefore = bytesIn(files, primary)
      content = compactContent(records, bytesBefore, rest)
      if (content === null) return { kind: 'left', reason: 'it is of too many small datasets' }
      return publish(files, task, records, bytesBefore, content, rest)
    } finally {
      // Otherwise they stay until V8 collects the whole heap of the thread, most likely beside those of the next segment.
      content?.forEach(freeMemory)
      records.free()
    }
  })
}

function publish(
  files: Files,
  { base, directories }: CompactTask,
  records: SegmentRecords,
  bytesBefore: number,
  content: readonly Buffer<ArrayBuffer>[],
  rest: () => void,
): CompactResult {
  const primary = directories[0]!
  const parts = [encodeStandInHeader(records.footer, content), ...content]
  const bytesAfter = parts.reduce((sum, { byteLength }) => sum + byteLength, 0)
  if (bytesAfter >= bytesBefore) return { kind: 'left', reason: 'it would become no smaller' }
  let bundle: Bundle | null = null
  const written: string[] = []
  let problem: string | null = null
  for (const directory of directories) {
    try {
      publishStandIn(files, directory, parts, (path) => {
        bundle = checkedBundle(files, path, base, records, rest)
      })
      written.push(directory)
    } catch (error) {
      if (directory === primary) throw error
      problem = `${directory}: ${String(error)}` // the other directories have it, and each may have either form
    }
  }
  return { kind: 'written', bundle: bundle!, bytesBefore, bytesAfter, directories: written, problem }
}

const bytesIn = (files: Files, directory: string): number =>
  (files.list(directory) ?? []).reduce((sum, name) => sum + fileBytes(files, `${directory}/${name}`), 0)

/** W2 @throws StoreError when the file does not hold the segment */
function checkedBundle(files: Files, path: string, base: number, records: SegmentRecords, rest: () => void): Bundle {
  const file = files.open(path, 'read')
  try {
    const index = new CompactIndex(file, base, new PieceCache(CHECK_CACHE_BYTES))
    if (index.entryCount !== records.count) throw differs(base, 'it has another number of records')
    const { index: active, group, groups } = records
    for (const block of index.blocks) {
      const keys = index.keys(block)
      const read = index.readRecords(block)
      const ids = read.ids.all()
      const traces = read.traces()
      const { source, starts, ends } = records.read(keys.entry)
      const { body } = read
      const sameGroups = new Int32Array(read.groups.length).fill(-1) // by group of the block: the group of the segment that was equal to it last
      for (let row = 0; row < block.rows; row++) {
        const entry = keys.entry[row]!
        index.seekEntry(entry)
        const { recordStart, recordEnd, group: its } = read.placeOf(row)
        if (sameGroups[its] !== group[entry] && isSameGroup(read.groups[its]!, groups[group[entry]!]!))
          sameGroups[its] = group[entry]!
        const isSame =
          index.unit === block.number &&
          index.number === row &&
          index.frameOffset === active.frameOffset[entry] &&
          index.recordNumber === active.recordNumber[entry] &&
          keys.timeHigh[row] === active.timeHigh[entry] &&
          keys.timeLow[row] === active.timeLow[entry] &&
          sameGroups[its] === group[entry] &&
          sameWords(ids, 4 * row, active.idWords, 4 * entry) &&
          sameWords(traces, 4 * row, active.traceWords, 4 * entry) &&
          source.compare(body, recordStart, recordEnd, starts[row], ends[row]) === 0
        if (!isSame) throw differs(base, `entry ${entry} is another one`)
      }
      rest()
    }
    return bundleOfCompact(index)
  } finally {
    file.close()
  }
}

export const bundleOfCompact = ({ header, entryCount: records }: CompactIndex): Bundle => ({
  ...header,
  records,
  isCompacted: true,
})

const differs = (base: number, how: string): StoreError =>
  new StoreError('corrupt', 'compaction_differs', `bundle ${segmentName(base)}: its compacted form differs: ${how}`)

function sameWords(a: Uint32Array, aAt: number, b: Uint32Array, bAt: number): boolean {
  for (let word = 0; word < 4; word++) if (a[aAt + word] !== b[bAt + word]) return false
  return true
}

const isSameGroup = (a: Group, b: Group): boolean =>
  a.signal === b.signal &&
  a.format === b.format &&
  a.source === b.source &&
  sameBytes(a.resource, b.resource) &&
  sameBytes(a.scope, b.scope) &&
  sameBytes(a.resourceSchemaUrl, b.resourceSchemaUrl) &&
  sameBytes(a.scopeSchemaUrl, b.scopeSchemaUrl)

const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0
