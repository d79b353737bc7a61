/** A stored record as conditions look at it, whichever format it came in. One object for all records: it is moved from one to the next. */
import type { AttributePlace, FieldName } from './names.ts'
import type { TextTest } from './text-test.ts'
import type { Value, ValueTest } from './values.ts'

export interface RecordView {
  readonly isLog: boolean
  /** Another number: another resource or scope than that of the record before. */
  readonly group: number
  /**
   * The record's own texts: of a log its body, event name and attributes, of a span its name, status message, attributes, and the names
   * and attributes of its events. Strings inside lists and maps count, keys do not.
   *
   * @param from in the bytes that the record stands in, see TextTest.inBytes
   */
  hasText(test: TextTest, from?: number): boolean
  /** Whether an attribute of this name passes; the name may go on into the map that is its value. */
  hasAttribute(place: AttributePlace, name: string, test: ValueTest): boolean
  /** Whether what stands in the body of a log under this path passes; null: the body itself. */
  hasInBody(path: string | null, test: ValueTest): boolean
  /** In their order; a name may come again. */
  attributes(place: AttributePlace): readonly (readonly [name: string, value: Value])[]
  /** Null when the record has none, or is not of the signal that has it. Ids in lower-case hexadecimal. */
  field(name: FieldName): Value
}

/** The end less the start. None of a span without one of them: 0 means absent. A span that ends before it starts took no time, as traces show it. */
export function durationOf(start: Value, end: Value): Value {
  const [from, to] = [BigInt((start ?? 0) as bigint | number), BigInt((end ?? 0) as bigint | number)] // times are whole numbers
  if (from === 0n || to === 0n) return null
  return to < from ? 0 : whole(to - from)
}

/** As a number where that is exact. */
export const whole = (value: bigint): number | bigint =>
  value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value

/** Where fields stand in the two formats: number of the protobuf field, name of the JSON member. */
export type FieldPlace = readonly [number: number, member: string, of: 'number' | 'text' | 'id' | 'time']

export const LOG_FIELDS: Readonly<Partial<Record<FieldName, FieldPlace>>> = {
  time_unix_nano: [1, 'timeUnixNano', 'time'],
  severity_number: [2, 'severityNumber', 'number'],
  severity_text: [3, 'severityText', 'text'],
  flags: [8, 'flags', 'number'],
  trace_id: [9, 'traceId', 'id'],
  span_id: [10, 'spanId', 'id'],
  observed_time_unix_nano: [11, 'observedTimeUnixNano', 'time'],
  event_name: [12, 'eventName', 'text'],
}

export const SPAN_FIELDS: Readonly<Partial<Record<FieldName, FieldPlace>>> = {
  trace_id: [1, 'traceId', 'id'],
  span_id: [2, 'spanId', 'id'],
  trace_state: [3, 'traceState', 'text'],
  parent_span_id: [4, 'parentSpanId', 'id'],
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
