/**
 * A record cut into its shape and its values. The shape is everything but the values: the fields in their order, and the names of attributes. The records
 * of one line of code have one shape.
 *
 *   shape    root u8, then of a protobuf record: fields, 0
 *   field    tag varint; of a message its fields, then 0; of a name a varint of its length and its bytes; of a value nothing
 *
 * The shape alone says where the values are, and so in which columns they are kept, by their paths: see shapes.ts.
 *
 * S1  a shape and its values give the record back byte for byte. A record that they cannot give back (numbers in more bytes than they need, groups,
 *     too much of anything) has no shape, and its one value is the whole record
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
/** Roots of resources and scopes, which are cut but have no shape in a bundle. */
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

/** Writes a part of a record: fixed bytes, then a value. */
export interface Step {
  /** With a 0 where a length goes. */
  readonly bytes: Buffer
  /** Where in `bytes` the contents begin that have these lengths. */
  readonly opened: readonly number[]
  /** The column of the value; -1: there is no value. */
  readonly column: number
  /** How many of the opened contents end behind the value, the last one first. */
  closed: number
}

/** In place of a number: there is none that can be read. */
const NOTHING_THERE = -1

export class RecordCutter {
  readonly shape = Buffer.allocUnsafeSlow(SHAPE_BYTES_MAX + 16)
  shapeBytes = 0
  valueCount = 0
  /** By value: where it begins and ends in the bytes; for a number its low and its high word. */
  readonly first = new Uint32Array(VALUES_MAX)
  readonly second = new Uint32Array(VALUES_MAX)
  /** By value: TEXT and the like of otlp-fields.ts. */
  readonly kinds = new Uint8Array(VALUES_MAX)
  /** The record was not cut: its one value is the whole record. */
  isWhole = false
  /** By depth: the messages around the current one, and where they end. */
  readonly #messages: Uint8Array[] = []
  readonly #ends = new Uint32Array(DEPTH_MAX)
  /** Where the number ends that was read last, and its words. */
  #at = 0
  #low = 0
  #high = 0

  /** Fills the public fields. @param root ROOT_… of what the bytes are */
  cut(bytes: Uint8Array, start: number, end: number, root: number): void {
    this.isWhole = root === ROOT_JSON || !this.#cutFields(bytes, start, end, root)
    if (this.isWhole) this.cutWhole(start, end, root)
  }

