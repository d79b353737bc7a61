/**
 * Decompresses Snappy, in its block format and in its framing format, within bounds.
 *
 *   block      length of what it holds: varint u32 · elements
 *   element    tag u8: bits 1-0 kind
 *     0  literal  bits 7-2 length - 1; 60 to 63: it stands in the next 1 to 4 bytes · that many bytes
 *     1  copy     bits 4-2 length - 4 · bits 7-5 and the next byte: offset
 *     2  copy     bits 7-2 length - 1 · offset u16
 *     3  copy     bits 7-2 length - 1 · offset u32
 *   stream     chunks: type u8 · length u24 · that many bytes. The first is the identifier
 *     0x00  checksum u32 · block of at most 64 KiB      0x01  checksum u32 · at most 64 KiB as they are
 *     0xff  identifier      0x80 to 0xfe  skipped       others cannot be read
 *
 * Integers are little-endian. A checksum is the masked CRC-32C of what the chunk holds.
 *
 * Source: google/snappy, format_description.txt and framing_format.txt.
 */
import { crc32c } from './crc32c.ts'

/** Why there is no text: it is longer than was allowed, or the bytes are not Snappy. */
export type SnappyProblem = 'too large' | 'invalid'

const IDENTIFIER = Buffer.from('\u00ff\u0006\0\0sNaPpY', 'latin1')
const CHUNK_HEAD_BYTES = 4
const CHECKSUM_BYTES = 4
const CHUNK_TEXT_BYTES_MAX = 65_536
/** An element of 3 bytes copies 64 at most, so a block that claims to hold more for its length is invalid. */
const BYTES_PER_BYTE_MAX = 22
/** Shorter pieces are copied faster one byte after the other. */
const COPIED_AT_ONCE = 32

/** Either format: no block begins as a stream does, since its second element would copy what is not there. */
export function decompressSnappy(bytes: Uint8Array, bytesMax: number): Uint8Array | SnappyProblem {
  const isStream = IDENTIFIER.every((byte, at) => bytes[at] === byte)
  return isStream ? unframed(bytes, bytesMax) : block(bytes, bytesMax)
}

function unframed(bytes: Uint8Array, bytesMax: number): Uint8Array | SnappyProblem {
  const pieces: Uint8Array[] = []
  let length = 0
  for (let at = 0; at < bytes.byteLength;) {
    if (at + CHUNK_HEAD_BYTES > bytes.byteLength) return 'invalid'
    const type = bytes[at]!
    const start = at + CHUNK_HEAD_BYTES
    const end = start + unsigned(bytes, at + 1, 3)
    if (end > bytes.byteLength) return 'invalid'
    if (type <= 1) {
      const piece = chunk(bytes.subarray(start, end), type === 0, bytesMax - length)
      if (typeof piece === 'string') return piece
      pieces.push(piece)
      length += piece.byteLength
    } else if (type < 0x80) return 'invalid'
    else if (type === 0xff && !isIdentifier(bytes, at, end)) return 'invalid'
    at = end
  }
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length)
}

const isIdentifier = (bytes: Uint8Array, at: number, end: number): boolean =>
  end - at === IDENTIFIER.byteLength && IDENTIFIER.every((byte, i) => bytes[at + i] === byte)

function chunk(bytes: Uint8Array, isCompressed: boolean, bytesMax: number): Uint8Array | SnappyProblem {
  if (bytes.byteLength < CHECKSUM_BYTES) return 'invalid'
  const content = bytes.subarray(CHECKSUM_BYTES)
  const text = isCompressed ? block(content, Math.min(bytesMax, CHUNK_TEXT_BYTES_MAX)) : content
  if (typeof text === 'string') return text === 'too large' && bytesMax >= CHUNK_TEXT_BYTES_MAX ? 'invalid' : text
  if (text.byteLength > CHUNK_TEXT_BYTES_MAX) return 'invalid'
  if (text.byteLength > bytesMax) return 'too large'
  return maskedChecksum(text) === unsigned(bytes, 0, 4) ? text : 'invalid'
}

function maskedChecksum(bytes: Uint8Array): number {
  const crc = crc32c(bytes)
  return (((crc >>> 15) | (crc << 17)) + 0xa282_ead8) >>> 0
}

function block(bytes: Uint8Array, bytesMax: number): Uint8Array | SnappyProblem {
  const { length, at: start } = lengthOf(bytes)
  if (start === 0) return 'invalid'
  if (length > bytesMax) return 'too large'
  if (length > BYTES_PER_BYTE_MAX * bytes.byteLength) return 'invalid'
  const text = Buffer.allocUnsafe(length)
  let held = 0
  for (let at = start; at < bytes.byteLength;) {
    const tag = bytes[at++]!
    const kind = tag & 3
    if (kind === 0) {
      const extra = Math.max(0, (tag >>> 2) - 59)
      if (at + extra > bytes.byteLength) return 'invalid'
      const count = (extra === 0 ? tag >>> 2 : unsigned(bytes, at, extra)) + 1
      at += extra
      if (at + count > bytes.byteLength || held + count > length) return 'invalid'
      if (count > COPIED_AT_ONCE) text.set(bytes.subarray(at, at + count), held)
      else for (let i = 0; i < count; i++) text[held + i] = bytes[at + i]!
      at += count
      held += count
      continue
    }
    const offsetBytes = kind === 3 ? 4 : kind
    if (at + offsetBytes > bytes.byteLength) return 'invalid'
    const count = kind === 1 ? ((tag >>> 2) & 7) + 4 : (tag >>> 2) + 1
    const offset = kind === 1 ? ((tag >>> 5) << 8) | bytes[at]! : unsigned(bytes, at, offsetBytes)
    at += offsetBytes
    if (offset === 0 || offset > held || held + count > length) return 'invalid'
    if (offset >= count && count > COPIED_AT_ONCE) text.copyWithin(held, held - offset, held - offset + count)
    else for (let i = 0; i < count; i++) text[held + i] = text[held + i - offset]!
    held += count
  }
  return held === length ? text : 'invalid'
}

/** `at` 0: there is none, or it is longer than 32 bits. */
function lengthOf(bytes: Uint8Array): { readonly length: number; readonly at: number } {
  let length = 0
  for (let at = 0; at < Math.min(5, bytes.byteLength); at++) {
    const byte = bytes[at]!
    length += (byte & 0x7f) * 2 ** (7 * at)
    if (byte < 0x80) return { length, at: length < 2 ** 32 ? at + 1 : 0 }
  }
  return { length: 0, at: 0 }
}

function unsigned(bytes: Uint8Array, at: number, count: number): number {
  let value = 0
  for (let i = count - 1; i >= 0; i--) value = value * 256 + bytes[at + i]!
  return value
}
