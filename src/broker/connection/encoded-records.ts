/**
 * Checks the records of a binary publish in place: they go into the log unchanged.
 *
 * R1  a record passes only if the route of a publish would have stored it as these bytes
 * R2  the lengths of all records are checked first: if one does not fit, nothing of the frame is done
 */
import { isUtf8 } from 'node:buffer'
import { readU32, readU64 } from '../../../native-free-codecs/frame.ts'
import { EVENT_TIME_AT, NO_KEY, RECORD_BYTES_MIN, hasNoEventTime } from '../frames/record.ts'
import { NAME_BYTES_MAX } from '../limits.ts'
import { NAME_RULE, isName } from '../names.ts'
import { boundedHeaders } from '../publish-input.ts'
import { BrokerError, refuse } from '../refusals.ts'

/** R2: whether exactly `count` records stand in [at, end), by their lengths. */
export function areWhole(bytes: Uint8Array, at: number, end: number, count: number): boolean {
  for (let i = 0; i < count; i++) {
    if (at + RECORD_BYTES_MIN > end) return false
    const next = at + readU32(bytes, at)
    const keyBytes = readU32(bytes, at + 16)
    const parts = readU32(bytes, at + 4) + (keyBytes === NO_KEY ? 0 : keyBytes) + readU32(bytes, at + 20)
    if (next > end || at + RECORD_BYTES_MIN + parts + readU32(bytes, at + 24) !== next) return false
    at = next
  }
  return at === end
}

export const payloadBytesAt = (bytes: Uint8Array, at: number): number => readU32(bytes, at + 24)

/** Remembers the last good headers: most records of a publisher have the same ones. */
export class KnownHeaders {
  #bytes = Buffer.alloc(0)

  isAt(bytes: Uint8Array, at: number, end: number): boolean {
    const known = this.#bytes
    if (end - at !== known.byteLength) return false
    for (let i = 0; i < known.byteLength; i++) if (bytes[at + i] !== known[i]) return false
    return true
  }

  keep(bytes: Buffer): void {
    if (bytes.byteLength <= KNOWN_BYTES_MAX) this.#bytes = Buffer.from(bytes)
  }
}

const KNOWN_BYTES_MAX = 1024

/** R1. What is wrong with a record that is whole; null: nothing. */
export function problemAt(bytes: Buffer, at: number, known: KnownHeaders): BrokerError | null {
  const messageIdEnd = at + RECORD_BYTES_MIN + readU32(bytes, at + 4)
  if (!isNameAt(bytes, at + RECORD_BYTES_MIN, messageIdEnd)) return refuse('invalid_request', `message_id ${NAME_RULE}`)
  if (!hasNoEventTime(bytes, at) && readU64(bytes, at + EVENT_TIME_AT) > Number.MAX_SAFE_INTEGER) {
    return refuse('invalid_request', `event_time_ms must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}`)
  }
  const headersBytes = readU32(bytes, at + 20)
  if (headersBytes === 0) return null
  const keyBytes = readU32(bytes, at + 16)
  const headersAt = messageIdEnd + (keyBytes === NO_KEY ? 0 : keyBytes)
  const headersEnd = headersAt + headersBytes
  if (known.isAt(bytes, headersAt, headersEnd)) return null
  const problem = headersProblem(bytes, headersAt, headersEnd)
  if (problem === null) known.keep(bytes.subarray(headersAt, headersEnd))
  return problem
}

function isNameAt(bytes: Buffer, at: number, end: number): boolean {
  if (end - at > NAME_BYTES_MAX) return false
  for (let i = at; i < end; i++) {
    const byte = bytes[i]!
    if (byte <= 0x20 || byte >= 0x7f) return isUtf8(bytes.subarray(at, end)) && isName(bytes.toString('utf8', at, end))
  }
  return end > at
}

function headersProblem(bytes: Buffer, at: number, end: number): BrokerError | null {
  const headers: Record<string, string> = Object.create(null)
  while (at < end) {
    if (at + 8 > end) return malformed()
    const nameAt = at + 8
    const valueAt = nameAt + readU32(bytes, at)
    const next = valueAt + readU32(bytes, at + 4)
    if (next > end) return malformed()
    const value = bytes.subarray(valueAt, next)
    if (!isNameAt(bytes, nameAt, valueAt)) return refuse('invalid_request', `the name of a header ${NAME_RULE}`)
    if (!isUtf8(value)) return refuse('invalid_request', 'the value of a header must be well-formed Unicode')
    const name = bytes.toString('utf8', nameAt, valueAt)
    if (name in headers) return refuse('invalid_request', 'a header is there twice')
    headers[name] = value.toString()
    at = next
  }
  try {
    boundedHeaders(headers)
    return null
  } catch (error) {
    if (error instanceof BrokerError) return error
    throw error
  }
}

const malformed = (): BrokerError =>
  refuse('invalid_request', 'the headers of the record do not have the length that the record declares')
