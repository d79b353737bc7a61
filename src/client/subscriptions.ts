/**
 * Endless reads as async iterables, over what any client can do.
 *
 * U1  at most one page or one claim is in memory: the next is asked for when everything of it was taken
 * U2  a subscription ends when its loop is left, when it is told to stop, or by throwing what was tried again in vain
 * U3  a subscription that ends gives back what it claimed and did not give out
 */
import { CLAIM_WAIT_MS_MAX } from '../broker/limits.ts'
import type { ClaimBody } from '../broker/wire/requests.ts'
import type {
  BrokerClient,
  ClaimedDeliveries,
  Delivery,
  FetchOptions,
  ReplayPage,
  StoredRecord,
  Subscription,
} from './broker-client.ts'
import type { Pause } from './pause.ts'

export interface SubscriptionParts {
  readonly retrying: <T>(attempt: () => Promise<T>) => Promise<T>
  readonly pause: Pause
  readonly stop: AbortSignal
}

/** Bounds of the wait between two looks at a stream that has nothing new: it doubles. */
const POLL_MS_MIN = 10
const POLL_MS_MAX = 500

export async function* replayRecords(
  client: Pick<BrokerClient, 'fetch'>,
  stream: string,
  options: FetchOptions,
  { retrying, pause, stop }: SubscriptionParts,
): Subscription<StoredRecord> {
  const { start_offset, event_time_ms, ingest_time_ms, consumer_group, consumer_id, ...limits } = options
  const consumer = { consumer_group, consumer_id }
  let start: FetchOptions = { start_offset, event_time_ms, ingest_time_ms }
  let idleLooks = 0
  while (!stop.aborted) {
    // who finds nothing again and again is noted once: a note is a write
    const asked = { ...limits, ...start, ...(idleLooks === 0 && consumer) }
    const page: ReplayPage | null = await unlessStopped(
      retrying(() => client.fetch(stream, asked)),
      stop,
    )
    if (page === null) return
    for (const record of page.records) {
      if (stop.aborted) return
      yield record
    }
    const isWaitingForItsTime = page.records.length === 0 && page.end_of_stream
    if (!isWaitingForItsTime) start = { start_offset: page.next_offset }
    if (!page.end_of_stream) continue
    idleLooks = page.records.length > 0 ? 0 : idleLooks + 1
    if (idleLooks > 0) await pause(Math.min(POLL_MS_MAX, POLL_MS_MIN * 2 ** (idleLooks - 1)), stop)
  }
}

export async function* queueDeliveries(
  client: Pick<BrokerClient, 'claimQueue' | 'retryDelivery'>,
  stream: string,
  group: string,
  limits: Omit<ClaimBody, 'wait_millis'>,
  { retrying, stop }: SubscriptionParts,
): Subscription<Delivery> {
  const body = { ...limits, wait_millis: CLAIM_WAIT_MS_MAX }
  while (!stop.aborted) {
    const claim = (): Promise<ClaimedDeliveries> => client.claimQueue(stream, group, body, { signal: stop })
    const claimed = await unlessStopped(retrying(claim), stop)
    if (claimed === null) return
    const { deliveries } = claimed
    let taken = 0
    try {
      while (taken < deliveries.length && !stop.aborted) yield deliveries[taken++]!
    } finally {
      await giveBack(client, deliveries.slice(taken))
    }
  }
}

/** Null: it failed when there was no time left for it to be tried again. */
async function unlessStopped<T>(answer: Promise<T>, stop: AbortSignal): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (stop.aborted) return null
    throw error
  }
}

/** U3. What cannot be given back comes back when its lease expires. */
async function giveBack(client: Pick<BrokerClient, 'retryDelivery'>, deliveries: readonly Delivery[]): Promise<void> {
  const body = { reason: 'the subscription ended', delay_millis: 0 }
  await Promise.allSettled(deliveries.map((delivery) => client.retryDelivery(delivery, body)))
}
