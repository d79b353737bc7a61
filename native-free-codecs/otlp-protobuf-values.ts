/**
 * Validators of the OTLP messages inside a record, a scope or a resource: wire types, lengths, nesting and UTF-8, all the way
 * down. See protobuf-wire.ts for W1 to W3; a message given by `at` has its length there and is validated to its end.
 */
import {
  contentEnd,
  isAscii,
  cursor,
  malformed,
  PROTOBUF_DEPTH_MAX,
  readTag,
  skipField,
  skipFixed,
  skipString,
  skipVarint,
} from './protobuf-wire.ts'

/** Nesting: the request is 0, a resource group 1. */
export const RESOURCE_DEPTH = 2
export const RECORD_DEPTH = 3
const SCOPE_DEPTH = 3
const EVENT_DEPTH = RECORD_DEPTH + 1

/** The KeyValue whose length is at `at`; position after it. */
export function validateKeyValue(bytes: Uint8Array, at: number, end: number, depth: number): number {
  const shortEnd = endOfShortTextAttribute(bytes, at, end)
  if (shortEnd > 0 && depth < PROTOBUF_DEPTH_MAX) return shortEnd
  const messageEnd = contentEnd(bytes, at, end)
  if (depth > PROTOBUF_DEPTH_MAX) malformed('protobuf nesting too deep', at)
  at = cursor
  while (at < messageEnd) {
    const tag = readTag(bytes, at, messageEnd)
    at = cursor
    if (tag === 0x0a) at = skipString(bytes, at, messageEnd)
    else if (tag === 0x12) at = validateAnyValue(bytes, at, messageEnd, depth + 1)
    else at = skipField(bytes, at, messageEnd, tag, depth)
  }
  return messageEnd
}

/**
 * Most attributes are one short key and one short text, in that order, and ASCII: recognised by lengths that add up and one look at
 * all their bytes, which makes the whole scan a fifth faster. Position after such a KeyValue, or 0: validate it field by field.
 *
 *   length · 0x0a · key length · key · 0x12 · value length · 0x0a · text length · text
 */
function endOfShortTextAttribute(bytes: Uint8Array, at: number, end: number): number {
  const messageEnd = at + 1 + bytes[at]!
  const valueAt = at + 3 + bytes[at + 2]!
  const isOne =
    valueAt + 4 <= messageEnd &&
    messageEnd <= end &&
    bytes[at + 1] === 0x0a &&
    bytes[valueAt] === 0x12 &&
    bytes[valueAt + 2] === 0x0a &&
    messageEnd === valueAt + 2 + bytes[valueAt + 1]! &&
    messageEnd === valueAt + 4 + bytes[valueAt + 3]!
  return isOne && isAscii(at, messageEnd) ? messageEnd : 0 // ASCII: each of the lengths is one byte
}

/** The AnyValue whose length is at `at`; position after it. */
export function validateAnyValue(bytes: Uint8Array, at: number, end: number, depth: number): number {
  const messageEnd = contentEnd(bytes, at, end)
  if (depth > PROTOBUF_DEPTH_MAX) malformed('protobuf nesting too deep', at)
  at = cursor
  while (at < messageEnd) {
    const tag = readTag(bytes, at, messageEnd)
    at = cursor
    switch (tag) {
      case 0x0a: // string_value
        at = skipString(bytes, at, messageEnd)
        break
      case 0x10: // bool_value
      case 0x18: // int_value
        at = skipVarint(bytes, at, messageEnd)
        break
      case 0x21: // double_value
        at = skipFixed(at, messageEnd, 8)
        break
      case 0x2a: // array_value
        at = validateList(bytes, at, messageEnd, depth + 1, validateAnyValue)
        break
      case 0x32: // kvlist_value
        at = validateList(bytes, at, messageEnd, depth + 1, validateKeyValue)
        break
      case 0x3a: // bytes_value
        at = contentEnd(bytes, at, messageEnd)
        break
      default:
        at = skipField(bytes, at, messageEnd, tag, depth)
    }
  }
  return messageEnd
}

