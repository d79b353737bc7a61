/**
 * JSON (RFC 8259) read in place: plain functions over UTF-8 bytes and a position, nothing allocated, nothing skipped unread.
 *
 *   text   |{"resourceLogs":[…]}0000…|   a copy of what is read, with zeros behind it
 *
 * - A zero byte is no part of any JSON text, so every loop ends at the zeros and none compares positions. There are enough of them for a look ahead
 *   of TEXT_PADDING_BYTES. The copy costs 2 % of a scan and saves more.
 * - Every function takes `at`, the first byte to read, and returns the position after what it read. The function that expects a token reads the white
 *   space before it; none reads white space after a value.
 * - The text is UTF-8 before the first token is read. So a byte above 127 is a character of a string wherever a string may have one, and a syntax
 *   error everywhere else.
 * - The functions accept exactly what JSON.parse accepts, down to the nesting limit.
 *
 * One text at a time and thread: loadText replaces the one before.
 */
import { isUtf8 } from 'node:buffer'
import { MalformedBatchError } from './otlp-batch.ts'

/**
 * Nesting of arrays and objects. Whatever the protobuf nesting limit lets in fits in here as OTLP JSON: a map level takes 3
 * messages there and 4 brackets here, so 100 messages become at most 8 + 4 · 32 brackets, and 8 + 3 · 48 for list levels.
 */
export const JSON_DEPTH_MAX = 160

const QUOTE = 0x22
const BACKSLASH = 0x5c

const TEXT_PADDING_BYTES = 64
const TEXT_GROWTH_BYTES = 256 * 1024

export let text = new Uint8Array(0)
export let textBytes = 0
/** The same bytes, for looking at four at any position. */
export let view = new DataView(text.buffer)
/** Where the text begins in the caller's bytes: added to a position in the text, it gives the one in those bytes. */
export let textOffset = 0

/** Copies [start, end) to be read from position 0 on. Throws unless it is UTF-8. */
export function loadText(bytes: Uint8Array, start: number, end: number): void {
  textOffset = start
  textBytes = end - start
  if (text.length < textBytes + TEXT_PADDING_BYTES) {
    text = new Uint8Array(Math.ceil((textBytes + TEXT_PADDING_BYTES) / TEXT_GROWTH_BYTES) * TEXT_GROWTH_BYTES)
    view = new DataView(text.buffer)
  }
  text.set(bytes.subarray(start, end))
  text.fill(0, textBytes, textBytes + TEXT_PADDING_BYTES)
  if (!isUtf8(text.subarray(0, textBytes))) malformed('JSON that is not UTF-8', 0)
}

/** Whether the string that skipString read last has an escape in it. */
export let escaped = false

export function malformed(problem: string, at: number): never {
  throw new MalformedBatchError(at >= textBytes ? 'JSON text that ends too early' : problem, textOffset + at)
}

export function checkDepth(depth: number, at: number): void {
  if (depth > JSON_DEPTH_MAX) malformed(`JSON nesting over ${JSON_DEPTH_MAX}`, at)
}

/** Position of the next byte that is not whitespace. */
export function skipSpace(at: number): number {
  for (;;) {
    const byte = text[at]!
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) return at
    at++
  }
}

const LOW_BITS = 0x01010101
const HIGH_BITS = 0x80808080 | 0
const QUOTES = QUOTE * LOW_BITS
const BACKSLASHES = BACKSLASH * LOW_BITS
const SPACES = 0x20 * LOW_BITS

/** The string whose first character is at `at`; sets escaped. Position after the closing quote. */
export function skipString(at: number): number {
  escaped = false
  for (;;) {
    at = findStop(at)
    const byte = text[at]!
    if (byte === QUOTE) return at + 1
    if (byte !== BACKSLASH) malformed('control character in a JSON string', at)
    escaped = true
    at = skipEscape(at + 1)
  }
}

/**
 * Position of the next byte that may not stand in a string as it is: a quote, a backslash, a control character. Four bytes at a
 * time: each subtraction makes the high bit of a byte where the byte is below a space, a quote, a backslash, unless the byte has
 * a high bit itself. It borrows from the byte above only there, so the lowest hit is always a true one.
 */
