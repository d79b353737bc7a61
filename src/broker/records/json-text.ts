/**
 * JSON written as bytes into memory that grows: records go out as they stand in their frames, without becoming strings or objects.
 * The writing methods do not check for room: call `reserve` before them.
 */
import { writeU64 } from '../../../native-free-codecs/frame.ts'

const BYTES_FIRST = 4096
/** Up to this length a loop is faster than two calls out of JavaScript. */
const BY_HAND_MAX = 32
/** A byte of a string becomes six at most: \u00xx. */
export const ESCAPED_BYTES_MAX = 6
/** Digits of 2^53. */
export const NUMBER_BYTES_MAX = 16

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20
const ZERO = 0x30
const LOWER_U = 0x75
const HEX_DIGITS = Buffer.from('0123456789abcdef')
const LOW_DIGITS = 1e8

/** For each control character its short escape; 0: it has none. */
const SHORT_ESCAPES = new Uint8Array(SPACE)
for (const [code, letter] of [
  [0x08, 'b'],
  [0x09, 't'],
  [0x0a, 'n'],
  [0x0c, 'f'],
  [0x0d, 'r'],
] as const) {
  SHORT_ESCAPES[code] = letter.charCodeAt(0)
}

export class JsonText {
  bytes: Buffer
  /** Bytes written. */
  length = 0

  constructor(capacity = BYTES_FIRST) {
    this.bytes = Buffer.allocUnsafeSlow(capacity)
  }

  /** Makes room for so many bytes more. */
  reserve(bytes: number): void {
    const wanted = this.length + bytes
    if (wanted <= this.bytes.byteLength) return
    const larger = Buffer.allocUnsafeSlow(Math.max(wanted, 2 * this.bytes.byteLength))
    this.bytes.copy(larger, 0, 0, this.length)
    this.bytes = larger
  }

  byte(value: number): void {
    this.bytes[this.length++] = value
  }

  /** Little-endian, for values that are not JSON. */
  u64(value: number): void {
    writeU64(this.bytes, this.length, value)
    this.length += 8
  }

  /** Writes text that is JSON already, in ASCII. */
  ascii(text: Uint8Array): void {
    const { bytes } = this
    let at = this.length
    for (let i = 0; i < text.length; i++) bytes[at++] = text[i]!
    this.length = at
  }

  /** Copies bytes as they are. */
  raw(from: Uint8Array, begin: number, end: number): void {
    this.bytes.set(from.subarray(begin, end), this.length)
    this.length += end - begin
  }

  /** @param value an integer, 0 to 2^53 - 1 */
  number(value: number): void {
    if (value < LOW_DIGITS) return this.#digits(value, 1)
    const high = Math.floor(value / LOW_DIGITS)
    this.number(high)
    this.#digits(value - high * LOW_DIGITS, 8)
  }

  /** UTF-8 as a JSON string, exactly as JSON.stringify writes it. */
  string(from: Uint8Array, begin: number, end: number): void {
    const { bytes } = this
    let at = this.length
    bytes[at++] = QUOTE
    for (let i = begin; i < end; i++) {
      const byte = from[i]!
      if (byte >= SPACE && byte !== QUOTE && byte !== BACKSLASH) {
        bytes[at++] = byte
        continue
      }
      bytes[at++] = BACKSLASH
      const short = byte < SPACE ? SHORT_ESCAPES[byte]! : byte
      if (short !== 0) {
        bytes[at++] = short
        continue
      }
      bytes[at++] = LOWER_U
      bytes[at++] = ZERO
      bytes[at++] = ZERO
      bytes[at++] = HEX_DIGITS[byte >> 4]!
      bytes[at++] = HEX_DIGITS[byte & 15]!
    }
    bytes[at++] = QUOTE
    this.length = at
  }

  /** Bytes as a JSON string of hexadecimal digits. */
  hex(from: Buffer, begin: number, end: number): void {
    const { bytes } = this
    this.byte(QUOTE)
    if (end - begin > BY_HAND_MAX) {
      this.length += bytes.write(from.toString('hex', begin, end), this.length, 'latin1')
    } else {
      for (let i = begin; i < end; i++) {
        this.byte(HEX_DIGITS[from[i]! >> 4]!)
        this.byte(HEX_DIGITS[from[i]! & 15]!)
      }
    }
    this.byte(QUOTE)
  }

  /** @param value below 10^8, padded with zeros to `least` digits */
  #digits(value: number, least: number): void {
    const { bytes } = this
    let count = least
    for (let bound = 10 ** least; value >= bound; bound *= 10) count += 1
    let rest = value | 0
    for (let at = this.length + count - 1; at >= this.length; at--) {
      const tenth = (rest / 10) | 0
      bytes[at] = ZERO + rest - 10 * tenth
      rest = tenth
    }
    this.length += count
  }
}
