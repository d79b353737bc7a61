/** The answer to a claim: envelopes around records that the reader threads rendered. */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'
import type { RenderedRecords } from '../records/rendered-records.ts'
import { BLOCK_BYTES } from '../tokens.ts'
import type { ClaimIds, Leased } from '../tokens.ts'
import { DELIVERIES, DELIVERIES_HEAD_BYTES, DELIVERY_HEAD_BYTES, FRAME_HEAD_BYTES } from '../wire/connection-frames.ts'

export interface ClaimedGroup {
  readonly stream: string
  readonly streamCreatedAtMs: number
  readonly group: string
}

export interface Claimed extends ClaimedGroup {
  readonly ids: ClaimIds
  readonly leasedAtMs: number
  /** Expiry of the deliveries that have none of their own. */
  readonly expiresAtMs: number
  /** Milliseconds left of the lease when the answer is given. */
  readonly remainingMs: number
  /** Grows with each claim of the group. */
  readonly fencingToken: number
  readonly deliveries: readonly (Leased & { readonly expiresAtMs?: number })[]
  /** One for each delivery, in the same order; empty where the record cannot be read: that delivery is left out. */
  readonly records: RenderedRecords
  readonly nextOffset: number
}

/** Longest envelope around a record. Ids and numbers are ASCII. */
const ENVELOPE_BYTES_MAX = 360

export function claimReply(claimed: Claimed): Buffer<ArrayBuffer> {
  const { deliveries, records, leasedAtMs, fencingToken } = claimed
  const { subscriptionId, deliveryIds } = claimed.ids
  const head = Buffer.from(
    `{"api_version":"v1","stream":${JSON.stringify(claimed.stream)},"stream_created_at_ms":${claimed.streamCreatedAtMs},` +
      `"consumer_group":${JSON.stringify(claimed.group)},"subscription_id":"${subscriptionId}","deliveries":[`,
  )
  const body = Buffer.allocUnsafe(
    head.byteLength + records.bytes.byteLength + (deliveries.length + 1) * ENVELOPE_BYTES_MAX,
  )
  let at = head.copy(body)
  let count = 0
  for (const [i, { offset, attempt, expiresAtMs = claimed.expiresAtMs }] of deliveries.entries()) {
    const from = records.start(i)
    const to = records.end(i)
    if (from === to) continue
    const remainingMs = Math.max(0, claimed.remainingMs + expiresAtMs - claimed.expiresAtMs)
    const envelope =
      `${count === 0 ? '' : ','}{"delivery_id":"${deliveryIds[i]}","subscription_id":"${subscriptionId}","offset":${offset},` +
      `"attempt":${attempt},"leased_at_ms":${leasedAtMs},"lease_expires_at_ms":${expiresAtMs},` +
      `"lease_remaining_millis":${remainingMs},"fencing_token":${fencingToken},"record":`
    at += body.write(envelope, at, 'latin1')
    at += records.bytes.copy(body, at, from, to)
    body[at++] = CLOSE_BRACE
    count += 1
  }
  at += body.write(`],"next_offset":${claimed.nextOffset},"delivery_count":${count}}`, at, 'latin1')
  return body.subarray(0, at)
}

const CLOSE_BRACE = 0x7d

type StoredClaim = Omit<Claimed, 'ids' | keyof ClaimedGroup | 'nextOffset'> & {
  /** See `Tokens.claimBlocks`. */
  readonly ids: Buffer
}

/** A DELIVERIES frame whose id is still to be written. Each record stands behind its ingest time (`RecordReads.storedRecords`). */
export function deliveriesFrame(claimed: StoredClaim): Buffer<ArrayBuffer> {
  const { deliveries, records, ids } = claimed
  const bytesMax =
    FRAME_HEAD_BYTES + DELIVERIES_HEAD_BYTES + deliveries.length * DELIVERY_HEAD_BYTES + records.bytes.byteLength
  const frame = Buffer.allocUnsafeSlow(bytesMax)
  frame.fill(0, 0, FRAME_HEAD_BYTES)
  writeU64(frame, FRAME_HEAD_BYTES, claimed.leasedAtMs)
  writeU64(frame, FRAME_HEAD_BYTES + 8, claimed.expiresAtMs)
  writeU64(frame, FRAME_HEAD_BYTES + 16, claimed.remainingMs)
  writeU64(frame, FRAME_HEAD_BYTES + 24, claimed.fencingToken)
  let at = FRAME_HEAD_BYTES + 32
  at += ids.copy(frame, at, 0, BLOCK_BYTES)
  let count = 0
  for (const [i, { offset, attempt }] of deliveries.entries()) {
    const from = records.start(i)
    const to = records.end(i)
    if (from === to) continue
    at += ids.copy(frame, at, (i + 1) * BLOCK_BYTES, (i + 2) * BLOCK_BYTES)
    writeU32(frame, at, attempt)
    writeU64(frame, at + 4, offset)
    at = copyBytes(records.bytes.subarray(from, to), frame, at + 12)
    count += 1
  }
  writeU32(frame, 0, at)
  frame[4] = DELIVERIES
  writeU32(frame, 12, count)
  return frame.subarray(0, at)
}

export function emptyClaimReply({
  stream,
  streamCreatedAtMs,
  group,
  subscriptionId,
  nextOffset,
}: ClaimedGroup & Pick<ClaimIds, 'subscriptionId'> & Pick<Claimed, 'nextOffset'>): Buffer<ArrayBuffer> {
  const reply = {
    api_version: 'v1',
    stream,
    stream_created_at_ms: streamCreatedAtMs,
    consumer_group: group,
    subscription_id: subscriptionId,
    deliveries: [],
    next_offset: nextOffset,
    delivery_count: 0,
  }
  return Buffer.from(JSON.stringify(reply))
}
