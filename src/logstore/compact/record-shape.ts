/**
 * A record cut into its shape and its values. The shape is everything but the values: which fields stand there in which order, and the names
 * of attributes. Records of one line of code have one shape.
 *
 *   shape    root u8, then of a protobuf record: fields, 0
 *   field    tag varint; of a message its fields, then 0; of a name a varint of its length and its bytes; of a value nothing
 *
 * The shape alone says where values stand, and so in which columns they are kept, by their path: see `columns.ts`.
 *
 * S1  a shape and its values give the record back byte for byte: what they cannot give back (numbers in more bytes than they need, groups,
 *     too much of anything) is a record without a shape, whose one value is the whole record
 */
import {
  BYTES,
  DOUBLE,
  FIELD_KINDS,
  FIXED32,
  FIXED64,
  KEY,
  LOG_RECORD,
  MESSAGE,
  RESOURCE,
  SCOPE,
  SPAN,
  TEXT,
  TIME,
  kindOfWireType,
} from './otlp-fields.ts'

/** Roots of shapes. */
export const ROOT_LOG = 1
export const ROOT_SPAN = 2
export const ROOT_OPAQUE = 3
export const ROOT_JSON = 4
/** Cut, and in no shape of a record. */
export const ROOT_RESOURCE = 5
export const ROOT_SCOPE = 6

const MESSAGES: Readonly<Record<number, number>> = {
  [ROOT_LOG]: LOG_RECORD,
  [ROOT_SPAN]: SPAN,
  [ROOT_RESOURCE]: RESOURCE,
  [ROOT_SCOPE]: SCOPE,
}

const DEPTH_MAX = 24
const SHAPE_BYTES_MAX = 8 * 1024
const VALUES_MAX = 1024

/** A record was cut in other pieces than a shape has. Thrown and caught here only. */
const NO_SHAPE = new Error('a record without a shape')

export class RecordCutter {
  readonly shape = Buffer.allocUnsafeSlow(SHAPE_BYTES_MAX + 16)
  shapeBytes = 0
  valueCount = 0
  /** By value: where it stands in the bytes; of a number its words. */
  readonly first = new Uint32Array(VALUES_MAX)
  readonly second = new Uint32Array(VALUES_MAX)
  /** By value: TEXT and the like of otlp-fields.ts. */
  readonly kinds = new Uint8Array(VALUES_MAX)
  /** It was not cut: its one value is the whole record. */
  isWhole = false
  #bytes: Uint8Array = this.shape
  #at = 0

  /** Fills the fields above. @param root ROOT_… of what the bytes are */
  cut(bytes: Uint8Array, start: number, end: number, root: number): void {
    this.isWhole = root === ROOT_JSON || !this.#cutFields(bytes, start, end, root)
    if (this.isWhole) this.cutWhole(start, end, root)
  }

  cutWhole(start: number, end: number, root: number): void {
    this.isWhole = true
    this.shape[0] = root === ROOT_JSON ? ROOT_JSON : ROOT_OPAQUE
    this.shapeBytes = 1
    this.valueCount = 0
    this.#putValue(start, end, root === ROOT_JSON ? TEXT : BYTES)
  }

