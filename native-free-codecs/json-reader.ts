/**
 * JSON (RFC 8259) of an untrusted sender, read in slices and within bounds, so that no body holds its thread for long.
 *
 * R1  `step` reads about as many bytes as it is told and keeps its place; each value counts as VALUE_COST bytes, as it costs memory and time
 * R2  what exceeds a bound ends the reading there: nesting, members of one object, values of the whole text, length of a string or number.
 *     A name that an object has twice ends it too
 * R3  it reads what JSON.parse reads, with the same result, except that
 *       - a string for which `longStringOf` names an encoding is a LongString from LONG_STRING_BYTES on: a view, never a JavaScript string
 *       - a shorter string with a lone surrogate is LONE_SURROGATE: every rule for text refuses it, whatever stands around it
 * R4  it writes into the bytes it reads: a string with escapes is decoded where it stands, always to fewer bytes
 */
import { isUtf8 } from 'node:buffer'

export interface JsonBounds {
  readonly depth: number
  /** Members of one object. */
  readonly members: number
  /** Values in the whole text. */
  readonly values: number
  /** UTF-8 of a string that is no LongString. */
  readonly stringBytes: number
}

/** How a string encodes the bytes that it stands for. */
type StringEncoding = 'utf8' | 'hex'

/** Says whether the string under `name`, in the object that stands under `owner`, may become a LongString. */
export type LongStringOf = (name: string, owner: string) => StringEncoding | null

/** The bytes that a string stands for, in the memory of the text it was read from. */
export class LongString {
  readonly bytes: Uint8Array
  readonly encoding: StringEncoding
  /** False: the text has a lone surrogate, or the digits are no even count of hex digits. */
  readonly isValid: boolean

  constructor(bytes: Uint8Array, encoding: StringEncoding, isValid: boolean) {
    this.bytes = bytes
    this.encoding = encoding
    this.isValid = isValid
  }
}

/** The text is JSON and exceeds a bound, or has a name twice; the message says which. */
export class JsonBoundError extends Error {}

export const LONG_STRING_BYTES = 1024
/** R1 */
const VALUE_COST = 64
const NUMBER_BYTES_MAX = 1024
const LONE_SURROGATE = '\ud800'
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LOW_BITS = 0x01010101
const HIGH_BITS = 0x80808080 | 0
const QUOTES = QUOTE * LOW_BITS
const BACKSLASHES = BACKSLASH * LOW_BITS
const SPACES = 0x20 * LOW_BITS

interface Container {
  /** Null: an object. */
  readonly items: unknown[] | null
  readonly members: Record<string, unknown>
  /** Name under which it stands; that of its array for an item. */
  readonly name: string
  count: number
  /** Name of the member that is being read. */
  memberName: string
}

const NO_MEMBERS: Record<string, unknown> = {}

/** What the next byte belongs to. */
type Place = 'value' | 'first item' | 'name' | 'first name' | 'colon' | 'after' | 'string' | 'digits' | 'end'

export class JsonReader {
  readonly #bytes: Buffer
  readonly #view: DataView
  readonly #bounds: JsonBounds
  readonly #longStringOf: LongStringOf
  readonly #open: Container[] = []
  #place: Place = 'value'
  #at = 0
  /** The bytes before it are known to be UTF-8. */
  #checked = 0
  #budget = 0
  #values = 0
  #root: unknown

  // The string that is being read.
  #isName = false
  #stringAt = 0
  #writeAt = 0
  #hasLoneSurrogate = false
  #encoding: StringEncoding | null = null
  #digitsAt = 0

