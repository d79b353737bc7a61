/**
 * The client of a broker behind HTTP. It sends what its caller says, and the broker checks it. Only a name that would lead to another route
 * is refused here. It uses only what browsers also have. Source: specification "Client library entry points".
 */
import type * as wire from '../broker/wire/types.ts'
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
import { ClientConfig } from './client-config.ts'
import type { ClientSettings } from './client-config.ts'
import { claimFrom, pageFrom } from './decode.ts'
import type { HttpCall, HttpConnection } from './http/connection.ts'
import {
  STREAMS,
  bodyOf,
  cursorPath,
  deliveriesPath,
  deliveryPath,
  groupPath,
  json,
  queryOf,
  recordOf,
  streamPath,
} from './http/wire.ts'
import { HeldLeases } from './leases.ts'
import { isStreamName } from '../broker/names.ts'
import { ClaimingSubscription } from './queue-subscription.ts'
import type { QueueClient } from './queue-subscription.ts'
import { DEFAULT_RETRY_POLICY, withRetry } from './retry.ts'
import type { RetryPolicy } from './retry.ts'
import { SdkError, mayHaveHappened } from './sdk-error.ts'
import { PushedClaims } from './streaming/pushed-claims.ts'
import { copyOf, publishOver, settleOver } from './streaming/streamed-calls.ts'
import type { Stream } from './streaming/stream.ts'
import { replayRecords, subscriptionParts } from './subscriptions.ts'
import { nothingClaimed, waitMsOf } from './waits.ts'

/** What a method of the interface returns. */
type Reply<Name extends keyof BrokerClient> = ReturnType<BrokerClient[Name]>
type Asked = Pick<HttpCall, 'method' | 'path'> & Partial<HttpCall>

const CLOSE_MS = 8000

export class HttpClient implements BrokerClient {
  readonly config: ClientConfig
  readonly #connection: HttpConnection
  /** Carries the calls that have a form of their own there; null: all calls go over HTTP. */
  readonly #stream: Stream | null
  readonly #leases = new HeldLeases()
  #claimIds = 0

  /** @throws SdkError InvalidConfig */
  protected constructor(settings: ClientSettings, connection: HttpConnection, stream: Stream | null) {
    this.config = new ClientConfig(settings)
    this.#connection = connection
    this.#stream = stream
  }

  /** Ends subscriptions and waits, lets earlier calls finish, and closes connections. Deliveries that are being handled keep their leases. */
  async close(): Promise<void> {
    const options = { withinMs: CLOSE_MS }
    await Promise.all([this.#connection.close(options), this.#stream?.close(options)])
  }

  // Streams and records

  listStreams(options: Stoppable = {}): Reply<'listStreams'> {
    return this.#get(() => STREAMS, options)
  }

  createStream(stream: string, body: wire.CreateStreamBody = {}, options: Stoppable = {}): Reply<'createStream'> {
    return this.#send('PUT', () => streamPath(streamOf(stream)), body, options)
  }

  describeStream(stream: string, options: Stoppable = {}): Reply<'describeStream'> {
    return this.#get(() => streamPath(streamOf(stream)), options)
  }

  updateStream(stream: string, body: wire.UpdateStreamBody, options: Forcible = {}): Reply<'updateStream'> {
    return this.#send('PATCH', () => `${streamPath(streamOf(stream))}${forceIn(options)}`, body, options)
  }

  deleteStream(stream: string, options: Forcible = {}): Reply<'deleteStream'> {
    return this.#delete(() => streamPath(streamOf(stream)), options)
  }

  purgeStream(stream: string, body: wire.PurgeStreamBody, options: Forcible = {}): Reply<'purgeStream'> {
    return this.#send('POST', () => `${streamPath(streamOf(stream))}/purge${forceIn(options)}`, body, options)
  }

  redriveDeadLetters(
    stream: string,
    body: wire.RedriveBody = {},
    options: Stoppable = {},
  ): Reply<'redriveDeadLetters'> {
    return this.#send('POST', () => `${streamPath(streamOf(stream))}/dead-letters/redrive`, body, options)
  }

  publish(stream: string, record: RecordToPublish, options: Stoppable = {}): Reply<'publish'> {
    return (
      this.#streamed(record, stream, options) ??
      this.#publish(stream, () => json(recordOf(record, this.config)), options)
    )
  }

  async publishWithRetry(
    stream: string,
    record: RecordToPublish,
    policy: RetryPolicy = DEFAULT_RETRY_POLICY,
    options: Stoppable = {},
  ): Reply<'publishWithRetry'> {
    const connection = this.#connection
    const body = connection.check(() => json(recordOf(record, this.config))) // the same bytes each time
    const { signal } = connection.check(() => optionsOf(options))
    const { stop } = subscriptionParts(connection, { signal })
    const again = this.#stream === null ? null : copyOf(record)
    const publish = (): Reply<'publish'> =>
      this.#streamed(again, stream, options) ?? this.#publish(stream, () => body, options)
    return withRetry(publish, policy, connection, stop, (error) => error.retryable || mayHaveHappened(error))
  }

  publishBatch(stream: string, records: readonly RecordToPublish[], options: Stoppable = {}): Reply<'publishBatch'> {
    return this.#ask(() => {
      const list = Array.isArray(records) ? records.map((record) => recordOf(record, this.config)) : records
      const body = json({ records: list })
      return { method: 'POST', path: `${streamPath(streamOf(stream))}/records/batch`, body }
    }, options)
  }

