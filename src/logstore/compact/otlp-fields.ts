/**
 * Which fields of OTLP's messages are messages, texts or times: compaction cuts records into columns by this list. A field that is not in it is kept by its
 * wire type alone, so the list decides how small a bundle becomes, and never what it keeps.
 */

/** Kinds of leaves. */
export const TEXT = 1
export const BYTES = 2
export const VARINT = 3
export const TIME = 4
export const FIXED64 = 5
export const FIXED32 = 6
export const SEVERITY = 7
/** The name in a pair of name and value: a part of the shape. */
export const KEY = 8
/** Values of attributes that are numbers. */
export const BOOLEAN = 9
export const INTEGER = 10
export const DOUBLE = 11
/** From here on: messages, by their number. */
export const MESSAGE = 16

/** Numbers of messages. */
export const LOG_RECORD = 0
export const SPAN = 1
const ANY_VALUE = 2
const ARRAY_VALUE = 3
const KEY_VALUE_LIST = 4
const KEY_VALUE = 5
const EVENT = 6
const LINK = 7
const STATUS = 8
export const RESOURCE = 9
export const SCOPE = 10

const VARINT_TYPE = 0
const FIXED64_TYPE = 1
const BYTES_TYPE = 2
const FIXED32_TYPE = 5
const TAGS = 256

type Fields = readonly (readonly [field: number, wireType: number, kind: number])[]

function tableOf(fields: Fields): Uint8Array {
  const table = new Uint8Array(TAGS)
  for (const [field, wireType, kind] of fields) table[(field << 3) | wireType] = kind
  return table
}

/** By message, then by tag: the kind of the field; 0: not known. */
export const FIELD_KINDS: readonly Uint8Array[] = [
  // LogRecord
  tableOf([
    [1, FIXED64_TYPE, TIME],
    [11, FIXED64_TYPE, TIME],
    [2, VARINT_TYPE, SEVERITY],
    [3, BYTES_TYPE, TEXT],
    [5, BYTES_TYPE, MESSAGE + ANY_VALUE],
    [6, BYTES_TYPE, MESSAGE + KEY_VALUE],
    [12, BYTES_TYPE, TEXT],
  ]),
  // Span
  tableOf([
    [3, BYTES_TYPE, TEXT],
    [5, BYTES_TYPE, TEXT],
    [7, FIXED64_TYPE, TIME],
    [8, FIXED64_TYPE, TIME],
    [9, BYTES_TYPE, MESSAGE + KEY_VALUE],
    [11, BYTES_TYPE, MESSAGE + EVENT],
    [13, BYTES_TYPE, MESSAGE + LINK],
    [15, BYTES_TYPE, MESSAGE + STATUS],
  ]),
  // AnyValue
  tableOf([
    [1, BYTES_TYPE, TEXT],
    [2, VARINT_TYPE, BOOLEAN],
    [3, VARINT_TYPE, INTEGER],
    [4, FIXED64_TYPE, DOUBLE],
    [5, BYTES_TYPE, MESSAGE + ARRAY_VALUE],
    [6, BYTES_TYPE, MESSAGE + KEY_VALUE_LIST],
  ]),
  // ArrayValue
  tableOf([[1, BYTES_TYPE, MESSAGE + ANY_VALUE]]),
  // KeyValueList
  tableOf([[1, BYTES_TYPE, MESSAGE + KEY_VALUE]]),
  // KeyValue
  tableOf([
    [1, BYTES_TYPE, KEY],
    [2, BYTES_TYPE, MESSAGE + ANY_VALUE],
  ]),
  // Event
  tableOf([
    [1, FIXED64_TYPE, TIME],
    [2, BYTES_TYPE, TEXT],
    [3, BYTES_TYPE, MESSAGE + KEY_VALUE],
  ]),
  // Link
  tableOf([
    [3, BYTES_TYPE, TEXT],
    [4, BYTES_TYPE, MESSAGE + KEY_VALUE],
  ]),
  // Status
  tableOf([[2, BYTES_TYPE, TEXT]]),
  // Resource
  tableOf([[1, BYTES_TYPE, MESSAGE + KEY_VALUE]]),
  // InstrumentationScope
  tableOf([
    [1, BYTES_TYPE, TEXT],
    [2, BYTES_TYPE, TEXT],
    [3, BYTES_TYPE, MESSAGE + KEY_VALUE],
  ]),
]

/** The kind of a field that is not known here; 0: records with such a field are kept as they are. */
export function kindOfWireType(wireType: number): number {
  switch (wireType) {
    case VARINT_TYPE:
      return VARINT
    case FIXED64_TYPE:
      return FIXED64
    case BYTES_TYPE:
      return BYTES
    case FIXED32_TYPE:
      return FIXED32
    default:
      return 0
  }
}
