/**
 * What the index knows of an object: enough to list it, to judge conditions on it, and to find the rest. Integers are little-endian.
 *
 *   offset  bytes  field           meaning
 *        0      6  position        u48, of the commit frame
 *        6      6  size            u48, bytes of the body
 *       12      6  lastModifiedMs  u48, Unix epoch ms
 *       18      6  commitSequence  u48
 *       24     16  etag            MD5, or the bytes that stand for it
 *       40      2  parts           u16, how many it has; 0: it was no multipart upload
 *       42      2  flags           u16, see below
 */
import assert from 'node:assert/strict'

export interface ObjectValue {
  readonly position: number
  readonly size: number
  readonly lastModifiedMs: number
  readonly commitSequence: number
  /** 32 lowercase hex digits; what clients see has `-<parts>` behind it when there are parts. */
  readonly etag: string
  readonly parts: number
  readonly flags: number
}

export const VALUE_BYTES = 44

// Flags. The first five algorithms are bits of their own; the further ones share a field, as there is no room for a bit each. Objects have one
// checksum, so that is enough.
export const FLAG_TAGS = 1 << 0
export const FLAG_CRC32 = 1 << 1
export const FLAG_CRC32C = 1 << 2
export const FLAG_CRC64NVME = 1 << 3
export const FLAG_SHA1 = 1 << 4
export const FLAG_SHA256 = 1 << 5
/** The checksum is a composite of the parts' checksums. */
export const FLAG_COMPOSITE = 1 << 6
export const FLAG_ENCRYPTED_S3 = 1 << 7
export const FLAG_ENCRYPTED_KMS = 1 << 8
export const FLAG_ENCRYPTED_CUSTOMER = 1 << 9
/** Algorithm of the checksum, if it is one of the further ones; 0: it is none of them. */
export const FURTHER_ALGORITHM = { shift: 10, bits: 7 } as const
/** 0: STANDARD, which is what older versions wrote. */
export const STORAGE_CLASS = { shift: 13, bits: 7 } as const

const ETAG_BYTES = 16

/** @throws RangeError when a number does not fit its field: nothing may be kept that reads back as something else */
export function writeValue(value: ObjectValue, bytes: Buffer, at: number): void {
  bytes.writeUIntLE(value.position, at, 6)
  bytes.writeUIntLE(value.size, at + 6, 6)
  bytes.writeUIntLE(value.lastModifiedMs, at + 12, 6)
  bytes.writeUIntLE(value.commitSequence, at + 18, 6)
  assert(bytes.write(value.etag, at + 24, ETAG_BYTES, 'hex') === ETAG_BYTES, 'an etag has 32 hex digits')
  bytes.writeUInt16LE(value.parts, at + 40)
  bytes.writeUInt16LE(value.flags, at + 42)
}

export function readValue(bytes: Buffer, at: number): ObjectValue {
  return {
    position: bytes.readUIntLE(at, 6),
    size: bytes.readUIntLE(at + 6, 6),
    lastModifiedMs: bytes.readUIntLE(at + 12, 6),
    commitSequence: bytes.readUIntLE(at + 18, 6),
    etag: bytes.toString('hex', at + 24, at + 24 + ETAG_BYTES),
    parts: bytes.readUInt16LE(at + 40),
    flags: bytes.readUInt16LE(at + 42),
  }
}
