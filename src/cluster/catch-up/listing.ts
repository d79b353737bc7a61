/**
 * Serves one log to a node that copies it, while the service of this node goes on: a listing of its files, and pieces of them.
 *
 * L1  a listing ends at the anchor, which is confirmed and synced here. Content before the anchor never changes, it can only be dropped
 * L2  segments are listed before checkpoints: so the checkpoints stand for every segment that was dropped before it was listed
 * L3  a piece is valid only if the file still has its path after the read (source R2)
 */
import { StoreError } from '../../errors.ts'
import {
  CHECKPOINTS_KEPT,
  checkpointName,
  checkpointPositions,
  coversLogBefore,
  isCheckpointName,
} from '../../log/checkpoint.ts'
import { readMark } from '../../log/durable-mark.ts'
import type { Files, OpenFile } from '../../log/files.ts'
import { readFormat } from '../../log/format.ts'
import { isMoved, mergedName } from '../../log/merged.ts'
import { RECORDS_NAME, SEGMENTS_NAME_OF, SEGMENT_FOOTER_BYTES } from '../../log/segment-format.ts'
import { MANIFEST_NAME, readManifest } from '../../log/sidecar.ts'
import { STAND_IN_NAME } from '../../log/stand-in.ts'
import { LogSource, Vanished, unlessGone, withFile } from '../../maintenance/source.ts'
import type { Anchor } from '../history.ts'

export interface ListedFile {
  /** Within the directory of the log. */
  readonly path: string
  readonly bytes: number
}

export interface ListedSegment {
  readonly base: number
  /** Position behind the last frame; for the newest segment, the position of the anchor. */
  readonly end: number
  /** Header checksum of the last frame, which stands for all before it. */
  readonly chain: number
  /** The segment's file or its stand-in; for the newest segment, only its bytes up to `end`. */
  readonly file: ListedFile
  /** The manifest is the last one. */
  readonly sidecars: readonly ListedFile[]
  /** The merged file of a segment that has moved (src/log/merged.ts). It is in the directory of the segment with this base. */
  readonly merged?: ListedFile & { readonly base: number }
}

export interface ListedCheckpoint extends ListedFile {
  readonly position: number
}

export interface Listing {
  readonly logId: number
  readonly epoch: number
  /** Base of the oldest segment by the durable mark, also if that segment was lost; null: not known. */
  readonly begin: number | null
  readonly anchor: Anchor
  /** Oldest first. */
  readonly segments: readonly ListedSegment[]
  readonly checkpoints: readonly ListedCheckpoint[]
}

export interface LogLocation {
  readonly directory: string
  readonly segmentsName: string
}

export const PIECE_BYTES_MAX = 4 << 20

/**
 * @param anchor read before anything else (L1)
 * @throws StoreError unavailable: it is worth asking again
 */
export function listLog(files: Files, { directory, segmentsName }: LogLocation, anchor: Anchor | null): Listing {
  const logId = readFormat(files, directory, segmentsName)
  if (logId === null || anchor === null) throw unavailable('this node has nothing to copy yet')
  const source = new LogSource(files, { directory, segmentsName, logId })
  const { position } = anchor.end
  const segments = source
    .bases()
    .filter((base) => base < position)
    .flatMap((base) => segmentOf(source, base, anchor) ?? [])
  const checkpoints = checkpointsOf(files, directory, position) // L2
  demandWhole(segments, anchor)
  demandCheckpoint(segments, checkpoints, checkpointPositions(files, directory).length > 0)
  const { epoch, begin } = readMark(files, directory, logId)
  return { logId, epoch, begin, anchor, segments, checkpoints }
}

/** Null: the service has dropped it. */
function segmentOf(source: LogSource, base: number, anchor: Anchor): ListedSegment | null {
  const { position, chain } = anchor.end
  try {
    const standIn = source.standInOf(base)
    if (standIn !== null) {
      const file = { path: `${source.placeOf(base)}/${STAND_IN_NAME}`, bytes: standIn.fileBytes }
      const merged = isMoved(standIn) ? { merged: mergedOf(source, base) } : {}
      return { base, end: standIn.end, chain: standIn.lastHeaderCrc, file, sidecars: [], ...merged }
    }
    const path = `${source.placeOf(base)}/${RECORDS_NAME}`
    const sealed = source.identityOf(base)
    if (sealed !== null && sealed.footer.end <= position) {
      const { end, lastHeaderCrc } = sealed.footer
      return {
        base,
        end,
        chain: lastHeaderCrc,
        file: { path, bytes: sealed.bytes },
        sidecars: sidecarsOf(source, base),
      }
    }
    return { base, end: position, chain, file: { path, bytes: position - base }, sidecars: [] }
  } catch (error) {
    if (!(error instanceof Vanished)) throw error
    return isReplaced(source, base) ? segmentOf(source, base, anchor) : null
  }
}