  async fetch(stream: string, options: FetchOptions = {}, wait: Stoppable = {}): Promise<ReplayPage> {
    const ask = (asked: FetchOptions, until: Stoppable): Promise<ReplayPage> =>
      this.#ask(
        () => ({
          method: 'GET',
          path: `${streamPath(streamOf(stream))}/records${queryOf(optionsOf(asked))}`,
          waitMs: waitMsOf(asked),
        }),
        until,
        pageFrom,
      )
    try {
      return await ask(options, wait)
    } catch (error) {
      if (!isAborted(error) || waitMsOf(options) === 0) throw error
      return ask({ ...options, wait_millis: 0 }, {}) // what there is, as the wait is over
    }
  }

  async fetchFromOffset(
    stream: string,
    startOffset: number,
    options: Pick<FetchOptions, 'max_records' | 'max_payload_bytes'> = {},
  ): Promise<ReplayPage> {
    const { max_records, max_payload_bytes } = this.#connection.check(() => optionsOf(options))
    return this.fetch(stream, { start_offset: startOffset, max_records, max_payload_bytes })
  }

  async *subscribeReplay(stream: string, options: ReplaySubscriptionOptions = {}): Subscription<StoredRecord> {
    const { signal, retry, ...where } = this.#connection.check(() => optionsOf(options))
    yield* replayRecords(this, stream, where, subscriptionParts(this.#connection, { signal, retry }))
  }

  listCursors(stream: string, group: string, options: Stoppable = {}): Reply<'listCursors'> {
    return this.#get(() => `${groupPath(groupOf(stream, group))}/cursors`, options)
  }

  commitCursor(
    stream: string,
    group: string,
    cursor: string,
    offset: number,
    options: Stoppable = {},
  ): Reply<'commitCursor'> {
    return this.#ask(() => {
      const path = cursorPath(groupOf(stream, group), tokenOf(cursor, 'cursor'))
      return { method: 'PUT', path, body: bodyOf({ offset }), isRepeatable: true }
    }, options)
  }

  rewindCursor(
    stream: string,
    group: string,
    cursor: string,
    body: wire.CursorRewindBody,
    options: Stoppable = {},
  ): Reply<'rewindCursor'> {
    const pathOf = (): string => `${cursorPath(groupOf(stream, group), tokenOf(cursor, 'cursor'))}/rewind`
    return this.#send('POST', pathOf, body, options)
  }

  deleteCursor(stream: string, group: string, cursor: string, options: Forcible = {}): Reply<'deleteCursor'> {
    return this.#delete(() => cursorPath(groupOf(stream, group), tokenOf(cursor, 'cursor')), options)
  }

  // Shared queue

  async claimQueue(
    stream: string,
    group: string,
    body: wire.ClaimBody = {},
    options: Stoppable = {},
  ): Promise<ClaimedDeliveries> {
    const makeCall = (): Asked => ({
      method: 'POST',
      path: `${groupPath(groupOf(stream, group))}/claims`,
      body: bodyOf(body),
      isRepeatable: typeof body?.claim_id === 'string', // the broker then gives the same deliveries
      waitMs: waitMsOf(body),
    })
    try {
      return await this.#ask(makeCall, options, claimFrom)
    } catch (error) {
      if (!isAborted(error) || waitMsOf(body) === 0) throw error
      return nothingClaimed(stream, group, body.start_offset ?? 0)
    }
  }

  subscribeQueue(stream: string, group: string, options: QueueSubscriptionOptions = {}): QueueSubscription {
    const connection = this.#connection
    return new ClaimingSubscription(() => ({
      client: this.#stream === null ? this : this.#pushedTo(this.#stream, stream, group),
      stream,
      group,
      options: connection.check(() => optionsOf(options)),
      leases: this.#leases,
      claimId: this.#stream === null ? () => this.#newClaimId() : null,
      ...subscriptionParts(connection, options),
    }))
  }

  ack(delivery: DeliveryName, options: Stoppable = {}): Reply<'ack'> {
    return this.#settle(delivery, 'ack', undefined, options)
  }

  batchAck(deliveries: readonly DeliveryName[], options: Stoppable = {}): Reply<'batchAck'> {
    const named = Array.isArray(deliveries) ? deliveries : []
    return this.#leases.settling(named, () =>
      this.#ask(() => {
        const { delivery_ids, ...path } = deliveriesOf(deliveries)
        return { method: 'POST', path: `${deliveriesPath(path)}/batch-ack`, body: bodyOf({ delivery_ids }) }
      }, options),
    )
  }

  nack(delivery: DeliveryName, body: wire.NackBody, options: Stoppable = {}): Reply<'nack'> {
    return this.#settle(delivery, 'nack', body, options)
  }

  renewLease(delivery: DeliveryName, body: wire.RenewBody, options: Stoppable = {}): Reply<'renewLease'> {
    return this.#deliveryCall(delivery, 'renew', body, options)
  }

  retryDelivery(delivery: DeliveryName, body: wire.RetryBody, options: Stoppable = {}): Reply<'retryDelivery'> {
    return this.#settle(delivery, 'retry', body, options)
  }

  deadLetter(delivery: DeliveryName, body: wire.DeadLetterBody, options: Stoppable = {}): Reply<'deadLetter'> {
    return this.#settle(delivery, 'dead-letter', body, options)
  }

  // Inspection

  async inspectLeases(
    stream: string,
    group: string,
    options: { readonly include_completed?: boolean } & Stoppable = {},
  ): Reply<'inspectLeases'> {
    const { include_completed } = this.#connection.check(() => optionsOf(options))
    return this.#get(() => `${groupPath(groupOf(stream, group))}/leases${queryOf({ include_completed })}`, options)
  }

  inspectDelayedMessages(stream: string, group: string, options: Stoppable = {}): Reply<'inspectDelayedMessages'> {
    return this.#get(() => `${groupPath(groupOf(stream, group))}/delayed`, options)
  }

  inspectReplayConsumers(stream: string, group: string, options: Stoppable = {}): Reply<'inspectReplayConsumers'> {
    return this.#get(() => `${groupPath(groupOf(stream, group))}/replay-consumers`, options)
  }

  listConsumerGroups(stream: string, options: Stoppable = {}): Reply<'listConsumerGroups'> {
    return this.#get(() => `${streamPath(streamOf(stream))}/consumer-groups`, options)
  }

  deleteConsumerGroup(stream: string, group: string, options: Forcible = {}): Reply<'deleteConsumerGroup'> {
    return this.#delete(() => groupPath(groupOf(stream, group)), options)
  }

  seekConsumerGroup(
    stream: string,
    group: string,
    body: wire.SeekBody,
    options: Stoppable = {},
  ): Reply<'seekConsumerGroup'> {
    return this.#send('POST', () => `${groupPath(groupOf(stream, group))}/seek`, body, options)
  }

  describeConsumerGroup(stream: string, group: string, options: Stoppable = {}): Reply<'describeConsumerGroup'> {
    return this.#get(() => groupPath(groupOf(stream, group)), options)
  }

  auditEvents(options: AuditOptions & Stoppable = {}): Reply<'auditEvents'> {
    return this.#get(() => `/v1/audit/events${auditQuery(options)}`, options)
  }

  auditExport(options: AuditOptions & Stoppable = {}): Reply<'auditExport'> {
    return this.#ask(() => ({ method: 'GET', path: `/v1/audit/export${auditQuery(options)}` }), options, String)
  }

  #publish(stream: string, makeBody: () => string, options: Stoppable): Reply<'publish'> {
    return this.#ask(
      () => ({ method: 'POST', path: `${streamPath(streamOf(stream))}/records`, body: makeBody() }),
      options,
    )
  }

  /** @param body undefined: none */
  #settle<T>(delivery: DeliveryName, verb: string, body: object | undefined, options: Stoppable): Promise<T> {
    const call = (): Promise<T> => this.#deliveryCall<T>(delivery, verb, body, options)
    return this.#leases.settling([delivery], call, verb === 'dead-letter')
  }

  async #deliveryCall<T>(
    delivery: DeliveryName,
    verb: string,
    body: object | undefined,
    options: Stoppable,
  ): Promise<T> {
    const streamed =
      this.#stream && this.#connection.check(() => settleOver<T>(this.#stream!, delivery, verb, body, options))
    return streamed ?? this.#send<T>('POST', () => `${deliveryPath(deliveryOf(delivery))}/${verb}`, body, options)
  }

  /** Publishes over the streaming connection. Null: this call goes over HTTP. */
  #streamed(record: RecordToPublish | null, stream: string, options: Stoppable): Reply<'publish'> | null {
    const streaming = this.#stream
    if (streaming === null || record === null || typeof stream !== 'string' || !isStreamName(stream)) {
      return null
    }
    return publishOver(streaming, stream, record, this.config, options?.signal)
  }

  /** A client whose claims are answered from what the broker pushes. */
  #pushedTo(streaming: Stream, stream: string, group: string): QueueClient {
    const claims = this.#connection.check(() => new PushedClaims(streaming, stream, group))
    return {
      claimQueue: (_stream, _group, body = {}, options = {}) => claims.claim(body, options),
      pushed: claims,
      ack: (delivery) => this.ack(delivery),
      nack: (delivery, body) => this.nack(delivery, body),
      renewLease: (delivery, body) => this.renewLease(delivery, body),
      retryDelivery: (delivery, body) => this.retryDelivery(delivery, body),
    }
  }

  #get<T>(pathOf: () => string, options: Stoppable): Promise<T> {
    return this.#ask(() => ({ method: 'GET', path: pathOf() }), options)
  }

  #delete<T>(pathOf: () => string, options: Forcible): Promise<T> {
    return this.#ask(() => ({ method: 'DELETE', path: `${pathOf()}${forceIn(options)}` }), options)
  }

  #send<T>(method: HttpCall['method'], pathOf: () => string, body: object | undefined, options: Stoppable): Promise<T> {
    return this.#ask(() => ({ method, path: pathOf(), body: body === undefined ? null : bodyOf(body) }), options)
  }

  /** @param read default: parses JSON, as the broker's own answer fits its schema */
  #ask<T>(make: () => Asked, options: Stoppable, read = (text: string): T => JSON.parse(text) as T): Promise<T> {
    return this.#connection.ask(() => {
      const { signal } = optionsOf(options)
      const asked = make()
      return { body: null, isRepeatable: asked.method === 'GET', signal, ...asked }
    }, read)
  }

  /** Unique by a random part and a counter. */
  #newClaimId(): string {
    this.#claimIds += 1
    const { random } = this.#connection
    return `${random().toString(36).slice(2)}${random().toString(36).slice(2)}-${this.#claimIds}`
  }
}

const isAborted = (error: unknown): boolean => error instanceof SdkError && error.kind === 'Aborted'

const forceIn = (options: Forcible): string => (forceOf(options) ? '?force=true' : '')

function auditQuery(options: AuditOptions & Stoppable): string {
  const { signal: _, ...query } = optionsOf(options)
  return queryOf(query)
}
