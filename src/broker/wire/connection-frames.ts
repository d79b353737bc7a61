/**
 * The binary form of the streaming connection, version 1. A message is one or more frames, back to back; integers are little-endian.
 *
 *   offset  bytes  field
 *        0      4  frameBytes  u32, of the whole frame
 *        4      1  type        u8
 *        5      1  flags       u8, in PUBLISH, PUBLISHED and ACKED the durability (DURABILITY_CODES), otherwise 0
 *        6      2  nameBytes   u16
 *        8      4  id          u32, of the first operation: the others of the frame follow
 *       12      4  count       u32, of operations or deliveries
 *       16      …  name        UTF-8
 *        …      …  body
 *
 *   type              from    name    body
 *     1  PUBLISH      client  stream  records, back to back
 *     2  ACK          client  stream  for each delivery the 16 bytes of its subscription id and the 16 bytes of its own
 *     3  REQUEST      client  none    JSON like that of a text message, without `id`
 *   129  PUBLISHED    broker  none    offset u64 of the first record, ingest time u64, replicas u32, receipt of the replication in JSON or nothing
 *   130  ACKED        broker  group   acknowledged at u64, replicas u32, for each delivery offset u64 and attempt u32
 *   131  ANSWER       broker  none    JSON: the answer to a REQUEST
 *   132  REFUSED      broker  none    JSON: `status`, `retry_after_seconds`, `error`
 *   133  DELIVERIES   broker  none    leased at u64, expires at u64, remaining u64, fencing token u64, subscription id 16 bytes, deliveries
 *   134  ENDED        broker  none    JSON like that of REFUSED: a subscription ended
 *
 * A delivery is its id (16 bytes), attempt u32, offset u64, ingest time u64, and its record. Ids are those of the JSON form without their
 * prefix, decoded from base64url. A record is as it stands in the log:
 *
 *        0      4  recordBytes     u32, of the whole record
 *        4      4  messageIdBytes  u32
 *        8      8  eventTimeMs     u64; all bits set in a PUBLISH: the broker's time
 *       16      4  keyBytes        u32, all bits set when there is none
 *       20      4  headersBytes    u32, of all headers
 *       24      4  payloadBytes    u32
 *       28      …  messageId       UTF-8
 *        …      …  key
 *        …      …  headers         name bytes u32, value bytes u32, name, value; back to back
 *        …      …  payload
 *
 * Browsers load this file with the client library: it needs nothing of Node.
 */
/** Path of the route; and the sub-protocol, which names the version. A key stands behind BEARER, in base64url. */
export const CONNECTION_PATH = '/v1/connection'
export const PROTOCOL = 'trilog.v1'
export const BEARER = 'bearer.'

/** Prefixes of the base64url of ids in JSON. */
export const SUBSCRIPTION_PREFIX = 'sub-'
export const DELIVERY_PREFIX = 'dlv-'

export const FRAME_HEAD_BYTES = 16
export const ID_BYTES = 16
/** Head of a delivery: its record stands behind it and begins with its ingest time. */
export const DELIVERY_HEAD_BYTES = ID_BYTES + 12
export const DELIVERIES_HEAD_BYTES = 4 * 8 + ID_BYTES
export const RECORD_HEAD_BYTES = 28
export const NONE = 0xffff_ffff

export const PUBLISH = 1
export const ACK = 2
export const REQUEST = 3
export const PUBLISHED = 129
export const ACKED = 130
export const ANSWER = 131
export const REFUSED = 132
export const DELIVERIES = 133
export const ENDED = 134

/** Durabilities by their codes. 0 in a PUBLISH: as the stream says. */
export const DURABILITY_CODES = ['', 'volatile', 'local-append', 'local-sync', 'local-quorum'] as const

const HALF = 2 ** 32
/** Up to this length a loop is faster than a call out of JavaScript. */
const BY_HAND_MAX = 48
const BYTES_FIRST = 4096
/** Longest buffer that is kept for the next message. */
const BYTES_KEPT_MAX = 1 << 20
const BYTES_PER_UNIT_MAX = 3

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength)

export const u64At = (view: DataView, at: number): number =>
  view.getUint32(at + 4, true) * HALF + view.getUint32(at, true)

/** @throws TypeError when it is no UTF-8 */
export function textAt(bytes: Uint8Array, at: number, end: number): string {
  if (end - at > BY_HAND_MAX) return decoder.decode(bytes.subarray(at, end))
  let text = ''
  for (let i = at; i < end; i++) {
    const byte = bytes[i]!
    if (byte > 0x7f) return decoder.decode(bytes.subarray(at, end))
    text += String.fromCharCode(byte)
  }
  return text
}

