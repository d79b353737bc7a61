/**
 * `compact.bin` in the directory of a sealed segment: a file of the service that holds the segment's content in another form. A whole one
 * stands in for `records.log`, which is then removed. The log knows which segment it is, and nothing of its content. Integers are
 * little-endian.
 *
 *   offset  bytes  field
 *        0      8  magic          'TLSTANDN'
 *        8      4  version        u32, STAND_IN_VERSION
 *       12      4  logId          u32
 *       16      8  base           u64, of the segment
 *       24      8  end            u64, behind its last frame
 *       32      4  frameCount     u32
 *       36      4  epoch          u32, of the last frame
 *       40      4  lastHeaderCrc  u32, of the last frame
 *       44      4  contentCrc     u32, CRC-32 of the bytes from 64 on
 *       48      8  fileBytes      u64
 *       56      4  unused         0
 *       60      4  crc            u32, CRC-32 of bytes [0, 60)
 *       64      …  content        the service's own
 *
 * T1  it has its name only once it is whole: written beside, synced, renamed. The segment's other files are removed only when its name is
 *     durable
 * T2  each directory of a log may hold a segment in either form: both are the same segment
 */
import { crc32, readU32, readU64, writeU32, writeU64 } from '../../native-free-codecs/frame.ts'
import { crcOf } from './crc-of.ts'
import { piecesOf, publishFile, publishInSteps, withOpenFile } from './files.ts'
import type { Files, OpenFile } from './files.ts'
import { QUARANTINE_NAME } from './quarantine.ts'
import { MERGED_PREFIX } from './segment-format.ts'
import type { SegmentFooter } from './segment-format.ts'
import type { Steps } from '../steps.ts'

export const STAND_IN_NAME = 'compact.bin'
export const STAND_IN_HEADER_BYTES = 64

const STAND_IN_VERSION = 1
const PIECE_BYTES = 1 << 20
const MAGIC = Buffer.from('TLSTANDN')
const CRC_AT = 60

/** The header of a stand-in. It repeats the footer of the segment, which names the segment. */
export interface StandIn extends SegmentFooter {
  readonly contentCrc: number
  readonly fileBytes: number
}

/** The header of a stand-in with this content. */
export function encodeStandInHeader(footer: SegmentFooter, content: readonly Uint8Array[]): Buffer {
  const contentBytes = content.reduce((sum, part) => sum + part.byteLength, 0)
  return encodeStandIn({ ...footer, contentCrc: crcOf(content), fileBytes: STAND_IN_HEADER_BYTES + contentBytes })
}

export function encodeStandIn(standIn: StandIn): Buffer {
  const bytes = Buffer.alloc(STAND_IN_HEADER_BYTES)
  MAGIC.copy(bytes)
  writeU32(bytes, 8, STAND_IN_VERSION)
  writeU32(bytes, 12, standIn.logId)
  writeU64(bytes, 16, standIn.base)
  writeU64(bytes, 24, standIn.end)
  writeU32(bytes, 32, standIn.frameCount)
  writeU32(bytes, 36, standIn.epoch)
  writeU32(bytes, 40, standIn.lastHeaderCrc)
  writeU32(bytes, 44, standIn.contentCrc)
  writeU64(bytes, 48, standIn.fileBytes)
  writeU32(bytes, CRC_AT, crc32(bytes, 0, CRC_AT))
  return bytes
}

/** What the header says; null when it is none, or damaged. */
export function decodeStandInHeader(bytes: Uint8Array): StandIn | null {
  const isWhole =
    bytes.byteLength >= STAND_IN_HEADER_BYTES &&
    MAGIC.equals(bytes.subarray(0, MAGIC.byteLength)) &&
    crc32(bytes, 0, CRC_AT) === readU32(bytes, CRC_AT) &&
    readU32(bytes, 8) === STAND_IN_VERSION
  if (!isWhole) return null
  return {
    logId: readU32(bytes, 12),
    base: readU64(bytes, 16),
    end: readU64(bytes, 24),
    frameCount: readU32(bytes, 32),
    epoch: readU32(bytes, 36),
    lastHeaderCrc: readU32(bytes, 40),
    contentCrc: readU32(bytes, 44),
    fileBytes: readU64(bytes, 48),
  }
}

