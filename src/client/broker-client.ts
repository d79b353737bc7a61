/**
 * What every client of the broker can do, wherever the broker is. Names of methods and fields are the specification's ("Client library entry
 * points", "Resources and their fields"); bytes are bytes here, and hexadecimal only on the wire.
 *
 * Every method rejects with an SdkError.
 */
import type { Static } from 'typebox'
import type {
  CursorCommitReply,
  CursorDeleteReply,
  DelayedListReply,
  GroupDeleteReply,
  GroupListReply,
  GroupReply,
  GroupSeekReply,
  LeaseListReply,
  ReplayConsumerListReply,
} from '../broker/wire/group-answers.ts'
import type {
  AckReply,
  ClaimReply,
  DeadLetterReply,
  NackReply,
  RenewReply,
  RetryReply,
} from '../broker/wire/queue-answers.ts'
import type {
  CreateStreamReply,
  DeleteStreamReply,
  PublishReply,
  PurgeStreamReply,
  RedriveReply,
  ReplayReply,
  StreamReply,
  UpdateStreamReply,
} from '../broker/wire/record-answers.ts'
import type {
  ClaimBody,
  CreateStreamBody,
  DeadLetterBody,
  NackBody,
  PurgeStreamBody,
  RedriveBody,
  RenewBody,
  RetryBody,
  SeekBody,
  UpdateStreamBody,
} from '../broker/wire/requests.ts'
import type { RecordDurability } from '../broker/durability.ts'
import type { Headers } from './client-config.ts'
import type { RetryPolicy } from './retry.ts'

/** A record to publish. Text goes as UTF-8. */
export interface RecordToPublish {
  readonly message_id: string
  readonly payload: string | Uint8Array
  readonly key?: string | Uint8Array | null
  /** Default: the broker's time. */
  readonly event_time_ms?: number | null
  readonly headers?: Headers | null
  readonly durability_mode?: RecordDurability | null
}

type WirePage = Static<typeof ReplayReply>
type WireClaim = Static<typeof ClaimReply>
type WireDelivery = WireClaim['deliveries'][number]
export type WireRecord = WirePage['records'][number]

export interface StoredRecord extends Omit<WireRecord, 'payload_hex' | 'key_hex'> {
  readonly payload: Buffer
  readonly key: Buffer | null
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
  /** A page that would be empty waits for a record. */
  readonly wait_millis?: number | null | undefined
  /** With `consumer_id`: noted, and shown by `inspectReplayConsumers`. */
  readonly consumer_group?: string | null | undefined
  readonly consumer_id?: string | null | undefined
}

/** A leased record: to be acknowledged, or given back in one of the other ways, before the lease expires. */
export interface Delivery extends Omit<WireDelivery, 'record'> {
  readonly stream: string
  readonly consumer_group: string
  readonly record: StoredRecord
}

/** What names a delivery. */
export type DeliveryName = Readonly<Pick<Delivery, 'stream' | 'subscription_id' | 'delivery_id'>>

export interface ClaimedDeliveries extends Omit<WireClaim, 'deliveries'> {
  readonly deliveries: readonly Delivery[]
}

/** Does what breaks a promise: without, it is refused with what holds on to it. */
export interface Forcible {
  readonly force?: boolean | undefined
}

/** Ends what waits. */
export interface Stoppable {
  readonly signal?: AbortSignal | undefined
}

export type ReplaySubscriptionOptions = FetchOptions & Stoppable
export type QueueSubscriptionOptions = Omit<ClaimBody, 'wait_millis'> & Stoppable
export type Subscription<T> = AsyncGenerator<T, void, undefined>

export interface BrokerClient {
  createStream(stream: string, body?: CreateStreamBody): Promise<CreateStreamReply>
  describeStream(stream: string): Promise<StreamReply>
  /** What is absent stays, what is null becomes the default. */
  updateStream(stream: string, body: UpdateStreamBody, options?: Forcible): Promise<UpdateStreamReply>
  deleteStream(stream: string, options?: Forcible): Promise<DeleteStreamReply>
  /** Removes what is below an offset. */
  purgeStream(stream: string, body: PurgeStreamBody, options?: Forcible): Promise<PurgeStreamReply>
  /** Dead letters of the stream go back where they came from, each once. Go on with `start_offset` set to `next_offset`. */
  redriveDeadLetters(stream: string, body?: RedriveBody): Promise<RedriveReply>

  /** Resolves when the record is as durable as asked. */
  publish(stream: string, record: RecordToPublish): Promise<PublishReply>
  /** Tries again what can succeed later: the very same record, with its message id and headers. */
  publishWithRetry(stream: string, record: RecordToPublish, policy?: RetryPolicy): Promise<PublishReply>

  /** One page. Go on with `start_offset` set to its `next_offset`, until `end_of_stream`. */
  fetch(stream: string, options?: FetchOptions, wait?: Stoppable): Promise<ReplayPage>
  fetchFromOffset(
    stream: string,
    startOffset: number,
    options?: Pick<FetchOptions, 'max_records' | 'max_payload_bytes'>,
  ): Promise<ReplayPage>
  /** All records from a start on, and those to come, until the loop over them is left or the signal says stop. Claims nothing. */
  subscribeReplay(stream: string, options?: ReplaySubscriptionOptions): Subscription<StoredRecord>
  commitCursor(stream: string, group: string, cursor: string, offset: number): Promise<CursorCommitReply>
  deleteCursor(stream: string, group: string, cursor: string, options?: Forcible): Promise<CursorDeleteReply>

  /** With `wait_millis` the answer waits for a record; a signal ends that wait, and takes nothing. */
  claimQueue(stream: string, group: string, body?: ClaimBody, options?: Stoppable): Promise<ClaimedDeliveries>
  /**
   * Deliveries, as they come, until the loop over them is left or the signal says stop. None is acknowledged on its own; what was claimed and
   * not given out yet is given back then.
   */
  subscribeQueue(stream: string, group: string, options?: QueueSubscriptionOptions): Subscription<Delivery>
  ack(delivery: DeliveryName): Promise<AckReply>
  nack(delivery: DeliveryName, body: NackBody): Promise<NackReply>
  renewLease(delivery: DeliveryName, body: RenewBody): Promise<RenewReply>
  retryDelivery(delivery: DeliveryName, body: RetryBody): Promise<RetryReply>
  deadLetter(delivery: DeliveryName, body: DeadLetterBody): Promise<DeadLetterReply>

  inspectLeases(
    stream: string,
    group: string,
    options?: { readonly include_completed?: boolean },
  ): Promise<LeaseListReply>
  inspectDelayedMessages(stream: string, group: string): Promise<DelayedListReply>
  inspectReplayConsumers(stream: string, group: string): Promise<ReplayConsumerListReply>
  listConsumerGroups(stream: string): Promise<GroupListReply>
  deleteConsumerGroup(stream: string, group: string, options?: Forcible): Promise<GroupDeleteReply>
  /** The group is given everything again from an offset or a time on. */
  seekConsumerGroup(stream: string, group: string, body: SeekBody): Promise<GroupSeekReply>
  describeConsumerGroup(stream: string, group: string): Promise<GroupReply>
}
