/** Turns answers of the broker into what the client returns. */
import type { Static } from 'typebox'
import type * as wire from '../broker/wire/types.ts'
import type { ClaimedDeliveries, ReplayPage, StoredRecord, WireRecord } from './broker-client.ts'
import { bytesOf } from './bytes.ts'

/** @param json the broker's own answer, which fits its schema; so in all functions of this file */
export function pageFrom(json: string): ReplayPage {
  const page = JSON.parse(json) as Static<typeof wire.ReplayReply>
  return { ...page, records: page.records.map(recordOf) }
}

/** A delivery names its stream and group, so that it can be passed on alone. */
export function claimFrom(json: string): ClaimedDeliveries {
  const claim = JSON.parse(json) as Static<typeof wire.ClaimReply>
  const { stream, consumer_group } = claim
  const deliveries = claim.deliveries.map((delivery) => ({
    ...delivery,
    stream,
    consumer_group,
    record: recordOf(delivery.record),
  }))
  return { ...claim, deliveries }
}

export const auditPageFrom = (json: string): Static<typeof wire.AuditPageReply> =>
  JSON.parse(json) as Static<typeof wire.AuditPageReply>

const recordOf = ({ payload_hex, key_hex, ...record }: WireRecord): StoredRecord => ({
  ...record,
  payload: bytesOf(payload_hex),
  key: key_hex === null ? null : bytesOf(key_hex),
})
