/**
 * What the broker does, without a transport: the HTTP routes and the in-process client call this.
 *
 * Every answer is given when what it says is durable in its class. A refusal is a StoreError whose code is the specification's:
 * see `refusals.ts`. Shapes are those of `wire/`; pages come as finished JSON, because reader threads render them.
 */
import type { Operation, PromisedOperations } from '../engine/as-promises.ts'
import type { Acknowledgement, RecordDurability } from './durability.ts'
import type { EncodedRecords } from './frames/records-frame.ts'
import type { PublishInput } from './publish-input.ts'
import type { BrokerError } from './refusals.ts'
import type * as wire from './wire/types.ts'

/** The client on whose behalf an operation runs. A stream of another tenant does not exist for it. */
export interface Caller {
  readonly tenant: string
  readonly principal: string
}

/** A whole answer body in JSON, or lines of it; the receiver may free its memory. */
export type RenderedJson = Uint8Array<ArrayBuffer>

export interface ReplayRequest {
  readonly start:
    | { readonly by: 'offset'; readonly offset: number }
    | { readonly by: 'event_time' | 'ingest_time'; readonly timeMs: number }
  readonly maxRecords: number
  readonly maxPayloadBytes: number | null
  /** The reader, for the replay-consumer observation. */
  readonly consumer: { readonly group: string; readonly id: string } | null
  /** How long an empty page waits for a record; default: not at all. */
  readonly waitMs?: number
  /** Creation time of the stream that the client means; default: the stream that has the name now. */
  readonly streamCreatedAtMs?: number
  /** The unversioned route leaves `api_version` out. */
  readonly legacy: boolean
}

export interface AuditRequest {
  readonly startOffset: number
  readonly maxRecords: number
  readonly format: 'json' | 'ndjson'
}

/** Overrides of the stream's own limits. */
export interface RetentionLimits {
  readonly maxBytes: number | null
  readonly maxAgeMs: number | null
}

/** Names a delivery as its claim's answer did. */
export interface DeliveryPath {
  readonly stream: string
  readonly subscriptionId: string
  readonly deliveryId: string
}

export interface GroupPath {
  readonly stream: string
  readonly group: string
}

/** The stream that had the name at the first request. Another stream may have the name later. */
export interface StreamPin {
  /** Null: before the first request. */
  number: number | null
  /** Null: before the first request, unless the client says which stream it means. */
  createdAtMs: number | null
}

/** Why records must not be copied to a stream on behalf of the caller; null: they may. */
export type CopyRefusal = (stream: string) => BrokerError | null

/** Tells a request that waits for a record that its client is gone. */
export interface AbandonedSignal {
  onAbandoned(listener: () => void): void
}

/** Operations of the streaming connection alone. They decide as the others do, but take records and ids as bytes. */
export interface StreamingOperations {
  readonly publishRecords: Operation<[caller: Caller, stream: string, records: RecordsToPublish], PublishedRecords>
  /** Waits for records up to CLAIM_WAIT_MS_MAX. Null: there were none. */
  readonly push: Operation<
    [caller: Caller, path: GroupPath, request: PushRequest, abandonedSignal: AbandonedSignal],
    Pushed | null
  >
  /** @param ids pairs of blocks, one of a subscription and one of a delivery (see tokens.ts) */
  readonly ackPairs: Operation<[caller: Caller, stream: string, ids: Uint8Array], AckedPairs>
  /** Ends the leases of a client that is gone, if they are still active. */
  readonly releaseClaims: Operation<[claims: readonly PushedClaim[]], null>
  /** Index of the first delivery, at or after `from`, that is still leased to the claim; -1: none is. */
  readonly firstLeased: (claim: PushedClaim, from: number) => number
}

export interface RecordsToPublish extends EncodedRecords {
  readonly payloadBytes: number
  /** Null: as the stream says. */
  readonly durability: RecordDurability | null
}

export interface PublishedRecords {
  /** Offset of the first record; the others follow it. */
  readonly offset: number
  readonly ingestTimeMs: number
  readonly acknowledgement: Acknowledgement
  readonly replication_receipt?: wire.ReplicationReceipt
}

export interface PushRequest {
  /** The same for all pushes of a subscription. */
  readonly pin: StreamPin
  readonly startOffset: number
  readonly max: number
  readonly leaseMs: number
  /** Bytes of payload; a single record may be longer. */
  readonly bytesMax: number
  /** `json`: as the route of a claim answers. `binary`: a DELIVERIES frame without its id (wire/connection-frames.ts). */
  readonly form: 'json' | 'binary'
}

/** What a push leased. */
export interface PushedClaim {
  readonly groupNumber: number
  readonly claimNumber: number
  readonly deliveries: readonly { readonly offset: number; readonly attempt: number }[]
}

export interface Pushed {
  readonly claim: PushedClaim
  readonly subscriptionId: string
  readonly leasedAtMs: number
  readonly expiresAtMs: number
  readonly message: RenderedJson
}

export interface AckedPairs {
  readonly acknowledgedAtMs: number
  readonly acknowledgement: Acknowledgement
  /** One for each pair, in their order. */
  readonly results: readonly (Acked | BrokerError)[]
}

export interface Acked {
  readonly group: string
  readonly offset: number
  readonly attempt: number
}

