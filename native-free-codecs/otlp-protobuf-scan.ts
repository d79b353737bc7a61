/**
 * Finds the records of an OTLP protobuf batch without building an object for any of them, and validates every byte of it.
 *
 *   request    1 resource_logs | resource_spans *           (ExportLogsServiceRequest, ExportTraceServiceRequest)
 *     resource group   1 resource · 2 scope_logs | scope_spans * · 3 schema_url
 *       scope group    1 scope · 2 log_records | spans * · 3 schema_url
 *         record       LogRecord or Span
 *
 * - A batch is accepted when protobufjs decodes it and each described range, with the same times, ids and claims. Wire types, lengths, nesting, and
 *   the UTF-8 of strings are checked all the way down.
 * - Fields come in any order. A singular field may come again, and the last one counts. A second resource or scope of a group is refused: the format
 *   would have the two merged, and what is described is one message as it was sent.
 * - A log record whose ids are invalid is kept without them; a span without valid ids makes the batch malformed.
 */
import { IdentityReader, NO_IDENTITY, ResourceCache } from './otlp-batch.ts'
import type { OtlpBatch, ResourceIdentity } from './otlp-batch.ts'
import {
  RECORD_DEPTH,
  RESOURCE_DEPTH,
  validateAnyValue,
  validateEntityRef,
  validateEvent,
  validateKeyValue,
  validateLink,
  validateScope,
  validateStatus,
} from './otlp-protobuf-values.ts'
import {
  contentEnd,
  cursor,
  dropWords,
  malformed,
  readTag,
  skipField,
  skipFixed,
  skipString,
  skipVarint,
  useWordsOf,
} from './protobuf-wire.ts'

type ScanRecord = (bytes: Uint8Array, start: number, end: number, batch: OtlpBatch) => void

const resourceCache = new ResourceCache()
const identityReader = new IdentityReader()

/**
 * @param bytes  a view over any buffer, a SharedArrayBuffer included
 * @param start  first byte of the ExportLogsServiceRequest in `bytes`
 * @param end    one past its last byte
 * @param batch  is reset first; describes the batch unless this throws
 * @throws MalformedBatchError
 */
export function scanLogsProtobuf(bytes: Uint8Array, start: number, end: number, batch: OtlpBatch): void {
  scanRequest(bytes, start, end, batch, scanLogRecord)
}

/** Like scanLogsProtobuf, for an ExportTraceServiceRequest. */
export function scanTracesProtobuf(bytes: Uint8Array, start: number, end: number, batch: OtlpBatch): void {
  scanRequest(bytes, start, end, batch, scanSpan)
}

function scanRequest(bytes: Uint8Array, at: number, end: number, batch: OtlpBatch, scanRecord: ScanRecord): void {
  batch.reset()
  useWordsOf(bytes)
  try {
    while (at < end) {
      const tag = readTag(bytes, at, end)
      at = cursor
      if (tag === 0x0a) {
        const groupEnd = contentEnd(bytes, at, end)
        scanResourceGroup(bytes, cursor, groupEnd, batch, scanRecord)
        at = groupEnd
      } else at = skipField(bytes, at, end, tag, 0)
    }
  } finally {
    dropWords()
  }
}

function scanResourceGroup(bytes: Uint8Array, at: number, end: number, batch: OtlpBatch, scanRecord: ScanRecord): void {
  const groupsBefore = batch.groupCount
  let resourceStart = 0 // 0: absent, as no message in a request begins there
  let resourceEnd = 0
  let schemaUrlStart = 0
  let schemaUrlEnd = 0
  let identity = NO_IDENTITY
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    switch (tag) {
      case 0x0a:
        if (resourceStart !== 0) malformed('a second resource in a group', at)
        resourceEnd = contentEnd(bytes, at, end)
        resourceStart = cursor
        identity = scanResource(bytes, resourceStart, resourceEnd)
        at = resourceEnd
        break
      case 0x12: {
        const groupEnd = contentEnd(bytes, at, end)
        scanScopeGroup(bytes, cursor, groupEnd, batch, scanRecord)
        at = groupEnd
        break
      }
      case 0x1a:
        at = skipString(bytes, at, end)
        schemaUrlStart = at > cursor ? cursor : 0
        schemaUrlEnd = at > cursor ? at : 0
        break
      default:
        at = skipField(bytes, at, end, tag, 1)
    }
  }
  if (batch.groupCount === groupsBefore) return
  batch.addResource(resourceStart, resourceEnd, schemaUrlStart, schemaUrlEnd, identity)
}

