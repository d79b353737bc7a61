/**
 * An endless read as an async iterable, over any client.
 *
 * U1  at most one page is in memory: the next is asked for when all its records were taken
 * U2  a subscription ends when its loop is left, when it is told to stop, or by throwing an error that retries did not overcome
 * U3  at the end of the stream the broker waits for the next record. Only if the broker answers much earlier than asked, the
 *     subscription waits before it asks again
 * U4  it keeps to the stream of its first page: a later stream of the same name is not found
 */
import { REPLAY_WAIT_MS_MAX } from '../broker/limits.ts'
import type { BrokerClient, FetchOptions, ReplayPage, StoredRecord, Subscription } from './broker-client.ts'
import type { ClientTimers, Pause } from './pause.ts'
import { SUBSCRIPTION_RETRY_POLICY, withRetry } from './retry.ts'
import type { RetryPolicy, Waiting } from './retry.ts'
import type { SdkError } from './sdk-error.ts'

export interface SubscriptionParts {
  /** @param until ends the retries when it is aborted; default: when the subscription is told to stop */
  readonly retrying: <T>(
    attempt: () => Promise<T>,
    isWorthIt?: (error: SdkError) => boolean,
    until?: AbortSignal,
  ) => Promise<T>
  readonly pause: Pause
  readonly timers: ClientTimers
  readonly closing: AbortSignal
  /** Aborted by the caller, and when the client closes. */
  readonly stop: AbortSignal
}

/** What a subscription needs of the client's connection. */
interface ClientConnection extends Waiting {
  readonly closing: AbortSignal
  readonly timers: ClientTimers
}

/** @param options those options of the subscription that are about how it ends */
export function subscriptionParts(
  connection: ClientConnection,
  { signal, retry = SUBSCRIPTION_RETRY_POLICY }: { signal?: AbortSignal | undefined; retry?: RetryPolicy | undefined },
): SubscriptionParts {
  const { pause, timers, closing } = connection
  const stop = signal ? AbortSignal.any([closing, signal]) : closing
  return {
    stop,
    closing,
    pause,
    timers,
    retrying: (attempt, isWorthIt, until = stop) => withRetry(attempt, retry, connection, until, isWorthIt),
  }
}

/** Bounds of the wait, which doubles, between two requests to a stream that has nothing new. */
const POLL_MS_MIN = 10
const POLL_MS_MAX = 500

export async function* replayRecords(
  client: Pick<BrokerClient, 'fetch'>,
  stream: string,
  options: FetchOptions,
  { retrying, pause, timers, stop }: SubscriptionParts,
): Subscription<StoredRecord> {
  const { start_offset, event_time_ms, ingest_time_ms, consumer_group, consumer_id, ...limits } = options
  let { stream_created_at_ms } = options
  const waitMs = limits.wait_millis ?? REPLAY_WAIT_MS_MAX
  const consumer = { consumer_group, consumer_id }
  let start: FetchOptions = { start_offset, event_time_ms, ingest_time_ms }
  let idleLooks = 0
  let hurriedLooks = 0
  while (!stop.aborted) {
    // a consumer that finds nothing again and again is noted once: a note is a write
    const asked = { ...limits, wait_millis: waitMs, ...start, stream_created_at_ms, ...(idleLooks === 0 && consumer) }
    const askedAtMs = timers.nowMs()
    const page: ReplayPage | null = await unlessStopped(
      retrying(() => client.fetch(stream, asked, { signal: stop })),
      stop,
    )
    if (page === null) return
    stream_created_at_ms = page.stream_created_at_ms // U4
    for (const record of page.records) {
      if (stop.aborted) return
      yield record
    }
    const isIdle = page.records.length === 0 && page.end_of_stream
    if (!isIdle) start = { start_offset: page.next_offset }
    idleLooks = isIdle ? idleLooks + 1 : 0
    hurriedLooks = isIdle && timers.nowMs() - askedAtMs < Math.max(waitMs / 2, 1) ? hurriedLooks + 1 : 0
    if (hurriedLooks > 0) await pause(Math.min(POLL_MS_MAX, POLL_MS_MIN * 2 ** (hurriedLooks - 1)), stop) // U3
  }
}

/** Null: it failed after the subscription was told to stop. */
async function unlessStopped<T>(answer: Promise<T>, stop: AbortSignal): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (stop.aborted) return null
    throw error
  }
}
