/**
 * Log frame: the checksummed unit of the log, recovered whole or not at all. Integers are little-endian.
 *
 *   offset  bytes  field              meaning
 *        0      4  headerCrc          u32, CRC-32 of bytes [4, 48)
 *        4      4  magic              u32, FRAME_MAGIC: kind of structure and version of this layout
 *        8      8  position           u64, where the frame begins in the whole log; multiple of 8; tells stale bytes from frames
 *       16      8  durableBefore      u64, a position: everything before it was durable when this frame was built; <= position
 *       24      4  payloadBytes       u32, 0 ..= FRAME_PAYLOAD_BYTES_MAX
 *       28      1  type               u8, the service's
 *       29      1  flags              u8, the service's
 *       30      2  unused             0
 *       32      4  epoch              u32, +1 each time the log is opened; never decreases along the log
 *       36      4  previousHeaderCrc  u32, headerCrc of the frame before (0 before the first): a fork or a gap breaks this chain
 *       40      4  payloadCrc         u32, CRC-32 of the payload
 *       44      4  logId              u32, random, one per log: bytes a user sent, or frames of another log, are not frames of this one
 *       48      …  payload            padded with zeros to a multiple of 8
 *
 * headerCrc covers payloadCrc and previousHeaderCrc, so that it stands for everything in the log up to here.
 */
import assert from 'node:assert/strict'

export const FRAME_HEADER_BYTES = 48
export const FRAME_MAGIC = 0x314c5254 // 'TRL1'
export const FRAME_PAYLOAD_BYTES_MAX = 2 ** 30
const FRAME_ALIGNMENT_BYTES = 8

export interface FrameHeader {
  position: number
  durableBefore: number
  payloadBytes: number
  type: number
  flags: number
  epoch: number
  previousHeaderCrc: number
  payloadCrc: number
  logId: number
  /** Result of `encodeFrameHeader` and `decodeFrameHeader`, not an input. */
  headerCrc: number
}

/** One object to decode into again and again. */
export const emptyFrameHeader = (): FrameHeader => ({
  position: 0,
  durableBefore: 0,
  payloadBytes: 0,
  type: 0,
  flags: 0,
  epoch: 0,
  previousHeaderCrc: 0,
  payloadCrc: 0,
  logId: 0,
  headerCrc: 0,
})

/** Bytes of a whole frame: header, payload, padding. */
export function frameBytes(payloadBytes: number): number {
  return FRAME_HEADER_BYTES + paddedBytes(payloadBytes)
}

/** The next multiple of 8; exact beyond 2^31. */
export function paddedBytes(bytes: number): number {
  return bytes + ((FRAME_ALIGNMENT_BYTES - (bytes % FRAME_ALIGNMENT_BYTES)) % FRAME_ALIGNMENT_BYTES)
}

/** Writes the 48 bytes at `at` and returns (and sets) `headerCrc`. */
export function encodeFrameHeader(header: FrameHeader, bytes: Uint8Array, at: number): number {
  assert(header.position % FRAME_ALIGNMENT_BYTES === 0 && header.position <= Number.MAX_SAFE_INTEGER)
  assert(header.durableBefore <= header.position)
  assert(header.payloadBytes <= FRAME_PAYLOAD_BYTES_MAX)
  writeU32(bytes, at + 4, FRAME_MAGIC)
  writeU64(bytes, at + 8, header.position)
  writeU64(bytes, at + 16, header.durableBefore)
  writeU32(bytes, at + 24, header.payloadBytes)
  bytes[at + 28] = header.type
  bytes[at + 29] = header.flags
  bytes[at + 30] = 0
  bytes[at + 31] = 0
  writeU32(bytes, at + 32, header.epoch)
  writeU32(bytes, at + 36, header.previousHeaderCrc)
  writeU32(bytes, at + 40, header.payloadCrc)
  writeU32(bytes, at + 44, header.logId)
  const crc = crc32(bytes, at + 4, at + FRAME_HEADER_BYTES)
  writeU32(bytes, at, crc)
  header.headerCrc = crc
  return crc
}

/** False when the 48 bytes at `at` are not a header; `into` is undefined then. */
export function decodeFrameHeader(bytes: Uint8Array, at: number, into: FrameHeader): boolean {
  if (readU32(bytes, at + 4) !== FRAME_MAGIC) return false
  const crc = readU32(bytes, at)
  if (crc !== crc32(bytes, at + 4, at + FRAME_HEADER_BYTES)) return false
  into.headerCrc = crc
  into.position = readU64(bytes, at + 8)
  into.durableBefore = readU64(bytes, at + 16)
  into.payloadBytes = readU32(bytes, at + 24)
  into.type = bytes[at + 28]!
  into.flags = bytes[at + 29]!
  into.epoch = readU32(bytes, at + 32)
  into.previousHeaderCrc = readU32(bytes, at + 36)
  into.payloadCrc = readU32(bytes, at + 40)
  into.logId = readU32(bytes, at + 44)
  return into.payloadBytes <= FRAME_PAYLOAD_BYTES_MAX && into.durableBefore <= into.position
}

export function readU32(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
}

/** Exact up to 2^53; what lies above reads as a number no position ever has. */
export function readU64(bytes: Uint8Array, at: number): number {
  return readU32(bytes, at + 4) * 2 ** 32 + readU32(bytes, at)
}

export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value
  bytes[at + 1] = value >>> 8
  bytes[at + 2] = value >>> 16
  bytes[at + 3] = value >>> 24
}

/** @param value an integer, 0 to 2^53 - 1 */
export function writeU64(bytes: Uint8Array, at: number, value: number): void {
  writeU32(bytes, at, value)
  writeU32(bytes, at + 4, Math.floor(value / 2 ** 32))
}

/**
 * CRC-32 (ISO 3309, the one of zlib) of bytes [from, to). For headers: four bytes a step and no call out of JavaScript;
 * payloads take zlib's.
 *
 * Source: slicing-by-4, Kounavis and Berry, "A Systematic Approach to Building High Performance Software-Based CRC
 * Generators", 2005. Example: the nine bytes of '123456789' give 0xcbf43926.
 */
export function crc32(bytes: Uint8Array, from: number, to: number): number {
  let crc = -1
  let at = from
  for (; at + 4 <= to; at += 4) {
    crc ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    crc =
      TABLES[768 + (crc & 0xff)]! ^
      TABLES[512 + ((crc >>> 8) & 0xff)]! ^
      TABLES[256 + ((crc >>> 16) & 0xff)]! ^
      TABLES[crc >>> 24]!
  }
  for (; at < to; at += 1) crc = TABLES[(crc ^ bytes[at]!) & 0xff]! ^ (crc >>> 8)
  return ~crc >>> 0
}

/** Four tables of 256: entry n of table k is the CRC of byte n followed by k zero bytes. */
const TABLES = crcTables()

function crcTables(): Int32Array {
  const tables = new Int32Array(4 * 256)
  for (let n = 0; n < 256; n += 1) {
    let crc = n
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
    tables[n] = crc
  }
  for (let n = 256; n < 4 * 256; n += 1) {
    const shorter = tables[n - 256]!
    tables[n] = (shorter >>> 8) ^ tables[shorter & 0xff]!
  }
  return tables
}
