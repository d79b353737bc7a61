/** A stored record as conditions read it, in whichever format it came. One object serves all records: it is moved from one to the next. */
import type { AttributePlace, FieldName } from './names.ts'
import type { TextTest } from './text-test.ts'
import type { Value, ValueTest } from './values.ts'

export interface RecordView {
  readonly isLog: boolean
  /** Changes when a record has another resource or scope than the record before. */
  readonly group: number
  /**
   * Tests the record's own texts: the body, event name and attributes of a log; the name, status message and attributes of a span, and the names
   * and attributes of its events. Strings inside lists and maps count, keys do not.
   *
   * @param from place in the bytes of the record's batch, see TextTest.inBytes
   */
  hasText(test: TextTest, from?: number): boolean
  /** Whether an attribute of this name passes; a dotted name may lead into a map. */
  hasAttribute(place: AttributePlace, name: string, test: ValueTest): boolean
  /** Whether a value under this path of a log's body passes. @param path null: the body itself */
  hasInBody(path: string | null, test: ValueTest): boolean
  /** The attributes in their order; a name may be repeated. */
  attributes(place: AttributePlace): readonly (readonly [name: string, value: Value])[]
  /**
   * The value of a field; ids in lower-case hexadecimal. Null: the record does not have the field, its id is invalid, or its signal has no such field. In
   * OTLP an empty text and a time of 0 say the same as an absent field, and encoders differ in which they write.
   */
  field(name: FieldName): Value
}

/** The end less the start. Null: one of them is absent, or 0, which means the same. A span that ends before it starts took no time, as in traces. */
export function durationOf(start: Value, end: Value): Value {
  const [from, to] = [BigInt((start ?? 0) as bigint | number), BigInt((end ?? 0) as bigint | number)] // times are whole numbers
  if (from === 0n || to === 0n) return null
  return to < from ? 0 : whole(to - from)
}

/** The value as a number, if that is exact. */
export const whole = (value: bigint): number | bigint =>
  value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value

/** Where fields stand in the two formats: number of the protobuf field, name of the JSON member. */
export type FieldPlace = readonly [
  number: number,
  member: string,
  of: 'number' | 'text' | 'trace id' | 'span id' | 'time',
]

/** Hexadecimal digits of an id. */
const DIGITS = { 'trace id': 32, 'span id': 16 } as const

/** The id in lower case. Null: it is invalid, and a record counts as one without it. */
export function validId(id: string | null, of: keyof typeof DIGITS): string | null {
  if (id === null || id.length !== DIGITS[of] || !/^[0-9a-f]+$/i.test(id) || /^0+$/.test(id)) return null
  return id.toLowerCase()
}

export const LOG_FIELDS: Readonly<Partial<Record<FieldName, FieldPlace>>> = {
  time_unix_nano: [1, 'timeUnixNano', 'time'],
  severity_number: [2, 'severityNumber', 'number'],
  severity_text: [3, 'severityText', 'text'],
  flags: [8, 'flags', 'number'],
  trace_id: [9, 'traceId', 'trace id'],
  span_id: [10, 'spanId', 'span id'],
  observed_time_unix_nano: [11, 'observedTimeUnixNano', 'time'],
  event_name: [12, 'eventName', 'text'],
}

export const SPAN_FIELDS: Readonly<Partial<Record<FieldName, FieldPlace>>> = {
  trace_id: [1, 'traceId', 'trace id'],
  span_id: [2, 'spanId', 'span id'],
  trace_state: [3, 'traceState', 'text'],
  parent_span_id: [4, 'parentSpanId', 'span id'],
  name: [5, 'name', 'text'],
  kind: [6, 'kind', 'number'],
  start_time_unix_nano: [7, 'startTimeUnixNano', 'time'],
  end_time_unix_nano: [8, 'endTimeUnixNano', 'time'],
  flags: [16, 'flags', 'number'],
}

export const STATUS_FIELDS: Readonly<Partial<Record<FieldName, FieldPlace>>> = {
  'status.message': [2, 'message', 'text'],
  'status.code': [3, 'code', 'number'],
}

export const SCOPE_FIELDS: Readonly<Partial<Record<FieldName, FieldPlace>>> = {
  'scope.name': [1, 'name', 'text'],
  'scope.version': [2, 'version', 'text'],
}