  /** @param bytes owned by the reader, which writes into them (R4) */
  constructor(bytes: Buffer, bounds: JsonBounds, longStringOf: LongStringOf) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#bounds = bounds
    this.#longStringOf = longStringOf
  }

  /** Position of the next byte to read. */
  get at(): number {
    return this.#at
  }

  /** The value of the text, once it was read to its end. */
  get value(): unknown {
    return this.#root
  }

  /**
   * R1.
   *
   * @returns whether the text was read to its end
   * @throws SyntaxError when it is no JSON in UTF-8, JsonBoundError (R2)
   */
  step(budgetBytes: number): boolean {
    this.#budget = budgetBytes
    if (this.#at >= this.#checked) this.#checkUtf8(budgetBytes)
    while (this.#budget > 0) {
      const from = this.#at
      if (this.#place === 'string') this.#readString()
      else if (this.#place === 'digits') this.#readDigits()
      else if (!this.#readToken()) return this.#finish()
      this.#budget -= this.#at - from
      if (this.#at >= this.#checked && this.#place !== 'digits') return this.#finish()
    }
    return false
  }

  /** Whether nothing is left to read. */
  #finish(): boolean {
    if (this.#at < this.#bytes.byteLength) return false
    if (this.#place !== 'end') malformed()
    return true
  }

  #checkUtf8(budgetBytes: number): void {
    const bytes = this.#bytes
    const from = this.#at // a token that began before the checked bytes ended is ASCII
    let end = Math.min(bytes.byteLength, from + budgetBytes)
    for (let i = 0; i < 3 && end < bytes.byteLength && (bytes[end]! & 0xc0) === 0x80; i++) end++
    if (!isUtf8(bytes.subarray(from, end))) malformed()
    this.#checked = end
  }

  /** One token with the white space before it; false when there is only white space. */
  #readToken(): boolean {
    const bytes = this.#bytes
    let at = this.#at
    while (at < this.#checked && isSpace(bytes[at]!)) at++
    this.#at = at
    if (at >= this.#checked) return false
    const byte = bytes[at]!
    switch (this.#place) {
      case 'colon':
        if (byte !== 0x3a) malformed()
        this.#at = at + 1
        this.#place = 'value'
        break
      case 'first name':
        if (byte === 0x7d) this.#close()
        else this.#beginName(byte)
        break
      case 'name':
        this.#beginName(byte)
        break
      case 'after':
        this.#readAfter(byte)
        break
      case 'first item':
        if (byte === 0x5d) this.#close()
        else this.#beginValue(byte)
        break
      case 'value':
        this.#beginValue(byte)
        break
      default: // behind the value
        malformed()
    }
    return true
  }

  #readAfter(byte: number): void {
    const isArray = this.#open.at(-1)!.items !== null
    if (byte === (isArray ? 0x5d : 0x7d)) return this.#close()
    if (byte !== 0x2c) malformed()
    this.#at += 1
    this.#place = isArray ? 'value' : 'name'
  }

  #beginName(byte: number): void {
    if (byte !== QUOTE) malformed()
    this.#beginString(true)
  }

  #beginValue(byte: number): void {
    this.#values += 1
    this.#budget -= VALUE_COST
    if (this.#values > this.#bounds.values) {
      throw new JsonBoundError(`the body must not have more than ${this.#bounds.values} values`)
    }
    if (byte === QUOTE) this.#beginString(false)
    else if (byte === 0x7b) this.#openContainer(null)
    else if (byte === 0x5b) this.#openContainer([])
    else if (byte === 0x74) this.#readWord('true', true)
    else if (byte === 0x66) this.#readWord('false', false)
    else if (byte === 0x6e) this.#readWord('null', null)
    else this.#readNumber()
  }

  #openContainer(items: unknown[] | null): void {
    const { depth } = this.#bounds
    if (this.#open.length === depth) throw new JsonBoundError(`the body must not be nested over ${depth} deep`)
    const owner = this.#open.at(-1)
    const name = owner === undefined ? '' : owner.items ? owner.name : owner.memberName
    this.#open.push({ items, members: items ? NO_MEMBERS : {}, name, count: 0, memberName: '' })
    this.#at += 1
    this.#place = items ? 'first item' : 'first name'
  }

  #close(): void {
    const { items, members } = this.#open.pop()!
    this.#at += 1
    this.#take(items ?? members)
  }

  #readWord(word: string, value: unknown): void {
    const end = this.#at + word.length
    if (this.#bytes.toString('latin1', this.#at, end) !== word) malformed()
    this.#at = end
    this.#take(value)
  }

  #readNumber(): void {
    const bytes = this.#bytes
    let end = this.#at
    while (isOfNumber(bytes[end]!)) end++
    if (end - this.#at > NUMBER_BYTES_MAX) {
      throw new JsonBoundError(`a number in the body must not exceed ${NUMBER_BYTES_MAX} bytes`)
    }
    const text = bytes.toString('latin1', this.#at, end)
    if (!NUMBER.test(text)) malformed()
    this.#at = end
    this.#take(Number(text))
  }

  /** Puts a complete value into its container. */
  #take(value: unknown): void {
    const owner = this.#open.at(-1)
    if (owner === undefined) {
      this.#root = value
      this.#place = 'end'
      return
    }
    this.#place = 'after'
    if (owner.items) owner.items.push(value)
    else if (owner.memberName === '__proto__') {
      Object.defineProperty(owner.members, '__proto__', { value, enumerable: true, configurable: true, writable: true })
    } else owner.members[owner.memberName] = value
  }

  #takeName(name: string): void {
    const owner = this.#open.at(-1)!
    owner.count += 1
    if (owner.count > this.#bounds.members) {
      throw new JsonBoundError(`an object in the body must not have more than ${this.#bounds.members} members`)
    }
    if (Object.hasOwn(owner.members, name)) throw new JsonBoundError(TWICE)
    owner.memberName = name
    this.#place = 'colon'
  }

  // Strings

  #beginString(isName: boolean): void {
    const owner = this.#open.at(-1)
    this.#isName = isName
    this.#hasLoneSurrogate = false
    this.#encoding =
      isName || owner === undefined || owner.items ? null : this.#longStringOf(owner.memberName, owner.name)
    this.#at += 1
    this.#stringAt = this.#at
    this.#writeAt = this.#at
    this.#place = 'string'
  }

  /** R4. Ends at the closing quote, or where the checked bytes do. */
  #readString(): void {
    const bytes = this.#bytes
    for (;;) {
      const stop = stringStop(bytes, this.#view, this.#at, this.#checked)
      this.#moveRun(this.#at, stop)
      this.#at = stop
      if (this.#encoding === null && this.#writeAt - this.#stringAt > this.#bounds.stringBytes) {
        throw new JsonBoundError(`a string in the body must not exceed ${this.#bounds.stringBytes} bytes`)
      }
      if (stop >= this.#checked) return
      const byte = bytes[stop]!
      if (byte === QUOTE) break
      if (byte !== BACKSLASH) malformed()
      this.#at = this.#readEscape(stop + 1)
    }
    this.#at += 1
    if (this.#encoding === 'hex' && this.#writeAt - this.#stringAt >= LONG_STRING_BYTES) {
      this.#digitsAt = this.#stringAt
      this.#writeAt -= this.#stringAt // from here on the count of digits
      this.#place = 'digits'
    } else this.#endString()
  }

  #endString(): void {
    const bytes = this.#bytes
    const from = this.#stringAt
    const end = this.#writeAt
    if (this.#encoding === 'utf8' && end - from >= LONG_STRING_BYTES) {
      return this.#take(new LongString(bytes.subarray(from, end), 'utf8', !this.#hasLoneSurrogate))
    }
    const text = this.#hasLoneSurrogate ? LONE_SURROGATE : bytes.toString('utf8', from, end)
    if (this.#isName) this.#takeName(text)
    else this.#take(text)
  }

  /** Replaces hex digits by the bytes that they stand for, in the same place. */
  #readDigits(): void {
    const bytes = this.#bytes
    const from = this.#stringAt
    const pairs = this.#writeAt >>> 1
    const begin = this.#digitsAt - from
    const end = Math.min(pairs, begin + this.#budget)
    let isValid = this.#writeAt % 2 === 0
    for (let i = begin; i < end && isValid; i++) {
      const byte = (HEX[bytes[from + 2 * i]!]! << 4) | HEX[bytes[from + 2 * i + 1]!]!
      isValid = byte >= 0
      bytes[from + i] = byte
    }
    this.#budget -= end - begin
    this.#digitsAt = from + end
    if (isValid && end < pairs) return
    this.#take(new LongString(bytes.subarray(from, from + pairs), 'hex', isValid))
  }

  #moveRun(from: number, end: number): void {
    const bytes = this.#bytes
    const to = this.#writeAt
    const length = end - from
    if (to !== from) {
      if (length > 32) bytes.copyWithin(to, from, end)
      else for (let i = 0; i < length; i++) bytes[to + i] = bytes[from + i]!
    }
    this.#writeAt = to + length
  }

  /** @param at behind the backslash @returns the position behind the escape */
  #readEscape(at: number): number {
    const bytes = this.#bytes
    const byte = bytes[at]!
    if (byte !== 0x75) {
      const plain = ESCAPES.get(byte)
      if (plain === undefined) return malformed()
      bytes[this.#writeAt++] = plain
      return at + 1
    }
    const unit = this.#codeUnit(at + 1)
    if (unit < 0) malformed()
    let code = unit
    let end = at + 5
    if (unit >= 0xd800 && unit < 0xe000) {
      const low = bytes[end] === BACKSLASH && bytes[end + 1] === 0x75 ? this.#codeUnit(end + 2) : -1
      if (unit < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
        end += 6
      } else {
        this.#hasLoneSurrogate = true
        code = 0xfffd
      }
    }
    this.#writeCode(code)
    return end
  }

  /** The code unit that four hex digits name; negative when they are no hex digits. */
  #codeUnit(at: number): number {
    const bytes = this.#bytes
    if (at + 4 > bytes.byteLength) return -1
    return (HEX[bytes[at]!]! << 12) | (HEX[bytes[at + 1]!]! << 8) | (HEX[bytes[at + 2]!]! << 4) | HEX[bytes[at + 3]!]!
  }

  #writeCode(code: number): void {
    const bytes = this.#bytes
    let at = this.#writeAt
    if (code < 0x80) bytes[at++] = code
    else {
      if (code < 0x800) bytes[at++] = 0xc0 | (code >>> 6)
      else {
        if (code < 0x10000) bytes[at++] = 0xe0 | (code >>> 12)
        else {
          bytes[at++] = 0xf0 | (code >>> 18)
          bytes[at++] = 0x80 | ((code >>> 12) & 0x3f)
        }
        bytes[at++] = 0x80 | ((code >>> 6) & 0x3f)
      }
      bytes[at++] = 0x80 | (code & 0x3f)
    }
    this.#writeAt = at
  }
}

