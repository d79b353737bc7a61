/**
 * Reads single fields of OTLP protobuf messages in place. The bytes were validated at ingest, so anything that protobuf-wire.ts refuses here is our
 * bug.
 */
import { contentEnd, cursor, readTag, skipField, skipVarint } from '../../../native-free-codecs/protobuf-wire.ts'
import type { TextTest } from './text-test.ts'
import { utf8 } from './text-test.ts'
import { KeyValues, testUnder } from './values.ts'
import type { Value, ValueTest } from './values.ts'
import { whole } from './record-view.ts'

export const FIXED64 = 1
export const BYTES = 2
const VARINT = 0
const FIXED32 = 5

/** Where the content of the next field with this tag begins, at or after `at`; -1: there is none. For a field of bytes it is where the length begins. */
export function nextField(bytes: Uint8Array, at: number, end: number, tag: number): number {
  while (at < end) {
    const found = readTag(bytes, at, end)
    if (found === tag) return cursor
    at = skipField(bytes, cursor, end, found, 0)
  }
  return -1
}

export const tagOf = (field: number, wireType: number): number => (field << 3) | wireType

/** As `nextField`, for the last field with this number and wire type: a singular field may be repeated, and the last one counts. */
export function lastField(bytes: Uint8Array, start: number, end: number, field: number, wireType: number): number {
  const tag = tagOf(field, wireType)
  let last = -1
  for (let at = start; at < end;) {
    const found = readTag(bytes, at, end)
    if (found === tag) last = cursor
    at = skipField(bytes, cursor, end, found, 0)
  }
  return last
}

function readVarint(bytes: Uint8Array, at: number, end: number): bigint {
  const stop = skipVarint(bytes, at, end)
  let value = 0n
  for (let i = stop - 1; i >= at; i--) value = (value << 7n) | BigInt(bytes[i]! & 127)
  return BigInt.asUintN(64, value)
}

export function readFixed64(bytes: Uint8Array, at: number): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset + at, 8).getBigUint64(0, true)
}

/** A small number, such as an enum or flags, from a varint or from four bytes. Null: the field is absent. */
export function readNumber(bytes: Uint8Array, start: number, end: number, field: number): number | null {
  const at = lastField(bytes, start, end, field, VARINT)
  if (at >= 0) return bytes[at]! < 128 ? bytes[at]! : Number(BigInt.asIntN(32, readVarint(bytes, at, end)))
  const fixed = lastField(bytes, start, end, field, FIXED32)
  return fixed < 0 ? null : new DataView(bytes.buffer, bytes.byteOffset + fixed, 4).getUint32(0, true)
}

export function readText(bytes: Uint8Array, start: number, end: number, field: number): string | null {
  const at = lastField(bytes, start, end, field, BYTES)
  if (at < 0) return null
  const textEnd = contentEnd(bytes, at, end)
  return utf8(bytes, cursor, textEnd)
}

/** Whether a string of the AnyValue passes, those inside lists and maps included. @param from see TextTest.inBytes */
export function valueHasText(bytes: Uint8Array, start: number, end: number, test: TextTest, from: number): boolean {
  if (end <= from) return false
  for (let at = start; at < end;) {
    const tag = readTag(bytes, at, end)
    const contentAt = cursor
    if ((tag & 7) !== BYTES) {
      at = skipField(bytes, contentAt, end, tag, 0)
      continue
    }
    at = contentEnd(bytes, contentAt, end)
    const begin = cursor
    if (tag === 0x0a && test.inBytes(bytes, begin, at, from)) return true
    if (tag === 0x2a && valuesHaveText(bytes, begin, at, test, from)) return true
    if (tag === 0x32 && keyValuesHaveText(bytes, begin, at, 1, test, from)) return true
  }
  return false
}

function valuesHaveText(bytes: Uint8Array, start: number, end: number, test: TextTest, from: number): boolean {
  for (let at = nextField(bytes, start, end, 0x0a); at >= 0;) {
    const valueEnd = contentEnd(bytes, at, end)
    if (valueHasText(bytes, cursor, valueEnd, test, from)) return true
    at = nextField(bytes, valueEnd, end, 0x0a)
  }
  return false
}