  #cutFields(bytes: Uint8Array, start: number, end: number, root: number): boolean {
    this.#bytes = bytes
    this.#at = start
    this.shape[0] = root
    this.shapeBytes = 1
    this.valueCount = 0
    try {
      this.#message(MESSAGES[root]!, end, 0)
      return true
    } catch (error) {
      if (error === NO_SHAPE) return false
      throw error
    }
  }

  #message(message: number, end: number, depth: number): void {
    if (depth > DEPTH_MAX) throw NO_SHAPE
    const kinds = FIELD_KINDS[message]!
    const bytes = this.#bytes
    while (this.#at < end) {
      let tag = bytes[this.#at]!
      if (tag < 128) {
        this.#at++
        if (tag < 8) throw NO_SHAPE
      } else tag = this.#longTag(end)
      this.#putVarint(tag)
      const kind = (tag < 256 ? kinds[tag]! : 0) || kindOfWireType(tag & 7)
      if (kind === 0) throw NO_SHAPE
      if (kind >= MESSAGE) {
        const messageEnd = this.#lengthEnd(end)
        this.#message(kind - MESSAGE, messageEnd, depth + 1)
        continue
      }
      switch (kind) {
        case KEY: {
          const keyEnd = this.#lengthEnd(end)
          this.#putKey(this.#at, keyEnd)
          this.#at = keyEnd
          break
        }
        case TEXT:
        case BYTES: {
          const valueEnd = this.#lengthEnd(end)
          this.#putValue(this.#at, valueEnd, kind)
          this.#at = valueEnd
          break
        }
        case TIME:
        case DOUBLE:
        case FIXED64:
          this.#putValue(this.#word(end), this.#word(end), kind)
          break
        case FIXED32:
          this.#putValue(this.#word(end), 0, kind)
          break
        default:
          this.#number(end, kind)
      }
    }
    if (this.#at !== end) throw NO_SHAPE
    this.#putByte(0)
  }

  #longTag(end: number): number {
    let tag = 0
    for (let shift = 0; shift <= 21; shift += 7) {
      if (this.#at >= end) throw NO_SHAPE
      const byte = this.#bytes[this.#at++]!
      tag |= (byte & 127) << shift
      if (byte < 128) {
        if (byte === 0) throw NO_SHAPE // in more bytes than it needs
        return tag
      }
    }
    throw NO_SHAPE
  }

  /** Behind the content whose length stands here; moves to its begin. */
  #lengthEnd(end: number): number {
    let length = 0
    for (let shift = 0; shift <= 21; shift += 7) {
      if (this.#at >= end) throw NO_SHAPE
      const byte = this.#bytes[this.#at++]!
      length |= (byte & 127) << shift
      if (byte >= 128) continue
      if ((byte === 0 && shift > 0) || length > end - this.#at) throw NO_SHAPE
      return this.#at + length
    }
    throw NO_SHAPE
  }

  #word(end: number): number {
    const at = this.#at
    if (at + 4 > end) throw NO_SHAPE
    this.#at = at + 4
    const bytes = this.#bytes
    return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  }

  /** A varint of up to 64 bits, in as few bytes as it needs. */
  #number(end: number, kind: number): void {
    let low = 0
    let high = 0
    for (let number = 0; number < 10; number++) {
      if (this.#at >= end) throw NO_SHAPE
      const byte = this.#bytes[this.#at++]!
      const bits = byte & 127
      if (number < 4) low |= bits << (7 * number)
      else if (number === 4) {
        low |= bits << 28
        high = bits >>> 4
      } else if (number < 9) high |= bits << (7 * number - 32)
      else high |= bits << 31
      if (byte >= 128) continue
      if ((byte === 0 && number > 0) || (number === 9 && byte > 1)) throw NO_SHAPE
      return this.#putValue(low >>> 0, high >>> 0, kind)
    }
    throw NO_SHAPE
  }

  #putValue(first: number, second: number, kind: number): void {
    if (this.valueCount === VALUES_MAX) throw NO_SHAPE
    this.kinds[this.valueCount] = kind
    this.first[this.valueCount] = first
    this.second[this.valueCount++] = second
  }

  #putByte(byte: number): void {
    if (this.shapeBytes >= SHAPE_BYTES_MAX) throw NO_SHAPE
    this.shape[this.shapeBytes++] = byte
  }

  #putVarint(value: number): void {
    let left = value
    for (; left >= 128; left >>>= 7) this.#putByte((left & 127) | 128)
    this.#putByte(left)
  }

  #putKey(start: number, end: number): void {
    const count = end - start
    this.#putVarint(count)
    if (this.shapeBytes + count > SHAPE_BYTES_MAX) throw NO_SHAPE
    const { shape, shapeBytes } = this
    for (let i = 0; i < count; i++) shape[shapeBytes + i] = this.#bytes[start + i]!
    this.shapeBytes += count
  }
}
