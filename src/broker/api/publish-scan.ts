/**
 * The body of a publish of the usual form, read as bytes: its payload never becomes a string.
 *
 *   { "message_id": "…", "payload": "…", "key": "…", "event_time_ms": 123, "durability_mode": "…" }
 *
 * S1  the result for every body is that of JSON.parse and `parsePublish`, or null: the scan gives up on an escape, on a name or a value of any
 *     other kind, on a name that comes twice, and on everything that would be refused
 * S2  payload and key point into the bytes
 */
import { isUtf8 } from 'node:buffer'
import { stringStop } from '../../../native-free-codecs/json-reader.ts'
import { isName } from '../names.ts'
import { NO_HEADERS } from '../publish-input.ts'
import type { PublishInput } from '../publish-input.ts'
import { RECORD_DURABILITIES } from '../durability.ts'

const QUOTE = 0x22
/** Every integer of at most this many digits is safe. */
const DIGITS_MAX = 15

const named = (name: string): Buffer => Buffer.from(name)
const MESSAGE_ID = named('message_id')
const PAYLOAD = named('payload')
const KEY = named('key')
const EVENT_TIME = named('event_time_ms')
const DURABILITY_MODE = named('durability_mode')
const DURABILITIES = RECORD_DURABILITIES.map((durability) => ({ durability, bytes: named(durability) }))

/** S1, S2 */
export function scanPublish(bytes: Buffer): PublishInput | null {
  if (!isUtf8(bytes)) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const end = bytes.byteLength
  let messageId: string | null = null
  let payload: Uint8Array | null = null
  let key: Uint8Array | null = null
  let eventTimeMs: number | null = null
  let durability: PublishInput['durability'] = null

  let at = behindSpace(bytes, 0)
  if (bytes[at] !== 0x7b) return null
  do {
    const nameAt = behindSpace(bytes, at + 1) + 1
    if (bytes[nameAt - 1] !== QUOTE) return null
    const nameEnd = stringStop(bytes, view, nameAt, end)
    if (bytes[nameEnd] !== QUOTE) return null
    const colonAt = behindSpace(bytes, nameEnd + 1)
    if (bytes[colonAt] !== 0x3a) return null
    const valueAt = behindSpace(bytes, colonAt + 1)
    if (isAt(bytes, nameAt, nameEnd, EVENT_TIME)) {
      const valueEnd = behindDigits(bytes, valueAt)
      if (eventTimeMs !== null || valueEnd === valueAt) return null
      eventTimeMs = Number(bytes.toString('latin1', valueAt, valueEnd))
      at = behindSpace(bytes, valueEnd)
      continue
    }
    const textAt = valueAt + 1
    const textEnd = stringStop(bytes, view, textAt, end)
    if (bytes[valueAt] !== QUOTE || bytes[textEnd] !== QUOTE) return null
    if (isAt(bytes, nameAt, nameEnd, PAYLOAD)) {
      if (payload !== null) return null
      payload = bytes.subarray(textAt, textEnd)
    } else if (isAt(bytes, nameAt, nameEnd, MESSAGE_ID)) {
      if (messageId !== null) return null
      messageId = bytes.toString('utf8', textAt, textEnd)
      if (!isName(messageId)) return null
    } else if (isAt(bytes, nameAt, nameEnd, DURABILITY_MODE)) {
      if (durability !== null) return null
      durability = durabilityAt(bytes, textAt, textEnd)
      if (durability === null) return null
    } else if (isAt(bytes, nameAt, nameEnd, KEY)) {
      if (key !== null) return null
      key = bytes.subarray(textAt, textEnd)
    } else return null
    at = behindSpace(bytes, textEnd + 1)
  } while (bytes[at] === 0x2c)
  if (bytes[at] !== 0x7d || behindSpace(bytes, at + 1) !== end) return null
  if (messageId === null || payload === null) return null
  return { messageId, payload, key, eventTimeMs, headers: NO_HEADERS, durability }
}

function isAt(bytes: Uint8Array, from: number, to: number, expected: Uint8Array): boolean {
  if (to - from !== expected.byteLength) return false
  for (let i = 0; i < expected.byteLength; i++) if (bytes[from + i] !== expected[i]) return false
  return true
}

function durabilityAt(bytes: Uint8Array, from: number, to: number): PublishInput['durability'] {
  for (const each of DURABILITIES) if (isAt(bytes, from, to, each.bytes)) return each.durability
  return null
}

/** Where the JSON integer at `at` ends; `at` when there is none, or one with more than DIGITS_MAX digits. */
function behindDigits(bytes: Uint8Array, at: number): number {
  let to = at
  while (bytes[to]! >= 0x30 && bytes[to]! <= 0x39) to++
  const isOne = to - at <= DIGITS_MAX && (bytes[at] !== 0x30 || to === at + 1)
  return isOne ? to : at
}

function behindSpace(bytes: Uint8Array, at: number): number {
  for (; at < bytes.byteLength; at++) {
    const byte = bytes[at]
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break
  }
  return at
}
