/**
 * One record as it stands in a frame, the same bytes in every frame that holds it. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      4  recordBytes     u32, of the whole record
 *        4      4  messageIdBytes  u32
 *        8      8  eventTimeMs     u64
 *       16      4  keyBytes        u32, NO_KEY when there is none
 *       20      4  headersBytes    u32, of all headers
 *       24      4  payloadBytes    u32
 *       28      …  messageId       UTF-8
 *        …      …  key
 *        …      …  headers         back to back: name bytes u32, value bytes u32, name, value, both UTF-8
 *        …      …  payload
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'
import { textBytes, writeText } from './text.ts'

/** Length of a record without message id, key, headers and payload. */
export const RECORD_BYTES_MIN = 28
const HEADER_LENGTHS_BYTES = 8
export const NO_KEY = 0xffff_ffff
export const EVENT_TIME_AT = 8
/** Both halves of an event time that a publisher left to the broker. */
const NO_EVENT_TIME_HALF = 0xffff_ffff

/** True when the publisher left the event time out. A stored record always has one. */
export const hasNoEventTime = (bytes: Uint8Array, at: number): boolean =>
  readU32(bytes, at + EVENT_TIME_AT) === NO_EVENT_TIME_HALF &&
  readU32(bytes, at + EVENT_TIME_AT + 4) === NO_EVENT_TIME_HALF

/** Payload or key. The digits of 'hex' are complete pairs: the code that takes them in checks that. */
export type Content = Uint8Array | { readonly text: string; readonly encoding: 'utf8' | 'hex' }

export type RecordHeaders = Readonly<Record<string, string>>

export interface NewRecord {
  readonly messageId: string
  readonly payload: Content
  readonly key: Content | null
  readonly headers: RecordHeaders
  readonly eventTimeMs: number
}

/** A record to write, or the bytes of one that stands in a frame already. */
export type RecordSource = NewRecord | Uint8Array

export function recordBytes(record: RecordSource): number {
  if (record instanceof Uint8Array) return record.byteLength
  let bytes = RECORD_BYTES_MIN + textBytes(record.messageId) + contentBytes(record.payload)
  if (record.key !== null) bytes += contentBytes(record.key)
  return bytes + headersBytes(record.headers)
}

function headersBytes(headers: RecordHeaders): number {
  let bytes = 0
  for (const name in headers) bytes += HEADER_LENGTHS_BYTES + textBytes(name) + textBytes(headers[name]!)
  return bytes
}

function contentBytes(content: Content): number {
  if (content instanceof Uint8Array) return content.byteLength
  return content.encoding === 'hex' ? content.text.length >>> 1 : textBytes(content.text)
}

/** @returns the end of the record, `recordBytes` behind `at` */
export function encodeRecord(into: Buffer, at: number, record: RecordSource): number {
  if (record instanceof Uint8Array) {
    return copyBytes(record, into, at)
  }
  const messageIdAt = at + RECORD_BYTES_MIN
  const keyAt = writeText(into, messageIdAt, record.messageId)
  const headersAt = record.key === null ? keyAt : writeContent(into, keyAt, record.key)
  const payloadAt = writeHeaders(into, headersAt, record.headers)
  const end = writeContent(into, payloadAt, record.payload)
  writeU32(into, at, end - at)
  writeU32(into, at + 4, keyAt - messageIdAt)
  writeU64(into, at + 8, record.eventTimeMs)
  writeU32(into, at + 16, record.key === null ? NO_KEY : headersAt - keyAt)
  writeU32(into, at + 20, payloadAt - headersAt)
  writeU32(into, at + 24, end - payloadAt)
  return end
}

function writeContent(into: Buffer, at: number, content: Content): number {
  if (content instanceof Uint8Array) {
    return copyBytes(content, into, at)
  }
  return content.encoding === 'hex' ? at + into.write(content.text, at, 'hex') : writeText(into, at, content.text)
}

function writeHeaders(into: Buffer, at: number, headers: RecordHeaders): number {
  for (const name in headers) {
    const nameAt = at + HEADER_LENGTHS_BYTES
    const valueAt = writeText(into, nameAt, name)
    const end = writeText(into, valueAt, headers[name]!)
    writeU32(into, at, valueAt - nameAt)
    writeU32(into, at + 4, end - valueAt)
    at = end
  }
  return at
}

