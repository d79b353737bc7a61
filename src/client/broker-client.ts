/**
 * What every client of the broker can do, wherever the broker is. Names of methods and fields are the specification's ("Client library entry
 * points", "Resources and their fields"); bytes are bytes here, and hexadecimal only on the wire.
 *
 * Every method rejects with an SdkError.
 */
import type { Static } from 'typebox'
import type * as wire from '../broker/wire/types.ts'
import type { RecordDurability } from '../broker/durability.ts'
import type { Headers } from './client-config.ts'
import type { RetryPolicy } from './retry.ts'
import type { SdkError } from './sdk-error.ts'

/** A record to publish. Text is sent as UTF-8. */
export interface RecordToPublish {
  readonly message_id: string
  readonly payload: string | Uint8Array
  readonly key?: string | Uint8Array | null
  /** Default: the broker's time. */
  readonly event_time_ms?: number | null
  readonly headers?: Headers | null
  readonly durability_mode?: RecordDurability | null
}

type WirePage = Static<typeof wire.ReplayReply>
type WireClaim = Static<typeof wire.ClaimReply>
type WireDelivery = WireClaim['deliveries'][number]
export type WireRecord = WirePage['records'][number]

export interface StoredRecord extends Omit<WireRecord, 'payload_hex' | 'key_hex'> {
  /** `textOf` makes text of it. */
  readonly payload: Uint8Array
  readonly key: Uint8Array | null
}

export interface ReplayPage extends Omit<WirePage, 'records'> {
  readonly records: readonly StoredRecord[]
}

/** Where a page begins (at most one of the first three; default: at the first record), how much it takes, who reads. */
export interface FetchOptions {
  readonly start_offset?: number | null | undefined
  readonly event_time_ms?: number | null | undefined
  readonly ingest_time_ms?: number | null | undefined
  readonly max_records?: number | null | undefined
  readonly max_payload_bytes?: number | null | undefined
  /** How long a page that would be empty waits for a record. */
  readonly wait_millis?: number | null | undefined
  /** With `consumer_id`: the reader, which the broker notes and `inspectReplayConsumers` shows. */
  readonly consumer_group?: string | null | undefined
  readonly consumer_id?: string | null | undefined
  /** Creation time of the stream that is meant, from an earlier page: a later stream of the same name is not found. */
  readonly stream_created_at_ms?: number | null | undefined
}

/** Filters of audit events; by default the first hundred are returned. */
export interface AuditOptions {
  readonly start_offset?: number | null | undefined
  readonly max_records?: number | null | undefined
}

/** A leased record: to be acknowledged, or given back in one of the other ways, before the lease expires. */
export interface Delivery extends Omit<WireDelivery, 'record'> {
  readonly stream: string
  readonly consumer_group: string
  readonly record: StoredRecord
}

/** What names a delivery. */
export type DeliveryName = Readonly<Pick<Delivery, 'stream' | 'subscription_id' | 'delivery_id'>>

/** `stream_created_at_ms` is absent if no answer of the broker has said it. */
export interface ClaimedDeliveries
  extends Omit<WireClaim, 'deliveries' | 'stream_created_at_ms'>, Partial<Pick<WireClaim, 'stream_created_at_ms'>> {
  readonly deliveries: readonly Delivery[]
}

/** With `force` a change is made even if it breaks a promise. Otherwise it is refused, and the refusal names what holds the promise. */
export interface Forcible extends Stoppable {
  readonly force?: boolean | undefined
}

/**
 * A call whose signal is aborted rejects with an SdkError of the kind `Aborted`; it may have had its effect all the same. Only a wait does
 * not reject: it resolves with what there is.
 */
export interface Stoppable {
  readonly signal?: AbortSignal | undefined
}

export interface ReplaySubscriptionOptions extends FetchOptions, Stoppable {
  /** Retries of the requests for pages. */
  readonly retry?: RetryPolicy | undefined
}
export type Subscription<T> = AsyncGenerator<T, void, undefined>

export interface QueueSubscriptionOptions extends Omit<wire.ClaimBody, 'wait_millis' | 'claim_id'>, Stoppable {
  /** Deliveries that are claimed ahead of the loop; default 0. */
  readonly prefetch?: number | undefined
  /** How many handlers run at once; default 1. A loop handles one delivery at a time. */
  readonly concurrency?: number | undefined
  /** How long a delivery is renewed, from its claim on; default an hour. 0: never. */
  readonly renew_for_millis?: number | undefined
  /** Retries of claims, and of the call that settles a delivery after its handler. */
  readonly retry?: RetryPolicy | undefined
  /** Called when the lease of a claimed delivery was lost: another worker may have the delivery now. */
  readonly onLeaseLost?: ((delivery: Delivery, error: SdkError) => void) | undefined
  /** Called when a handler threw; its delivery is given back as failed. */
  readonly onHandlerError?: ((delivery: Delivery, error: unknown) => void) | undefined
}

/** @param signal aborted when the lease was lost */
export type DeliveryHandler = (delivery: Delivery, signal: AbortSignal) => unknown

/**
 * Deliveries as they come, until the loop is left or the signal is aborted. A loop acknowledges nothing on its own. At its end, deliveries
 * that were claimed and not handed out are given back.
 */
export interface QueueSubscription extends Subscription<Delivery> {
  /**
   * Instead of a loop: a handler that returns acknowledges its delivery, one that throws gives it back as failed, unless it settled the
   * delivery itself. Resolves when the signal is aborted and all handlers are done.
   */
  handle(handler: DeliveryHandler): Promise<void>
}