/** The stand-in in a segment's directory; null when there is none, or when it is of another segment or has another length. Its content is not read. */
export function readStandIn(
  files: Files,
  segmentDirectory: string,
  logId: number,
  base: number,
  name = STAND_IN_NAME,
): StandIn | null {
  const path = `${segmentDirectory}/${name}`
  if (!files.exists(path)) return null
  return withOpenFile(files, path, (file) => {
    const bytes = Buffer.alloc(STAND_IN_HEADER_BYTES)
    const standIn = file.read(bytes, 0) === bytes.byteLength ? decodeStandInHeader(bytes) : null
    const fits = standIn?.logId === logId && standIn.base === base && standIn.fileBytes === file.size()
    return fits ? standIn : null
  })
}

/** Reads the whole stand-in. True when its content is what was written. */
export function isStandInWhole(
  files: Files,
  segmentDirectory: string,
  { contentCrc, fileBytes }: StandIn,
  name = STAND_IN_NAME,
): boolean {
  let bytes = STAND_IN_HEADER_BYTES
  let crc = 0
  for (const piece of piecesOf(files, `${segmentDirectory}/${name}`, bytes)) {
    crc = crcOf([piece], crc)
    bytes += piece.byteLength
  }
  return bytes >= fileBytes && crc === contentCrc
}

/** T1 @param check as of `publishFile` */
export function publishStandIn(
  files: Files,
  segmentDirectory: string,
  parts: readonly Uint8Array[],
  check?: (path: string) => void,
): void {
  publishFile(files, segmentDirectory, STAND_IN_NAME, parts, check)
}

/**
 * Copies a stand-in, or a file like it, from one directory of its segment to another, in place of what has its name there. It is read back before that
 * (T1).
 *
 * @throws what the file system throws; Error when it does not read back, and then what was there is as it was
 */
export function* copyStandIn(
  files: Files,
  logId: number,
  { base, end }: Pick<StandIn, 'base' | 'end'>,
  name: string,
  from: string,
  to: string,
): Steps<void> {
  const source = files.open(`${from}/${name}`, 'read')
  const total = source.size()
  const write = function* (file: OpenFile): Steps<void> {
    const piece = Buffer.allocUnsafe(PIECE_BYTES)
    for (let at = 0; ;) {
      const have = source.read(piece, at)
      if (have === 0) return
      file.writev([piece.subarray(0, have)], at)
      at += have
      yield { phase: 'copying a compacted bundle', done: at, total, unit: 'bytes' }
    }
  }
  const check = (path: string): void => {
    const temporary = path.slice(to.length + 1)
    const written = readStandIn(files, to, logId, base, temporary)
    const isWhole = written?.end === end && isStandInWhole(files, to, written, temporary)
    if (!isWhole) throw new Error(`${name} does not read back`)
  }
  try {
    yield* publishInSteps(files, to, name, write, { check })
  } finally {
    source.close()
  }
}

/**
 * Removes what a stand-in makes superfluous: everything else in the directory, except what is known of damage, and merged files (merged.ts). Does nothing
 * when there is no stand-in.
 *
 * @param remove  removes the file of a path, or moves it where it is of use
 */
export function clearBesideStandIn(
  files: Files,
  segmentDirectory: string,
  logId: number,
  base: number,
  remove: (path: string) => void = (path) => files.removeFile(path),
): void {
  if (readStandIn(files, segmentDirectory, logId, base) === null) return
  const others = (files.list(segmentDirectory) ?? []).filter(
    (name) => name !== STAND_IN_NAME && name !== QUARANTINE_NAME && !name.startsWith(MERGED_PREFIX),
  )
  if (others.length === 0) return
  files.syncDirectory(segmentDirectory) // T1: a process that died may have renamed it and no more
  for (const name of others) remove(`${segmentDirectory}/${name}`)
}
