/**
 * The directory of a log, read while its service may be writing, cleaning and dropping.
 *
 * R1  nothing is written and no lock is taken: the service never notices
 * R2  a segment is dropped by a rename of its directory, before its file is emptied or used for another segment. So bytes that were read belong to the
 *     segment if the file still has its path afterwards
 * R3  a segment that is being written ends before the first frame that no repeated look finds
 */
import { createHash } from 'node:crypto'
import { frameBytes } from '../../native-free-codecs/frame.ts'
import { StoreError } from '../errors.ts'
import { errorCode } from '../log/files.ts'
import type { Files, OpenFile } from '../log/files.ts'
import { FORMAT_NAME, readFormat } from '../log/format.ts'
import { readFooter, readHeader, scanFrames } from '../log/read.ts'
import {
  RECORDS_NAME,
  SEGMENT_FOOTER_BYTES,
  SEGMENT_HEADER_BYTES,
  SEGMENTS_NAME_OF,
  segmentBaseOf,
  segmentName,
} from '../log/segment-format.ts'
import type { SegmentFooter } from '../log/segment-format.ts'
import { readMark } from '../log/durable-mark.ts'
import { isMoved, mergedOver } from '../log/merged.ts'
import { STAND_IN_HEADER_BYTES, STAND_IN_NAME, isStandInWhole, readStandIn } from '../log/stand-in.ts'
import type { StandIn } from '../log/stand-in.ts'
import type { Damage } from './snapshot.ts'

const SEGMENT_FOLDERS = [...new Set(Object.values(SEGMENTS_NAME_OF))]

/** A service's folder, and one in it. */
const FOLDERS_DEPTH = 2

const PIECE_BYTES = 1 << 20
/** R3. Looks at a place that cannot be read: it is damaged only if no look reads it. */
const LOOKS_MAX = 5
const IDENTITY_DIGITS = 16

/** The file to read is gone: the service dropped it meanwhile. */
export class Vanished extends Error {}

export interface LogDirectory {
  readonly directory: string
  readonly segmentsName: string
  readonly logId: number
}

/** Null: the directory holds no log. @throws StoreError as `readFormat` */
function logIn(files: Files, directory: string): LogDirectory | null {
  const segmentsName = SEGMENT_FOLDERS.find((name) => files.exists(`${directory}/${name}`))
  if (segmentsName === undefined) {
    if (files.exists(`${directory}/${FORMAT_NAME}`)) readFormat(files, directory, SEGMENTS_NAME_OF.logstore)
    return null
  }
  const logId = readFormat(files, directory, segmentsName)
  return logId === null ? null : { directory, segmentsName, logId }
}

/**
 * The logs of a data directory: its own, those of its folders, and those inside of a log's directory (the endpoint helper has one in that of its
 * service), without an unfinished copy; or why a log cannot be identified. By place, which is the folder or empty; outer ones first.
 *
 * @throws StoreError notFound data_directory_empty
 */
export function logFolders(files: Files, dataDirectory: string): ReadonlyMap<string, LogDirectory | StoreError> {
  const found = new Map<string, LogDirectory | StoreError>()
  const look = (place: string, depth: number): void => {
    const directory = place === '' ? dataDirectory : `${dataDirectory}/${place}`
    const log = logOrReason(files, directory)
    if (log !== null) found.set(place, log)
    if (depth === FOLDERS_DEPTH || log instanceof StoreError) return
    for (const name of namesIn(files, directory) ?? []) {
      const isCopy = log !== null && name === STAGING_NAME
      if (!isSegmentFolder(name) && !isCopy) look(place === '' ? name : `${place}/${name}`, depth + 1)
    }
  }
  look('', 0)
  if (found.size > 0) return found
  const message = `${dataDirectory} holds no data: neither it nor one of its folders is the data directory of a service`
  throw new StoreError('notFound', 'data_directory_empty', message)
}

const isSegmentFolder = (name: string): boolean => SEGMENT_FOLDERS.some((folder) => folder === name)

