/** Turns frames of the broker into what the client returns. */
import {
  DELIVERIES_HEAD_BYTES,
  DELIVERY_HEAD_BYTES,
  DELIVERY_PREFIX,
  DURABILITY_CODES,
  NONE,
  RECORD_HEAD_BYTES,
  SUBSCRIPTION_PREFIX,
  textAt,
  u64At,
} from '../../broker/wire/connection-frames.ts'
import type { FrameReader } from '../../broker/wire/connection-frames.ts'
import type { Acknowledgement } from '../../broker/wire/answers.ts'
import type { Delivery, StoredRecord } from '../broker-client.ts'
import { HttpBrokerError } from '../sdk-error.ts'
import { idAt } from './ids.ts'

/** From this code of a durability on, records are synced. */
const SYNCED = DURABILITY_CODES.indexOf('local-sync')

export const acknowledgementOf = (code: number, replicas: number): Acknowledgement => ({
  durability: DURABILITY_CODES[code] ?? '',
  durable: code >= SYNCED,
  replicas,
})

/** Reads a DELIVERIES frame. Payloads and keys are views of the message. */
export function deliveriesIn(frame: FrameReader, stream: string, group: string): Delivery[] {
  const { bytes, view, bodyAt, count } = frame
  const leasedAtMs = u64At(view, bodyAt)
  const expiresAtMs = u64At(view, bodyAt + 8)
  const remainingMs = u64At(view, bodyAt + 16)
  const fencingToken = u64At(view, bodyAt + 24)
  const subscriptionId = idAt(SUBSCRIPTION_PREFIX, bytes, bodyAt + 32)
  const deliveries: Delivery[] = []
  let at = bodyAt + DELIVERIES_HEAD_BYTES
  for (let i = 0; i < count; i++) {
    const offset = u64At(view, at + 20)
    const recordAt = at + DELIVERY_HEAD_BYTES + 8
    deliveries.push({
      delivery_id: idAt(DELIVERY_PREFIX, bytes, at),
      subscription_id: subscriptionId,
      offset,
      attempt: view.getUint32(at + 16, true),
      leased_at_ms: leasedAtMs,
      lease_expires_at_ms: expiresAtMs,
      lease_remaining_millis: remainingMs,
      fencing_token: fencingToken,
      stream,
      consumer_group: group,
      record: recordAtOf(bytes, view, recordAt, offset, u64At(view, at + DELIVERY_HEAD_BYTES)),
    })
    at = recordAt + view.getUint32(recordAt, true)
  }
  return deliveries
}

function recordAtOf(bytes: Uint8Array, view: DataView, at: number, offset: number, ingestTimeMs: number): StoredRecord {
  const messageIdAt = at + RECORD_HEAD_BYTES
  const keyAt = messageIdAt + view.getUint32(at + 4, true)
  const keyBytes = view.getUint32(at + 16, true)
  const headersAt = keyAt + (keyBytes === NONE ? 0 : keyBytes)
  const payloadAt = headersAt + view.getUint32(at + 20, true)
  return {
    offset,
    message_id: textAt(bytes, messageIdAt, keyAt),
    payload: bytes.subarray(payloadAt, payloadAt + view.getUint32(at + 24, true)),
    key: keyBytes === NONE ? null : bytes.subarray(keyAt, headersAt),
    headers: headersIn(bytes, view, headersAt, payloadAt),
    event_time_ms: u64At(view, at + 8),
    ingest_time_ms: ingestTimeMs,
  }
}

function headersIn(bytes: Uint8Array, view: DataView, at: number, end: number): Record<string, string> {
  const pairs: [string, string][] = []
  while (at < end) {
    const nameAt = at + 8
    const valueAt = nameAt + view.getUint32(at, true)
    const next = valueAt + view.getUint32(at + 4, true)
    pairs.push([textAt(bytes, nameAt, valueAt), textAt(bytes, valueAt, next)])
    at = next
  }
  return Object.fromEntries(pairs)
}

/** Reads the text of a REFUSED or ENDED frame, which the broker made. */
export function refusalIn(text: string): HttpBrokerError {
  const { status, retry_after_seconds, error } = JSON.parse(text) as {
    readonly status: number
    readonly retry_after_seconds?: number
    readonly error: {
      readonly code: string
      readonly message: string
      readonly action: string
      readonly retryable: boolean
    }
  }
  return new HttpBrokerError({ ...error, status, retryAfterSeconds: retry_after_seconds ?? null })
}
