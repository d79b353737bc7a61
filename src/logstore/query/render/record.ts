/** One stored record as the JSON text of a query result. Runs at query time only: ingest never builds any of this. */
import { readJsonRecord } from '../../../../native-free-codecs/otlp-json-scan.ts'
import type { JsonRecordFields } from '../../../../native-free-codecs/otlp-json-scan.ts'
import { FORMAT_JSON, SIGNAL_LOG, SOURCES } from '../../batch-frame.ts'
import { timeOfWords } from '../../time-words.ts'
import { messageToJson, protobufToJson } from './otlp-json.ts'
import { messageType } from './otlp-types.ts'

/** A record where it lies in the body of its batch. Ranges are [start, end) in `body`; 0 and 0: absent. */
export interface StoredRecord {
  /** As formatRecordId writes it. */
  readonly recordId: string
  /** SIGNAL_…, FORMAT_… and SOURCE_… of batch-frame.ts. */
  readonly signal: number
  readonly format: number
  readonly source: number
  readonly tenant: string
  readonly dataset: string
  /** The record's time as it is indexed: ns since the Unix epoch, two words. */
  readonly timeHigh: number
  readonly timeLow: number
  readonly body: Buffer
  readonly resourceStart: number
  readonly resourceEnd: number
  readonly scopeStart: number
  readonly scopeEnd: number
  readonly recordStart: number
  readonly recordEnd: number
  /** The text of the string in a JSON batch, else its characters in UTF-8. Empty: absent. */
  readonly resourceSchemaUrl: Uint8Array
  readonly scopeSchemaUrl: Uint8Array
}

const RESOURCE = 'opentelemetry.proto.resource.v1.Resource'
const SCOPE = 'opentelemetry.proto.common.v1.InstrumentationScope'
const LOG_RECORD = 'opentelemetry.proto.logs.v1.LogRecord'
const SPAN = 'opentelemetry.proto.trace.v1.Span'

/**
 * Texts of the resources and scopes of one page, most of which are used by many records. They are freed with the bodies, so that they
 * keep none of the page's batches in memory.
 */
export class PartTexts {
  readonly #ofBody = new WeakMap<Buffer, Map<number, string>>()

  /** The text of the part that begins at `start`, written when it is first asked for. */
  of(body: Buffer, start: number, write: () => string): string {
    let texts = this.#ofBody.get(body)
    if (texts === undefined) {
      texts = new Map()
      this.#ofBody.set(body, texts)
    }
    let text = texts.get(start)
    if (text === undefined) {
      text = write()
      texts.set(start, text)
    }
    return text
  }
}

/**
 * The JSON text of the record. raw_payload holds the record and what it belongs to in OTLP JSON: for a JSON batch the very text
 * that was sent (unknown members kept, digits exact), for a protobuf batch its mapping, see otlp-json.ts.
 *
 * trace_id and span_id are null unless they are valid; severity_number of a log is 0 when the sender gave none.
 */
export function renderRecord(record: StoredRecord, parts: PartTexts): string {
  const { body, resourceStart, resourceEnd, scopeStart, scopeEnd } = record
  const isLog = record.signal === SIGNAL_LOG
  const isJson = record.format === FORMAT_JSON
  const part = (type: string, start: number, end: number): string => {
    if (end === 0) return '{}'
    return parts.of(body, start, () =>
      isJson ? body.toString('utf8', start, end) : protobufToJson(type, body.subarray(start, end)),
    )
  }
  const member = (name: string, url: Uint8Array): string => {
    if (url.byteLength === 0) return ''
    const text = Buffer.from(url).toString()
    return `,"${name}":${isJson ? text : JSON.stringify(text)}`
  }
  const { fields, text } = isJson ? fromJson(record, isLog) : fromProtobuf(record, isLog)
  const time = timeOfWords(record.timeHigh, record.timeLow)

  return (
    `{"record_id":"${record.recordId}","source":"${SOURCES[record.source]}","signal":"${isLog ? 'log' : 'trace'}"` +
    `,"tenant_id":${JSON.stringify(record.tenant)},"dataset":${JSON.stringify(record.dataset)}` +
    `,"time_unix_nano":"${time}","trace_id":${quoted(fields.traceId)},"span_id":${quoted(fields.spanId)}` +
    (isLog ? `,"severity_number":${fields.severityNumber}` : '') +
    `,"raw_payload":{"resource":${part(RESOURCE, resourceStart, resourceEnd)}` +
    member('resourceSchemaUrl', record.resourceSchemaUrl) +
    `,"scope":${part(SCOPE, scopeStart, scopeEnd)}` +
    member('scopeSchemaUrl', record.scopeSchemaUrl) +
    `,"record":${text}}}`
  )
}

interface RecordText {
  readonly fields: JsonRecordFields
  readonly text: string
}

function fromJson({ body, recordStart, recordEnd }: StoredRecord, isLog: boolean): RecordText {
  return {
    fields: readJsonRecord(body, recordStart, recordEnd, isLog ? 'log' : 'trace'),
    text: body.toString('utf8', recordStart, recordEnd),
  }
}

function fromProtobuf({ body, recordStart, recordEnd }: StoredRecord, isLog: boolean): RecordText {
  const type = messageType(isLog ? LOG_RECORD : SPAN)
  const message = type.decode(body.subarray(recordStart, recordEnd))
  // The members of LogRecord and Span that both have, as protobufjs decodes them, and one that only a log has.
  const { traceId, spanId, severityNumber } = message as { traceId?: Buffer; spanId?: Buffer; severityNumber?: number }
  return {
    fields: {
      traceId: validId(traceId, 16),
      spanId: validId(spanId, 8),
      severityNumber: severityNumber ?? 0,
    },
    text: messageToJson(type, message),
  }
}

const validId = (id: Buffer | undefined, bytes: number): string | null =>
  id?.length === bytes && id.some((byte) => byte !== 0) ? id.toString('hex') : null

const quoted = (text: string | null): string => (text === null ? 'null' : `"${text}"`)