/** Folder in the directory of a log that takes part in a cluster: an unfinished copy of another node's log (src/cluster/catch-up/copy.ts). */
export const STAGING_NAME = 'catch-up'

/** File systems have this folder where they are mounted. Only root may read it. */
const LOST_AND_FOUND = 'lost+found'

/** Names in a directory, without what the file system itself keeps there. Null: it is no directory, which the file system refuses to list; or not there. */
export function namesIn(files: Files, path: string): readonly string[] | null {
  try {
    return files.list(path)?.filter((name) => name !== LOST_AND_FOUND) ?? null
  } catch (error) {
    if (errorCode(error) === 'ENOTDIR') return null
    throw error
  }
}

/** As `logFolders`. @throws StoreError for the first log that cannot be identified */
export function logsIn(files: Files, dataDirectory: string): ReadonlyMap<string, LogDirectory> {
  const folders = Array.from(logFolders(files, dataDirectory), ([place, log]) => {
    if (log instanceof StoreError) throw log
    return [place, log] as const
  })
  return new Map(folders)
}

function logOrReason(files: Files, directory: string): LogDirectory | StoreError | null {
  try {
    return logIn(files, directory)
  } catch (error) {
    if (error instanceof StoreError) return error
    throw error
  }
}

/** What a segment's file holds. */
export interface SegmentScan {
  /** Position behind the last frame; of a file with a footer, the one in the footer. */
  readonly end: number
  readonly sealed: boolean
  readonly frameCount: number
  readonly epoch: number
  /** Header checksum of the last frame. */
  readonly chain: number
  readonly damage: readonly Damage[]
  /** Frames by type. */
  readonly types: ReadonlyMap<number, number>
  /** First byte of the payload of the first frame of type 1; null: there is none. */
  readonly firstByteOfType1: number | null
}

export class LogSource {
  readonly directory: string
  readonly segmentsName: string
  readonly logId: number
  readonly files: Files

  constructor(files: Files, { directory, segmentsName, logId }: LogDirectory) {
    this.files = files
    this.directory = directory
    this.segmentsName = segmentsName
    this.logId = logId
  }

  /** Bases of the segments that exist, in ascending order. */
  bases(): number[] {
    const names = this.files.list(`${this.directory}/${this.segmentsName}`) ?? []
    return names.flatMap((name) => segmentBaseOf(name) ?? []).sort((a, b) => a - b)
  }

  pathOf(base: number): string {
    return `${this.directory}/${this.segmentsName}/${segmentName(base)}`
  }

  /** Where the segment is in the directory of the log. */
  placeOf(base: number): string {
    return `${this.segmentsName}/${segmentName(base)}`
  }

  hasSegment(base: number): boolean {
    return this.files.exists(this.pathOf(base))
  }

  /** @throws Vanished when the file is not there */
  withRecords<Result>(base: number, read: (file: OpenFile) => Result): Result {
    return withFile(this.files, `${this.pathOf(base)}/${RECORDS_NAME}`, read)
  }

  /**
   * Reads every frame (R3).
   *
   * @param nextBase of the segment behind it; null: the segment may be the one that is being written
   * @throws Vanished, and what the file system throws
   */
  scan(base: number, nextBase: number | null): SegmentScan {
    let firstBad = -1
    for (let look = 1; ; look += 1) {
      const scan = this.withRecords(base, (file) => scanSegment(file, this.logId, base, nextBase))
      const bad = scan.damage[0]
      const isSettled = bad === undefined || (bad.from === firstBad && look >= LOOKS_MAX)
      if (isSettled) {
        if (bad !== undefined && !this.files.exists(`${this.pathOf(base)}/${RECORDS_NAME}`)) throw new Vanished() // R2
        return scan
      }
      if (bad.from !== firstBad) look = 1
      firstBad = bad.from
    }
  }

  /** The stand-in of the segment; null: there is none. */
  standInOf(base: number): StandIn | null {
    return unlessGone('stand-in', () => readStandIn(this.files, this.pathOf(base), this.logId, base))
  }

