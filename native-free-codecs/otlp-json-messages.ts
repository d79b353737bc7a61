/**
 * The OTLP JSON messages inside a record, a scope or a resource, validated in place.
 *
 * Every function takes the position of the value's first byte and the number of arrays and objects around it, and returns the
 * position after it. Known members have their types, unknown ones may hold anything, null stands for an absent field.
 */
import { checkDepth, decodeString, escaped, malformed, skipNull, skipSpace, skipValue, text } from './json-text.ts'
import { cursor, firstKey, KEY_NONE, keyNumber, nextKey } from './otlp-json-keys.ts'
import {
  isNull,
  skipBooleanField,
  skipBytesField,
  skipDoubleField,
  skipEnumField,
  skipInt64Field,
  skipStringField,
  skipUint32Field,
  skipUint64Field,
} from './otlp-json-values.ts'

/** Reads an object whose opening brace is at `at`; `depth` counts the object itself. */
export type Scan = (at: number, depth: number) => number

const ATTRIBUTES = keyNumber('attributes')
const DROPPED_ATTRIBUTES_COUNT = keyNumber('droppedAttributesCount')
const KEY = keyNumber('key')
const VALUE = keyNumber('value')
const VALUES = keyNumber('values')
const STRING_VALUE = keyNumber('stringValue')
const BOOL_VALUE = keyNumber('boolValue')
const INT_VALUE = keyNumber('intValue')
const DOUBLE_VALUE = keyNumber('doubleValue')
const ARRAY_VALUE = keyNumber('arrayValue')
const KVLIST_VALUE = keyNumber('kvlistValue')
const BYTES_VALUE = keyNumber('bytesValue')
const NAME = keyNumber('name')
const VERSION = keyNumber('version')
const TIME_UNIX_NANO = keyNumber('timeUnixNano')
const FLAGS = keyNumber('flags')
const TRACE_ID = keyNumber('traceId')
const SPAN_ID = keyNumber('spanId')
const TRACE_STATE = keyNumber('traceState')
const MESSAGE = keyNumber('message')
const CODE = keyNumber('code')

/** An array of objects, or null. */
export function scanList(at: number, depth: number, scanElement: Scan): number {
  if (isNull(at)) return skipNull(at)
  if (text[at] !== 0x5b) malformed('a JSON array expected', at)
  checkDepth(depth + 1, at)
  at = skipSpace(at + 1)
  if (text[at] === 0x5d) return at + 1
  for (;;) {
    at = skipSpace(scanObject(at, depth + 1, scanElement))
    if (text[at] === 0x5d) return at + 1
    if (text[at] !== 0x2c) malformed('a comma or closing bracket expected in JSON', at)
    at = skipSpace(at + 1)
  }
}

/** An object, its brace at `at`. */
function scanObject(at: number, depth: number, scan: Scan): number {
  if (text[at] !== 0x7b) malformed('a JSON object expected', at)
  checkDepth(depth + 1, at)
  return scan(at, depth + 1)
}

/** An object, or null. */
export function scanObjectField(at: number, depth: number, scan: Scan): number {
  return isNull(at) ? skipNull(at) : scanObject(at, depth, scan)
}

// What scanAnyValue and scanKeyValue read last, for the few attributes whose content is needed. A start below 0: not a string.
let valueStart = -1
let valueEnd = -1
let valueEscaped = false
let keyStart = -1
let keyEnd = -1
let keyEscaped = false

export const lastKey = (): string => (keyStart < 0 ? '' : decodeString(keyStart, keyEnd, keyEscaped))

export const lastValue = (): string | null => (valueStart < 0 ? null : decodeString(valueStart, valueEnd, valueEscaped))

/** A KeyValue; lastKey and lastValue are then about it. */
export function scanKeyValue(at: number, depth: number): number {
  let start = -1
  let stringEnd = -1
  let hasEscape = false
  valueStart = -1
  for (let key = firstKey(at, KEY); key !== KEY_NONE; key = nextKey(at, key)) {
    if (key === KEY) {
      start = isNull(cursor) ? -1 : cursor + 1
      at = skipStringField(cursor)
      stringEnd = at - 1
      hasEscape = escaped
    } else if (key === VALUE) {
      valueStart = -1
      at = scanObjectField(cursor, depth, scanAnyValue)
    } else at = skipValue(cursor, depth)
  }
  keyStart = start
  keyEnd = stringEnd
  keyEscaped = hasEscape
  return cursor
}

