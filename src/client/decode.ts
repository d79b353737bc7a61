/** Answers of the broker in JSON, as the client gives them out. */
import type { Static } from 'typebox'
import type { ClaimReply } from '../broker/wire/queue-answers.ts'
import type { ReplayReply } from '../broker/wire/record-answers.ts'
import type { ClaimedDeliveries, ReplayPage, StoredRecord, WireRecord } from './broker-client.ts'

export function pageFrom(json: Uint8Array): ReplayPage {
  const page = parsed<typeof ReplayReply>(json)
  return { ...page, records: page.records.map(recordFrom) }
}

/** A delivery names its stream and group: it can be handed on by itself. */
export function claimFrom(json: Uint8Array): ClaimedDeliveries {
  const claim = parsed<typeof ClaimReply>(json)
  const { stream, consumer_group } = claim
  const deliveries = claim.deliveries.map((delivery) => ({
    ...delivery,
    stream,
    consumer_group,
    record: recordFrom(delivery.record),
  }))
  return { ...claim, deliveries }
}

function recordFrom({ payload_hex, key_hex, ...record }: WireRecord): StoredRecord {
  return {
    ...record,
    payload: Buffer.from(payload_hex, 'hex'),
    key: key_hex === null ? null : Buffer.from(key_hex, 'hex'),
  }
}

/** The broker's own answer: it is as its schema says. */
const parsed = <Schema extends typeof ReplayReply | typeof ClaimReply>(json: Uint8Array): Static<Schema> =>
  JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString()) as Static<Schema>