/** Whether another stand-in has replaced the one that was read. */
const isReplaced = (source: LogSource, base: number): boolean =>
  !source.isDropped(base) && source.standInOf(base) !== null

/** @throws Vanished when the service is dropping the segment, or has replaced its stand-in */
function mergedOf(source: LogSource, base: number): ListedFile & { readonly base: number } {
  const merged = source.mergedOver(base)
  if (merged === null) throw unavailable(`this node lacks the merged file of the segment at ${base}`)
  const path = `${source.placeOf(merged.base)}/${mergedName(merged.end)}`
  return { base: merged.base, path, bytes: merged.fileBytes }
}

function sidecarsOf(source: LogSource, base: number): readonly ListedFile[] {
  const { files } = source
  const read = readManifest(files, source.pathOf(base))
  if (read.kind !== 'manifest') return []
  const place = source.placeOf(base)
  const bytes = withFile(files, `${source.pathOf(base)}/${MANIFEST_NAME}`, (file) => file.size())
  return [
    ...read.manifest.files.map((file) => ({ path: `${place}/${file.name}`, bytes: file.bytes })),
    { path: `${place}/${MANIFEST_NAME}`, bytes },
  ]
}

function checkpointsOf(files: Files, directory: string, atMost: number): readonly ListedCheckpoint[] {
  const positions = checkpointPositions(files, directory).filter((position) => position <= atMost)
  return positions.slice(0, CHECKPOINTS_KEPT).flatMap((position) => {
    const path = checkpointName(position)
    try {
      return [{ position, path, bytes: withFile(files, `${directory}/${path}`, (file) => file.size()) }]
    } catch (error) {
      if (error instanceof Vanished) return [] // a newer one took its place
      throw error
    }
  })
}

/** Refuses a listing with a gap: a segment was dropped while the log was listed, or it is damaged. */
function demandWhole(segments: readonly ListedSegment[], { end }: Anchor): void {
  for (const [index, segment] of segments.entries()) {
    const next = segments[index + 1]
    if (next !== undefined && next.base !== segment.end + SEGMENT_FOOTER_BYTES)
      throw unavailable(`this node lacks the log from ${segment.end} to ${next.base}`)
  }
  const last = segments.at(-1)
  const isAtEnd = last === undefined ? end.position === 0 : last.end === end.position && last.chain === end.chain
  if (!isAtEnd) throw unavailable(`this node lacks the end of the log before ${end.position}`)
}

/** A service that writes checkpoints needs one that stands for the segments that are gone. For a moment, that one may be newer than the anchor. */
function demandCheckpoint(
  segments: readonly ListedSegment[],
  checkpoints: readonly ListedCheckpoint[],
  hasAny: boolean,
): void {
  const first = segments[0]?.base ?? 0
  const newest = checkpoints[0]?.position ?? (hasAny ? 0 : Infinity)
  if (first > 0 && !coversLogBefore(first, newest))
    throw unavailable('the checkpoint that replaces the removed segments is not confirmed yet')
}

const SEGMENT_FOLDERS = Object.values(SEGMENTS_NAME_OF).join('|')
const PLACE_IN_SEGMENT = new RegExp(`^(?:${SEGMENT_FOLDERS})/[0-9a-f]{16}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

/** Whether a copy may contain a file at this path. No other file of a directory is served. */
export const isPlace = (path: string): boolean => PLACE_IN_SEGMENT.test(path) || isCheckpointName(path)

/** Reads a file from byte `at` on. @param path of the file. @returns the number of bytes read, fewer where the file ends */
export type ReadPart = (file: OpenFile, path: string, into: Buffer, at: number) => Promise<number>

/** L3. @param memoryFor gives memory for `PIECE_BYTES_MAX` bytes at most. @returns null: the file is gone */
export async function readPiece(
  { files, directory }: { readonly files: Files; readonly directory: string },
  { path, from, bytes }: { readonly path: string; readonly from: number; readonly bytes: number },
  read: ReadPart = async (file, _path, into, at) => file.read(into, at),
  memoryFor: (bytes: number) => Buffer = (count) => Buffer.allocUnsafe(count),
): Promise<Buffer | null> {
  if (!isPlace(path) || bytes > PIECE_BYTES_MAX)
    throw new StoreError('invalid', 'catch_up_request_invalid', 'there is no such piece')
  const place = `${directory}/${path}`
  try {
    const file = unlessGone(path, () => files.open(place, 'read'))
    try {
      const memory = memoryFor(Math.max(0, Math.min(bytes, file.size() - from)))
      const count = await read(file, place, memory, from)
      return files.exists(place) ? memory.subarray(0, count) : null
    } finally {
      file.close()
    }
  } catch (error) {
    if (error instanceof Vanished) return null
    throw error
  }
}

const unavailable = (message: string): StoreError => new StoreError('unavailable', 'catch_up_unavailable', message)
