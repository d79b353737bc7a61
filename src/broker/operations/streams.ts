/** Streams: create, list, describe, and publishing records to them. */
import { replied, replyWhenFound } from '../../engine/decision.ts'
import type { Decision, NewFrame } from '../../engine/decision.ts'
import type { AppendDurability } from '../../engine/appender.ts'
import { FRAME_RECORDS, encodeEncodedRecords, encodeRecords, encodedRecordsBytes, recordsBytes } from '../frames.ts'
import type { EncodedRecords, NewRecord, Records } from '../frames.ts'
import type { Change } from '../frames/change.ts'
import { SLICE_ENTRIES } from '../limits.ts'
import type { Caller, PublishedRecords, RecordsToPublish } from '../operations.ts'
import type { PublishInput } from '../publish-input.ts'
import { BrokerError, refuse } from '../refusals.ts'
import type { TenantQuotas } from '../quotas.ts'
import type { Acknowledgement } from '../durability.ts'
import type {
  CreateStreamReply,
  PublishBatchReply,
  PublishReply,
  ReplicationReceipt,
  StreamListReply,
  StreamReply,
  StreamSummary,
} from '../wire/record-answers.ts'
import { POLICY_DURABILITY } from '../wire/requests.ts'
import type { CreateStreamBody } from '../wire/requests.ts'
import type { RecordDurability } from '../durability.ts'
import { VOLATILE } from '../engine/core.ts'
import type { Core } from '../engine/core.ts'
import { summaryOf } from './summary.ts'
import { AUDIT_STREAM, DEFAULT_STREAM_CONFIG } from '../state/state.ts'
import { configOf } from './stream-config.ts'
import type { StreamConfig, StreamState } from '../state/state.ts'

/** How a record is stored, and what its publisher is told. */
interface Class {
  readonly durability: AppendDurability
  /** Whether the publisher waits until the record is stored. */
  readonly waits: boolean
  readonly acknowledgement: Acknowledgement
  /** Replication policy whose target must have the record, too; null: none. */
  readonly policy: string | null
}

/** Records of one publish, as they came or encoded. */
type ToStore = readonly NewRecord[] | RecordsToPublish

const isEncoded = (records: ToStore): records is RecordsToPublish => 'bytes' in records

/** The frame of one publish. */
class Publishing implements NewFrame<Change>, Records {
  readonly type = FRAME_RECORDS
  readonly purpose = 'admit'
  readonly payloadBytes: number
  readonly durability: AppendDurability
  readonly streamNumber: number
  readonly firstOffset: number
  readonly ingestTimeMs: number
  readonly count: number
  /** Empty when the records came encoded. */
  readonly records: readonly NewRecord[]
  readonly onTaken?: () => void
  readonly #core: Core
  readonly #stream: StreamState
  readonly #encoded: EncodedRecords | null
  readonly #bytes: number
  readonly #waits: boolean

  /** @param bytes of the payloads of all records */
  constructor(
    core: Core,
    stream: StreamState,
    records: ToStore,
    bytes: number,
    ingestTimeMs: number,
    { durability, waits }: Class,
  ) {
    this.#core = core
    this.#stream = stream
    this.#encoded = isEncoded(records) ? records : null
    this.records = isEncoded(records) ? [] : records
    this.#bytes = bytes
    this.#waits = waits
    this.payloadBytes = isEncoded(records) ? encodedRecordsBytes(records) : recordsBytes(records)
    this.durability = durability
    this.streamNumber = stream.number
    this.firstOffset = stream.nextOffset
    this.ingestTimeMs = ingestTimeMs
    this.count = isEncoded(records) ? records.count : records.length
    if (!waits) this.onTaken = () => this.#toldAtOnce()
  }

  get end(): number {
    return this.firstOffset + this.count
  }

