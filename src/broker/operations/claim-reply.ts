/** The answer to a claim: envelopes around records that the reader threads rendered. */
import type { GroupPath } from '../operations.ts'
import type { RenderedRecords } from '../records/rendered-records.ts'
import type { ClaimIds, Leased } from '../tokens.ts'

export interface Claimed {
  readonly stream: string
  readonly group: string
  readonly ids: ClaimIds
  readonly leasedAtMs: number
  /** Of deliveries that say nothing else. */
  readonly expiresAtMs: number
  /** Of the lease, when the answer is given. */
  readonly remainingMs: number
  /** Grows over the whole group. */
  readonly fencingToken: number
  readonly deliveries: readonly (Leased & { readonly expiresAtMs?: number })[]
  /** One for each delivery, in the same order; null where the record cannot be read: it is left out. */
  readonly records: RenderedRecords
  readonly nextOffset: number
}

/** Ids and numbers are ASCII. */
const ENVELOPE_BYTES_MAX = 360

export function claimReply(claimed: Claimed): Buffer<ArrayBuffer> {
  const { deliveries, records, leasedAtMs, fencingToken } = claimed
  const { subscriptionId, deliveryIds } = claimed.ids
  const head = Buffer.from(
    `{"api_version":"v1","stream":${JSON.stringify(claimed.stream)},"consumer_group":${JSON.stringify(claimed.group)},` +
      `"subscription_id":"${subscriptionId}","deliveries":[`,
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

export function emptyClaimReply(
  { stream, group }: GroupPath,
  subscriptionId: string,
  nextOffset: number,
): Buffer<ArrayBuffer> {
  const reply = {
    api_version: 'v1',
    stream,
    consumer_group: group,
    subscription_id: subscriptionId,
    deliveries: [],
    next_offset: nextOffset,
    delivery_count: 0,
  }
  return Buffer.from(JSON.stringify(reply))
}