export interface BrokerOperations {
  readonly createStream: Operation<
    [caller: Caller, stream: string, body: wire.CreateStreamBody],
    wire.CreateStreamReply
  >
  readonly listStreams: Operation<[caller: Caller], wire.StreamListReply>
  readonly describeStream: Operation<[caller: Caller, stream: string], wire.StreamReply>
  /** @param copyRefusal asked about a dead-letter stream that a changed policy keeps; default: all are allowed */
  readonly updateStream: Operation<
    [caller: Caller, stream: string, body: wire.UpdateStreamBody, force: boolean, copyRefusal?: CopyRefusal],
    wire.UpdateStreamReply
  >
  /** @param force deletes even if that breaks a promise: see life-cycle.ts, Y1 */
  readonly deleteStream: Operation<[caller: Caller, stream: string, force: boolean], wire.DeleteStreamReply>
  readonly purgeStream: Operation<
    [caller: Caller, stream: string, body: wire.PurgeStreamBody, force: boolean],
    wire.PurgeStreamReply
  >
  readonly redrive: Operation<[caller: Caller, stream: string, body: wire.RedriveBody], wire.RedriveReply>

  readonly publish: Operation<[caller: Caller, stream: string, input: PublishInput], wire.PublishReply>
  /** @param inputs a refused one becomes the `error` of its result */
  readonly publishBatch: Operation<
    [caller: Caller, stream: string, inputs: readonly (PublishInput | BrokerError)[]],
    wire.PublishBatchReply
  >
  readonly replay: Operation<
    [caller: Caller, stream: string, request: ReplayRequest, abandonedSignal?: AbandonedSignal],
    RenderedJson
  >

  readonly claim: Operation<
    [caller: Caller, path: GroupPath, body: wire.ClaimBody, abandonedSignal: AbandonedSignal],
    RenderedJson
  >
  readonly ack: Operation<[caller: Caller, path: DeliveryPath], wire.AckReply>
  readonly batchAck: Operation<
    [caller: Caller, stream: string, subscriptionId: string, body: wire.BatchAckBody],
    wire.BatchAckReply
  >
  readonly nack: Operation<[caller: Caller, path: DeliveryPath, body: wire.NackBody], wire.NackReply>
  readonly renew: Operation<[caller: Caller, path: DeliveryPath, body: wire.RenewBody], wire.RenewReply>
  readonly retry: Operation<[caller: Caller, path: DeliveryPath, body: wire.RetryBody], wire.RetryReply>
  readonly deadLetter: Operation<[caller: Caller, path: DeliveryPath, body: wire.DeadLetterBody], wire.DeadLetterReply>

  readonly listGroups: Operation<[caller: Caller, stream: string], wire.GroupListReply>
  readonly deleteGroup: Operation<[caller: Caller, path: GroupPath, force: boolean], wire.GroupDeleteReply>
  readonly seekGroup: Operation<[caller: Caller, path: GroupPath, body: wire.SeekBody], wire.GroupSeekReply>
  readonly deleteCursor: Operation<
    [caller: Caller, path: GroupPath, cursor: string, force: boolean],
    wire.CursorDeleteReply
  >
  readonly describeGroup: Operation<[caller: Caller, path: GroupPath], wire.GroupReply>
  readonly leases: Operation<[caller: Caller, path: GroupPath, includeCompleted: boolean], wire.LeaseListReply>
  readonly delayed: Operation<[caller: Caller, path: GroupPath], wire.DelayedListReply>
  readonly replayConsumers: Operation<[caller: Caller, path: GroupPath], wire.ReplayConsumerListReply>
  readonly cursors: Operation<[caller: Caller, path: GroupPath], wire.CursorListReply>
  readonly commitCursor: Operation<
    [caller: Caller, path: GroupPath, cursor: string, offset: number],
    wire.CursorCommitReply
  >
  readonly rewindCursor: Operation<
    [caller: Caller, path: GroupPath, cursor: string, body: wire.CursorRewindBody],
    wire.CursorRewindReply
  >

  readonly audit: Operation<[caller: Caller, request: AuditRequest], RenderedJson>

  readonly retentionPlan: Operation<[caller: Caller, stream: string, limits: RetentionLimits], wire.RetentionPlanReply>
  readonly tieringReadiness: Operation<
    [caller: Caller, stream: string, limits: RetentionLimits],
    wire.TieringReadinessReply
  >
  readonly archiveManifest: Operation<
    [caller: Caller, stream: string, limits: RetentionLimits],
    wire.ArchiveManifestReply
  >
  readonly quarantine: Operation<[caller: Caller, stream: string], wire.QuarantineListReply>
  readonly acknowledgeQuarantine: Operation<
    [caller: Caller, stream: string, incidentId: string, body: wire.QuarantineAcknowledgeBody],
    wire.QuarantineAcknowledgeReply
  >

  readonly replicationStatus: Operation<[caller: Caller], wire.ReplicationStatusReply>
  readonly pollReplication: Operation<[caller: Caller], wire.ReplicationPollReply>
  readonly pauseReplication: Operation<
    [caller: Caller, body: wire.ReplicationControlBody],
    wire.ReplicationControlReply
  >
  readonly resumeReplication: Operation<
    [caller: Caller, body: wire.ReplicationControlBody],
    wire.ReplicationControlReply
  >
  readonly applyReplica: Operation<[caller: Caller, body: wire.ReplicaApply], wire.ReplicaApplyReply>
}

export type Operations = BrokerOperations & StreamingOperations

/** The operations, for callers that wait for promises. */
export type AskedBroker = PromisedOperations<BrokerOperations>
