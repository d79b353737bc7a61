/** One client of a simulated broker. Its methods start an operation at once; `now` flushes everything and waits for the answer. */
import type { AbandonedSignal } from '../../../src/broker/operations.ts'
import type { PublishInput } from '../../../src/broker/publish-input.ts'
import type { ClaimBody, CreateStreamBody } from '../../../src/broker/wire/requests.ts'
import type { RecordDurability } from '../../../src/broker/durability.ts'
import type { RefEvent, RefRecord } from './reference-streams.ts'
import { CALLER, NEVER_ABANDONED, Pending, jsonOf } from '../../support/broker-world.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'

export interface Delivery {
  readonly stream: string
  readonly subscriptionId: string
  readonly deliveryId: string
  readonly offset: number
  readonly attempt: number
  readonly record: RefRecord
}

interface ClaimAnswer {
  readonly subscription_id: string
  readonly deliveries: readonly {
    readonly delivery_id: string
    readonly offset: number
    readonly attempt: number
    readonly record: RefRecord
  }[]
}

interface Page {
  readonly records: readonly RefRecord[]
  readonly next_offset: number
  readonly end_of_stream: boolean
}

export const inputOf = (messageId: string, durability: RecordDurability | null = null): PublishInput => ({
  messageId,
  payload: { text: `payload of ${messageId}`, encoding: 'utf8' },
  key: null,
  eventTimeMs: null,
  headers: {},
  durability,
})

export class Client {
  readonly #world: BrokerWorld

  constructor(world: BrokerWorld) {
    this.#world = world
  }

  async now<T>(asked: Pending<T>): Promise<T> {
    await this.#world.flush()
    return asked.value
  }

  create(stream: string, body: CreateStreamBody = {}) {
    return new Pending(this.#world.broker.createStream(CALLER, stream, body))
  }

  publish(stream: string, messageId: string, durability: RecordDurability | null = null) {
    return new Pending(this.#world.broker.publish(CALLER, stream, inputOf(messageId, durability)))
  }

  claim(
    stream: string,
    body: ClaimBody = {},
    {
      group = 'g1',
      abandonedSignal = NEVER_ABANDONED,
    }: { readonly group?: string; readonly abandonedSignal?: AbandonedSignal } = {},
  ) {
    const answer = this.#world.broker.claim(CALLER, { stream, group }, body, abandonedSignal)
    return new Pending(answer.then((bytes) => deliveriesOf(stream, jsonOf<ClaimAnswer>(bytes))))
  }

  ack(delivery: Delivery) {
    return new Pending(this.#world.broker.ack(CALLER, delivery))
  }

  nack(delivery: Delivery, requeue = true) {
    return new Pending(this.#world.broker.nack(CALLER, delivery, { reason: 'no', requeue }))
  }

  renew(delivery: Delivery, extend_by_millis: number) {
    return new Pending(this.#world.broker.renew(CALLER, delivery, { extend_by_millis }))
  }

  retry(delivery: Delivery, delay_millis = 0) {
    return new Pending(this.#world.broker.retry(CALLER, delivery, { reason: 'again', delay_millis }))
  }

  deadLetter(delivery: Delivery, dead_letter_stream: string) {
    return new Pending(this.#world.broker.deadLetter(CALLER, delivery, { dead_letter_stream, reason: 'bad' }))
  }

  replay(stream: string, consumer: { readonly group: string; readonly id: string } | null = null) {
    const start = { by: 'offset', offset: 0 } as const
    const request = { start, maxRecords: 1000, maxPayloadBytes: null, consumer, legacy: false }
    return new Pending(this.#world.broker.replay(CALLER, stream, request).then((bytes) => jsonOf<Page>(bytes)))
  }

  events() {
    const request = { startOffset: 0, maxRecords: 1000, format: 'json' } as const
    const page = this.#world.broker.audit(CALLER, request)
    return new Pending(page.then((bytes) => jsonOf<{ events: RefEvent[] }>(bytes).events))
  }

  describe(stream: string) {
    return new Pending(this.#world.broker.describeStream(CALLER, stream))
  }

  describeGroup(stream: string, group = 'g1') {
    return new Pending(this.#world.broker.describeGroup(CALLER, { stream, group }))
  }

  leases(stream: string, group = 'g1') {
    return new Pending(this.#world.broker.leases(CALLER, { stream, group }, true))
  }

  /** Message ids of the records of a stream. */
  async messages(stream: string): Promise<string[]> {
    const { records } = await this.now(this.replay(stream))
    return records.map(({ message_id }) => message_id)
  }
}

const deliveriesOf = (stream: string, { subscription_id, deliveries }: ClaimAnswer): Delivery[] =>
  deliveries.map(({ delivery_id, offset, attempt, record }) => ({
    stream,
    subscriptionId: subscription_id,
    deliveryId: delivery_id,
    offset,
    attempt,
    record,
  }))
