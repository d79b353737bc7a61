/**
 * What the broker does, apart from how it is asked: the HTTP routes and the in-process client call this.
 *
 * Every promise settles when what it says is durable in its class. A refusal rejects with a StoreError whose code is the specification's:
 * see `refusals.ts`. Shapes are those of `wire/`; pages come as finished JSON, because reader threads render them.
 */
import type { PublishInput } from './publish-input.ts'
import type { BrokerError } from './refusals.ts'
import type {
  CursorCommitReply,
  CursorListReply,
  CursorRewindReply,
  DelayedListReply,
  GroupReply,
  LeaseListReply,
  ReplayConsumerListReply,
} from './wire/group-answers.ts'
import type { ReplicaApplyReply, ReplicationStatusReply } from './wire/node-answers.ts'
import type {
  AckReply,
  BatchAckReply,
  DeadLetterReply,
  NackReply,
  RenewReply,
  RetryReply,
} from './wire/queue-answers.ts'
import type {
  CreateStreamReply,
  PublishBatchReply,
  PublishReply,
  StreamListReply,
  StreamReply,
} from './wire/record-answers.ts'
import type {
  BatchAckBody,
  ClaimBody,
  CreateStreamBody,
  CursorRewindBody,
  DeadLetterBody,
  NackBody,
  QuarantineAcknowledgeBody,
  RenewBody,
  ReplicaApply,
  RetryBody,
} from './wire/requests.ts'
import type {
  ArchiveManifestReply,
  QuarantineAcknowledgeReply,
  QuarantineListReply,
  RetentionPlanReply,
  TieringReadinessReply,
} from './wire/storage-answers.ts'

/** On whose behalf. A stream of another tenant does not exist for it. */
export interface Caller {
  readonly tenant: string
  readonly principal: string
}

/** A whole answer body in JSON, or lines of it; whoever gets it may free its memory. */
export type RenderedJson = Uint8Array<ArrayBuffer>

export interface ReplayRequest {
  readonly start:
    | { readonly by: 'offset'; readonly offset: number }
    | { readonly by: 'event_time' | 'ingest_time'; readonly timeMs: number }
  readonly maxRecords: number
  readonly maxPayloadBytes: number | null
  /** Who reads, for the replay-consumer observation. */
  readonly consumer: { readonly group: string; readonly id: string } | null
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

/** Gives up a claim that waits: its client is gone. */
export interface Patience {
  onAbandoned(listener: () => void): void
}

export interface BrokerOperations {
  createStream(caller: Caller, stream: string, body: CreateStreamBody): Promise<CreateStreamReply>
  listStreams(caller: Caller): Promise<StreamListReply>
  describeStream(caller: Caller, stream: string): Promise<StreamReply>

  publish(caller: Caller, stream: string, input: PublishInput): Promise<PublishReply>
  /** @param inputs a refused one becomes the `error` of its result */
  publishBatch(
    caller: Caller,
    stream: string,
    inputs: readonly (PublishInput | BrokerError)[],
  ): Promise<PublishBatchReply>
  replay(caller: Caller, stream: string, request: ReplayRequest): Promise<RenderedJson>

  claim(caller: Caller, path: GroupPath, body: ClaimBody, patience: Patience): Promise<RenderedJson>
  ack(caller: Caller, path: DeliveryPath): Promise<AckReply>
  batchAck(caller: Caller, stream: string, subscriptionId: string, body: BatchAckBody): Promise<BatchAckReply>
  nack(caller: Caller, path: DeliveryPath, body: NackBody): Promise<NackReply>
  renew(caller: Caller, path: DeliveryPath, body: RenewBody): Promise<RenewReply>
  retry(caller: Caller, path: DeliveryPath, body: RetryBody): Promise<RetryReply>
  deadLetter(caller: Caller, path: DeliveryPath, body: DeadLetterBody): Promise<DeadLetterReply>

  describeGroup(caller: Caller, path: GroupPath): Promise<GroupReply>
  leases(caller: Caller, path: GroupPath, includeCompleted: boolean): Promise<LeaseListReply>
  delayed(caller: Caller, path: GroupPath): Promise<DelayedListReply>
  replayConsumers(caller: Caller, path: GroupPath): Promise<ReplayConsumerListReply>
  cursors(caller: Caller, path: GroupPath): Promise<CursorListReply>
  commitCursor(caller: Caller, path: GroupPath, cursor: string, offset: number): Promise<CursorCommitReply>
  rewindCursor(caller: Caller, path: GroupPath, cursor: string, body: CursorRewindBody): Promise<CursorRewindReply>

  audit(caller: Caller, request: AuditRequest): Promise<RenderedJson>

  retentionPlan(caller: Caller, stream: string, limits: RetentionLimits): Promise<RetentionPlanReply>
  tieringReadiness(caller: Caller, stream: string, limits: RetentionLimits): Promise<TieringReadinessReply>
  archiveManifest(caller: Caller, stream: string, limits: RetentionLimits): Promise<ArchiveManifestReply>
  quarantine(caller: Caller, stream: string): Promise<QuarantineListReply>
  acknowledgeQuarantine(
    caller: Caller,
    stream: string,
    incidentId: string,
    body: QuarantineAcknowledgeBody,
  ): Promise<QuarantineAcknowledgeReply>

  replicationStatus(caller: Caller): Promise<ReplicationStatusReply>
  applyReplica(caller: Caller, body: ReplicaApply): Promise<ReplicaApplyReply>
}
