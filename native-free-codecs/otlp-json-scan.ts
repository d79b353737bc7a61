/**
 * Finds the records of an OTLP JSON batch in its text, without JSON.parse and without building an object for any of them.
 *
 *   {"resourceLogs": [ {"resource": {…}, "scopeLogs": [ {"scope": {…}, "logRecords": [ {…}, … ]}, … ]}, … ]}      and the
 *   {"resourceSpans": [ {"resource": {…}, "scopeSpans": [ {"scope": {…}, "spans": [ {…}, … ]}, … ]}, … ]}         same shape
 *
 * - A text is accepted when JSON.parse accepts it and the known members have the types of the OTLP mapping. Ranges, times, ids and claims are then
 *   those of the parsed value. Integers are exact up to 64 bits.
 * - Members come in any order, unknown ones may hold anything, and null stands for an absent field. If a name comes again, the last value counts, as
 *   in JSON.parse, but a list of groups or records may come only once.
 * - A log record whose ids are invalid is kept without them; a span without valid ids makes the batch malformed.
 */
import { decodeString, loadText, malformed, skipSpace, skipValue, text, textBytes, textOffset } from './json-text.ts'
import { cursor, firstKey, KEY_NONE, keyNumber, nextKey } from './otlp-json-keys.ts'
import {
  lastKey,
  lastValue,
  scanAnyValue,
  scanEvent,
  scanKeyValue,
  scanLink,
  scanList,
  scanObjectField,
  scanScope,
  scanStatus,
} from './otlp-json-messages.ts'
import type { Scan } from './otlp-json-messages.ts'
import {
  isNull,
  readIdField,
  skipEnumField,
  skipStringField,
  skipUint32Field,
  skipUint64Field,
  uint64High,
  uint64Low,
} from './otlp-json-values.ts'
import { IdentityReader, NO_IDENTITY, OtlpBatch } from './otlp-batch.ts'
import type { ResourceIdentity } from './otlp-batch.ts'

const RESOURCE_LOGS = keyNumber('resourceLogs')
const RESOURCE_SPANS = keyNumber('resourceSpans')
const RESOURCE = keyNumber('resource')
const SCOPE_LOGS = keyNumber('scopeLogs')
const SCOPE_SPANS = keyNumber('scopeSpans')
const SCOPE = keyNumber('scope')
const LOG_RECORDS = keyNumber('logRecords')
const SPANS = keyNumber('spans')
const SCHEMA_URL = keyNumber('schemaUrl')
const ATTRIBUTES = keyNumber('attributes')
const DROPPED_ATTRIBUTES_COUNT = keyNumber('droppedAttributesCount')
const NAME = keyNumber('name')
const TIME_UNIX_NANO = keyNumber('timeUnixNano')
const OBSERVED_TIME_UNIX_NANO = keyNumber('observedTimeUnixNano')
const SEVERITY_NUMBER = keyNumber('severityNumber')
const SEVERITY_TEXT = keyNumber('severityText')
const BODY = keyNumber('body')
const FLAGS = keyNumber('flags')
const TRACE_ID = keyNumber('traceId')
const SPAN_ID = keyNumber('spanId')
const EVENT_NAME = keyNumber('eventName')
const TRACE_STATE = keyNumber('traceState')
const PARENT_SPAN_ID = keyNumber('parentSpanId')
const KIND = keyNumber('kind')
const START_TIME_UNIX_NANO = keyNumber('startTimeUnixNano')
const END_TIME_UNIX_NANO = keyNumber('endTimeUnixNano')
const EVENTS = keyNumber('events')
const DROPPED_EVENTS_COUNT = keyNumber('droppedEventsCount')
const LINKS = keyNumber('links')
const DROPPED_LINKS_COUNT = keyNumber('droppedLinksCount')
const STATUS = keyNumber('status')

/** Its quotes. */
const EMPTY_STRING_BYTES = 2

/** What differs between the two signals. */
interface Signal {
  readonly resourceGroups: number
  readonly scopeGroups: number
  readonly records: number
  readonly scanRecord: Scan
}

