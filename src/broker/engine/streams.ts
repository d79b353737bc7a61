/** Streams: create, list, describe, and publishing records to them. */
import type { AppendDurability } from '../../log/appender.ts'
import { FRAME_RECORDS, encodeRecords, recordsBytes } from '../frames.ts'
import type { NewRecord } from '../frames.ts'
import { SLICE_ENTRIES } from '../limits.ts'
import type { Caller } from '../operations.ts'
import type { PublishInput } from '../publish-input.ts'
import { BrokerError, refuse } from '../refusals.ts'
import type { TenantQuotas } from '../quotas.ts'
import type { Acknowledgement } from '../wire/answers.ts'
import type {
  CreateStreamReply,
  PublishBatchReply,
  PublishReply,
  StreamListReply,
  StreamReply,
  StreamSummary,
} from '../wire/record-answers.ts'
import type { CreateStreamBody, RecordDurability } from '../wire/requests.ts'
import { VOLATILE } from './core.ts'
import type { Core, PersistFailure } from './core.ts'
import { AUDIT_STREAM } from './state.ts'
import type { StreamConfig, StreamState } from './state.ts'

/** How a record is stored, and what its publisher is told. */
interface Class {
  readonly durability: AppendDurability
  /** Whether the publisher waits for it. */
  readonly waits: boolean
  readonly acknowledgement: Acknowledgement
}

/** A record of a batch that can be stored as it asks. */
interface Storable {
  readonly input: PublishInput
  readonly how: Class
}

export class Streams {
  readonly #core: Core
  readonly #quotas: TenantQuotas

  constructor(core: Core, quotas: TenantQuotas) {
    this.#core = core
    this.#quotas = quotas
  }

  async create(caller: Caller, name: string, body: CreateStreamBody): Promise<CreateStreamReply> {
    const core = this.#core
    if (core.state.stream(caller.tenant, name) || name === AUDIT_STREAM) {
      throw refuse('stream_already_exists', 'a stream of this name exists')
    }
    if (body.failure_policy?.dead_letter_stream === name) {
      throw refuse('invalid_request', 'failure_policy.dead_letter_stream must be another stream')
    }
    await this.createStream(caller, name, configOf(body), 'internal_error')
    return { api_version: 'v1', stream: name, created: true, acknowledgement: core.acknowledgement }
  }

  /** Appends the creation; the stream is there at once. */
  createStream(caller: Caller, name: string, config: StreamConfig, failure: PersistFailure): Promise<void> {
    const core = this.#core
    const { tenant, principal } = caller
    const auditOffset = core.auditStream(tenant).nextOffset // it may take the next number
    const number = core.state.streams.length
    const stored = core.change(
      {
        kind: 'stream_created',
        stream_number: number,
        tenant,
        stream: name,
        ...config,
        at_ms: core.time.wallMs(),
        principal,
        audit_offset: auditOffset,
      },
      { purpose: 'admit', failure },
    )
    core.tellLater(core.state.streams[number]!)
    return stored
  }

