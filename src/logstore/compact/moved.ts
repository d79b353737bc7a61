/**
 * What a moved stand-in (src/log/merged.ts) says of the merged bundle that its segment is in, for readers that do not have the merged file yet:
 *
 *   offset  bytes  field
 *        0      8  magic          "TLMOVED1"
 *        8      8  minTime        ns since the Unix epoch
 *       16      8  maxTime
 *       24      8  receivedUntil
 *       32      4  records
 *       36     24  unused, 0
 *       60      4  crc            CRC-32 of bytes [0, 60)
 */
import { crc32 } from 'node:zlib'
import { MOVED_BYTES, MOVED_CONTENT_BYTES } from '../../log/merged.ts'
import { STAND_IN_HEADER_BYTES, decodeStandInHeader } from '../../log/stand-in.ts'
import type { Bundle } from '../index/manifest.ts'

const MAGIC = Buffer.from('TLMOVED1')
const CRC_AT = MOVED_CONTENT_BYTES - 4

export type MovedFacts = Pick<Bundle, 'minTime' | 'maxTime' | 'receivedUntil' | 'records'>

export function encodeMoved({ minTime, maxTime, receivedUntil, records }: MovedFacts): Buffer {
  const bytes = Buffer.alloc(MOVED_CONTENT_BYTES)
  MAGIC.copy(bytes)
  bytes.writeBigUInt64LE(minTime, 8)
  bytes.writeBigUInt64LE(maxTime, 16)
  bytes.writeBigUInt64LE(receivedUntil, 24)
  bytes.writeUInt32LE(records, 32)
  bytes.writeUInt32LE(crc32(bytes.subarray(0, CRC_AT)), CRC_AT)
  return bytes
}

/** @param file all of its bytes @returns null: it is not a moved stand-in, or a damaged one */
export function decodeMoved(
  file: Buffer,
): (MovedFacts & { readonly base: number; readonly end: number; readonly logId: number }) | null {
  const standIn = decodeStandInHeader(file)
  const bytes = file.subarray(STAND_IN_HEADER_BYTES)
  const isWhole =
    file.byteLength === MOVED_BYTES &&
    bytes.subarray(0, MAGIC.byteLength).equals(MAGIC) &&
    crc32(bytes.subarray(0, CRC_AT)) === bytes.readUInt32LE(CRC_AT)
  if (standIn === null || !isWhole) return null
  const { base, end, logId } = standIn
  return {
    base,
    end,
    logId,
    minTime: bytes.readBigUInt64LE(8),
    maxTime: bytes.readBigUInt64LE(16),
    receivedUntil: bytes.readBigUInt64LE(24),
    records: bytes.readUInt32LE(32),
  }
}