  encode(target: Buffer, at: number): void {
    if (this.#encoded === null) encodeRecords(target, at, this)
    else encodeEncodedRecords(target, at, this, this.#encoded)
  }

  onStored(): void {
    if (this.#waits) this.#core.counters.published(this.count, this.#bytes)
    this.#core.makeVisible(this.#stream, this.end)
  }

  #toldAtOnce(): void {
    this.#core.counters.published(this.count, this.#bytes)
    this.#stream.acknowledgedNext = this.end // the records may be in the file before the main thread knows it and makes them visible
  }
}

/** Replication targets that must have records before their publisher is answered. */
export interface Targets {
  /** Why the target of a policy cannot be reached now; null: it can. */
  problemOf(stream: StreamState, policy: string): BrokerError | null
  /** Resolves when the target has the records [first, end). Rejects with a BrokerError when that takes too long. */
  acknowledged(stream: StreamState, policy: string, first: number, end: number): Promise<ReplicationReceipt>
}

/** A record of a batch that can be stored as it asks. */
interface Storable {
  readonly input: PublishInput
  readonly how: Class
}

export class Streams {
  readonly #core: Core
  readonly #quotas: TenantQuotas
  readonly #targets: Targets

  constructor(core: Core, quotas: TenantQuotas, targets: Targets) {
    this.#core = core
    this.#quotas = quotas
    this.#targets = targets
  }

  create(caller: Caller, name: string, body: CreateStreamBody): Decision<CreateStreamReply, Change> {
    const core = this.#core
    if (core.state.stream(caller.tenant, name) || name === AUDIT_STREAM) {
      return refuse('stream_already_exists', 'a stream of this name exists')
    }
    const config = configOf(name, body, DEFAULT_STREAM_CONFIG)
    if (config instanceof Error) return config
    return {
      kind: 'change',
      ...this.creation(caller, name, config),
      reply: () => ({ api_version: 'v1', stream: name, created: true, acknowledgement: core.acknowledgement }),
    }
  }

  /** @returns the frame of the creation, and the frames that must come before it */
  creation(
    caller: Caller,
    name: string,
    config: StreamConfig,
  ): { readonly before: readonly NewFrame<Change>[]; readonly frame: NewFrame<Change> } {
    const core = this.#core
    const { tenant } = caller
    const earliestMs = core.state.deletedCreatedAtMs + 1 // state S6
    const { before, frame } = core.audited(caller, 'admit', (event, before) => ({
      kind: 'stream_created',
      stream_number: core.state.streams.length + before,
      stream: name,
      ...config,
      ...event,
      ...(event.at_ms < earliestMs && { created_at_ms: earliestMs }),
    }))
    const onTaken = (): void => core.holdAnswersUntilStored(core.state.stream(tenant, name)!)
    return { before, frame: { ...frame, onTaken } }
  }

  /** Made in slices: a stream that is created meanwhile may be in the list or not. */
  list(caller: Caller): Decision<StreamListReply, Change> {
    const { state, turn } = this.#core
    return replyWhenFound(async () => {
      const streams: StreamSummary[] = []
      for (let after: string | null = null; ; await turn()) {
        const slice: StreamState[] = state.streamsAfter(caller.tenant, after, SLICE_ENTRIES)
        for (const stream of slice) if (stream.name !== AUDIT_STREAM) streams.push(summaryOf(stream))
        if (slice.length < SLICE_ENTRIES) return { api_version: 'v1', streams, stream_count: streams.length }
        after = slice.at(-1)!.name
      }
    })
  }

  describe(caller: Caller, name: string): Decision<StreamReply, Change> {
    const stream = this.#core.anyStream(caller, name)
    return stream instanceof Error ? stream : replied({ api_version: 'v1', ...summaryOf(stream) })
  }

  publish(caller: Caller, name: string, input: PublishInput): Decision<PublishReply, Change> {
    const core = this.#core
    const stream = this.#writable(caller, name)
    if (stream instanceof Error) return stream
    const how = this.#classOf(stream, input.durability)
    if (how instanceof Error) return how
    const payloadBytes = payloadBytesOf(input)
    const tooMuch = this.#quotas.takePublish(caller.tenant, 1, payloadBytes)
    if (tooMuch !== null) return tooMuch
    const offset = stream.nextOffset
    const ingestTimeMs = core.time.wallMs()
    const records = [recordOf(input, ingestTimeMs)]
    return this.#changing(stream, records, payloadBytes, ingestTimeMs, how, () => ({
      api_version: 'v1',
      stream: name,
      offset,
      next_offset: offset + 1,
      message_id: input.messageId,
      ingest_time_ms: ingestTimeMs,
      payload_bytes: payloadBytes,
      acknowledgement: how.acknowledgement,
    }))
  }

  /** Appends all good records in one frame, in the strongest class among them: either all are stored, or none. */
  publishBatch(
    caller: Caller,
    name: string,
    inputs: readonly (PublishInput | BrokerError)[],
  ): Decision<PublishBatchReply, Change> {
    const core = this.#core
    const stream = this.#writable(caller, name)
    if (stream instanceof Error) return stream
    const judged = inputs.map((input) => this.#judged(stream, input))
    const good = judged.filter((each): each is Storable => !(each instanceof BrokerError))
    const how = strongest(good.map((each) => each.how))
    const bytes = good.reduce((sum, { input }) => sum + payloadBytesOf(input), 0)
    const tooMuch = good.length > 0 ? this.#quotas.takePublish(caller.tenant, good.length, bytes) : null
    if (tooMuch !== null) return tooMuch
    const ingestTimeMs = core.time.wallMs()
    let offset = stream.nextOffset
    const results = judged.map((each) =>
      each instanceof BrokerError ? { error: each.detail } : { offset: offset++, message_id: each.input.messageId },
    )
    const reply: PublishBatchReply = {
      api_version: 'v1',
      stream: name,
      next_offset: offset,
      published_count: good.length,
      results,
      ingest_time_ms: ingestTimeMs,
      acknowledgement: how.acknowledgement,
    }
    if (good.length === 0) return replied(reply)
    const records = good.map(({ input }) => recordOf(input, ingestTimeMs))
    return this.#changing(stream, records, bytes, ingestTimeMs, how, () => reply)
  }

  /** Appends records that came encoded, in one frame. */
  publishRecords(caller: Caller, name: string, given: RecordsToPublish): Decision<PublishedRecords, Change> {
    const core = this.#core
    const stream = this.#writable(caller, name)
    if (stream instanceof Error) return stream
    const how = this.#classOf(stream, given.durability)
    if (how instanceof Error) return how
    const tooMuch = this.#quotas.takePublish(caller.tenant, given.count, given.payloadBytes)
    if (tooMuch !== null) return tooMuch
    const offset = stream.nextOffset
    const ingestTimeMs = core.time.wallMs()
    const { acknowledgement } = how
    const reply = (): PublishedRecords => ({ offset, ingestTimeMs, acknowledgement })
    return this.#changing(stream, given, given.payloadBytes, ingestTimeMs, how, reply)
  }

  #writable(caller: Caller, name: string): StreamState | BrokerError {
    if (name === AUDIT_STREAM) return refuse('write_not_allowed', `only the broker writes to ${AUDIT_STREAM}`)
    return this.#core.stream(caller, name, 'stream_not_found')
  }

  #changing<Reply extends object>(
    stream: StreamState,
    records: ToStore,
    bytes: number,
    ingestTimeMs: number,
    how: Class,
    reply: () => Reply,
  ): Decision<Reply, Change> {
    const core = this.#core
    const beganMs = core.time.monotonicMs()
    const replyTimed = (): Reply => {
      core.counters.publishSeconds.observe((core.time.monotonicMs() - beganMs) / 1000)
      return reply()
    }
    const frame = new Publishing(core, stream, records, bytes, ingestTimeMs, how)
    if (frame.payloadBytes > core.appender.payloadBytesMax) {
      return refuse('payload_too_large', 'the records are too large for one request: publish fewer at a time')
    }
    if (how.policy !== null) return this.#replicated(stream, frame, how.policy, replyTimed)
    return { kind: 'change', frame, reply: replyTimed, isToldAtOnce: !how.waits }
  }

  /** Answers when the target has the records, too. */
  #replicated<Reply extends object>(
    stream: StreamState,
    frame: Publishing,
    policy: string,
    reply: () => Reply,
  ): Decision<Reply, Change> {
    return {
      kind: 'change',
      frame,
      reply: async () => {
        const receipt = await this.#targets.acknowledged(stream, policy, frame.firstOffset, frame.end)
        return { ...reply(), replication_receipt: receipt }
      },
    }
  }

  /** Refused when a record cannot be stored as durably as asked. */
  #classOf(stream: StreamState, asked: RecordDurability | null): Class | BrokerError {
    const core = this.#core
    const policy = asked === null ? policyOf(stream.config.default_durability) : null
    const problem = policy === null ? null : this.#targets.problemOf(stream, policy)
    if (problem !== null) return problem
    const named = policy === null ? (asked ?? this.#defaultOf(stream)) : 'local-sync'
    if (named instanceof Error) return named
    const acknowledgement = core.acknowledgementOf(named)
    const durability = named === 'local-append' ? 'append' : named === 'volatile' ? 'volatile' : 'sync'
    return { durability, waits: named !== 'volatile', acknowledgement, policy }
  }

  #judged(stream: StreamState, input: PublishInput | BrokerError): Storable | BrokerError {
    if (input instanceof BrokerError) return input
    const how = this.#classOf(stream, input.durability)
    return how instanceof Error ? how : { input, how }
  }

  #defaultOf(stream: StreamState): RecordDurability | 'local-quorum' | BrokerError {
    const core = this.#core
    const name = stream.config.default_durability
    if (name === 'memory') return 'volatile'
    if (name === 'local-disk') return core.localDiskDurability
    if (core.hasReplicas) return 'local-quorum'
    return refuse('replication_unavailable', NO_REPLICAS, {
      action: 'Start the broker with replica directories, or publish to a stream of another durability.',
    })
  }
}

