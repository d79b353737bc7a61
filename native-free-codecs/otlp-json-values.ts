/**
 * The scalar values of OTLP JSON, validated in place. The mapping is that of proto3 with the exceptions OTLP makes: 64-bit
 * integers are decimal strings or numbers, ids are hexadecimal, enums are integers, and null stands for an absent field.
 *
 * Every function takes the position of the value's first byte and returns the position after it.
 */
import {
  decodeString,
  escaped,
  HEX_VALUE,
  isDigit,
  malformed,
  skipBoolean,
  skipNull,
  skipNumber,
  skipString,
  text,
} from './json-text.ts'

const QUOTE = 0x22
const MINUS = 0x2d

export const isNull = (at: number): boolean => text[at] === 0x6e

export function skipStringField(at: number): number {
  if (text[at] === QUOTE) return skipString(at + 1)
  return skipNullField(at, 'a JSON string expected')
}

export function skipBooleanField(at: number): number {
  if (text[at] === 0x74 || text[at] === 0x66) return skipBoolean(at)
  return skipNullField(at, 'true or false expected')
}

function skipNullField(at: number, problem: string): number {
  if (!isNull(at)) malformed(problem, at)
  return skipNull(at)
}

/** A number, or one of the strings that stand for what JSON numbers cannot say, or a number in quotes. */
export function skipDoubleField(at: number): number {
  if (text[at] === MINUS || isDigit(text[at]!)) return skipNumber(at)
  if (text[at] !== QUOTE) return skipNullField(at, 'a JSON number expected')
  const stringEnd = skipString(at + 1)
  const value = decodeString(at + 1, stringEnd - 1, escaped)
  if (!/^(?:NaN|-?Infinity|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/.test(value))
    malformed('a JSON number expected', at)
  return stringEnd
}

/** Base64 with either alphabet, padded or not. */
export function skipBytesField(at: number): number {
  if (text[at] !== QUOTE) return skipNullField(at, 'a base64 string expected')
  const stringEnd = skipString(at + 1)
  const value = decodeString(at + 1, stringEnd - 1, escaped)
  const digits = value.replace(/={1,2}$/, '')
  const padded = digits.length < value.length
  if (!/^[\w+/-]*$/.test(digits) || digits.length % 4 === 1 || (padded && value.length % 4 !== 0)) {
    malformed('a base64 string expected', at)
  }
  return stringEnd
}

/** The value that skipUint64Field read last; 0 and 0 for null. */
export let uint64High = 0
export let uint64Low = 0

/** An unsigned 64-bit integer as a number or a decimal string. */
export function skipUint64Field(at: number): number {
  uint64High = 0
  uint64Low = 0
  if (isNull(at)) return skipNull(at)
  const quoted = text[at] === QUOTE
  const start = quoted ? at + 1 : at
  let digitsEnd = start
  while (isDigit(text[digitsEnd]!)) digitsEnd++
  const simple = digitsEnd > start && digitsEnd - start <= 19 && (text[start] !== 0x30 || digitsEnd === start + 1)
  if (simple && (quoted ? text[digitsEnd] === QUOTE : endsNumber(text[digitsEnd]!))) {
    setUint64(start, digitsEnd)
    return quoted ? digitsEnd + 1 : digitsEnd
  }
  const valueEnd = skipIntegerField(at, 0n, 0xffff_ffff_ffff_ffffn)
  uint64High = Number(integer >> 32n)
  uint64Low = Number(integer & 0xffff_ffffn)
  return valueEnd
}

/** At most 19 digits: 10 and 9 are exact in a double each, and so are the partial products. */
function setUint64(start: number, end: number): void {
  const split = Math.max(start, end - 9)
  let upper = 0
  let lower = 0
  for (let i = start; i < split; i++) upper = 10 * upper + text[i]! - 0x30
  for (let i = split; i < end; i++) lower = 10 * lower + text[i]! - 0x30
  const middle = (upper % 0x1_0000) * 1e9 + lower // below 2^47
  const high = Math.floor(upper / 0x1_0000) * 1e9 // below 2^48, counts 2^16
  const low = (high % 0x1_0000) * 0x1_0000 + middle // below 2^48
  uint64High = Math.floor(high / 0x1_0000) + Math.floor(low / 0x1_0000_0000)
  uint64Low = low >>> 0
}

const INT64_MAX = 2n ** 63n - 1n
const INT32_MAX = 2n ** 31n - 1n

export function skipInt64Field(at: number): number {
  return skipSmallInteger(at) || skipIntegerField(at, -INT64_MAX - 1n, INT64_MAX)
}

export function skipUint32Field(at: number): number {
  return skipSmallInteger(at) || skipIntegerField(at, 0n, 0xffff_ffffn)
}

/** OTLP JSON wants the number of an enum value, never its name. */
export function skipEnumField(at: number): number {
  if (text[at] === QUOTE) malformed('the number of an enum value expected', at)
  return skipSmallInteger(at) || skipIntegerField(at, -INT32_MAX - 1n, INT32_MAX)
}

/** Up to nine plain digits, in quotes or not, fit every integer type; 0 when the value is anything else. */
function skipSmallInteger(at: number): number {
  const quoted = text[at] === QUOTE
  const start = quoted ? at + 1 : at
  let digitsEnd = start
  while (isDigit(text[digitsEnd]!)) digitsEnd++
  if (digitsEnd === start || digitsEnd - start > 9) return 0
  if (text[start] === 0x30 && digitsEnd > start + 1) return 0
  if (quoted) return text[digitsEnd] === QUOTE ? digitsEnd + 1 : 0
  return endsNumber(text[digitsEnd]!) ? digitsEnd : 0
}

const endsNumber = (byte: number): boolean => byte !== 0x2e && (byte | 0x20) !== 0x65

/** The value that skipIntegerField read last. */
let integer = 0n

/** Any spelling of an integer that JSON has, fractions and exponents included as long as the value is whole. */
function skipIntegerField(at: number, min: bigint, max: bigint): number {
  integer = 0n
  if (isNull(at)) return skipNull(at)
  let valueEnd: number
  let spelling: string
  if (text[at] === QUOTE) {
    valueEnd = skipString(at + 1)
    spelling = decodeString(at + 1, valueEnd - 1, escaped)
  } else {
    if (text[at] !== MINUS && !isDigit(text[at]!)) malformed('an integer expected', at)
    valueEnd = skipNumber(at)
    spelling = decodeString(at, valueEnd, false)
  }
  const value = exactInteger(spelling)
  if (value === null || value < min || value > max) malformed('an integer of the right size expected', at)
  else integer = value
  return valueEnd
}

/** The whole number that a JSON number spells, null when it is none or has more than 20 digits. */
function exactInteger(spelling: string): bigint | null {
  const parts = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(spelling)
  if (parts === null) return null
  const [, sign, whole = '', fraction = '', exponent = '0'] = parts
  const digits = (whole + fraction).replace(/^0+/, '')
  if (digits === '') return 0n
  let significantEnd = digits.length
  while (digits[significantEnd - 1] === '0') significantEnd-- // a pattern would look at each run of zeros once for each of its zeros
  const significant = digits.slice(0, significantEnd)
  const zeros = digits.length - significant.length - fraction.length + Number(exponent)
  if (zeros < 0 || significant.length + zeros > 20) return null
  return BigInt(`${sign}${significant}${'0'.repeat(zeros)}`)
}

/**
 * A hexadecimal id, in either case, of wordCount 32-bit words, into into[to …]: zeros unless it is one of exactly that length.
 * Any other string, and null, is read and not an error.
 */
export function readIdField(at: number, wordCount: number, into: Uint32Array, to: number): number {
  let digitAt = at + 1
  let invalid = text[at] === QUOTE ? 0 : -1
  for (let i = 0; i < wordCount && invalid >= 0; i++) {
    let word = 0
    for (const wordEnd = digitAt + 8; digitAt < wordEnd; digitAt++) {
      const digit = HEX_VALUE[text[digitAt]!]!
      invalid |= digit
      word = (word << 4) | digit
    }
    into[to + i] = word
  }
  if (invalid >= 0 && text[digitAt] === QUOTE) return digitAt + 1
  into.fill(0, to, to + wordCount)
  const idEnd = skipStringField(at)
  if (escaped && text[at] === QUOTE) {
    const id = decodeString(at + 1, idEnd - 1, true)
    if (id.length === 8 * wordCount && /^[0-9a-fA-F]*$/.test(id)) {
      for (let i = 0; i < wordCount; i++) into[to + i] = Number.parseInt(id.slice(8 * i, 8 * i + 8), 16)
    }
  }
  return idEnd
}