/**
 * Position of the next quote, backslash or control character, or `end`. Four bytes at a time: each subtraction sets the high bit of a byte that
 * is below a space, a quote, a backslash, unless that byte has a high bit itself. It borrows from the byte above only there, so the lowest
 * hit is always a true one.
 *
 * @param view of the same bytes
 */
export function stringStop(bytes: Uint8Array, view: DataView, at: number, end: number): number {
  for (; at + 4 <= end; at += 4) {
    const word = view.getInt32(at, true)
    const hits =
      ((word - SPACES) | ((word ^ QUOTES) - LOW_BITS) | ((word ^ BACKSLASHES) - LOW_BITS)) & ~word & HIGH_BITS
    if (hits !== 0) return at + ((31 - Math.clz32(hits & -hits)) >>> 3)
  }
  for (; at < end; at++) {
    const byte = bytes[at]!
    if (byte === QUOTE || byte === BACKSLASH || byte < 0x20) return at
  }
  return at
}

const TWICE = 'an object in the body has a name twice'

const ESCAPES: ReadonlyMap<number, number> = new Map(
  Array.from('"\\/bfnrt', (letter, i) => [letter.charCodeAt(0), '"\\/\b\f\n\r\t'.charCodeAt(i)]),
)

/** Value of an ASCII hexadecimal digit of either case, else -1. */
const HEX = Int8Array.from({ length: 256 }, (_, byte) =>
  '0123456789abcdef'.indexOf(String.fromCharCode(byte).toLowerCase()),
)