function findStop(at: number): number {
  for (;;) {
    const word = view.getInt32(at, true)
    const hits =
      ((word - SPACES) | ((word ^ QUOTES) - LOW_BITS) | ((word ^ BACKSLASHES) - LOW_BITS)) & ~word & HIGH_BITS
    if (hits !== 0) return at + ((31 - Math.clz32(hits & -hits)) >>> 3)
    at += 4
  }
}

function skipEscape(at: number): number {
  switch (text[at]) {
    case QUOTE:
    case BACKSLASH:
    case 0x2f: // solidus
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return at + 1
    case 0x75: // u
      for (let i = at + 1; i < at + 5; i++)
        if (HEX_VALUE[text[i]!]! < 0) malformed('bad \\u escape in a JSON string', i)
      return at + 5
    default:
      return malformed('bad escape in a JSON string', at)
  }
}

/** Value of an ASCII hexadecimal digit of either case, else -1. */
export const HEX_VALUE = Int8Array.from({ length: 256 }, (_, byte) => {
  const value = Number.parseInt(String.fromCharCode(byte), 16)
  return Number.isNaN(value) ? -1 : value
})

export const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39

/** The number whose first byte, a minus or a digit, is at `at`. */
export function skipNumber(at: number): number {
  if (text[at] === 0x2d) at++
  if (text[at] === 0x30) at++
  else at = skipDigits(at)
  if (text[at] === 0x2e) at = skipDigits(at + 1)
  if ((text[at]! | 0x20) === 0x65) {
    at++
    if (text[at] === 0x2b || text[at] === 0x2d) at++
    at = skipDigits(at)
  }
  return at
}

/** One digit or more. */
function skipDigits(at: number): number {
  if (!isDigit(text[at]!)) malformed('bad JSON number', at)
  do at++
  while (isDigit(text[at]!))
  return at
}

const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')
const NULL = Buffer.from('null')

export const skipNull = (at: number): number => skipWord(at, NULL)

/** `true` or `false`, or neither. */
export function skipBoolean(at: number): number {
  return skipWord(at, text[at] === 0x74 ? TRUE : FALSE)
}

function skipWord(at: number, word: Uint8Array): number {
  for (let i = 0; i < word.length; i++) if (text[at + i] !== word[i]) malformed('unexpected character in JSON', at + i)
  return at + word.length
}

/** Any value, its first byte at `at`; `depth` is the number of arrays and objects around it. */
export function skipValue(at: number, depth: number): number {
  switch (text[at]) {
    case QUOTE:
      return skipString(at + 1)
    case 0x7b:
      return skipObject(at, depth + 1)
    case 0x5b:
      return skipArray(at, depth + 1)
    case 0x74:
    case 0x66:
      return skipBoolean(at)
    case 0x6e:
      return skipNull(at)
    default:
      if (text[at] !== 0x2d && !isDigit(text[at]!)) malformed('unexpected character in JSON', at)
      return skipNumber(at)
  }
}

function skipObject(at: number, depth: number): number {
  checkDepth(depth, at)
  at = skipSpace(at + 1)
  if (text[at] === 0x7d) return at + 1
  for (;;) {
    if (text[at] !== QUOTE) malformed('a JSON key expected', at)
    at = skipSpace(skipString(at + 1))
    if (text[at] !== 0x3a) malformed('a colon expected in JSON', at)
    at = skipSpace(at + 1)
    at = skipSpace(skipValue(at, depth))
    if (text[at] === 0x7d) return at + 1
    if (text[at] !== 0x2c) malformed('a comma or closing brace expected in JSON', at)
    at = skipSpace(at + 1)
  }
}

function skipArray(at: number, depth: number): number {
  checkDepth(depth, at)
  at = skipSpace(at + 1)
  if (text[at] === 0x5d) return at + 1
  for (;;) {
    at = skipSpace(skipValue(at, depth))
    if (text[at] === 0x5d) return at + 1
    if (text[at] !== 0x2c) malformed('a comma or closing bracket expected in JSON', at)
    at = skipSpace(at + 1)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The characters of a string that was read before, its range given without the quotes. */
export function decodeString(start: number, end: number, hasEscape: boolean): string {
  const raw = utf8.decode(text.subarray(start, end))
  // A JSON string literal parses to a string.
  return hasEscape ? (JSON.parse(`"${raw}"`) as string) : raw
}