const LOGS: Signal = {
  resourceGroups: RESOURCE_LOGS,
  scopeGroups: SCOPE_LOGS,
  records: LOG_RECORDS,
  scanRecord: scanLogRecord,
}
const TRACES: Signal = {
  resourceGroups: RESOURCE_SPANS,
  scopeGroups: SCOPE_SPANS,
  records: SPANS,
  scanRecord: scanSpan,
}

// The scan in progress: a scan neither yields nor calls back.
let batch: OtlpBatch
let signal: Signal
const identityReader = new IdentityReader()

/** Ids of the record read last, all zero when absent or invalid: four words of the trace id, two of the span id. */
const ids = new Uint32Array(6)
const SPAN_ID_AT = 4
/** Where the severity number of the log record read last is; empty when absent. */
let severityStart = 0
let severityEnd = 0
/** Where the schema URL that was read last stands; 0 and 0: it is absent or empty. */
let urlStart = 0
let urlEnd = 0

/**
 * @param bytes  a view over any buffer, a SharedArrayBuffer included
 * @param start  first byte of the JSON text in `bytes`
 * @param end    one past its last byte
 * @param into   is reset first; describes the batch unless this throws
 * @throws MalformedBatchError
 */
export function scanLogsJson(bytes: Uint8Array, start: number, end: number, into: OtlpBatch): void {
  scanRequest(bytes, start, end, into, LOGS)
}

/** Like scanLogsJson, for traces. */
export function scanTracesJson(bytes: Uint8Array, start: number, end: number, into: OtlpBatch): void {
  scanRequest(bytes, start, end, into, TRACES)
}

function scanRequest(bytes: Uint8Array, start: number, end: number, into: OtlpBatch, of: Signal): void {
  into.reset()
  batch = into
  signal = of
  loadText(bytes, start, end)
  let listed = false
  let at = skipSpace(0)
  if (text[at] !== 0x7b) malformed('a JSON object expected', at)
  for (let key = firstKey(at, signal.resourceGroups); key !== KEY_NONE; key = nextKey(at, key)) {
    if (key === signal.resourceGroups) {
      listed = once(listed, cursor)
      at = scanList(cursor, 1, scanResourceGroup)
    } else at = skipValue(cursor, 1)
  }
  at = skipSpace(cursor)
  if (at !== textBytes) malformed('text after the JSON value', at)
}

/** What a query result shows of one record besides its text. */
export interface JsonRecordFields {
  /** Lower-case hexadecimal; null when absent or invalid. */
  readonly traceId: string | null
  readonly spanId: string | null
  /** 0 when absent, and for spans. */
  readonly severityNumber: number
}

const oneRecord = new OtlpBatch()

/** Reads one record at a range that a scan described. */
export function readJsonRecord(bytes: Uint8Array, start: number, end: number, of: 'log' | 'trace'): JsonRecordFields {
  oneRecord.reset()
  batch = oneRecord
  loadText(bytes, start, end)
  if (of === 'log') scanLogRecord(0, 0)
  else scanSpan(0, 0)
  return {
    traceId: isZero(0, SPAN_ID_AT) ? null : hex(0, SPAN_ID_AT),
    spanId: isZero(SPAN_ID_AT, 2) ? null : hex(SPAN_ID_AT, 2),
    severityNumber: of === 'log' ? Number(decodeString(severityStart, severityEnd, false)) : 0,
  }
}

function hex(from: number, words: number): string {
  let digits = ''
  for (let i = from; i < from + words; i++) digits += ids[i]!.toString(16).padStart(8, '0')
  return digits
}

function once(before: boolean, at: number): true {
  if (before) malformed('a list of groups or records comes twice', at)
  return true
}