function scanScopeGroup(bytes: Uint8Array, at: number, end: number, batch: OtlpBatch, scanRecord: ScanRecord): void {
  const recordsBefore = batch.recordCount
  let scopeStart = 0
  let scopeEnd = 0
  let schemaUrlStart = 0
  let schemaUrlEnd = 0
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    switch (tag) {
      case 0x0a:
        if (scopeStart !== 0) malformed('a second scope in a group', at)
        scopeEnd = contentEnd(bytes, at, end)
        scopeStart = cursor
        validateScope(bytes, scopeStart, scopeEnd)
        at = scopeEnd
        break
      case 0x12: {
        const recordEnd = contentEnd(bytes, at, end)
        at = recordEnd
        if (batch.isLenient) scanOrReject(bytes, cursor, recordEnd, batch, scanRecord)
        else {
          scanRecord(bytes, cursor, recordEnd, batch)
          batch.recordCount++
        }
        break
      }
      case 0x1a:
        at = skipString(bytes, at, end)
        schemaUrlStart = at > cursor ? cursor : 0
        schemaUrlEnd = at > cursor ? at : 0
        break
      default:
        at = skipField(bytes, at, end, tag, 2)
    }
  }
  if (batch.recordCount === recordsBefore || recordsBefore >= batch.capacity) return
  batch.addGroup(scopeStart, scopeEnd, schemaUrlStart, schemaUrlEnd)
}

function scanOrReject(bytes: Uint8Array, start: number, end: number, batch: OtlpBatch, scanRecord: ScanRecord): void {
  try {
    scanRecord(bytes, start, end, batch)
    batch.recordCount++
  } catch (error) {
    batch.reject(error)
  }
}

function scanLogRecord(bytes: Uint8Array, start: number, end: number, batch: OtlpBatch): void {
  let timeAt = -1
  let observedAt = -1
  let traceAt = -1
  let at = start
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    switch (tag) {
      case 0x32: // attributes
        at = validateKeyValue(bytes, at, end, RECORD_DEPTH + 1)
        break
      case 0x2a: // body
        at = validateAnyValue(bytes, at, end, RECORD_DEPTH + 1)
        break
      case 0x09: // time_unix_nano
        timeAt = at
        at = skipFixed(at, end, 8)
        break
      case 0x59: // observed_time_unix_nano
        observedAt = at
        at = skipFixed(at, end, 8)
        break
      case 0x4a: {
        // trace_id
        const idEnd = contentEnd(bytes, at, end)
        traceAt = idEnd - cursor === 16 ? cursor : -1
        at = idEnd
        break
      }
      case 0x52: // span_id
        at = contentEnd(bytes, at, end)
        break
      case 0x10: // severity_number
      case 0x38: // dropped_attributes_count
        at = skipVarint(bytes, at, end)
        break
      case 0x1a: // severity_text
      case 0x62: // event_name
        at = skipString(bytes, at, end)
        break
      case 0x45: // flags
        at = skipFixed(at, end, 4)
        break
      default:
        at = skipField(bytes, at, end, tag, RECORD_DEPTH)
    }
  }
  if (timeAt < 0 || isZero(bytes, timeAt, 8)) timeAt = observedAt
  if (batch.recordCount < batch.capacity) describe(bytes, start, end, batch, timeAt, traceAt)
}

function scanSpan(bytes: Uint8Array, start: number, end: number, batch: OtlpBatch): void {
  let timeAt = -1
  let traceAt = -1
  let spanAt = -1
  let at = start
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    switch (tag) {
      case 0x0a: {
        // trace_id
        const idEnd = contentEnd(bytes, at, end)
        traceAt = idEnd - cursor === 16 ? cursor : -1
        at = idEnd
        break
      }
      case 0x12: {
        // span_id
        const idEnd = contentEnd(bytes, at, end)
        spanAt = idEnd - cursor === 8 ? cursor : -1
        at = idEnd
        break
      }
      case 0x22: // parent_span_id
        at = contentEnd(bytes, at, end)
        break
      case 0x1a: // trace_state
      case 0x2a: // name
        at = skipString(bytes, at, end)
        break
      case 0x39: // start_time_unix_nano
        timeAt = at
        at = skipFixed(at, end, 8)
        break
      case 0x41: // end_time_unix_nano
        at = skipFixed(at, end, 8)
        break
      case 0x4a: // attributes
        at = validateKeyValue(bytes, at, end, RECORD_DEPTH + 1)
        break
      case 0x30: // kind
      case 0x50: // dropped_attributes_count
      case 0x60: // dropped_events_count
      case 0x70: // dropped_links_count
        at = skipVarint(bytes, at, end)
        break
      case 0x5a: // events
        at = validateEvent(bytes, at, end)
        break
      case 0x6a: // links
        at = validateLink(bytes, at, end)
        break
      case 0x7a: // status
        at = validateStatus(bytes, at, end)
        break
      case 0x85: // flags
        at = skipFixed(at, end, 4)
        break
      default:
        at = skipField(bytes, at, end, tag, RECORD_DEPTH)
    }
  }
  if (traceAt < 0 || isZero(bytes, traceAt, 16)) malformed('span without a valid trace id', start)
  if (spanAt < 0 || isZero(bytes, spanAt, 8)) malformed('span without a valid span id', start)
  if (batch.recordCount < batch.capacity) describe(bytes, start, end, batch, timeAt, traceAt)
}