/** Where the parts of a record are in the bytes it was read from. Pointed at one record after the other. */
export class RecordCursor {
  at = 0
  end = 0
  eventTimeMs = 0
  messageIdAt = 0
  keyAt = 0
  hasKey = false
  headersAt = 0
  payloadAt = 0
  /** Where the name of the header that `readHeader` read last begins. */
  nameAt = 0
  valueAt = 0
  headerEnd = 0

  get messageIdEnd(): number {
    return this.keyAt
  }

  get keyEnd(): number {
    return this.headersAt
  }

  get headersEnd(): number {
    return this.payloadAt
  }

  get payloadBytes(): number {
    return this.end - this.payloadAt
  }

  /** Points at the record that begins at `at`; false, and unusable, when no whole record stands there. */
  read(bytes: Uint8Array, at: number): boolean {
    if (at + RECORD_BYTES_MIN > bytes.byteLength) return false
    const keyBytes = readU32(bytes, at + 16)
    this.at = at
    this.end = at + readU32(bytes, at)
    this.eventTimeMs = readU64(bytes, at + 8)
    this.messageIdAt = at + RECORD_BYTES_MIN
    this.keyAt = this.messageIdAt + readU32(bytes, at + 4)
    this.hasKey = keyBytes !== NO_KEY
    this.headersAt = this.keyAt + (this.hasKey ? keyBytes : 0)
    this.payloadAt = this.headersAt + readU32(bytes, at + 20)
    if (this.end > bytes.byteLength || this.payloadAt + readU32(bytes, at + 24) !== this.end) return false
    return this.eventTimeMs <= Number.MAX_SAFE_INTEGER && this.#hasWholeHeaders(bytes)
  }

  /** Points `nameAt`, `valueAt` and `headerEnd` at the header that begins at `at`, from `headersAt` on. */
  readHeader(bytes: Uint8Array, at: number): void {
    this.nameAt = at + HEADER_LENGTHS_BYTES
    this.valueAt = this.nameAt + readU32(bytes, at)
    this.headerEnd = this.valueAt + readU32(bytes, at + 4)
  }

  #hasWholeHeaders(bytes: Uint8Array): boolean {
    let at = this.headersAt
    while (at < this.headersEnd) {
      if (at + HEADER_LENGTHS_BYTES > this.headersEnd) return false
      this.readHeader(bytes, at)
      at = this.headerEnd
    }
    return at === this.headersEnd
  }
}

/** The headers of a record. Null when `raw` is not one whole record. */
export function headersOf(raw: Buffer): Map<string, string> | null {
  const record = new RecordCursor()
  if (!record.read(raw, 0) || record.end !== raw.byteLength) return null
  const headers = new Map<string, string>()
  for (let at = record.headersAt; at < record.headersEnd; at = record.headerEnd) {
    record.readHeader(raw, at)
    headers.set(
      raw.toString('utf8', record.nameAt, record.valueAt),
      raw.toString('utf8', record.valueAt, record.headerEnd),
    )
  }
  return headers
}

/** The same record with more headers, which replace its own of the same name. Null when `raw` is not one whole record. */
export const withHeaders = (raw: Buffer, added: RecordHeaders): Buffer | null =>
  rewritten(raw, (name) => Object.hasOwn(added, name), added)

/** The same record without headers of these names. Null when `raw` is not one whole record. */
export const withoutHeaders = (raw: Buffer, names: ReadonlySet<string>): Buffer | null =>
  rewritten(raw, (name) => names.has(name), {})

function rewritten(raw: Buffer, drops: (name: string) => boolean, added: RecordHeaders): Buffer | null {
  const record = new RecordCursor()
  if (!record.read(raw, 0) || record.end !== raw.byteLength) return null
  const kept: Buffer[] = []
  for (let at = record.headersAt; at < record.headersEnd; at = record.headerEnd) {
    record.readHeader(raw, at)
    if (!drops(raw.toString('utf8', record.nameAt, record.valueAt))) kept.push(raw.subarray(at, record.headerEnd))
  }
  const more = Buffer.allocUnsafe(headersBytes(added))
  writeHeaders(more, 0, added)
  const whole = Buffer.concat([raw.subarray(0, record.headersAt), ...kept, more, raw.subarray(record.payloadAt)])
  writeU32(whole, 0, whole.byteLength)
  writeU32(whole, 20, whole.byteLength - record.headersAt - record.payloadBytes)
  return whole
}
