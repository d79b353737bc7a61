/**
 * `checkpoint-<position>.bin` in the data directory, and in each replica directory: the state of a service as it was when its log ended at this
 * position, so that a start applies only the frames behind it. The position is in the name in 16 hexadecimal digits. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      8  magic     'TLCHECKP'; older ones have 'TLBRKCKP', whatever the service
 *        8      4  version   u32, CHECKPOINT_VERSION
 *       12      4  crc       u32, CRC-32 of bytes [16, end of the file)
 *       16      8  position  u64
 *       24      8  bytes     u64, of the content
 *       32      …  content   the service's own
 *
 * K1  a checkpoint is there whole under its name or not at all
 * K2  besides the newest, the one before it is kept: a start falls back on it when the newest is damaged
 * K3  only positions that are committed have a checkpoint: the log never uses them again
 */
import { combineCrc32, crc32 } from '../../native-free-codecs/crc32.ts'
import { readU32, readU64, writeU32, writeU64 } from '../../native-free-codecs/frame.ts'
import { crcOf } from './crc-of.ts'
import { TEMPORARY_SUFFIX, fileBytes, piecesOf, withOpenFile } from './files.ts'
import type { Files, OpenFile } from './files.ts'
import { SEGMENT_FOOTER_BYTES } from './segment-format.ts'
import { atOnce } from '../steps.ts'
import type { Steps } from '../steps.ts'

const CHECKPOINT_VERSION = 1
const MAGIC = Buffer.from('TLCHECKP')
const OLDER_MAGIC = Buffer.from('TLBRKCKP')
const HEADER_BYTES = 32
const CRC_AT = 12
const CRC_FROM = 16
const POSITION_DIGITS = 16
const READING = 'reading the checkpoint'

/** A checkpoint that was found whole. Its content is read only when it is asked for, so that it takes no memory without need. */
export class Checkpoint {
  readonly position: number
  /** The position of the checkpoint before this one, to which a start falls back (K2); 0: there is none. */
  readonly positionBefore: number
  readonly contentBytes: number
  readonly #files: Files
  readonly #path: string

  constructor(files: Files, path: string, position: number, positionBefore: number, contentBytes: number) {
    this.position = position
    this.positionBefore = positionBefore
    this.#files = files
    this.#path = path
    this.contentBytes = contentBytes
  }

  /** The content, aligned to 8 bytes in its memory. @throws what the file system throws */
  *whole(): Steps<Buffer> {
    const content = Buffer.alloc(this.contentBytes)
    let at = 0
    for (const piece of this.pieces()) {
      at += piece.copy(content, at)
      yield { phase: READING, done: at, total: this.contentBytes, unit: 'bytes' }
    }
    return content
  }

  /** The content, one piece after the other: each is valid until the next is asked for. @throws what the file system throws */
  *pieces(): Generator<Buffer, void, undefined> {
    yield* piecesOf(this.#files, this.#path, HEADER_BYTES)
  }
}

/** K2. How many checkpoints a data directory needs, and so a copy of it, too. */
export const CHECKPOINTS_KEPT = 2

/** Whether a checkpoint at this position (0: none) stands for what the log held before its oldest segment. @param base base of that segment */
export const coversLogBefore = (base: number, position: number): boolean => base <= position + SEGMENT_FOOTER_BYTES

export const checkpointName = (position: number): string =>
  `checkpoint-${position.toString(16).padStart(POSITION_DIGITS, '0')}.bin`

export const isCheckpointName = (name: string): boolean => positionOf(name) !== null

function positionOf(name: string): number | null {
  const digits = /^checkpoint-([0-9a-f]{16})\.bin$/.exec(name)?.[1]
  return digits === undefined ? null : Number.parseInt(digits, 16)
}

/** A checkpoint whose content is written in parts. Ends with `publish` or `abandon`. */
export function beginCheckpoint(files: Files, directory: string, position: number): CheckpointFile {
  return new CheckpointFile(files, directory, position)
}

export class CheckpointFile {
  readonly #files: Files
  readonly #directory: string
  readonly #position: number
  readonly #temporary: string
  readonly #file: OpenFile
  #contentBytes = 0
  #contentCrc = 0