  /** Made in slices: a stream that is created meanwhile may be in the list or not. */
  list(caller: Caller): Promise<StreamListReply> {
    return this.#core.judged(async () => {
      const { state, turn } = this.#core
      const streams: StreamSummary[] = []
      for (let after: string | null = null; ; await turn()) {
        const slice: StreamState[] = state.streamsAfter(caller.tenant, after, SLICE_ENTRIES)
        for (const stream of slice) if (stream.name !== AUDIT_STREAM) streams.push(summaryOf(stream))
        if (slice.length < SLICE_ENTRIES) return { api_version: 'v1', streams, stream_count: streams.length }
        after = slice.at(-1)!.name
      }
    })
  }

  describe(caller: Caller, name: string): Promise<StreamReply> {
    const core = this.#core
    return core.judged(() => {
      if (name === AUDIT_STREAM) core.auditStream(caller.tenant)
      return { api_version: 'v1', ...summaryOf(core.stream(caller, name, 'stream_not_found')) }
    })
  }

  async publish(caller: Caller, name: string, input: PublishInput): Promise<PublishReply> {
    const core = this.#core
    const stream = this.#writable(caller, name)
    const how = this.#classOf(stream, input.durability)
    const payloadBytes = payloadBytesOf(input)
    this.#quotas.takePublish(caller.tenant, 1, payloadBytes)
    const offset = stream.nextOffset
    const ingestTimeMs = core.time.wallMs()
    const stored = this.#append(stream, [recordOf(input, ingestTimeMs)], ingestTimeMs, how)
    if (how.waits) await stored
    else stored.catch(() => {}) // volatile: the answer is the publisher's only news
    core.counters.published(1, payloadBytes)
    return {
      api_version: 'v1',
      stream: name,
      offset,
      next_offset: offset + 1,
      message_id: input.messageId,
      ingest_time_ms: ingestTimeMs,
      payload_bytes: payloadBytes,
      acknowledgement: how.acknowledgement,
    }
  }

  /** All good records in one frame, in the strongest class among them: stored with one commit, or none of them. */
  async publishBatch(
    caller: Caller,
    name: string,
    inputs: readonly (PublishInput | BrokerError)[],
  ): Promise<PublishBatchReply> {
    const core = this.#core
    const stream = this.#writable(caller, name)
    const judged = inputs.map((input) => this.#judged(stream, input))
    const good = judged.filter((each): each is Storable => !(each instanceof BrokerError))
    const how = strongest(good.map((each) => each.how))
    const bytes = good.reduce((sum, { input }) => sum + payloadBytesOf(input), 0)
    if (good.length > 0) this.#quotas.takePublish(caller.tenant, good.length, bytes)
    const ingestTimeMs = core.time.wallMs()
    let offset = stream.nextOffset
    if (good.length > 0) {
      const records = good.map(({ input }) => recordOf(input, ingestTimeMs))
      const stored = this.#append(stream, records, ingestTimeMs, how)
      if (how.waits) await stored
      else stored.catch(() => {})
    } else {
      await core.settled('internal_error') // where the stream ends is a judgement too
    }
    core.counters.published(good.length, bytes)
    const results = judged.map((each) =>
      each instanceof BrokerError ? { error: each.detail } : { offset: offset++, message_id: each.input.messageId },
    )
    return {
      api_version: 'v1',
      stream: name,
      next_offset: offset,
      published_count: good.length,
      results,
      ingest_time_ms: ingestTimeMs,
      acknowledgement: how.acknowledgement,
    }
  }

  #writable(caller: Caller, name: string): StreamState {
    if (name === AUDIT_STREAM) throw refuse('write_not_allowed', `only the broker writes to ${AUDIT_STREAM}`)
    return this.#core.stream(caller, name, 'stream_not_found')
  }

  #append(
    stream: StreamState,
    records: readonly NewRecord[],
    ingestTimeMs: number,
    { durability, waits }: Class,
  ): Promise<void> {
    const core = this.#core
    const firstOffset = stream.nextOffset
    const nextOffset = firstOffset + records.length
    const payloadBytes = recordsBytes(records)
    if (payloadBytes > core.appender.payloadBytesMax) {
      throw refuse('payload_too_large', 'the records are too large for one request: publish fewer at a time')
    }
    const stored = core.append({
      type: FRAME_RECORDS,
      payloadBytes,
      encode: (target, at) =>
        void encodeRecords(target, at, { streamNumber: stream.number, firstOffset, ingestTimeMs, records }),
      purpose: 'admit',
      durability,
      failure: 'internal_error',
      onStored: () => core.makeVisible(stream, nextOffset),
    })
    if (!waits) stream.toldNext = nextOffset // it may be in the file before main hears so, and makes it visible
    return stored
  }

  #classOf(stream: StreamState, asked: RecordDurability | null): Class {
    const core = this.#core
    const named = asked ?? this.#defaultOf(stream)
    const acknowledgement = core.acknowledgementOf(named)
    const durability = named === 'local-append' ? 'append' : named === 'volatile' ? 'volatile' : 'sync'
    return { durability, waits: named !== 'volatile', acknowledgement }
  }

  /** An error, too, when it cannot be as durable as it asks. */
  #judged(stream: StreamState, input: PublishInput | BrokerError): Storable | BrokerError {
    if (input instanceof BrokerError) return input
    try {
      return { input, how: this.#classOf(stream, input.durability) }
    } catch (error) {
      if (error instanceof BrokerError) return error
      throw error
    }
  }

  #defaultOf(stream: StreamState): RecordDurability | 'local-quorum' {
    const core = this.#core
    const name = stream.config.default_durability
    if (name === 'memory') return 'volatile'
    if (name === 'local-disk') return core.localDiskDurability
    if (name === 'local-quorum' && core.hasReplicas) return 'local-quorum'
    const [message, action] = name === 'local-quorum' ? NO_REPLICAS : NO_BINDING
    throw refuse('replication_unavailable', message, { action })
  }
}

const NO_REPLICAS = [
  'the stream asks for a quorum of directories, and the broker has only one',
  'Start the broker with replica directories, or publish to a stream of another durability.',
] as const
const NO_BINDING = [
  'the stream asks for a replication policy that the broker has no binding for',
  'Publish to a stream of another durability.',
] as const

function recordOf({ messageId, payload, key, headers, eventTimeMs }: PublishInput, ingestTimeMs: number): NewRecord {
  return { messageId, payload, key, headers, eventTimeMs: eventTimeMs ?? ingestTimeMs }
}

function payloadBytesOf({ payload }: PublishInput): number {
  if (payload instanceof Uint8Array) return payload.byteLength
  return payload.encoding === 'hex' ? payload.text.length / 2 : Buffer.byteLength(payload.text)
}

/** Of a batch: all its records are stored together, in the strongest class among them. */
function strongest(classes: readonly Class[]): Class {
  return classes.reduce((best, each) => (rank(each) > rank(best) ? each : best), WEAKEST)
}

const WEAKEST: Class = { durability: 'append', waits: false, acknowledgement: VOLATILE }

const rank = ({ durability, waits, acknowledgement }: Class): number =>
  durability === 'sync' ? (acknowledgement.durability === 'local-quorum' ? 3 : 2) : waits ? 1 : 0

function configOf({ default_durability, retention, failure_policy: policy }: CreateStreamBody): StreamConfig {
  return {
    default_durability: default_durability ?? 'local-disk',
    retention: {
      max_age_millis: retention?.max_age_millis ?? null,
      max_bytes: retention?.max_bytes ?? null,
      min_cursor_name: retention?.min_cursor_name ?? null,
    },
    failure_policy: policy
      ? {
          max_attempts: policy.max_attempts,
          retry_delay_millis: policy.retry_delay_millis ?? 0,
          dead_letter_stream: policy.dead_letter_stream ?? null,
          apply_on_expiry: policy.apply_on_expiry ?? false,
        }
      : null,
  }
}

function summaryOf(stream: StreamState): StreamSummary {
  return {
    stream: stream.name,
    ...stream.config,
    first_offset: stream.floor,
    next_offset: stream.nextOffset,
    record_count: stream.readableBetween(stream.floor, stream.nextOffset),
    payload_bytes: stream.payloadBytes,
    created_at_ms: stream.createdAtMs,
  }
}