/** @param field number of the KeyValue field of the message in [start, end) */
export function keyValuesHaveText(
  bytes: Uint8Array,
  start: number,
  end: number,
  field: number,
  test: TextTest,
  from: number,
): boolean {
  const tag = tagOf(field, BYTES)
  for (let at = nextField(bytes, start, end, tag); at >= 0;) {
    const pairEnd = contentEnd(bytes, at, end)
    const value = pairEnd <= from ? -1 : lastField(bytes, cursor, pairEnd, 2, BYTES)
    if (value >= 0) {
      const valueEnd = contentEnd(bytes, value, pairEnd)
      if (valueHasText(bytes, cursor, valueEnd, test, from)) return true
    }
    at = nextField(bytes, pairEnd, end, tag)
  }
  return false
}

/** Whether a value of this name passes, in the KeyValues of a message; a dotted name may lead into a map. */
export function keyValuesPass(
  bytes: Uint8Array,
  start: number,
  end: number,
  field: number,
  name: Buffer,
  test: ValueTest,
): boolean {
  const tag = tagOf(field, BYTES)
  for (let at = nextField(bytes, start, end, tag); at >= 0;) {
    const pairEnd = contentEnd(bytes, at, end)
    if (keyValuePasses(bytes, cursor, pairEnd, name, test)) return true
    at = nextField(bytes, pairEnd, end, tag)
  }
  return false
}

const DOT = 0x2e

function keyValuePasses(bytes: Uint8Array, start: number, end: number, name: Buffer, test: ValueTest): boolean {
  const key = lastField(bytes, start, end, 1, BYTES)
  let keyEnd = 0
  let keyStart = 0
  if (key >= 0) {
    keyEnd = contentEnd(bytes, key, end)
    keyStart = cursor
  }
  const length = keyEnd - keyStart
  if (length > name.length || (length < name.length && name[length] !== DOT)) return false
  for (let i = 0; i < length; i++) if (bytes[keyStart + i] !== name[i]) return false
  const value = readValueField(bytes, start, end, 2)
  return testUnder(value, length === name.length ? null : name.toString('utf8', length + 1), test)
}

/** The AnyValue in a field of a message; null when there is none. */
export function readValueField(bytes: Uint8Array, start: number, end: number, field: number): Value {
  const at = lastField(bytes, start, end, field, BYTES)
  if (at < 0) return null
  const valueEnd = contentEnd(bytes, at, end)
  return readValue(bytes, cursor, valueEnd)
}

function readValue(bytes: Uint8Array, start: number, end: number): Value {
  let value: Value = null
  for (let at = start; at < end;) {
    const tag = readTag(bytes, at, end)
    const contentAt = cursor
    at = skipField(bytes, contentAt, end, tag, 0)
    switch (tag) {
      case 0x0a:
        value = utf8(bytes, contentStart(bytes, contentAt, end), at)
        break
      case 0x10:
        value = readVarint(bytes, contentAt, end) !== 0n
        break
      case 0x18:
        value = whole(BigInt.asIntN(64, readVarint(bytes, contentAt, end)))
        break
      case 0x21:
        value = new DataView(bytes.buffer, bytes.byteOffset + contentAt, 8).getFloat64(0, true)
        break
      case 0x2a:
        value = readValues(bytes, contentStart(bytes, contentAt, end), at)
        break
      case 0x32:
        value = new KeyValues(readKeyValues(bytes, contentStart(bytes, contentAt, end), at, 1))
        break
      case 0x3a:
        value = bytes.slice(contentStart(bytes, contentAt, end), at)
        break
      default:
    }
  }
  return value
}

function contentStart(bytes: Uint8Array, at: number, end: number): number {
  contentEnd(bytes, at, end)
  return cursor
}

function readValues(bytes: Uint8Array, start: number, end: number): Value[] {
  const values: Value[] = []
  for (let at = nextField(bytes, start, end, 0x0a); at >= 0;) {
    const valueEnd = contentEnd(bytes, at, end)
    values.push(readValue(bytes, cursor, valueEnd))
    at = nextField(bytes, valueEnd, end, 0x0a)
  }
  return values
}

/** @param field number of the KeyValue field of the message in [start, end) */
export function readKeyValues(
  bytes: Uint8Array,
  start: number,
  end: number,
  field: number,
): [key: string, value: Value][] {
  const tag = tagOf(field, BYTES)
  const entries: [string, Value][] = []
  for (let at = nextField(bytes, start, end, tag); at >= 0;) {
    const pairEnd = contentEnd(bytes, at, end)
    const pairStart = cursor
    entries.push([readText(bytes, pairStart, pairEnd, 1) ?? '', readValueField(bytes, pairStart, pairEnd, 2)])
    at = nextField(bytes, pairEnd, end, tag)
  }
  return entries
}
