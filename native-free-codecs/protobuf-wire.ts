/**
 * The protobuf wire format, validated in place: plain functions over a Uint8Array and two positions, nothing allocated.
 *
 *   message  field, field, …                      field  tag, content
 *   tag      varint: field number << 3 | wire type
 *   content  wire type 0: varint                  1: 8 bytes little-endian        5: 4 bytes little-endian
 *            2: length as varint, that many bytes 3: fields up to a tag of wire type 4 with the same field number (group)
 *
 * protobufjs accepts everything that is accepted here. This code is a little stricter: a varint of an unknown field has 10 bytes at most.
 *
 * W1  every function takes `at` (where to read) and `end` (of the enclosing message) and never reads at or beyond `end`,
 *     isAscii excepted, which may look at, but not decide on, the bytes of the words that a text begins and ends in.
 * W3  a field of known number with another wire type is an unknown field; unknown groups are skipped when they are balanced.
 */
import { isUtf8 } from 'node:buffer'
import { MalformedBatchError } from './otlp-batch.ts'

/** Nesting of messages and groups, the outermost message being 0: the default of the official parsers. */
export const PROTOBUF_DEPTH_MAX = 100

const TRUNCATED = 'truncated protobuf message'
const HIGH_BITS = 0x80808080 | 0

/** Where the content begins after `readTag`, `readLength` and `contentEnd`. */
export let cursor = 0

let words: Int32Array = new Int32Array(0)
let wordsOffset = 0

/** Prepares isAscii for these bytes: a view of the whole buffer as aligned words. */
export function useWordsOf(bytes: Uint8Array): void {
  words = new Int32Array(bytes.buffer, 0, bytes.buffer.byteLength >>> 2)
  wordsOffset = bytes.byteOffset
}

/** Gives the buffer back to the collector. */
export function dropWords(): void {
  words = new Int32Array(0)
}

export function malformed(problem: string, at: number): never {
  throw new MalformedBatchError(problem, at)
}

/** The tag at `at`, which is before `end`. Sets cursor. */
export function readTag(bytes: Uint8Array, at: number, end: number): number {
  const first = bytes[at]!
  if (first >= 128) return readLongTag(bytes, at, end)
  cursor = at + 1
  return first
}

function readLongTag(bytes: Uint8Array, at: number, end: number): number {
  let tag = bytes[at]! & 127
  for (let shift = 7; shift <= 28; shift += 7) {
    if (++at >= end) malformed(TRUNCATED, at)
    const byte = bytes[at]!
    if (shift === 28 && byte > 15) break
    tag |= (byte & 127) << shift
    if (byte < 128) {
      cursor = at + 1
      return tag >>> 0
    }
  }
  return malformed('protobuf tag over 32 bits', at)
}

/** A length whose first byte, at `at`, says that more follow. Sets cursor. */
function readLength(bytes: Uint8Array, at: number, end: number): number {
  let length = bytes[at]! & 127
  for (let shift = 7; shift <= 28; shift += 7) {
    if (++at >= end) malformed(TRUNCATED, at)
    const byte = bytes[at]!
    if (shift === 28 && byte > 7) break
    length |= (byte & 127) << shift
    if (byte < 128) {
      cursor = at + 1
      return length
    }
  }
  return malformed('protobuf length over 31 bits', at)
}

/** End of the length-delimited content whose length is at `at`. Sets cursor to its start. */
export function contentEnd(bytes: Uint8Array, at: number, end: number): number {
  if (at >= end) malformed(TRUNCATED, at)
  let length = bytes[at]!
  let start = at + 1
  if (length >= 128) {
    length = readLength(bytes, at, end)
    start = cursor
  }
  if (length > end - start) malformed('protobuf length beyond the enclosing message', at)
  cursor = start
  return start + length
}

/** Position after the varint at `at`. */
export function skipVarint(bytes: Uint8Array, at: number, end: number): number {
  const limit = at + 10
  for (; at < limit; at++) {
    if (at >= end) malformed(TRUNCATED, at)
    if (bytes[at]! < 128) return at + 1
  }
  return malformed('protobuf varint over 10 bytes', at)
}

/** Position after `byteCount` bytes of fixed-width content. */
export function skipFixed(at: number, end: number, byteCount: number): number {
  if (byteCount > end - at) malformed(TRUNCATED, at)
  return at + byteCount
}

/** Position after the string whose length is at `at`. Strings of proto3 are UTF-8. */
export function skipString(bytes: Uint8Array, at: number, end: number): number {
  const stringEnd = contentEnd(bytes, at, end)
  checkString(bytes, cursor, stringEnd)
  return stringEnd
}

/**
 * True when the bytes from `start` to before `end`, at least one, are surely ASCII. Four bytes at a time, those beside them in
 * the first and last word included: almost every string of telemetry is ASCII with ASCII around it.
 */
export function isAscii(start: number, end: number): boolean {
  const view = words
  const last = (wordsOffset + end - 1) >>> 2
  if (last >= view.length) return false
  let seen = 0
  for (let i = (wordsOffset + start) >>> 2; i <= last; i++) seen |= view[i]!
  return (seen & HIGH_BITS) === 0
}

function checkString(bytes: Uint8Array, start: number, end: number): void {
  if (start === end || isAscii(start, end)) return
  if (!isUtf8(bytes.subarray(start, end))) malformed('protobuf string that is not UTF-8', start)
}

/** Position after the content of an unknown field, at `at`; `depth` is that of the message it is in. */
export function skipField(bytes: Uint8Array, at: number, end: number, tag: number, depth: number): number {
  if (tag >>> 3 === 0) malformed('protobuf field number 0', at)
  switch (tag & 7) {
    case 0:
      return skipVarint(bytes, at, end)
    case 1:
      return skipFixed(at, end, 8)
    case 2:
      return contentEnd(bytes, at, end)
    case 3:
      return skipGroup(bytes, at, end, tag >>> 3, depth + 1)
    case 5:
      return skipFixed(at, end, 4)
    default:
      return malformed(`protobuf wire type ${tag & 7} where a field begins`, at)
  }
}

function skipGroup(bytes: Uint8Array, at: number, end: number, fieldNumber: number, depth: number): number {
  if (depth > PROTOBUF_DEPTH_MAX) malformed('protobuf nesting too deep', at)
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    if ((tag & 7) !== 4) at = skipField(bytes, at, end, tag, depth)
    else if (tag >>> 3 === fieldNumber) return at
    else malformed('protobuf group closed by another field number', at)
  }
  return malformed('protobuf group that is not closed', at)
}
