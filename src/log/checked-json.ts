/**
 * A small JSON document with a checksum over the bytes of its content: `{"crc32":"01234567","content":…}`.
 */
import { crc32 } from 'node:zlib'

const HEAD = '{"crc32":"'
const MIDDLE = '","content":'
const CRC_DIGITS = 8
const TAIL = '}\n'

export function encodeCheckedJson(content: unknown): Buffer {
  const text = JSON.stringify(content)
  return Buffer.from(`${HEAD}${checksumOf(Buffer.from(text))}${MIDDLE}${text}${TAIL}`)
}

/** The content, or null when not every bit is as it was written. */
export function decodeCheckedJson(bytes: Buffer): { readonly content: unknown } | null {
  const contentAt = HEAD.length + CRC_DIGITS + MIDDLE.length
  const content = bytes.subarray(contentAt, bytes.byteLength - TAIL.length)
  const frame = `${HEAD}${checksumOf(content)}${MIDDLE}`
  const isWhole =
    bytes.byteLength >= contentAt + TAIL.length &&
    bytes.subarray(0, contentAt).equals(Buffer.from(frame)) &&
    bytes.subarray(-TAIL.length).equals(Buffer.from(TAIL))
  return isWhole ? { content: JSON.parse(content.toString('utf8')) as unknown } : null
}

function checksumOf(bytes: Buffer): string {
  return crc32(bytes).toString(16).padStart(CRC_DIGITS, '0')
}