const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

const isOfNumber = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x2e || byte === 0x2b || (byte | 0x20) === 0x65

function malformed(): never {
  throw new SyntaxError('the text is no JSON in UTF-8')
}

/**
 * The same bounds for a short text that JSON.parse has read: the nesting, and that no object has a name twice. Colons of the text are counted
 * first: each member has one, so as many members as colons mean that JSON.parse dropped none.
 *
 * @throws JsonBoundError
 */
export function checkParsed(text: string, value: unknown, depthMax: number): void {
  const members = membersOf(value, depthMax)
  let colons = 0
  for (let at = text.indexOf(':'); at >= 0; at = text.indexOf(':', at + 1)) colons += 1
  if (colons !== members && namesIn(text) !== members) throw new JsonBoundError(TWICE)
}

function membersOf(value: unknown, depthLeft: number): number {
  if (typeof value !== 'object' || value === null) return 0
  if (depthLeft === 0) throw new JsonBoundError('the body is nested too deep')
  let members = 0
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object') members += membersOf(item, depthLeft - 1)
    return members
  }
  const object = value as Record<string, unknown> // neither null nor an array
  for (const name in object) {
    const member = object[name]
    members += 1
    if (typeof member === 'object') members += membersOf(member, depthLeft - 1)
  }
  return members
}

/** Strings of valid JSON one after the other; a name is one with a colon behind it. */
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g

function namesIn(text: string): number {
  let names = 0
  for (const [, colon] of text.matchAll(STRING)) if (colon !== undefined) names++
  return names
}
