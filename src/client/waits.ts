/** What a wait for a record is, and how it ends. */
import type { ClaimedDeliveries } from './broker-client.ts'

/** 0 also for values that the broker will refuse. */
export const waitMsOf = (asked: { readonly wait_millis?: number | null | undefined }): number => {
  const waitMs: unknown = asked?.wait_millis
  return typeof waitMs === 'number' && waitMs > 0 && waitMs < Infinity ? waitMs : 0
}

/** As the broker's answer to a claim that found nothing. */
export const nothingClaimed = (stream: string, group: string, startOffset: number): ClaimedDeliveries => ({
  api_version: 'v1',
  stream,
  consumer_group: group,
  subscription_id: '',
  deliveries: [],
  next_offset: startOffset,
  delivery_count: 0,
})