  /**
   * The merged file that a segment has moved into (src/log/merged.ts). Null: it is missing.
   *
   * @throws Vanished also when the service is dropping the segment, as the merged file goes before it; or when it has moved back
   */
  mergedOver(base: number): StandIn | null {
    const { files, directory, logId } = this
    const merged = unlessGone('merged file', () => mergedOver(files, `${directory}/${this.segmentsName}`, logId, base))
    if (merged !== null) return merged
    if (this.isDropped(base)) throw new Vanished('it is being dropped')
    const standIn = this.standInOf(base)
    if (standIn !== null && !isMoved(standIn)) throw new Vanished('it has a file of its own again') // src/logstore/compact/trim-bundle.ts
    return null
  }

  /** Whether the log begins behind the segment: if it is there, its removal is under way, or a crash left it. */
  isDropped(base: number): boolean {
    const { begin } = readMark(this.files, this.directory, this.logId)
    return begin !== null && base < begin
  }

  /** Whether the content of a stand-in is whole, and the name of that content, from its checksum in the header. @throws Vanished */
  judgeStandIn(
    base: number,
    standIn: StandIn,
    name = STAND_IN_NAME,
  ): { readonly isWhole: boolean; readonly identity: string } {
    const path = this.pathOf(base)
    const isWhole = unlessGone('stand-in', () => isStandInWhole(this.files, path, standIn, name))
    if (!isWhole) {
      const now = unlessGone('stand-in', () => readStandIn(this.files, path, this.logId, base, name))
      if (now !== null && now.contentCrc !== standIn.contentCrc) throw new Vanished('another one took its place')
    }
    const identity = withFile(this.files, `${path}/${name}`, (file) => {
      const header = Buffer.alloc(STAND_IN_HEADER_BYTES)
      file.read(header, 0)
      return identityOfBytes(header)
    })
    return { isWhole, identity }
  }

  /** A directory is made before its file, so only a crash or damage leaves it without one. */
  isWithoutFile(base: number): boolean {
    const path = this.pathOf(base)
    const hasNone = this.files.exists(path) && !this.files.exists(`${path}/${RECORDS_NAME}`)
    return hasNone && !this.files.exists(`${path}/${STAND_IN_NAME}`) && this.files.exists(path)
  }

  /** Position behind the last frame of the newest segment that has one; 0: there is none. */
  end(): number {
    for (const base of this.bases().reverse()) {
      try {
        const standIn = this.standInOf(base)
        if (standIn !== null) return standIn.end
        const scan = this.scan(base, null)
        if (scan.frameCount > 0) return scan.end
      } catch (error) {
        if (!(error instanceof Vanished)) throw error
      }
    }
    return 0
  }

  /** Names the content of a sealed segment: the checksums in its header and footer stand for all frames. Null: it has no footer. */
  identityOf(
    base: number,
  ): { readonly identity: string; readonly bytes: number; readonly footer: SegmentFooter } | null {
    return this.withRecords(base, (file) => {
      const footer = fittingFooter(file, this.logId, base)
      if (footer === null) return null
      const ends = Buffer.alloc(SEGMENT_HEADER_BYTES + SEGMENT_FOOTER_BYTES)
      const bytes = file.size()
      file.read(ends.subarray(0, SEGMENT_HEADER_BYTES), 0)
      file.read(ends.subarray(SEGMENT_HEADER_BYTES), bytes - SEGMENT_FOOTER_BYTES)
      return { identity: identityOfBytes(ends), bytes, footer }
    })
  }
}

/** @throws Vanished when there is no such file */
const opened = (files: Files, path: string): OpenFile => unlessGone(path, () => files.open(path, 'read'))

/** Opens, reads, closes. @throws Vanished when there is no such file */
export function withFile<Result>(files: Files, path: string, read: (file: OpenFile) => Result): Result {
  const file = opened(files, path)
  try {
    return read(file)
  } finally {
    file.close()
  }
}

/** A file that goes between two calls, or while it is opened, is gone. @throws Vanished */
export function unlessGone<Result>(what: string, look: () => Result): Result {
  try {
    return look()
  } catch (error) {
    if (errorCode(error) === 'ENOENT') throw new Vanished(what, { cause: error })
    throw error
  }
}