/** An AnyValue; lastValue is then about it. As in protobuf the last member of the oneof counts. */
export function scanAnyValue(at: number, depth: number): number {
  let start = -1
  let stringEnd = -1
  let hasEscape = false
  for (let key = firstKey(at, STRING_VALUE); key !== KEY_NONE; key = nextKey(at, key)) {
    const valueAt = cursor
    if (key === STRING_VALUE) {
      at = skipStringField(valueAt)
      if (isNull(valueAt)) continue
      start = valueAt + 1
      stringEnd = at - 1
      hasEscape = escaped
      continue
    }
    if (key === INT_VALUE) at = skipInt64Field(valueAt)
    else if (key === BOOL_VALUE) at = skipBooleanField(valueAt)
    else if (key === DOUBLE_VALUE) at = skipDoubleField(valueAt)
    else if (key === ARRAY_VALUE) at = scanObjectField(valueAt, depth, scanArrayValue)
    else if (key === KVLIST_VALUE) at = scanObjectField(valueAt, depth, scanKeyValueList)
    else if (key === BYTES_VALUE) at = skipBytesField(valueAt)
    else {
      at = skipValue(valueAt, depth)
      continue
    }
    if (!isNull(valueAt)) start = -1
  }
  valueStart = start
  valueEnd = stringEnd
  valueEscaped = hasEscape
  return cursor
}

function scanArrayValue(at: number, depth: number): number {
  return scanValues(at, depth, scanAnyValue)
}

function scanKeyValueList(at: number, depth: number): number {
  return scanValues(at, depth, scanKeyValue)
}

function scanValues(at: number, depth: number, scanElement: Scan): number {
  for (let key = firstKey(at, VALUES); key !== KEY_NONE; key = nextKey(at, key)) {
    if (key === VALUES) at = scanList(cursor, depth, scanElement)
    else at = skipValue(cursor, depth)
  }
  return cursor
}

export function scanScope(at: number, depth: number): number {
  for (let key = firstKey(at, NAME); key !== KEY_NONE; key = nextKey(at, key)) {
    if (key === NAME || key === VERSION) at = skipStringField(cursor)
    else if (key === ATTRIBUTES) at = scanList(cursor, depth, scanKeyValue)
    else if (key === DROPPED_ATTRIBUTES_COUNT) at = skipUint32Field(cursor)
    else at = skipValue(cursor, depth)
  }
  return cursor
}

export function scanEvent(at: number, depth: number): number {
  for (let key = firstKey(at, TIME_UNIX_NANO); key !== KEY_NONE; key = nextKey(at, key)) {
    if (key === TIME_UNIX_NANO) at = skipUint64Field(cursor)
    else if (key === NAME) at = skipStringField(cursor)
    else if (key === ATTRIBUTES) at = scanList(cursor, depth, scanKeyValue)
    else if (key === DROPPED_ATTRIBUTES_COUNT) at = skipUint32Field(cursor)
    else at = skipValue(cursor, depth)
  }
  return cursor
}

export function scanLink(at: number, depth: number): number {
  for (let key = firstKey(at, TRACE_ID); key !== KEY_NONE; key = nextKey(at, key)) {
    if (key === TRACE_ID || key === SPAN_ID || key === TRACE_STATE) at = skipStringField(cursor)
    else if (key === ATTRIBUTES) at = scanList(cursor, depth, scanKeyValue)
    else if (key === FLAGS || key === DROPPED_ATTRIBUTES_COUNT) at = skipUint32Field(cursor)
    else at = skipValue(cursor, depth)
  }
  return cursor
}

export function scanStatus(at: number, depth: number): number {
  for (let key = firstKey(at, CODE); key !== KEY_NONE; key = nextKey(at, key)) {
    if (key === MESSAGE) at = skipStringField(cursor)
    else if (key === CODE) at = skipEnumField(cursor)
    else at = skipValue(cursor, depth)
  }
  return cursor
}
