/**
 * Calls of the client that go over the streaming connection. Null: the call has no binary form, and goes over HTTP, which says what is wrong
 * with it.
 */
import type { Static } from 'typebox'
import {
  ACK,
  DELIVERY_PREFIX,
  DURABILITY_CODES,
  PUBLISH,
  SUBSCRIPTION_PREFIX,
  u64At,
} from '../../broker/wire/connection-frames.ts'
import type { FrameReader } from '../../broker/wire/connection-frames.ts'
import type { AckReply } from '../../broker/wire/queue-answers.ts'
import type { PublishReply, ReplicationReceipt } from '../../broker/wire/record-answers.ts'
import { fitHeaders } from '../../broker/names.ts'
import { isObject } from '../../plain-objects.ts'
import { deliveryOf, optionsOf } from '../arguments.ts'
import type { DeliveryName, RecordToPublish, Stoppable } from '../broker-client.ts'
import { isBytes } from '../bytes.ts'
import type { ClientConfig, Headers } from '../client-config.ts'
import { bodyOf } from '../http/wire.ts'
import { acknowledgementOf } from './decode.ts'
import { putId } from './ids.ts'
import type { Stream } from './stream.ts'

/** Longer records go over HTTP: the node may refuse them for their length, and the connection stays. Headers come on top, with a bound of their own. */
const RECORD_BYTES_MAX = 256 << 10
/** Most bytes of UTF-8 for one UTF-16 code unit. */
const BYTES_PER_UNIT_MAX = 3
const ID_PAIR_BYTES = 32
const FIELDS: ReadonlySet<string> = new Set([
  'message_id',
  'payload',
  'key',
  'event_time_ms',
  'headers',
  'durability_mode',
])
const utf8 = new TextEncoder()

export function publishOver(
  stream: Stream,
  name: string,
  record: RecordToPublish,
  config: ClientConfig,
  signal: AbortSignal | undefined,
): Promise<PublishReply> | null {
  if (!isPlain(record)) return null
  const { message_id, payload, key = null, event_time_ms = null, durability_mode } = record
  const own = record.headers ?? null
  if (own !== null && !areHeaders(own)) return null
  const durability = DURABILITY_CODES.findIndex((each) => each === (durability_mode ?? config.defaultDurability ?? ''))
  if (durability < 0 || durability >= DURABILITY_CODES.indexOf('local-quorum')) return null
  const headers = config.headersOf(own)
  if (!fitHeaders(headers)) return null
  const fields = { messageId: message_id, payload, key, headers, eventTimeMs: event_time_ms }
  return stream.promised(
    (pending) => stream.add(PUBLISH, durability, name, (writer) => writer.record(fields), pending, true),
    (frame, index) => publishedIn(frame, index, name, message_id, payload),
    signal,
  )
}

function publishedIn(
  frame: FrameReader,
  index: number,
  stream: string,
  messageId: string,
  payload: string | Uint8Array,
): PublishReply {
  const { view, bodyAt, end, flags } = frame
  const receiptAt = bodyAt + 20
  const offset = u64At(view, bodyAt) + index
  return {
    api_version: 'v1',
    stream,
    offset,
    next_offset: offset + 1,
    message_id: messageId,
    ingest_time_ms: u64At(view, bodyAt + 8),
    payload_bytes: typeof payload === 'string' ? bytesOf(payload) : payload.byteLength,
    acknowledgement: acknowledgementOf(flags, view.getUint32(bodyAt + 16, true)),
    ...(end > receiptAt && { replication_receipt: JSON.parse(frame.text(receiptAt)) as ReplicationReceipt }), // the broker's own
  }
}

const bytesOf = (text: string): number => {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return utf8.encode(text).byteLength
  return text.length
}

function isPlain(record: unknown): record is RecordToPublish {
  if (!isObject(record)) return false
  for (const field in record) if (!FIELDS.has(field)) return false
  const { message_id, payload, key = null, event_time_ms = null } = record
  if (typeof message_id !== 'string' || !isContent(payload) || (key !== null && !isContent(key))) return false
  const parts = key === null ? [message_id, payload] : [message_id, payload, key]
  const bytesMax = parts.reduce((sum, part) => sum + bytesMaxOf(part), 0)
  if (bytesMax > RECORD_BYTES_MAX || !parts.every(isWhole)) return false
  return event_time_ms === null || (Number.isSafeInteger(event_time_ms) && (event_time_ms as number) >= 0) // an integer
}

const isContent = (value: unknown): value is string | Uint8Array => typeof value === 'string' || isBytes(value)

const bytesMaxOf = (content: string | Uint8Array): number =>
  typeof content === 'string' ? BYTES_PER_UNIT_MAX * content.length : content.byteLength

const isWhole = (content: string | Uint8Array): boolean => typeof content !== 'string' || content.isWellFormed()

function areHeaders(headers: Headers): boolean {
  if (!isObject(headers)) return false
  const prototype: unknown = Object.getPrototypeOf(headers)
  if (prototype !== Object.prototype && prototype !== null) return false
  for (const name in headers) {
    const value: unknown = headers[name]
    if (typeof value !== 'string' || !value.isWellFormed() || !name.isWellFormed()) return false
  }
  return true
}

/** Copies the bytes, so that a repeated call is not affected when the caller changes them. */
export function copyOf(record: RecordToPublish): RecordToPublish {
  if (!isObject(record)) return record // which is refused
  const { payload, key } = record
  return { ...record, ...(isBytes(payload) && { payload: payload.slice() }), ...(isBytes(key) && { key: key.slice() }) }
}

/** @throws BrokerError when a name in the call is bad */
export function settleOver<T>(
  stream: Stream,
  delivery: DeliveryName,
  verb: string,
  body: object | undefined,
  options: Stoppable,
): Promise<T> | null {
  const { signal } = optionsOf(options)
  const { stream: name, subscriptionId: subscription_id, deliveryId: delivery_id } = deliveryOf(delivery)
  if (verb === 'ack') return ackOver(stream, delivery, signal) as Promise<T> | null // `T` is its reply
  const op = verb.replace('-', '_')
  return stream.ask<T>(bodyOf({ op, stream: name, subscription_id, delivery_id, body }), signal)
}

function ackOver(
  stream: Stream,
  delivery: DeliveryName,
  signal: AbortSignal | undefined,
): Promise<Static<typeof AckReply>> | null {
  const { stream: name, subscription_id, delivery_id } = delivery
  const ids = new Uint8Array(ID_PAIR_BYTES)
  if (!putId(SUBSCRIPTION_PREFIX, subscription_id, ids, 0)) return null
  if (!putId(DELIVERY_PREFIX, delivery_id, ids, ID_PAIR_BYTES / 2)) return null
  return stream.promised(
    (pending) => stream.add(ACK, 0, name, (writer) => writer.raw(ids), pending, false),
    (frame, index) => ackedIn(frame, index, delivery),
    signal,
  )
}

function ackedIn(frame: FrameReader, index: number, delivery: DeliveryName): Static<typeof AckReply> {
  const { view, bodyAt, flags } = frame
  const at = bodyAt + 12 + 12 * index
  return {
    api_version: 'v1',
    stream: delivery.stream,
    consumer_group: frame.name(),
    subscription_id: delivery.subscription_id,
    delivery_id: delivery.delivery_id,
    offset: u64At(view, at),
    attempt: view.getUint32(at + 8, true),
    acknowledged_at_ms: u64At(view, bodyAt),
    acknowledgement: acknowledgementOf(flags, view.getUint32(bodyAt + 8, true)),
  }
}