/** The ArrayValue or KeyValueList whose length is at `at`; position after it. */
function validateList(
  bytes: Uint8Array,
  at: number,
  end: number,
  depth: number,
  validateElement: typeof validateAnyValue,
): number {
  const messageEnd = contentEnd(bytes, at, end)
  if (depth > PROTOBUF_DEPTH_MAX) malformed('protobuf nesting too deep', at)
  at = cursor
  while (at < messageEnd) {
    const tag = readTag(bytes, at, messageEnd)
    at = cursor
    if (tag === 0x0a) at = validateElement(bytes, at, messageEnd, depth + 1)
    else at = skipField(bytes, at, messageEnd, tag, depth)
  }
  return messageEnd
}

/** The Span.Event whose length is at `at`; position after it. */
export function validateEvent(bytes: Uint8Array, at: number, end: number): number {
  const messageEnd = contentEnd(bytes, at, end)
  at = cursor
  while (at < messageEnd) {
    const tag = readTag(bytes, at, messageEnd)
    at = cursor
    if (tag === 0x09) at = skipFixed(at, messageEnd, 8) // time_unix_nano
    else if (tag === 0x12) at = skipString(bytes, at, messageEnd) // name
    else if (tag === 0x1a) at = validateKeyValue(bytes, at, messageEnd, EVENT_DEPTH + 1)
    else if (tag === 0x20) at = skipVarint(bytes, at, messageEnd) // dropped_attributes_count
    else at = skipField(bytes, at, messageEnd, tag, EVENT_DEPTH)
  }
  return messageEnd
}

/** The Span.Link whose length is at `at`; position after it. */
export function validateLink(bytes: Uint8Array, at: number, end: number): number {
  const messageEnd = contentEnd(bytes, at, end)
  at = cursor
  while (at < messageEnd) {
    const tag = readTag(bytes, at, messageEnd)
    at = cursor
    if (tag === 0x0a || tag === 0x12) at = contentEnd(bytes, at, messageEnd) // trace_id, span_id
    else if (tag === 0x1a) at = skipString(bytes, at, messageEnd) // trace_state
    else if (tag === 0x22) at = validateKeyValue(bytes, at, messageEnd, EVENT_DEPTH + 1)
    else if (tag === 0x28) at = skipVarint(bytes, at, messageEnd) // dropped_attributes_count
    else if (tag === 0x35) at = skipFixed(at, messageEnd, 4) // flags
    else at = skipField(bytes, at, messageEnd, tag, EVENT_DEPTH)
  }
  return messageEnd
}

/** The Status whose length is at `at`; position after it. */
export function validateStatus(bytes: Uint8Array, at: number, end: number): number {
  const messageEnd = contentEnd(bytes, at, end)
  at = cursor
  while (at < messageEnd) {
    const tag = readTag(bytes, at, messageEnd)
    at = cursor
    if (tag === 0x12) at = skipString(bytes, at, messageEnd) // message
    else if (tag === 0x18) at = skipVarint(bytes, at, messageEnd) // code
    else at = skipField(bytes, at, messageEnd, tag, EVENT_DEPTH)
  }
  return messageEnd
}

/** The content of an InstrumentationScope. */
export function validateScope(bytes: Uint8Array, at: number, end: number): void {
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    if (tag === 0x0a || tag === 0x12) at = skipString(bytes, at, end) // name, version
    else if (tag === 0x1a) at = validateKeyValue(bytes, at, end, SCOPE_DEPTH + 1)
    else if (tag === 0x20) at = skipVarint(bytes, at, end) // dropped_attributes_count
    else at = skipField(bytes, at, end, tag, SCOPE_DEPTH)
  }
}

/** The EntityRef whose length is at `at`; position after it. */
export function validateEntityRef(bytes: Uint8Array, at: number, end: number): number {
  const messageEnd = contentEnd(bytes, at, end)
  at = cursor
  while (at < messageEnd) {
    const tag = readTag(bytes, at, messageEnd)
    at = cursor
    if (tag === 0x0a || tag === 0x12 || tag === 0x1a || tag === 0x22) at = skipString(bytes, at, messageEnd)
    else at = skipField(bytes, at, messageEnd, tag, RESOURCE_DEPTH + 1)
  }
  return messageEnd
}