function scanResourceGroup(at: number, depth: number): number {
  const groupsBefore = batch.groupCount
  let resourceStart = 0
  let resourceEnd = 0
  let schemaUrlStart = 0
  let schemaUrlEnd = 0
  let identity: ResourceIdentity = NO_IDENTITY
  let listed = false
  for (let key = firstKey(at, RESOURCE); key !== KEY_NONE; key = nextKey(at, key)) {
    const valueAt = cursor
    if (key === signal.scopeGroups) {
      listed = once(listed, valueAt)
      at = scanList(valueAt, depth, scanScopeGroup)
    } else if (key === RESOURCE) {
      identityReader.reset()
      at = scanObjectField(valueAt, depth, scanResource)
      const present = !isNull(valueAt)
      resourceStart = present ? textOffset + valueAt : 0
      resourceEnd = present ? textOffset + at : 0
      identity = identityReader.identity()
    } else if (key === SCHEMA_URL) {
      at = scanSchemaUrl(valueAt)
      schemaUrlStart = urlStart
      schemaUrlEnd = urlEnd
    } else at = skipValue(valueAt, depth)
  }
  if (batch.groupCount > groupsBefore) {
    batch.addResource(resourceStart, resourceEnd, schemaUrlStart, schemaUrlEnd, identity)
  }
  return cursor
}

function scanScopeGroup(at: number, depth: number): number {
  const recordsBefore = batch.recordCount
  let scopeStart = 0
  let scopeEnd = 0
  let schemaUrlStart = 0
  let schemaUrlEnd = 0
  let listed = false
  for (let key = firstKey(at, SCOPE); key !== KEY_NONE; key = nextKey(at, key)) {
    const valueAt = cursor
    if (key === signal.records) {
      listed = once(listed, valueAt)
      at = scanList(valueAt, depth, batch.isLenient ? scanOrReject : signal.scanRecord)
    } else if (key === SCOPE) {
      at = scanObjectField(valueAt, depth, scanScope)
      const present = !isNull(valueAt)
      scopeStart = present ? textOffset + valueAt : 0
      scopeEnd = present ? textOffset + at : 0
    } else if (key === SCHEMA_URL) {
      at = scanSchemaUrl(valueAt)
      schemaUrlStart = urlStart
      schemaUrlEnd = urlEnd
    } else at = skipValue(valueAt, depth)
  }
  if (batch.recordCount > recordsBefore && recordsBefore < batch.capacity) {
    batch.addGroup(scopeStart, scopeEnd, schemaUrlStart, schemaUrlEnd)
  }
  return cursor
}

/** Rejects a malformed record. Text that is no JSON at all makes the batch malformed. */
function scanOrReject(start: number, depth: number): number {
  const end = skipValue(start, depth - 1)
  try {
    signal.scanRecord(start, depth)
  } catch (error) {
    batch.reject(error)
  }
  return end
}

/** Leaves its range in `urlStart` and `urlEnd`. */
function scanSchemaUrl(at: number): number {
  const end = skipStringField(at)
  const present = !isNull(at) && end - at > EMPTY_STRING_BYTES
  urlStart = present ? textOffset + at : 0
  urlEnd = present ? textOffset + end : 0
  return end
}

function scanResource(at: number, depth: number): number {
  for (let key = firstKey(at, ATTRIBUTES); key !== KEY_NONE; key = nextKey(at, key)) {
    if (key === ATTRIBUTES) {
      identityReader.reset()
      at = scanList(cursor, depth, scanResourceAttribute)
    } else if (key === DROPPED_ATTRIBUTES_COUNT) at = skipUint32Field(cursor)
    else at = skipValue(cursor, depth)
  }
  return cursor
}

function scanResourceAttribute(at: number, depth: number): number {
  const attributeEnd = scanKeyValue(at, depth)
  const key = lastKey()
  if (key === 'tenant_id' || key === 'service.logstore.tenant_id') identityReader.tenantClaim(lastValue())
  else if (key === 'service.name') identityReader.serviceName(lastValue())
  return attributeEnd
}