export interface BrokerClient {
  listStreams(options?: Stoppable): Promise<wire.StreamListReply>
  createStream(stream: string, body?: wire.CreateStreamBody, options?: Stoppable): Promise<wire.CreateStreamReply>
  describeStream(stream: string, options?: Stoppable): Promise<wire.StreamReply>
  /** Absent fields stay as they are, null fields become the default. */
  updateStream(stream: string, body: wire.UpdateStreamBody, options?: Forcible): Promise<wire.UpdateStreamReply>
  deleteStream(stream: string, options?: Forcible): Promise<wire.DeleteStreamReply>
  /** Removes the records below an offset. */
  purgeStream(stream: string, body: wire.PurgeStreamBody, options?: Forcible): Promise<wire.PurgeStreamReply>
  /** Puts dead letters of the stream back where they came from, each once. Continue with `start_offset` set to `next_offset`. */
  redriveDeadLetters(stream: string, body?: wire.RedriveBody, options?: Stoppable): Promise<wire.RedriveReply>

  /** Resolves when the record is as durable as asked. */
  publish(stream: string, record: RecordToPublish, options?: Stoppable): Promise<wire.PublishReply>
  /** Repeats a publish that can succeed later, with the very same record, message id and headers. */
  publishWithRetry(
    stream: string,
    record: RecordToPublish,
    policy?: RetryPolicy,
    options?: Stoppable,
  ): Promise<wire.PublishReply>
  /** Publishes at most 1000 records with one commit. A bad one is refused in its own result, and the others are published. */
  publishBatch(
    stream: string,
    records: readonly RecordToPublish[],
    options?: Stoppable,
  ): Promise<wire.PublishBatchReply>

  /** One page. Continue with `start_offset` set to its `next_offset`, until `end_of_stream`. A signal ends a wait. */
  fetch(stream: string, options?: FetchOptions, wait?: Stoppable): Promise<ReplayPage>
  fetchFromOffset(
    stream: string,
    startOffset: number,
    options?: Pick<FetchOptions, 'max_records' | 'max_payload_bytes'>,
  ): Promise<ReplayPage>
  /** All records from a start on, and later ones as they come, until the loop over them is left or the signal is aborted. Claims nothing. */
  subscribeReplay(stream: string, options?: ReplaySubscriptionOptions): Subscription<StoredRecord>
  listCursors(stream: string, group: string, options?: Stoppable): Promise<wire.CursorListReply>
  commitCursor(
    stream: string,
    group: string,
    cursor: string,
    offset: number,
    options?: Stoppable,
  ): Promise<wire.CursorCommitReply>
  rewindCursor(
    stream: string,
    group: string,
    cursor: string,
    body: wire.CursorRewindBody,
    options?: Stoppable,
  ): Promise<wire.CursorRewindReply>
  deleteCursor(stream: string, group: string, cursor: string, options?: Forcible): Promise<wire.CursorDeleteReply>

  /** With `wait_millis` the answer waits for a record; a signal ends that wait, and nothing is claimed. */
  claimQueue(stream: string, group: string, body?: wire.ClaimBody, options?: Stoppable): Promise<ClaimedDeliveries>
  /** Deliveries, as they come: see QueueSubscription. */
  subscribeQueue(stream: string, group: string, options?: QueueSubscriptionOptions): QueueSubscription
  ack(delivery: DeliveryName, options?: Stoppable): Promise<wire.AckReply>
  /** Deliveries of one claim, at most 1000, with one commit; each has its own result. */
  batchAck(deliveries: readonly DeliveryName[], options?: Stoppable): Promise<wire.BatchAckReply>
  nack(delivery: DeliveryName, body: wire.NackBody, options?: Stoppable): Promise<wire.NackReply>
  renewLease(delivery: DeliveryName, body: wire.RenewBody, options?: Stoppable): Promise<wire.RenewReply>
  retryDelivery(delivery: DeliveryName, body: wire.RetryBody, options?: Stoppable): Promise<wire.RetryReply>
  deadLetter(delivery: DeliveryName, body: wire.DeadLetterBody, options?: Stoppable): Promise<wire.DeadLetterReply>

  inspectLeases(
    stream: string,
    group: string,
    options?: { readonly include_completed?: boolean } & Stoppable,
  ): Promise<wire.LeaseListReply>
  inspectDelayedMessages(stream: string, group: string, options?: Stoppable): Promise<wire.DelayedListReply>
  inspectReplayConsumers(stream: string, group: string, options?: Stoppable): Promise<wire.ReplayConsumerListReply>
  listConsumerGroups(stream: string, options?: Stoppable): Promise<wire.GroupListReply>
  deleteConsumerGroup(stream: string, group: string, options?: Forcible): Promise<wire.GroupDeleteReply>
  /** Gives the group all records again from an offset or a time on. */
  seekConsumerGroup(
    stream: string,
    group: string,
    body: wire.SeekBody,
    options?: Stoppable,
  ): Promise<wire.GroupSeekReply>
  describeConsumerGroup(stream: string, group: string, options?: Stoppable): Promise<wire.GroupReply>

  /** A page of audit events. Continue with `start_offset` set to its `next_offset`, until `end_of_stream`. */
  auditEvents(options?: AuditOptions & Stoppable): Promise<Static<typeof wire.AuditPageReply>>
  /** The same page, one event a line in JSON. */
  auditExport(options?: AuditOptions & Stoppable): Promise<string>
}