/** Fills the entry of the record; timeAt and traceAt are where its time and trace id are, or -1. */
function describe(
  bytes: Uint8Array,
  start: number,
  end: number,
  batch: OtlpBatch,
  timeAt: number,
  traceAt: number,
): void {
  const record = batch.recordCount
  batch.recordStart[record] = start
  batch.recordEnd[record] = end
  batch.recordGroup[record] = batch.groupCount
  if (timeAt < 0) {
    batch.timeLow[record] = 0
    batch.timeHigh[record] = 0
  } else {
    batch.timeLow[record] = littleEndianWord(bytes, timeAt)
    batch.timeHigh[record] = littleEndianWord(bytes, timeAt + 4)
  }
  const traceWords = batch.traceWords
  for (let i = 4 * record; i < 4 * record + 4; i++) {
    traceWords[i] = traceAt < 0 ? 0 : bigEndianWord(bytes, traceAt)
    if (traceAt >= 0) traceAt += 4
  }
}

function littleEndianWord(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}

function bigEndianWord(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!
}

function isZero(bytes: Uint8Array, at: number, byteCount: number): boolean {
  for (let i = at; i < at + byteCount; i++) if (bytes[i] !== 0) return false
  return true
}

/** Validates the content of a Resource and gives its identity; bytes that equal the last resource scanned are known to be valid. */
function scanResource(bytes: Uint8Array, start: number, end: number): ResourceIdentity {
  const known = resourceCache.find(bytes, start, end)
  if (known !== null) return known
  identityReader.reset()
  let at = start
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    if (tag === 0x0a) {
      const attributeEnd = validateKeyValue(bytes, at, end, RESOURCE_DEPTH + 1)
      contentEnd(bytes, at, end)
      readIdentity(bytes, cursor, attributeEnd)
      at = attributeEnd
    } else if (tag === 0x10) at = skipVarint(bytes, at, end)
    else if (tag === 0x1a) at = validateEntityRef(bytes, at, end)
    else at = skipField(bytes, at, end, tag, RESOURCE_DEPTH)
  }
  const identity = identityReader.identity()
  resourceCache.put(bytes, start, end, identity)
  return identity
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads one valid resource attribute. As protobuf merges: the last key counts, and the last member set of the value. */
function readIdentity(bytes: Uint8Array, at: number, end: number): void {
  let key = ''
  let value: string | null = null
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    if (tag === 0x0a) {
      const keyEnd = contentEnd(bytes, at, end)
      key = utf8.decode(bytes.subarray(cursor, keyEnd))
      at = keyEnd
    } else if (tag === 0x12) {
      const valueEnd = contentEnd(bytes, at, end)
      value = readString(bytes, cursor, valueEnd, value)
      at = valueEnd
    } else at = skipField(bytes, at, end, tag, 0)
  }
  if (key === 'tenant_id' || key === 'service.logstore.tenant_id') identityReader.tenantClaim(value)
  else if (key === 'service.name') identityReader.serviceName(value)
}

/** The string a valid AnyValue holds, null when it holds something else, `before` when it holds nothing. */
function readString(bytes: Uint8Array, at: number, end: number, before: string | null): string | null {
  let value = before
  while (at < end) {
    const tag = readTag(bytes, at, end)
    at = cursor
    at = skipField(bytes, at, end, tag, 0)
    if (tag === 0x0a) value = utf8.decode(bytes.subarray(cursor, at))
    else if (isOtherMember(tag)) value = null
  }
  return value
}

function isOtherMember(tag: number): boolean {
  return tag === 0x10 || tag === 0x18 || tag === 0x21 || tag === 0x2a || tag === 0x32 || tag === 0x3a
}
