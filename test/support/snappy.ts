/** Compresses with Snappy for tests: repeats of one byte are copies, all else literals. */
import { crc32c } from '../../native-free-codecs/crc32c.ts'

const LITERAL_BYTES_MAX = 65_536
const CHUNK_BYTES_MAX = 65_536
const SHORTEST_RUN = 8

export function snappyBlock(bytes: Uint8Array): Buffer {
  const parts: Uint8Array[] = [varint(bytes.byteLength)]
  const literal = (from: number, to: number): void => {
    for (let at = from; at < to; at += LITERAL_BYTES_MAX) {
      const piece = bytes.subarray(at, Math.min(to, at + LITERAL_BYTES_MAX))
      parts.push(Buffer.from([61 << 2, ...littleEndian(piece.byteLength - 1, 2)]), piece)
    }
  }
  let from = 0
  for (let at = 1; at < bytes.byteLength;) {
    let end = at
    while (end < bytes.byteLength && bytes[end] === bytes[at - 1]) end++
    if (end - at < SHORTEST_RUN) {
      at = end + 1
      continue
    }
    literal(from, at)
    for (; at < end; at += Math.min(64, end - at))
      parts.push(Buffer.from([2 | ((Math.min(64, end - at) - 1) << 2), 1, 0]))
    from = end
    at = end + 1
  }
  literal(from, bytes.byteLength)
  return Buffer.concat(parts)
}

export function snappyStream(bytes: Uint8Array): Buffer {
  const chunks: Buffer[] = [SNAPPY_IDENTIFIER]
  for (let at = 0; at < bytes.byteLength; at += CHUNK_BYTES_MAX) {
    const text = bytes.subarray(at, at + CHUNK_BYTES_MAX)
    chunks.push(snappyChunk(0, snappyBlock(text), text))
  }
  return Buffer.concat(chunks)
}

export const SNAPPY_IDENTIFIER = Buffer.from('\u00ff\u0006\0\0sNaPpY', 'latin1')

/** @param text whose checksum precedes the content; null: no checksum */
export function snappyChunk(type: number, content: Uint8Array, text: Uint8Array | null): Buffer {
  const crc = text === null ? 0 : crc32c(text)
  const masked = (((crc >>> 15) | (crc << 17)) + 0xa282_ead8) >>> 0
  const checksum = text === null ? [] : littleEndian(masked, 4)
  const length = checksum.length + content.byteLength
  return Buffer.concat([Buffer.from([type, ...littleEndian(length, 3), ...checksum]), content])
}

export function varint(value: number): Buffer {
  const bytes: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    bytes.push(rest > 127 ? (rest % 128) | 128 : rest)
    if (rest <= 127) return Buffer.from(bytes)
  }
}

export const littleEndian = (value: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => Math.floor(value / 256 ** i) % 256)
