/** A record as users see it: see `RecordReply`; or as it is sent to another site: see `ReplicatedRecord`. */
import type { RecordCursor } from '../frames.ts'
import { ESCAPED_BYTES_MAX, NUMBER_BYTES_MAX } from './json-text.ts'
import type { JsonText } from './json-text.ts'

const ascii = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'latin1'))

const OFFSET = ascii('{"offset":')
const ORIGIN_OFFSET = ascii('{"origin_offset":')
const MESSAGE_ID = ascii(',"message_id":')
const PAYLOAD_HEX = ascii(',"payload_hex":')
const KEY_HEX = ascii(',"key_hex":')
const NULL = ascii('null')
const HEADERS = ascii(',"headers":{')
const EVENT_TIME = ascii('},"event_time_ms":')
const INGEST_TIME = ascii(',"ingest_time_ms":')
const COMMA = 0x2c
const COLON = 0x3a
const CLOSE_BRACE = 0x7d

/** Names, punctuation, quotes and numbers. */
const FIXED_BYTES_MAX = 128 + 3 * NUMBER_BYTES_MAX

/** @param payload of the frame in which the record stands */
export function renderRecord(
  text: JsonText,
  payload: Buffer,
  record: RecordCursor,
  offset: number,
  ingestTimeMs: number,
  asOrigin = false,
): void {
  // A header takes 4 bytes of punctuation and two quotes' worth of strings, and its lengths take 8 bytes in the frame.
  const stringBytes = record.keyAt - record.messageIdAt + record.headersEnd - record.headersAt
  const hexBytes = record.keyEnd - record.keyAt + record.payloadBytes
  text.reserve(FIXED_BYTES_MAX + ESCAPED_BYTES_MAX * stringBytes + 2 * hexBytes)

  text.ascii(asOrigin ? ORIGIN_OFFSET : OFFSET)
  text.number(offset)
  text.ascii(MESSAGE_ID)
  text.string(payload, record.messageIdAt, record.messageIdEnd)
  text.ascii(PAYLOAD_HEX)
  text.hex(payload, record.payloadAt, record.end)
  text.ascii(KEY_HEX)
  if (record.hasKey) text.hex(payload, record.keyAt, record.keyEnd)
  else text.ascii(NULL)
  text.ascii(HEADERS)
  if (record.headersAt < record.headersEnd) renderHeaders(text, payload, record)
  text.ascii(EVENT_TIME)
  text.number(record.eventTimeMs)
  text.ascii(INGEST_TIME)
  text.number(ingestTimeMs)
  text.byte(CLOSE_BRACE)
}

function renderHeaders(text: JsonText, payload: Buffer, record: RecordCursor): void {
  for (let at = record.headersAt; at < record.headersEnd; at = record.headerEnd) {
    record.readHeader(payload, at)
    if (at > record.headersAt) text.byte(COMMA)
    text.string(payload, record.nameAt, record.valueAt)
    text.byte(COLON)
    text.string(payload, record.valueAt, record.headerEnd)
  }
}