/** Reads the frames of one message. */
export class FrameReader {
  readonly bytes: Uint8Array
  readonly view: DataView
  // Fields of the present frame.
  type = 0
  flags = 0
  id = 0
  count = 0
  nameAt = 0
  bodyAt = 0
  end = 0

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.view = viewOf(bytes)
  }

  get isAtEnd(): boolean {
    return this.end === this.bytes.byteLength
  }

  /** False: no whole frame follows. */
  next(): boolean {
    const at = this.end
    const { view } = this
    if (at + FRAME_HEAD_BYTES > view.byteLength) return false
    const end = at + view.getUint32(at, true)
    const bodyAt = at + FRAME_HEAD_BYTES + view.getUint16(at + 6, true)
    if (end > view.byteLength || bodyAt > end) return false
    this.type = view.getUint8(at + 4)
    this.flags = view.getUint8(at + 5)
    this.id = view.getUint32(at + 8, true)
    this.count = view.getUint32(at + 12, true)
    this.nameAt = at + FRAME_HEAD_BYTES
    this.bodyAt = bodyAt
    this.end = end
    return true
  }

  /** @throws TypeError when it is no UTF-8 */
  name(): string {
    return textAt(this.bytes, this.nameAt, this.bodyAt)
  }

  /** @throws TypeError when it is no UTF-8 */
  text(from = this.bodyAt): string {
    return textAt(this.bytes, from, this.end)
  }
}

export interface RecordFields {
  readonly messageId: string
  readonly payload: string | Uint8Array
  readonly key: string | Uint8Array | null
  readonly headers: Readonly<Record<string, string>>
  /** Null: the broker's time. */
  readonly eventTimeMs: number | null
}

/** Writes the frames of one message. */
export class FrameWriter {
  length = 0
  #bytes = new Uint8Array(BYTES_FIRST)
  #view = viewOf(this.#bytes)
  #frameAt = 0

  begin(type: number, flags: number, id: number, name: string): void {
    const at = (this.#frameAt = this.length)
    this.#reserve(FRAME_HEAD_BYTES)
    this.length += FRAME_HEAD_BYTES
    this.text(name)
    const view = this.#view
    view.setUint8(at + 4, type)
    view.setUint8(at + 5, flags)
    view.setUint16(at + 6, this.length - at - FRAME_HEAD_BYTES, true)
    view.setUint32(at + 8, id, true)
  }

  end(count: number): void {
    const at = this.#frameAt
    this.#view.setUint32(at, this.length - at, true)
    this.#view.setUint32(at + 12, count, true)
  }

  u32(value: number): void {
    this.#reserve(4)
    this.#view.setUint32(this.length, value, true)
    this.length += 4
  }

  u64(value: number): void {
    this.#reserve(8)
    this.#view.setUint32(this.length, value % HALF, true)
    this.#view.setUint32(this.length + 4, Math.floor(value / HALF), true)
    this.length += 8
  }

  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.byteLength)
    this.#bytes.set(bytes, this.length)
    this.length += bytes.byteLength
  }

  text(text: string): void {
    const units = text.length
    this.#reserve(units * BYTES_PER_UNIT_MAX)
    const bytes = this.#bytes
    const at = this.length
    if (units <= BY_HAND_MAX) {
      let i = 0
      for (; i < units; i++) {
        const code = text.charCodeAt(i)
        if (code > 0x7f) break
        bytes[at + i] = code
      }
      if (i === units) {
        this.length = at + units
        return
      }
    }
    this.length = at + encoder.encodeInto(text, bytes.subarray(at)).written
  }

  record({ messageId, payload, key, headers, eventTimeMs }: RecordFields): void {
    const at = this.length
    this.#reserve(RECORD_HEAD_BYTES)
    this.length += RECORD_HEAD_BYTES
    this.text(messageId)
    const keyAt = this.length
    if (key !== null) this.#content(key)
    const headersAt = this.length
    for (const name in headers) this.#header(name, headers[name]!)
    const payloadAt = this.length
    this.#content(payload)
    const view = this.#view
    view.setUint32(at, this.length - at, true)
    view.setUint32(at + 4, keyAt - at - RECORD_HEAD_BYTES, true)
    view.setUint32(at + 8, eventTimeMs === null ? NONE : eventTimeMs % HALF, true)
    view.setUint32(at + 12, eventTimeMs === null ? NONE : Math.floor(eventTimeMs / HALF), true)
    view.setUint32(at + 16, key === null ? NONE : headersAt - keyAt, true)
    view.setUint32(at + 20, payloadAt - headersAt, true)
    view.setUint32(at + 24, this.length - payloadAt, true)
  }

  /** Valid until more is written. */
  get written(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.length)
  }

  clear(): void {
    this.length = 0
    if (this.#bytes.byteLength > BYTES_KEPT_MAX) {
      this.#bytes = new Uint8Array(BYTES_FIRST)
      this.#view = viewOf(this.#bytes)
    }
  }

  #header(name: string, value: string): void {
    const at = this.length
    this.#reserve(8)
    this.length += 8
    this.text(name)
    const valueAt = this.length
    this.text(value)
    this.#view.setUint32(at, valueAt - at - 8, true)
    this.#view.setUint32(at + 4, this.length - valueAt, true)
  }

  #content(content: string | Uint8Array): void {
    if (typeof content === 'string') this.text(content)
    else this.raw(content)
  }

  #reserve(bytes: number): void {
    const wanted = this.length + bytes
    if (wanted <= this.#bytes.byteLength) return
    const larger = new Uint8Array(Math.max(wanted, 2 * this.#bytes.byteLength))
    larger.set(this.#bytes.subarray(0, this.length))
    this.#bytes = larger
    this.#view = viewOf(larger)
  }
}