const NO_REPLICAS = 'the stream asks for a quorum of directories, and the broker has only one'

/** Null: the durability is not a policy's. */
const policyOf = (durability: string): string | null =>
  durability.startsWith(POLICY_DURABILITY) ? durability.slice(POLICY_DURABILITY.length) : null

function recordOf({ messageId, payload, key, headers, eventTimeMs }: PublishInput, ingestTimeMs: number): NewRecord {
  return { messageId, payload, key, headers, eventTimeMs: eventTimeMs ?? ingestTimeMs }
}

function payloadBytesOf({ payload }: PublishInput): number {
  if (payload instanceof Uint8Array) return payload.byteLength
  return payload.encoding === 'hex' ? payload.text.length / 2 : Buffer.byteLength(payload.text)
}

/** The records of a batch are stored together, in the strongest class among them. */
function strongest(classes: readonly Class[]): Class {
  return classes.reduce((best, each) => (rank(each) > rank(best) ? each : best), WEAKEST)
}

const WEAKEST: Class = { durability: 'append', waits: false, acknowledgement: VOLATILE, policy: null }

const rank = ({ durability, waits, acknowledgement, policy }: Class): number =>
  policy !== null ? 4 : durability === 'sync' ? (acknowledgement.durability === 'local-quorum' ? 3 : 2) : waits ? 1 : 0