function scanLogRecord(start: number, depth: number): number {
  let timeHigh = 0
  let timeLow = 0
  let observedHigh = 0
  let observedLow = 0
  let at = start
  ids.fill(0)
  severityEnd = severityStart
  for (let key = firstKey(at, TIME_UNIX_NANO); key !== KEY_NONE; key = nextKey(at, key)) {
    const valueAt = cursor
    if (key === ATTRIBUTES) at = scanList(valueAt, depth, scanKeyValue)
    else if (key === BODY) at = scanObjectField(valueAt, depth, scanAnyValue)
    else if (key === TIME_UNIX_NANO) {
      at = skipUint64Field(valueAt)
      timeHigh = uint64High
      timeLow = uint64Low
    } else if (key === OBSERVED_TIME_UNIX_NANO) {
      at = skipUint64Field(valueAt)
      observedHigh = uint64High
      observedLow = uint64Low
    } else if (key === TRACE_ID) at = readIdField(valueAt, SPAN_ID_AT, ids, 0)
    else if (key === SPAN_ID) at = readIdField(valueAt, 2, ids, SPAN_ID_AT)
    else if (key === SEVERITY_NUMBER) {
      at = skipEnumField(valueAt)
      severityStart = isNull(valueAt) ? at : valueAt
      severityEnd = at
    } else if (key === SEVERITY_TEXT || key === EVENT_NAME) at = skipStringField(valueAt)
    else if (key === FLAGS || key === DROPPED_ATTRIBUTES_COUNT) at = skipUint32Field(valueAt)
    else at = skipValue(valueAt, depth)
  }
  const timed = timeHigh !== 0 || timeLow !== 0
  describe(start, cursor, timed ? timeHigh : observedHigh, timed ? timeLow : observedLow)
  return cursor
}

function scanSpan(start: number, depth: number): number {
  let timeHigh = 0
  let timeLow = 0
  let at = start
  ids.fill(0)
  for (let key = firstKey(at, TRACE_ID); key !== KEY_NONE; key = nextKey(at, key)) {
    const valueAt = cursor
    if (key === ATTRIBUTES) at = scanList(valueAt, depth, scanKeyValue)
    else if (key === TRACE_ID) at = readIdField(valueAt, SPAN_ID_AT, ids, 0)
    else if (key === SPAN_ID) at = readIdField(valueAt, 2, ids, SPAN_ID_AT)
    else if (key === START_TIME_UNIX_NANO) {
      at = skipUint64Field(valueAt)
      timeHigh = uint64High
      timeLow = uint64Low
    } else if (key === END_TIME_UNIX_NANO) at = skipUint64Field(valueAt)
    else if (key === NAME || key === PARENT_SPAN_ID || key === TRACE_STATE) at = skipStringField(valueAt)
    else if (key === KIND) at = skipEnumField(valueAt)
    else if (key === EVENTS) at = scanList(valueAt, depth, scanEvent)
    else if (key === LINKS) at = scanList(valueAt, depth, scanLink)
    else if (key === STATUS) at = scanObjectField(valueAt, depth, scanStatus)
    else if (
      key === FLAGS ||
      key === DROPPED_ATTRIBUTES_COUNT ||
      key === DROPPED_EVENTS_COUNT ||
      key === DROPPED_LINKS_COUNT
    ) {
      at = skipUint32Field(valueAt)
    } else at = skipValue(valueAt, depth)
  }
  if (isZero(0, SPAN_ID_AT)) malformed('span without a valid trace id', start)
  if (isZero(SPAN_ID_AT, 2)) malformed('span without a valid span id', start)
  describe(start, cursor, timeHigh, timeLow)
  return cursor
}

function isZero(from: number, words: number): boolean {
  for (let i = from; i < from + words; i++) if (ids[i] !== 0) return false
  return true
}

function describe(start: number, end: number, timeHigh: number, timeLow: number): void {
  const record = batch.recordCount++
  if (record >= batch.capacity) return
  batch.recordStart[record] = textOffset + start
  batch.recordEnd[record] = textOffset + end
  batch.recordGroup[record] = batch.groupCount
  batch.timeHigh[record] = timeHigh
  batch.timeLow[record] = timeLow
  for (let i = 0; i < 4; i++) batch.traceWords[4 * record + i] = ids[i]!
}