  constructor(files: Files, directory: string, position: number) {
    this.#files = files
    this.#directory = directory
    this.#position = position
    this.#temporary = `${directory}/${checkpointName(position)}${TEMPORARY_SUFFIX}`
    if (files.exists(this.#temporary)) files.removeFile(this.#temporary)
    this.#file = files.create(this.#temporary)
  }

  /** @throws what the file system throws; then the checkpoint is abandoned, so that it takes no room on a full disk */
  write(part: Uint8Array): void {
    this.#orAbandon(() => this.#file.writev([part], HEADER_BYTES + this.#contentBytes))
    this.#contentBytes += part.byteLength
    this.#contentCrc = crcOf([part], this.#contentCrc)
  }

  /** K1 */
  publish(): void {
    const header = Buffer.alloc(HEADER_BYTES)
    MAGIC.copy(header)
    writeU32(header, 8, CHECKPOINT_VERSION)
    writeU64(header, 16, this.#position)
    writeU64(header, 24, this.#contentBytes)
    const headerCrc = crc32(header.subarray(CRC_FROM))
    writeU32(header, CRC_AT, combineCrc32(headerCrc, this.#contentCrc, this.#contentBytes))
    this.#orAbandon(() => {
      this.#file.writev([header], 0)
      this.#file.fdatasync()
    })
    this.#file.close()
    this.#files.rename(this.#temporary, `${this.#directory}/${checkpointName(this.#position)}`)
    this.#files.syncDirectory(this.#directory)
    removeOthers(this.#files, this.#directory, this.#position)
  }

  abandon(): void {
    this.#file.close()
    this.#files.removeFile(this.#temporary)
  }

  #orAbandon(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.abandon()
      throw error
    }
  }
}

/** K2. A checkpoint with a higher position is of a log that lost its end. */
function removeOthers(files: Files, directory: string, newest: number): void {
  const positions = checkpointPositions(files, directory)
  const before = positions.find((position) => position < newest)
  const others = positions.filter((position) => position !== newest && position !== before)
  for (const position of others) files.removeFile(`${directory}/${checkpointName(position)}`)
  if (others.length > 0) files.syncDirectory(directory)
}

/**
 * The newest whole checkpoint that is not behind the end of the log, or null. Removes what a crash left of others, and damaged ones, as the next
 * checkpoint would keep one of these as the one before it (K2).
 *
 * @param directories that have the same log
 * @param onDamaged   called for each that is passed over, with its name
 * @param isToRead    only looks: removes nothing
 * @throws what the file system throws
 */
export function* newestCheckpoint(
  files: Files,
  directories: readonly string[],
  atMostPosition: number,
  onDamaged: (name: string) => void = () => {},
  isToRead = false,
): Steps<Checkpoint | null> {
  const remove = isToRead ? () => {} : (path: string) => files.removeFile(path)
  let newest: Checkpoint | null = null
  for (const directory of directories) {
    const found = yield* newestIn(files, directory, atMostPosition, onDamaged, remove)
    if (found !== null && found.position > (newest?.position ?? -1)) newest = found
  }
  return newest
}

function* newestIn(
  files: Files,
  directory: string,
  atMostPosition: number,
  onDamaged: (name: string) => void,
  remove: (path: string) => void,
): Steps<Checkpoint | null> {
  for (const name of files.list(directory) ?? []) {
    const isLeftover = name.endsWith(TEMPORARY_SUFFIX) && positionOf(name.slice(0, -TEMPORARY_SUFFIX.length)) !== null
    if (isLeftover) remove(`${directory}/${name}`)
  }
  const positions = checkpointPositions(files, directory).filter((position) => position <= atMostPosition)
  for (const position of positions) {
    const path = `${directory}/${checkpointName(position)}`
    const contentBytes = yield* verify(files, path, position)
    if (contentBytes !== null) {
      const before = positions.find((other) => other < position && isPublished(files, directory, other)) ?? 0
      return new Checkpoint(files, path, position, before, contentBytes)
    }
    onDamaged(checkpointName(position))
    remove(path)
  }
  return null
}

/** Judges a checkpoint by its header and its length, because reading all of it twice would slow a start down. */
export function isPublished(files: Files, directory: string, position: number): boolean {
  return withOpenFile(files, `${directory}/${checkpointName(position)}`, (file) => {
    const header = Buffer.alloc(HEADER_BYTES)
    const contentBytes = file.read(header, 0) < HEADER_BYTES ? null : contentBytesOf(header, position)
    return contentBytes === file.size() - HEADER_BYTES
  })
}

/** Bytes of the content, as the header says; null when it is not the header of this position and version. */
function contentBytesOf(header: Buffer, position: number): number | null {
  const magic = header.subarray(0, MAGIC.byteLength)
  if (!MAGIC.equals(magic) && !OLDER_MAGIC.equals(magic)) return null
  if (readU32(header, 8) !== CHECKPOINT_VERSION || readU64(header, 16) !== position) return null
  return readU64(header, 24)
}

/**
 * Position of the newest checkpoint: the log ended there or behind it. By K1 and K3 the name alone tells that, even if neither the log nor the checkpoint
 * can be read. 0 when there is no checkpoint.
 */
export function newestCheckpointPosition(files: Files, directory: string): number {
  return checkpointPositions(files, directory)[0] ?? 0
}

/** The positions of all checkpoints that were published under their names, newest first. */
export function checkpointPositions(files: Files, directory: string): number[] {
  return (files.list(directory) ?? [])
    .map(positionOf)
    .filter((position) => position !== null)
    .sort((a, b) => b - a)
}

/** Whether a file is the checkpoint of the position, every byte of it. @throws what the file system throws */
export const isWholeCheckpoint = (files: Files, path: string, position: number): boolean =>
  atOnce(verify(files, path, position)) !== null

/** Bytes of its content; null when the checkpoint is not whole. @throws what the file system throws */
export function* verify(files: Files, path: string, position: number): Steps<number | null> {
  let header: Buffer | null = null
  let bytes = 0
  let crc = 0
  const totalBytes = fileBytes(files, path)
  for (const piece of piecesOf(files, path)) {
    if (header === null && piece.byteLength < HEADER_BYTES) return null
    header ??= Buffer.from(piece.subarray(0, HEADER_BYTES))
    crc = crcOf([bytes === 0 ? piece.subarray(CRC_FROM) : piece], crc)
    bytes += piece.byteLength
    yield { phase: 'checking the checkpoint', done: bytes, total: totalBytes, unit: 'bytes' }
  }
  if (header === null || readU32(header, CRC_AT) !== crc) return null
  const contentBytes = bytes - HEADER_BYTES
  return contentBytesOf(header, position) === contentBytes ? contentBytes : null
}
