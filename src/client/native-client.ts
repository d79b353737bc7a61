/**
 * The client of a broker in the same process, which it calls directly. Calls and refusals are the same as over HTTP.
 * Source: specification "Client library entry points".
 */
import type { AbandonedSignal, AskedBroker, Caller } from '../broker/operations.ts'
import { BrokerError } from '../broker/refusals.ts'
import type { PublishInput } from '../broker/publish-input.ts'
import {
  BatchAckBody,
  ClaimBody,
  CreateStreamBody,
  CursorCommitBody,
  CursorRewindBody,
  DeadLetterBody,
  NackBody,
  PublishBatchBody,
  PurgeStreamBody,
  RedriveBody,
  RenewBody,
  RetryBody,
  SeekBody,
  UpdateStreamBody,
} from '../broker/wire/requests.ts'
import { deliveriesOf, deliveryOf, forceOf, groupOf, optionsOf, streamOf, tokenOf } from './arguments.ts'
import type {
  AuditOptions,
  BrokerClient,
  ClaimedDeliveries,
  DeliveryName,
  FetchOptions,
  Forcible,
  QueueSubscription,
  QueueSubscriptionOptions,
  RecordToPublish,
  ReplayPage,
  ReplaySubscriptionOptions,
  Stoppable,
  StoredRecord,
  Subscription,
} from './broker-client.ts'
import { textOf } from './bytes.ts'
import { bodyCheck } from '../broker/body-check.ts'
import { auditOf, publishInputOf, replayOf } from './checks.ts'
import { ClientConfig } from './client-config.ts'
import type { ClientSettings } from './client-config.ts'
import { auditPageFrom, claimFrom, pageFrom } from './decode.ts'
import { HeldLeases } from './leases.ts'
import type { NativeConnection } from './native-connection.ts'
import { ClaimingSubscription } from './queue-subscription.ts'
import { DEFAULT_RETRY_POLICY, withRetry } from './retry.ts'
import type { RetryPolicy } from './retry.ts'
import { aborted } from './sdk-error.ts'
import { replayRecords, subscriptionParts } from './subscriptions.ts'
import { nothingClaimed, waitMsOf } from './waits.ts'

const checkCreate = bodyCheck(CreateStreamBody)
const checkCommit = bodyCheck(CursorCommitBody)
const checkRewind = bodyCheck(CursorRewindBody)
const checkClaim = bodyCheck(ClaimBody)
const checkBatch = bodyCheck(PublishBatchBody)
const checkBatchAck = bodyCheck(BatchAckBody)
const checkNack = bodyCheck(NackBody)
const checkRenew = bodyCheck(RenewBody)
const checkRetry = bodyCheck(RetryBody)
const checkUpdate = bodyCheck(UpdateStreamBody)
const checkPurge = bodyCheck(PurgeStreamBody)
const checkRedrive = bodyCheck(RedriveBody)
const checkSeek = bodyCheck(SeekBody)
const checkDeadLetter = bodyCheck(DeadLetterBody)

/** What a method of the interface returns. */
type Reply<Name extends keyof BrokerClient> = ReturnType<BrokerClient[Name]>

export class NativeClient implements BrokerClient {
  readonly config: ClientConfig
  readonly #connection: NativeConnection
  readonly #leases = new HeldLeases()

  /** @throws SdkError InvalidConfig */
  constructor(settings: ClientSettings, connection: NativeConnection) {
    this.config = new ClientConfig(settings)
    this.#connection = connection
  }

  // Streams and records

  listStreams(options: Stoppable = {}): Reply<'listStreams'> {
    return this.#call((broker, caller) => broker.listStreams(caller), options)
  }

  createStream(stream: string, body: CreateStreamBody = {}, options: Stoppable = {}): Reply<'createStream'> {
    return this.#call((broker, caller) => broker.createStream(caller, streamOf(stream), checkCreate(body)), options)
  }

  describeStream(stream: string, options: Stoppable = {}): Reply<'describeStream'> {
    return this.#call((broker, caller) => broker.describeStream(caller, streamOf(stream)), options)
  }

