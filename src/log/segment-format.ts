/**
 * The files of a log and the two structures of a segment that are not frames. Integers are little-endian.
 *
 *   <directory>/FORMAT                         which layout, which log (format.ts)
 *   <directory>/DURABLE                        the durable mark (durable-mark.ts)
 *   <directory>/LOCK                           pid of the process that has it open, for people (lock.ts)
 *   <directory>/<segmentsName>/spare-<n>.log   the next records.log, written before (spare.ts)
 *   <directory>/<segmentsName>/<base>/         one segment, named by its base position in 16 hexadecimal digits
 *     records.log                              header, frames back to back, footer once sealed
 *     quarantine.json                          ranges known to be damaged (quarantine.ts)
 *     compact.bin                              the segment's content in another form (stand-in.ts)
 *     merged-<end>.bin                         the content of this segment and of those behind it (merged.ts)
 *     …                                        the service's sidecars (sidecar.ts)
 *   <directory>/<segmentsName>/dropped-<base>/ a segment that is being removed
 *
 * Segment header, at offset 0 of records.log. The position of offset n is base + n, so the first frame is at base + 64.
 *
 *   offset  bytes  field
 *        0      8  magic              'TLSEGMNT'
 *        8      4  version            u32, LOG_VERSION
 *       12      4  logId              u32
 *       16      8  base               u64
 *       24      4  epoch              u32, of the first frame
 *       28      4  previousHeaderCrc  u32, of the last frame before this segment
 *       32     28  unused             0
 *       60      4  crc                u32, CRC-32 of bytes [0, 60)
 *
 * Segment footer, the last 64 bytes of a sealed segment; the base of the next segment is the position behind it.
 *
 *        0      8  magic              'TLFOOTER'
 *        8      4  frameCount         u32
 *       12      4  logId              u32
 *       16      8  end               u64, the footer's own position: the end of the frames
 *       24      4  epoch              u32, of the last frame
 *       28      4  lastHeaderCrc      u32, of the last frame
 *       32      8  base               u64
 *       40     20  unused             0
 *       60      4  crc                u32, CRC-32 of bytes [0, 60)
 *
 * A sealed segment never changes. Segments follow each other without a gap: the base of the next one is the end of the frames + 64. Otherwise frames
 * are missing. The files of a log hold the same bytes in every replica directory.
 */
import { crc32, readU32, readU64, writeU32, writeU64 } from '../../native-free-codecs/frame.ts'

export const LOG_VERSION = 1
export const SEGMENT_HEADER_BYTES = 64
export const SEGMENT_FOOTER_BYTES = 64
/** Folder of the segments in a data directory, by service. */
export const SEGMENTS_NAME_OF = { logstore: 'bundles', objectstore: 'segments', broker: 'segments' } as const
/** Offsets inside a segment stay below it, so that they are small integers and fit 32 bits everywhere. */
export const SEGMENT_BYTES_MAX = 2 ** 31 - 8
export const RECORDS_NAME = 'records.log'
export const DROPPED_PREFIX = 'dropped-'
export const MERGED_PREFIX = 'merged-'
export const MERGED_SUFFIX = '.bin'

const HEADER_MAGIC = Buffer.from('TLSEGMNT')
const FOOTER_MAGIC = Buffer.from('TLFOOTER')
const CRC_AT = 60

export interface SegmentHeader {
  readonly logId: number
  readonly base: number
  readonly epoch: number
  readonly previousHeaderCrc: number
}

export interface SegmentFooter {
  readonly frameCount: number
  readonly logId: number
  readonly end: number
  readonly epoch: number
  readonly lastHeaderCrc: number
  readonly base: number
}

export function encodeSegmentHeader(header: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES)
  HEADER_MAGIC.copy(bytes)
  writeU32(bytes, 8, LOG_VERSION)
  writeU32(bytes, 12, header.logId)
  writeU64(bytes, 16, header.base)
  writeU32(bytes, 24, header.epoch)
  writeU32(bytes, 28, header.previousHeaderCrc)
  writeU32(bytes, CRC_AT, crc32(bytes, 0, CRC_AT))
  return bytes
}

export function decodeSegmentHeader(bytes: Uint8Array): SegmentHeader | null {
  if (!isWhole(bytes, SEGMENT_HEADER_BYTES, HEADER_MAGIC) || readU32(bytes, 8) !== LOG_VERSION) return null
  return {
    logId: readU32(bytes, 12),
    base: readU64(bytes, 16),
    epoch: readU32(bytes, 24),
    previousHeaderCrc: readU32(bytes, 28),
  }
}

export function encodeSegmentFooter(footer: SegmentFooter): Buffer {
  const bytes = Buffer.alloc(SEGMENT_FOOTER_BYTES)
  FOOTER_MAGIC.copy(bytes)
  writeU32(bytes, 8, footer.frameCount)
  writeU32(bytes, 12, footer.logId)
  writeU64(bytes, 16, footer.end)
  writeU32(bytes, 24, footer.epoch)
  writeU32(bytes, 28, footer.lastHeaderCrc)
  writeU64(bytes, 32, footer.base)
  writeU32(bytes, CRC_AT, crc32(bytes, 0, CRC_AT))
  return bytes
}

export function decodeSegmentFooter(bytes: Uint8Array): SegmentFooter | null {
  if (!isWhole(bytes, SEGMENT_FOOTER_BYTES, FOOTER_MAGIC)) return null
  return {
    frameCount: readU32(bytes, 8),
    logId: readU32(bytes, 12),
    end: readU64(bytes, 16),
    epoch: readU32(bytes, 24),
    lastHeaderCrc: readU32(bytes, 28),
    base: readU64(bytes, 32),
  }
}

function isWhole(bytes: Uint8Array, length: number, magic: Buffer): boolean {
  return (
    bytes.byteLength === length &&
    magic.equals(bytes.subarray(0, magic.byteLength)) &&
    crc32(bytes, 0, CRC_AT) === readU32(bytes, CRC_AT)
  )
}

export function segmentName(base: number): string {
  return base.toString(16).padStart(16, '0')
}

/** The base position, or null when the name is not one of a segment. */
export function segmentBaseOf(name: string): number | null {
  if (!/^[0-9a-f]{16}$/.test(name)) return null
  const base = Number.parseInt(name, 16)
  return Number.isSafeInteger(base) && base % 8 === 0 ? base : null
}
