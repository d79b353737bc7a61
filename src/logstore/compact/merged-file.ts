/**
 * Writes a merged file (src/log/merged.ts) under a temporary name, syncs it, reads it back, compares it row by row and renames it. Also copies it into the
 * replica directories.
 */
import { StoreError, messageOf } from '../../errors.ts'
import { crcOf } from '../../log/crc-of.ts'
import { TEMPORARY_SUFFIX, publishWritten, withOpenFile } from '../../log/files.ts'
import type { Files, OpenFile } from '../../log/files.ts'
import { copyMerged } from '../../log/merged-copy.ts'
import { mergedName } from '../../log/merged.ts'
import type { MergedRange } from '../../log/merged.ts'
import type { SegmentFooter } from '../../log/segment-format.ts'
import { STAND_IN_HEADER_BYTES, encodeStandIn } from '../../log/stand-in.ts'
import type { Bundle } from '../index/manifest.ts'
import type { BundleFacts } from './bundle-writer.ts'
import { CompactIndex } from './compact-index.ts'
import { bundleOfCompact } from './compact-segment.ts'
import type { RowRun } from './merge-rows.ts'
import { MergeWriter } from './merge-writer.ts'
import { PieceCache } from './piece-cache.ts'
import { ScratchFile } from './scratch-file.ts'

export const MERGE_CACHE_BYTES = 16 * 1024 * 1024
const PIECE_BYTES = 1 << 20

/** Ends the work, which leaves nothing behind: thrown by `rest`. */
export class Stopped extends Error {}

export type EndedEarly = { readonly kind: 'stopped' } | { readonly kind: 'damaged'; readonly reason: string }

/** @param rest false: the work stops @returns the result of the work, or why it ended early @throws what else the work throws */
export function untilStopped<Result>(rest: () => boolean, work: (rest: () => void) => Result): Result | EndedEarly {
  const restOrStop = (): void => {
    if (!rest()) throw new Stopped()
  }
  try {
    return work(restOrStop)
  } catch (error) {
    if (error instanceof Stopped) return { kind: 'stopped' }
    if (error instanceof StoreError && error.kind === 'corrupt') return { kind: 'damaged', reason: error.message }
    throw error
  }
}

export interface WrittenMerged {
  readonly bundle: Bundle
  readonly bytesAfter: number
}

/** @param directory of the first segment of the run @throws what the file system and `rest` throw */
export function writeMerged(
  files: Files,
  directory: string,
  footer: SegmentFooter,
  run: RowRun,
  facts: BundleFacts,
  rest: () => void,
): WrittenMerged {
  const { base, end } = footer
  const name = mergedName(end)
  const scratchPath = `${directory}/${name}.scratch${TEMPORARY_SUFFIX}`
  if (files.exists(scratchPath)) files.removeFile(scratchPath)
  const scratch = files.create(scratchPath)
  try {
    const writer = new MergeWriter(run, new ScratchFile(scratch), rest)
    writer.writeRows()
    const content = writer.content(facts)
    let bundle: Bundle | null = null
    const write = (file: OpenFile): number => writeContent(file, footer, content, rest)
    const check = (path: string): void => {
      bundle = { ...readBack(files, path, base, writer), isMerged: true }
    }
    const bytesAfter = publishWritten(files, directory, name, write, check)
    return { bundle: bundle!, bytesAfter }
  } finally {
    scratch.close()
    files.removeFile(scratchPath)
  }
}

/** @returns the length of the file */
function writeContent(file: OpenFile, footer: SegmentFooter, content: Iterable<Buffer>, rest: () => void): number {
  let at = STAND_IN_HEADER_BYTES
  let contentCrc = 0
  let parts: Buffer[] = []
  let bytes = 0
  const write = (): void => {
    file.writev(parts, at)
    contentCrc = crcOf(parts, contentCrc)
    at += bytes
    parts = []
    bytes = 0
    rest()
  }
  for (const part of content) {
    if (part.byteLength === 0) continue
    parts.push(part)
    bytes += part.byteLength
    if (bytes >= PIECE_BYTES) write()
  }
  if (bytes > 0) write()
  file.writev([encodeStandIn({ ...footer, contentCrc, fileBytes: at })], 0)
  return at
}

/** @throws StoreError when the file does not have the rows that were written */
export function readBack(files: Files, path: string, base: number, writer: MergeWriter): Bundle {
  return withOpenFile(files, path, (file) => {
    const index = new CompactIndex(file, base, new PieceCache(MERGE_CACHE_BYTES))
    writer.check(index)
    return bundleOfCompact(index)
  })
}

/** @param segmentsDirectories the one of the primary, which has the file, first @returns why a replica did not get it; null: all have it */
export function copyToReplicas(
  files: Files,
  logId: number,
  range: MergedRange,
  [primary, ...replicas]: readonly string[],
  rest: () => void,
): string | null {
  let problem: string | null = null
  for (const replica of replicas) {
    try {
      for (const _ of copyMerged(files, logId, range, primary!, replica)) rest()
    } catch (error) {
      if (error instanceof Stopped) throw error
      problem = `${replica}: ${messageOf(error)}`
    }
  }
  return problem
}