  updateStream(stream: string, body: UpdateStreamBody, options: Forcible = {}): Reply<'updateStream'> {
    return this.#call(
      (broker, caller) => broker.updateStream(caller, streamOf(stream), checkUpdate(body), forceOf(options)),
      options,
    )
  }

  deleteStream(stream: string, options: Forcible = {}): Reply<'deleteStream'> {
    return this.#call((broker, caller) => broker.deleteStream(caller, streamOf(stream), forceOf(options)), options)
  }

  purgeStream(stream: string, body: PurgeStreamBody, options: Forcible = {}): Reply<'purgeStream'> {
    return this.#call(
      (broker, caller) => broker.purgeStream(caller, streamOf(stream), checkPurge(body), forceOf(options)),
      options,
    )
  }

  redriveDeadLetters(stream: string, body: RedriveBody = {}, options: Stoppable = {}): Reply<'redriveDeadLetters'> {
    return this.#call((broker, caller) => broker.redrive(caller, streamOf(stream), checkRedrive(body)), options)
  }

  publish(stream: string, record: RecordToPublish, options: Stoppable = {}): Reply<'publish'> {
    return this.#call(
      (broker, caller) => broker.publish(caller, streamOf(stream), publishInputOf(record, this.config)),
      options,
    )
  }

  async publishWithRetry(
    stream: string,
    record: RecordToPublish,
    policy: RetryPolicy = DEFAULT_RETRY_POLICY,
    options: Stoppable = {},
  ): Reply<'publishWithRetry'> {
    const connection = this.#connection
    const input = await this.#call(async () => publishInputOf(record, this.config), options)
    const publish = (): Reply<'publish'> =>
      this.#call((broker, caller) => broker.publish(caller, streamOf(stream), input), options)
    return withRetry(publish, policy, connection, subscriptionParts(connection, options).stop)
  }

  publishBatch(stream: string, records: readonly RecordToPublish[], options: Stoppable = {}): Reply<'publishBatch'> {
    return this.#call((broker, caller) => {
      const name = streamOf(stream)
      const list = checkBatch({ records: records as unknown[] }).records as readonly RecordToPublish[] // each is checked next
      return broker.publishBatch(
        caller,
        name,
        list.map((record) => publishInputOrRefusal(record, this.config)),
      )
    }, options)
  }

  async fetch(stream: string, options: FetchOptions = {}, wait: Stoppable = {}): Promise<ReplayPage> {
    if (this.#isAborted(wait) && waitMsOf(options) === 0) throw aborted()
    const page = await this.#waiting(wait, (broker, caller, abandonedSignal) =>
      broker.replay(caller, streamOf(stream), replayOf(options), abandonedSignal),
    )
    return pageFrom(textOf(page))
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
    const { signal, retry, ...where } = this.#optionsOf(options)
    yield* replayRecords(this, stream, where, subscriptionParts(this.#connection, { signal, retry }))
  }

  listCursors(stream: string, group: string, options: Stoppable = {}): Reply<'listCursors'> {
    return this.#call((broker, caller) => broker.cursors(caller, groupOf(stream, group)), options)
  }

  commitCursor(
    stream: string,
    group: string,
    cursor: string,
    offset: number,
    options: Stoppable = {},
  ): Reply<'commitCursor'> {
    return this.#call(
      (broker, caller) =>
        broker.commitCursor(caller, groupOf(stream, group), tokenOf(cursor, 'cursor'), checkCommit({ offset }).offset),
      options,
    )
  }

  rewindCursor(
    stream: string,
    group: string,
    cursor: string,
    body: CursorRewindBody,
    options: Stoppable = {},
  ): Reply<'rewindCursor'> {
    return this.#call(
      (broker, caller) =>
        broker.rewindCursor(caller, groupOf(stream, group), tokenOf(cursor, 'cursor'), checkRewind(body)),
      options,
    )
  }

  deleteCursor(stream: string, group: string, cursor: string, options: Forcible = {}): Reply<'deleteCursor'> {
    return this.#call(
      (broker, caller) =>
        broker.deleteCursor(caller, groupOf(stream, group), tokenOf(cursor, 'cursor'), forceOf(options)),
      options,
    )
  }

  // Shared queue

  async claimQueue(
    stream: string,
    group: string,
    body: ClaimBody = {},
    options: Stoppable = {},
  ): Promise<ClaimedDeliveries> {
    if (this.#isAborted(options)) {
      if (waitMsOf(body) === 0) throw aborted()
      return nothingClaimed(stream, group, body.start_offset ?? 0) // the wait is over, and nobody looks at deliveries
    }
    const claimed = await this.#waiting(options, (broker, caller, abandonedSignal) =>
      broker.claim(caller, groupOf(stream, group), checkClaim(body), abandonedSignal),
    )
    return claimFrom(textOf(claimed))
  }

  subscribeQueue(stream: string, group: string, options: QueueSubscriptionOptions = {}): QueueSubscription {
    return new ClaimingSubscription(() => ({
      client: this,
      stream,
      group,
      options: this.#optionsOf(options),
      leases: this.#leases,
      claimId: null,
      ...subscriptionParts(this.#connection, options),
    }))
  }

  ack(delivery: DeliveryName, options: Stoppable = {}): Reply<'ack'> {
    return this.#settle([delivery], (broker, caller) => broker.ack(caller, deliveryOf(delivery)), options)
  }

  batchAck(deliveries: readonly DeliveryName[], options: Stoppable = {}): Reply<'batchAck'> {
    const named = Array.isArray(deliveries) ? deliveries : []
    return this.#settle(
      named,
      (broker, caller) => {
        const { stream, subscriptionId, delivery_ids } = deliveriesOf(deliveries)
        return broker.batchAck(caller, stream, subscriptionId, checkBatchAck({ delivery_ids }))
      },
      options,
    )
  }

  nack(delivery: DeliveryName, body: NackBody, options: Stoppable = {}): Reply<'nack'> {
    const nack: Ask<'nack'> = (broker, caller) => broker.nack(caller, deliveryOf(delivery), checkNack(body))
    return this.#settle([delivery], nack, options)
  }

  renewLease(delivery: DeliveryName, body: RenewBody, options: Stoppable = {}): Reply<'renewLease'> {
    return this.#call((broker, caller) => broker.renew(caller, deliveryOf(delivery), checkRenew(body)), options)
  }

  retryDelivery(delivery: DeliveryName, body: RetryBody, options: Stoppable = {}): Reply<'retryDelivery'> {
    const retry: Ask<'retryDelivery'> = (broker, caller) => broker.retry(caller, deliveryOf(delivery), checkRetry(body))
    return this.#settle([delivery], retry, options)
  }

  deadLetter(delivery: DeliveryName, body: DeadLetterBody, options: Stoppable = {}): Reply<'deadLetter'> {
    const deadLetter: Ask<'deadLetter'> = (broker, caller) =>
      broker.deadLetter(caller, deliveryOf(delivery), checkDeadLetter(body))
    return this.#settle([delivery], deadLetter, options, true)
  }

  // Inspection

  async inspectLeases(
    stream: string,
    group: string,
    options: { readonly include_completed?: boolean } & Stoppable = {},
  ): Reply<'inspectLeases'> {
    const { include_completed = false } = this.#optionsOf(options)
    return this.#call((broker, caller) => broker.leases(caller, groupOf(stream, group), include_completed), options)
  }

  inspectDelayedMessages(stream: string, group: string, options: Stoppable = {}): Reply<'inspectDelayedMessages'> {
    return this.#call((broker, caller) => broker.delayed(caller, groupOf(stream, group)), options)
  }

  inspectReplayConsumers(stream: string, group: string, options: Stoppable = {}): Reply<'inspectReplayConsumers'> {
    return this.#call((broker, caller) => broker.replayConsumers(caller, groupOf(stream, group)), options)
  }

  listConsumerGroups(stream: string, options: Stoppable = {}): Reply<'listConsumerGroups'> {
    return this.#call((broker, caller) => broker.listGroups(caller, streamOf(stream)), options)
  }

  deleteConsumerGroup(stream: string, group: string, options: Forcible = {}): Reply<'deleteConsumerGroup'> {
    return this.#call((broker, caller) => broker.deleteGroup(caller, groupOf(stream, group), forceOf(options)), options)
  }

  seekConsumerGroup(
    stream: string,
    group: string,
    body: SeekBody,
    options: Stoppable = {},
  ): Reply<'seekConsumerGroup'> {
    return this.#call((broker, caller) => broker.seekGroup(caller, groupOf(stream, group), checkSeek(body)), options)
  }

  describeConsumerGroup(stream: string, group: string, options: Stoppable = {}): Reply<'describeConsumerGroup'> {
    return this.#call((broker, caller) => broker.describeGroup(caller, groupOf(stream, group)), options)
  }

  async auditEvents(options: AuditOptions & Stoppable = {}): Reply<'auditEvents'> {
    return auditPageFrom(textOf(await this.#audit(options, 'json')))
  }

  async auditExport(options: AuditOptions & Stoppable = {}): Reply<'auditExport'> {
    return textOf(await this.#audit(options, 'ndjson'))
  }

  #audit(options: AuditOptions & Stoppable, format: 'json' | 'ndjson'): Promise<Uint8Array> {
    const { signal, ...page } = this.#optionsOf(options)
    return this.#call((broker, caller) => broker.audit(caller, auditOf(page, format)), { signal })
  }

  /** A call that settles deliveries. @param hasTarget true for a dead-letter */
  #settle<T>(
    deliveries: readonly DeliveryName[],
    operation: (broker: AskedBroker, caller: Caller) => Promise<T>,
    options: Stoppable,
    hasTarget = false,
  ): Promise<T> {
    return this.#leases.settling(deliveries, () => this.#call(operation, options), hasTarget)
  }

  /** An aborted operation continues in the broker; only its answer is dropped. */
  async #call<T>(operation: (broker: AskedBroker, caller: Caller) => Promise<T>, options: Stoppable): Promise<T> {
    const { signal } = this.#optionsOf(options)
    if (signal?.aborted) throw aborted()
    const answer = this.#connection.call(operation)
    return signal === undefined ? answer : unlessAborted(answer, signal)
  }

  /** A call that may take long, and ends when the signal is aborted. */
  async #waiting<T>(
    options: Stoppable,
    operation: (broker: AskedBroker, caller: Caller, abandonedSignal: AbandonedSignal) => Promise<T>,
  ): Promise<T> {
    const { signal } = this.#optionsOf(options)
    const abandonedSignal = abandonedSignalFrom([this.#connection.closing, ...(signal ? [signal] : [])])
    try {
      return await this.#connection.call((broker, caller) => operation(broker, caller, abandonedSignal))
    } finally {
      abandonedSignal.end()
    }
  }

  #isAborted(options: Stoppable): boolean {
    return this.#optionsOf(options).signal?.aborted ?? false
  }

  #optionsOf<Options extends object>(options: Options): Options {
    return this.#connection.check(() => optionsOf(options))
  }
}

/** Tells the broker when one of the signals is aborted. To be ended with the call, as the signals keep it in memory until then. */
function abandonedSignalFrom(signals: readonly AbortSignal[]): AbandonedSignal & { end(): void } {
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

type Ask<Name extends keyof BrokerClient> = (broker: AskedBroker, caller: Caller) => Reply<Name>

/** A bad record becomes a result like any other. */
function publishInputOrRefusal(record: RecordToPublish, config: ClientConfig): PublishInput | BrokerError {
  try {
    return publishInputOf(record, config)
  } catch (error) {
    if (error instanceof BrokerError) return error
    throw error
  }
}

function unlessAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(aborted())
    signal.addEventListener('abort', onAbort, { once: true })
    const done = (): void => signal.removeEventListener('abort', onAbort)
    answer.then(resolve, reject).finally(done)
  })
}