  /**
   * As `cut`, for a record that probably has a known shape of fields. It takes less time, as it compares the bytes of the shape and does not gather them.
   *
   * @param kinds of the values of the shape
   * @returns whether the record has the shape; false: its values are not known
   */
  cutAs(steps: readonly Step[], kinds: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
    const ends = this.#ends
    let at = start
    let depth = 0
    let values = 0
    for (let number = 0; number < steps.length; number++) {
      const step = steps[number]!
      const fixed = step.bytes
      const { opened } = step
      let from = 0
      for (let i = 0; i < opened.length; i++) {
        const lengthAt = opened[i]! - 1
        for (; from < lengthAt; from++) if (bytes[at++] !== fixed[from]) return false
        let length = at < end ? bytes[at++]! : 255
        if (length >= 128) {
          length = this.#shortNumber(bytes, at - 1, end)
          if (length === NOTHING_THERE) return false
          at = this.#at
        }
        ends[depth++] = at + length
        from++
      }
      for (; from < fixed.length; from++) if (bytes[at++] !== fixed[from]) return false
      if (step.column >= 0) {
        const kind = kinds[values]!
        if (kind === TEXT || kind === BYTES) {
          this.first[values] = at
          this.second[values++] = at = ends[depth - 1]!
        } else {
          if (!this.#readValue(bytes, at, end, kind)) return false
          this.first[values] = this.#low
          this.second[values++] = this.#high
          at = this.#at
        }
      }
      for (let left = step.closed; left > 0; left--) if (ends[--depth] !== at) return false
    }
    this.isWhole = false
    this.valueCount = values
    return at === end
  }

  cutWhole(start: number, end: number, root: number): void {
    this.isWhole = true
    this.shape[0] = root === ROOT_JSON ? ROOT_JSON : ROOT_OPAQUE
    this.shapeBytes = 1
    this.valueCount = 1
    this.kinds[0] = root === ROOT_JSON ? TEXT : BYTES
    this.first[0] = start
    this.second[0] = end
  }

  /** False: the record has no shape. One loop over all messages of the record, as calls and fields of objects took half of the time. */
  #cutFields(bytes: Uint8Array, start: number, recordEnd: number, root: number): boolean {
    const { shape, first, second, kinds } = this
    const messages = this.#messages
    const ends = this.#ends
    let fields = FIELD_KINDS[MESSAGES[root]!]!
    let end = recordEnd
    let depth = 0
    let at = start
    let shapeAt = 1
    let values = 0
    shape[0] = root
    for (;;) {
      // Behind each field there is room for a tag and the end of a message.
      if (shapeAt >= SHAPE_BYTES_MAX) return false
      if (at === end) {
        shape[shapeAt++] = 0
        if (depth === 0) break
        fields = messages[--depth]!
        end = ends[depth]!
        continue
      }
      let tag = bytes[at++]!
      if (tag < 8) return false
      if (tag < 128) shape[shapeAt++] = tag
      else {
        tag = this.#shortNumber(bytes, at - 1, end)
        if (tag === NOTHING_THERE) return false
        at = this.#at
        shapeAt = putVarint(shape, shapeAt, tag)
      }
      const kind = (tag < 256 ? fields[tag]! : 0) || kindOfWireType(tag & 7)
      if (kind === TEXT || kind === BYTES || kind === KEY || kind >= MESSAGE) {
        let length = at < end ? bytes[at++]! : 255
        if (length >= 128) {
          length = this.#shortNumber(bytes, at - 1, end)
          at = this.#at
        }
        if (length === NOTHING_THERE || length > end - at) return false
        if (kind >= MESSAGE) {
          if (depth === DEPTH_MAX) return false
          messages[depth] = fields
          ends[depth++] = end
          fields = FIELD_KINDS[kind - MESSAGE]!
          end = at + length
          continue
        }
        if (kind === KEY) {
          shapeAt = putVarint(shape, shapeAt, length)
          if (shapeAt + length > SHAPE_BYTES_MAX) return false
          for (let i = 0; i < length; i++) shape[shapeAt + i] = bytes[at + i]!
          shapeAt += length
          at += length
          continue
        }
        if (values === VALUES_MAX) return false
        first[values] = at
        at += length
        second[values] = at
      } else {
        if (values === VALUES_MAX || kind === 0) return false
        if (!this.#readValue(bytes, at, end, kind)) return false
        first[values] = this.#low
        second[values] = this.#high
        at = this.#at
      }
      kinds[values++] = kind
    }
    this.shapeBytes = shapeAt
    this.valueCount = values
    return true
  }

  /** A number of up to 28 bits, in as few bytes as it needs. */
  #shortNumber(bytes: Uint8Array, start: number, end: number): number {
    let at = start
    let number = 0
    for (let shift = 0; shift <= 21; shift += 7) {
      if (at >= end) return NOTHING_THERE
      const byte = bytes[at++]!
      number |= (byte & 127) << shift
      if (byte >= 128) continue
      if (byte === 0 && shift > 0) return NOTHING_THERE
      this.#at = at
      return number
    }
    return NOTHING_THERE
  }

  /** The words of a value that is a number. */
  #readValue(bytes: Uint8Array, at: number, end: number, kind: number): boolean {
    const length = kind === FIXED32 ? 4 : kind === TIME || kind === DOUBLE || kind === FIXED64 ? 8 : 0
    if (length === 0) return this.#readNumber(bytes, at, end)
    this.#at = at + length
    this.#low = wordAt(bytes, at)
    this.#high = length === 8 ? wordAt(bytes, at + 4) : 0
    return this.#at <= end
  }

  /** A varint of up to 64 bits, in as few bytes as it needs. */
  #readNumber(bytes: Uint8Array, start: number, end: number): boolean {
    let at = start
    let low = 0
    let high = 0
    for (let number = 0; number < 10; number++) {
      if (at >= end) return false
      const byte = bytes[at++]!
      const bits = byte & 127
      if (number < 4) low |= bits << (7 * number)
      else if (number === 4) {
        low |= bits << 28
        high = bits >>> 4
      } else if (number < 9) high |= bits << (7 * number - 32)
      else high |= bits << 31
      if (byte >= 128) continue
      if ((byte === 0 && number > 0) || (number === 9 && byte > 1)) return false
      this.#at = at
      this.#low = low >>> 0
      this.#high = high >>> 0
      return true
    }
    return false
  }
}

function wordAt(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
}

/** @returns where it ends */
function putVarint(into: Uint8Array, start: number, value: number): number {
  let at = start
  let left = value
  for (; left >= 128; left >>>= 7) into[at++] = (left & 127) | 128
  into[at++] = left
  return at
}