/** A digest of the first bytes of a file. */
export function digestOf(files: Files, path: string, bytes: number): string {
  const hash = createHash('sha256')
  for (const piece of piecesOf(files, path, bytes)) hash.update(piece)
  return hash.digest('hex').slice(0, IDENTITY_DIGITS)
}

export const identityOfBytes = (bytes: Uint8Array): string =>
  createHash('sha256').update(bytes).digest('hex').slice(0, IDENTITY_DIGITS)

/**
 * The first bytes of a file, one piece after the other.
 *
 * @param isAll for a file that is replaced as a whole: it must have exactly `bytes`
 * @throws Vanished when the file is gone or another one, before the first piece or by the time the last one was read (R2)
 */
export function* piecesOf(
  files: Files,
  path: string,
  bytes: number,
  isAll = false,
): Generator<Buffer, void, undefined> {
  const file = opened(files, path)
  try {
    if (isAll && file.size() !== bytes) throw new Vanished(path)
    const memory = Buffer.allocUnsafe(Math.min(PIECE_BYTES, Math.max(1, bytes)))
    for (let at = 0; at < bytes;) {
      const have = file.read(memory.subarray(0, Math.min(memory.byteLength, bytes - at)), at)
      if (have === 0) throw new Vanished(path)
      yield memory.subarray(0, have)
      at += have
    }
  } finally {
    file.close()
  }
  if (!files.exists(path)) throw new Vanished(path)
}

function fittingFooter(file: OpenFile, logId: number, base: number): SegmentFooter | null {
  const footer = readFooter(file)
  if (footer === null || footer.base !== base || footer.logId !== logId) return null
  return footer.end - base + SEGMENT_FOOTER_BYTES === file.size() ? footer : null
}

/** @param nextBase base of the next segment, before which this one was sealed */
function scanSegment(file: OpenFile, logId: number, base: number, nextBase: number | null): SegmentScan {
  const footer = fittingFooter(file, logId, base)
  const sealedEnd = footer?.end ?? (nextBase === null ? null : nextBase - SEGMENT_FOOTER_BYTES)
  const to = sealedEnd ?? base + file.size()
  const types = new Map<number, number>()
  const damage: Damage[] = []
  let [frameCount, epoch, chain, framesEnd] = [0, 0, 0, base + SEGMENT_HEADER_BYTES]
  let firstByteOfType1: number | null = null
  const header = readHeader(file)
  if (header === null || header.base !== base || header.logId !== logId) {
    damage.push({ from: base, to: base + SEGMENT_HEADER_BYTES, reason: 'the segment header is damaged' })
  }
  scanFrames(file, logId, base, SEGMENT_HEADER_BYTES, to - base, {
    frame(view) {
      frameCount += 1
      epoch = view.epoch
      chain = view.headerCrc
      framesEnd = view.position + frameBytes(view.payloadBytes)
      if (view.type === 1) firstByteOfType1 ??= view.payload[0] ?? null
      types.set(view.type, (types.get(view.type) ?? 0) + 1)
    },
    bad: (badFrom, badTo, reason) => damage.push({ from: base + badFrom, to: base + badTo, reason }),
  })
  if (footer !== null && footer.frameCount !== frameCount && damage.length === 0) {
    damage.push({ from: base, to: footer.end, reason: `${frameCount} frames instead of ${footer.frameCount}` })
  }
  if (sealedEnd !== null && footer === null) {
    damage.push({ from: sealedEnd, to: sealedEnd + SEGMENT_FOOTER_BYTES, reason: 'the segment footer is damaged' })
  }
  const found = { frameCount, epoch, chain, types, firstByteOfType1 }
  if (sealedEnd !== null) return { ...found, end: sealedEnd, sealed: true, damage }
  // Behind the last frame stands nothing, or the beginning of one that is not all there yet.
  const inside = frameCount === 0 ? [] : damage.filter((range) => range.from < framesEnd)
  return { ...found, end: framesEnd, sealed: false, damage: inside }
}
