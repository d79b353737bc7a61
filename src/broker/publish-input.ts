/**
 * A record as it is published, checked and ready to be encoded. The checks are written by hand, as errors in payload or key have a code of
 * their own. They cost as much as a compiled schema; `PublishBody` documents them.
 *
 * P1  text that is kept is well-formed, so UTF-8 gives it back unchanged
 * P2  hex has an even count of digits; it wins over text when both are given
 */
import { LongString } from '../../native-free-codecs/json-reader.ts'
import type { LongStringOf } from '../../native-free-codecs/json-reader.ts'
import { isObject } from '../plain-objects.ts'
import { unknownField } from '../validation.ts'
import type { Content } from './frames.ts'
import { HEADERS_RULE, HEADERS_SIZE_RULE, NAME_RULE, fitHeaders, isHex, isName, isText } from './names.ts'
import { BrokerError, refuse } from './refusals.ts'
import { RECORD_DURABILITIES } from './durability.ts'
import type { RecordDurability } from './durability.ts'

/** As JSON.parse made it: its own members are the headers. */
type Headers = Readonly<Record<string, string>>

export interface PublishInput {
  readonly messageId: string
  readonly payload: Content
  readonly key: Content | null
  /** Null: the broker's time. */
  readonly eventTimeMs: number | null
  readonly headers: Headers
  /** Null: as the stream says. */
  readonly durability: RecordDurability | null
}

const FIELDS: ReadonlySet<string> = new Set([
  'message_id',
  'payload',
  'payload_hex',
  'key',
  'key_hex',
  'event_time_ms',
  'headers',
  'durability_mode',
])
const DURABILITIES: readonly unknown[] = RECORD_DURABILITIES
export const NO_HEADERS: Headers = {}

/** Payloads and keys need not become strings. Headers do: their names may be any of these. */
export const longStringEncodingOf: LongStringOf = (name, owner) => {
  if (owner === 'headers') return null
  if (name === 'payload' || name === 'key') return 'utf8'
  return name === 'payload_hex' || name === 'key_hex' ? 'hex' : null
}

/**
 * @param value parsed JSON, in which what `longStringEncodingOf` names may be a LongString
 * @throws BrokerError invalid_payload about payload and key, invalid_request about the rest
 */
export function parsePublish(value: unknown): PublishInput {
  if (!isObject(value)) throw refuse('invalid_request', 'a record must be an object')
  for (const field in value) {
    if (!FIELDS.has(field)) throw refuse('invalid_request', unknownField('the record', FIELDS))
  }
  const messageId = value['message_id'] ?? null
  if (messageId === null) throw refuse('invalid_request', 'message_id is missing')
  if (typeof messageId !== 'string' || !isName(messageId)) throw refuse('invalid_request', `message_id ${NAME_RULE}`)
  const payload = encodedText(value, 'payload', 'payload_hex')
  if (payload === null) throw refuse('invalid_payload', 'payload or payload_hex is missing')
  return {
    messageId,
    payload,
    key: encodedText(value, 'key', 'key_hex'),
    eventTimeMs: timeOf(value['event_time_ms'] ?? null),
    headers: headersOf(value['headers'] ?? null),
    durability: durabilityOf(value['durability_mode'] ?? null),
  }
}

/** For items of a batch, where a bad one is a result like any other. */
export function tryParsePublish(value: unknown): PublishInput | BrokerError {
  try {
    return parsePublish(value)
  } catch (error) {
    if (error instanceof BrokerError) return error
    throw error
  }
}

/** P1, P2 */
function encodedText(record: Readonly<Record<string, unknown>>, field: string, hexField: string): Content | null {
  const text = record[field] ?? null
  const hex = record[hexField] ?? null
  if (text !== null && typeof text !== 'string' && !(text instanceof LongString)) {
    throw refuse('invalid_payload', `${field} must be a string`)
  }
  if (hex !== null) {
    if (typeof hex === 'string' && isHex(hex)) return { text: hex, encoding: 'hex' }
    if (hex instanceof LongString && hex.isValid) return hex.bytes
    throw refuse('invalid_payload', `${hexField} must be a string of an even count of hex digits`)
  }
  if (text === null) return null
  if (text instanceof LongString ? !text.isValid : !isText(text)) {
    throw refuse('invalid_payload', `${field} must be well-formed Unicode: bytes go into ${hexField}`)
  }
  return text instanceof LongString ? text.bytes : { text, encoding: 'utf8' }
}

function timeOf(value: unknown): number | null {
  if (value === null) return null
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw refuse('invalid_request', `event_time_ms must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}`)
}

function headersOf(value: unknown): Headers {
  if (value === null) return NO_HEADERS
  if (!isObject(value)) throw refuse('invalid_request', `headers ${HEADERS_RULE}`)
  for (const name in value) {
    const text = value[name]
    if (!isName(name)) throw refuse('invalid_request', `the name of a header ${NAME_RULE}`)
    if (typeof text !== 'string') throw refuse('invalid_request', 'the value of a header must be a string')
    if (!isText(text)) throw refuse('invalid_request', 'the value of a header must be well-formed Unicode')
  }
  return boundedHeaders(value as Headers) // each value was looked at
}

/** @throws BrokerError invalid_request when there are too many, or they are too long (names.ts N5) */
export function boundedHeaders(headers: Headers): Headers {
  if (!fitHeaders(headers)) throw refuse('invalid_request', `the headers ${HEADERS_SIZE_RULE}`)
  return headers
}

function durabilityOf(value: unknown): RecordDurability | null {
  if (value === null) return null
  if (DURABILITIES.includes(value)) return value as RecordDurability // one of the list of that type
  throw refuse('invalid_request', `durability_mode must be one of ${RECORD_DURABILITIES.join(', ')}`)
}
