/**
 * The client of a broker in the same process: what HTTP would carry is a call. It is asked, and refuses, as over HTTP.
 * Source: specification "Client library entry points".
 */
import type { AskedBroker, Caller, Patience } from '../broker/operations.ts'
import {
  CursorCommitBody,
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
import type { AckReply, DeadLetterReply, NackReply, RenewReply, RetryReply } from '../broker/wire/queue-answers.ts'
import type {
  CreateStreamReply,
  DeleteStreamReply,
  PublishReply,
  PurgeStreamReply,
  RedriveReply,
  StreamReply,
  UpdateStreamReply,
} from '../broker/wire/record-answers.ts'
import type {
  BrokerClient,
  ClaimedDeliveries,
  Delivery,
  DeliveryName,
  FetchOptions,
  Forcible,
  QueueSubscriptionOptions,
  RecordToPublish,
  ReplayPage,
  ReplaySubscriptionOptions,
  Stoppable,
  StoredRecord,
  Subscription,
} from './broker-client.ts'
import {
  bodyCheck,
  deliveryOf,
  forceOf,
  groupOf,
  optionsOf,
  publishInputOf,
  replayOf,
  streamOf,
  tokenOf,
} from './checks.ts'
import { ClientConfig } from './client-config.ts'
import type { ClientSettings } from './client-config.ts'
import { claimFrom, pageFrom } from './decode.ts'
import type { NativeConnection } from './native-connection.ts'
import { DEFAULT_RETRY_POLICY, withRetry } from './retry.ts'
import type { RetryPolicy } from './retry.ts'
import { queueDeliveries, replayRecords } from './subscriptions.ts'
import type { SubscriptionParts } from './subscriptions.ts'

const checkCreate = bodyCheck(CreateStreamBody)
const checkCommit = bodyCheck(CursorCommitBody)
const checkClaim = bodyCheck(ClaimBody)
const checkNack = bodyCheck(NackBody)
const checkRenew = bodyCheck(RenewBody)
const checkRetry = bodyCheck(RetryBody)
const checkUpdate = bodyCheck(UpdateStreamBody)
const checkPurge = bodyCheck(PurgeStreamBody)
const checkRedrive = bodyCheck(RedriveBody)
const checkSeek = bodyCheck(SeekBody)
const checkDeadLetter = bodyCheck(DeadLetterBody)

export class NativeClient implements BrokerClient {
  readonly config: ClientConfig
  readonly #connection: NativeConnection

  /** @throws SdkError InvalidConfig */
  constructor(settings: ClientSettings, connection: NativeConnection) {
    this.config = new ClientConfig(settings)
    this.#connection = connection
  }

  // Streams and records

  createStream(stream: string, body: CreateStreamBody = {}): Promise<CreateStreamReply> {
    return this.#call((broker, caller) => broker.createStream(caller, streamOf(stream), checkCreate(body)))
  }

  describeStream(stream: string): Promise<StreamReply> {
    return this.#call((broker, caller) => broker.describeStream(caller, streamOf(stream)))
  }

  updateStream(stream: string, body: UpdateStreamBody, options: Forcible = {}): Promise<UpdateStreamReply> {
    return this.#call((broker, caller) =>
      broker.updateStream(caller, streamOf(stream), checkUpdate(body), forceOf(options)),
    )
  }

  deleteStream(stream: string, options: Forcible = {}): Promise<DeleteStreamReply> {
    return this.#call((broker, caller) => broker.deleteStream(caller, streamOf(stream), forceOf(options)))
  }

  purgeStream(stream: string, body: PurgeStreamBody, options: Forcible = {}): Promise<PurgeStreamReply> {
    return this.#call((broker, caller) =>
      broker.purgeStream(caller, streamOf(stream), checkPurge(body), forceOf(options)),
    )
  }

  redriveDeadLetters(stream: string, body: RedriveBody = {}): Promise<RedriveReply> {
    return this.#call((broker, caller) => broker.redrive(caller, streamOf(stream), checkRedrive(body)))
  }

  publish(stream: string, record: RecordToPublish): Promise<PublishReply> {
    return this.#call((broker, caller) => broker.publish(caller, streamOf(stream), publishInputOf(record, this.config)))
  }

  async publishWithRetry(
    stream: string,
    record: RecordToPublish,
    policy: RetryPolicy = DEFAULT_RETRY_POLICY,
  ): Promise<PublishReply> {
    const input = await this.#call(async () => publishInputOf(record, this.config))
    const publish = (): Promise<PublishReply> =>
      this.#call((broker, caller) => broker.publish(caller, streamOf(stream), input))
    return withRetry(publish, policy, this.#connection, this.#connection.closing)
  }

  async fetch(stream: string, options: FetchOptions = {}, wait: Stoppable = {}): Promise<ReplayPage> {
    const page = await this.#waiting(wait, (broker, caller, patience) =>
      broker.replay(caller, streamOf(stream), replayOf(options), patience),
    )
    return pageFrom(page)
  }

  async fetchFromOffset(
    stream: string,
    startOffset: number,
    options: Pick<FetchOptions, 'max_records' | 'max_payload_bytes'> = {},
  ): Promise<ReplayPage> {
    const { max_records, max_payload_bytes } = this.#optionsOf(options)
    return this.fetch(stream, { start_offset: startOffset, max_records, max_payload_bytes })
  }

  async *subscribeReplay(stream: string, options: ReplaySubscriptionOptions = {}): Subscription<StoredRecord> {
    const { signal, ...where } = this.#optionsOf(options)
    yield* replayRecords(this, stream, where, this.#subscription(signal))
  }

  commitCursor(stream: string, group: string, cursor: string, offset: number): Promise<CursorCommitReply> {
    return this.#call((broker, caller) =>
      broker.commitCursor(caller, groupOf(stream, group), tokenOf(cursor, 'cursor'), checkCommit({ offset }).offset),
    )
  }

  deleteCursor(stream: string, group: string, cursor: string, options: Forcible = {}): Promise<CursorDeleteReply> {
    return this.#call((broker, caller) =>
      broker.deleteCursor(caller, groupOf(stream, group), tokenOf(cursor, 'cursor'), forceOf(options)),
    )
  }

  // Shared queue

  async claimQueue(
    stream: string,
    group: string,
    body: ClaimBody = {},
    options: Stoppable = {},
  ): Promise<ClaimedDeliveries> {
    const claimed = await this.#waiting(options, (broker, caller, patience) =>
      broker.claim(caller, groupOf(stream, group), checkClaim(body), patience),
    )
    return claimFrom(claimed)
  }

  async *subscribeQueue(stream: string, group: string, options: QueueSubscriptionOptions = {}): Subscription<Delivery> {
    const { signal, ...limits } = this.#optionsOf(options)
    yield* queueDeliveries(this, stream, group, limits, this.#subscription(signal))
  }

  ack(delivery: DeliveryName): Promise<AckReply> {
    return this.#call((broker, caller) => broker.ack(caller, deliveryOf(delivery)))
  }

  nack(delivery: DeliveryName, body: NackBody): Promise<NackReply> {
    return this.#call((broker, caller) => broker.nack(caller, deliveryOf(delivery), checkNack(body)))
  }

  renewLease(delivery: DeliveryName, body: RenewBody): Promise<RenewReply> {
    return this.#call((broker, caller) => broker.renew(caller, deliveryOf(delivery), checkRenew(body)))
  }

  retryDelivery(delivery: DeliveryName, body: RetryBody): Promise<RetryReply> {
    return this.#call((broker, caller) => broker.retry(caller, deliveryOf(delivery), checkRetry(body)))
  }

  deadLetter(delivery: DeliveryName, body: DeadLetterBody): Promise<DeadLetterReply> {
    return this.#call((broker, caller) => broker.deadLetter(caller, deliveryOf(delivery), checkDeadLetter(body)))
  }

  // Inspection

  async inspectLeases(
    stream: string,
    group: string,
    options: { readonly include_completed?: boolean } = {},
  ): Promise<LeaseListReply> {
    const { include_completed = false } = this.#optionsOf(options)
    return this.#call((broker, caller) => broker.leases(caller, groupOf(stream, group), include_completed))
  }

  inspectDelayedMessages(stream: string, group: string): Promise<DelayedListReply> {
    return this.#call((broker, caller) => broker.delayed(caller, groupOf(stream, group)))
  }

  inspectReplayConsumers(stream: string, group: string): Promise<ReplayConsumerListReply> {
    return this.#call((broker, caller) => broker.replayConsumers(caller, groupOf(stream, group)))
  }

  listConsumerGroups(stream: string): Promise<GroupListReply> {
    return this.#call((broker, caller) => broker.listGroups(caller, streamOf(stream)))
  }

  deleteConsumerGroup(stream: string, group: string, options: Forcible = {}): Promise<GroupDeleteReply> {
    return this.#call((broker, caller) => broker.deleteGroup(caller, groupOf(stream, group), forceOf(options)))
  }

  seekConsumerGroup(stream: string, group: string, body: SeekBody): Promise<GroupSeekReply> {
    return this.#call((broker, caller) => broker.seekGroup(caller, groupOf(stream, group), checkSeek(body)))
  }

  describeConsumerGroup(stream: string, group: string): Promise<GroupReply> {
    return this.#call((broker, caller) => broker.describeGroup(caller, groupOf(stream, group)))
  }

  #call<T>(operation: (broker: AskedBroker, caller: Caller) => Promise<T>): Promise<T> {
    return this.#connection.call(operation)
  }

  /** What may take long, and ends when the signal says so. */
  async #waiting<T>(
    options: Stoppable,
    operation: (broker: AskedBroker, caller: Caller, patience: Patience) => Promise<T>,
  ): Promise<T> {
    const { signal } = this.#optionsOf(options)
    const patience = patienceUntil([this.#connection.closing, ...(signal ? [signal] : [])])
    try {
      return await this.#call((broker, caller) => operation(broker, caller, patience))
    } finally {
      patience.end()
    }
  }

  #optionsOf<Options extends object>(options: Options): Options {
    return this.#connection.check(() => optionsOf(options))
  }

  #subscription(signal: AbortSignal | undefined): SubscriptionParts {
    const connection = this.#connection
    const stop = signal ? AbortSignal.any([connection.closing, signal]) : connection.closing
    return {
      stop,
      pause: connection.pause,
      retrying: (attempt) => withRetry(attempt, DEFAULT_RETRY_POLICY, connection, stop),
    }
  }
}

/** A client that stays until one of the signals says stop. `end` it with the call, or the signals keep it. */
function patienceUntil(signals: readonly AbortSignal[]): Patience & { end(): void } {
  let abandon = (): void => {}
  const onStop = (): void => abandon()
  for (const signal of signals) signal.addEventListener('abort', onStop)
  return {
    onAbandoned(listener) {
      abandon = listener
      if (signals.some(({ aborted }) => aborted)) listener()
    },
    end: () => signals.forEach((signal) => signal.removeEventListener('abort', onStop)),
  }
}
