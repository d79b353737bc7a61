/** The OpenAPI document of the broker: names, parts and examples. The routes add the rest. */
import { openApiDocument } from '../../http/openapi.ts'
import type { DocumentedRoute, OpenApiParts, OperationExample } from '../../http/openapi.ts'
import { STANDING_OPERATIONS } from '../../http/standing-endpoints.ts'
import { CONNECTION_PATH } from '../wire/connection-frames.ts'
import { Acknowledgement, ErrorDetail, ErrorReply } from '../wire/answers.ts'
import { DeliveryReply } from '../wire/queue-answers.ts'
import { RecordReply, StreamReply, StreamSummary } from '../wire/record-answers.ts'
import { IncidentEntry } from '../wire/storage-answers.ts'
import { PATH_PARAMETERS } from './request.ts'

export const brokerDocument = (version: string, routes: readonly DocumentedRoute[]): object =>
  openApiDocument({ title: 'trilog broker', version, description: DESCRIPTION }, routes, {
    defaultUrl: 'http://127.0.0.1:7400',
    operations: OPERATIONS,
    tags: TAGS,
    schemas: SCHEMAS,
    examples: EXAMPLES,
    securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'a key of the credentials file' } },
    security: [{}, { bearer: [] }],
    pathParameters: PATH_PARAMETERS,
  })

const DESCRIPTION =
  'Streams of records, replayed by offset or time, and consumer groups that share a stream as a queue. Requests need credentials in every mode but insecure-local.'

const TAGS = {
  streams: 'Streams and how they are kept',
  records: 'Publishing and replay',
  queue: 'Claims, and what becomes of deliveries',
  groups: 'Consumer groups, their cursors and their state',
  replication: 'Replication of streams to and from other sites',
  storage: 'Retention, archives and damage',
  audit: 'The audit trail: which principal changed what',
  node: 'The node itself',
}

const GROUP = '/v1/streams/:stream/consumer-groups/:group'
const CURSOR = `${GROUP}/cursors/:cursor`
const DELIVERIES = '/v1/streams/:stream/subscriptions/:subscription/deliveries'
const DELIVERY = `${DELIVERIES}/:delivery`

const OPERATIONS: OpenApiParts['operations'] = {
  ...STANDING_OPERATIONS,
  'GET /metrics': { id: 'getMetrics', tag: 'node' },
  [`GET ${CONNECTION_PATH}`]: { id: 'openConnection', tag: 'node' },

  'PUT /v1/streams/:stream': { id: 'createStream', tag: 'streams' },
  'GET /v1/streams': { id: 'listStreams', tag: 'streams' },
  'GET /v1/streams/:stream': { id: 'describeStream', tag: 'streams' },
  'PATCH /v1/streams/:stream': { id: 'updateStream', tag: 'streams' },
  'DELETE /v1/streams/:stream': { id: 'deleteStream', tag: 'streams' },
  'POST /v1/streams/:stream/purge': { id: 'purgeStream', tag: 'streams' },
  'POST /v1/streams/:stream/dead-letters/redrive': { id: 'redriveDeadLetters', tag: 'streams' },

  'POST /v1/streams/:stream/records': { id: 'publishRecord', tag: 'records' },
  'POST /v1/streams/:stream/records/batch': { id: 'publishRecords', tag: 'records' },
  'GET /v1/streams/:stream/records': { id: 'replayRecords', tag: 'records' },
  'GET /streams/:stream/records': { id: 'fetchRecords', tag: 'records' },

  [`POST ${GROUP}/claims`]: { id: 'claimRecords', tag: 'queue' },
  [`POST ${DELIVERY}/ack`]: { id: 'ackDelivery', tag: 'queue' },
  [`POST ${DELIVERIES}/batch-ack`]: { id: 'ackDeliveries', tag: 'queue' },
  [`POST ${DELIVERY}/nack`]: { id: 'nackDelivery', tag: 'queue' },
  [`POST ${DELIVERY}/renew`]: { id: 'renewDelivery', tag: 'queue' },
  [`POST ${DELIVERY}/retry`]: { id: 'retryDelivery', tag: 'queue' },
  [`POST ${DELIVERY}/dead-letter`]: { id: 'deadLetterDelivery', tag: 'queue' },

  'GET /v1/streams/:stream/consumer-groups': { id: 'listGroups', tag: 'groups' },
  [`GET ${GROUP}`]: { id: 'describeGroup', tag: 'groups' },
  [`DELETE ${GROUP}`]: { id: 'deleteGroup', tag: 'groups' },
  [`POST ${GROUP}/seek`]: { id: 'seekGroup', tag: 'groups' },
  [`GET ${GROUP}/leases`]: { id: 'listLeases', tag: 'groups' },
  [`GET ${GROUP}/delayed`]: { id: 'listDelayedRetries', tag: 'groups' },
  [`GET ${GROUP}/replay-consumers`]: { id: 'listReplayConsumers', tag: 'groups' },
  [`GET ${GROUP}/cursors`]: { id: 'listCursors', tag: 'groups' },
  [`PUT ${CURSOR}`]: { id: 'commitCursor', tag: 'groups' },
  [`POST ${CURSOR}/rewind`]: { id: 'rewindCursor', tag: 'groups' },
  [`DELETE ${CURSOR}`]: { id: 'deleteCursor', tag: 'groups' },

  'GET /v1/replication/status': { id: 'getReplicationStatus', tag: 'replication' },
  'POST /v1/replication/workers/poll': { id: 'pollReplicationWorkers', tag: 'replication' },
  'POST /v1/replication/workers/pause': { id: 'pauseReplicationWorker', tag: 'replication' },
  'POST /v1/replication/workers/resume': { id: 'resumeReplicationWorker', tag: 'replication' },
  'POST /v1/replication/target/apply': { id: 'applyReplicatedRecords', tag: 'replication' },

  'GET /v1/audit/events': { id: 'listAuditEvents', tag: 'audit' },
  'GET /v1/audit/export': { id: 'exportAuditEvents', tag: 'audit' },

  'GET /streams/:stream/retention/dry-run': { id: 'planRetention', tag: 'storage' },
  'GET /streams/:stream/tiering/readiness': { id: 'getTieringReadiness', tag: 'storage' },
  'GET /streams/:stream/tiering/archive-manifest': { id: 'getArchiveManifest', tag: 'storage' },
  'GET /streams/:stream/quarantine': { id: 'listQuarantineIncidents', tag: 'storage' },
  'POST /streams/:stream/quarantine/:incident/acknowledge': { id: 'acknowledgeQuarantineIncident', tag: 'storage' },
}

const SCHEMAS = {
  Acknowledgement,
  Delivery: DeliveryReply,
  QuarantineIncident: IncidentEntry,
  Record: RecordReply,
  Refusal: ErrorReply,
  RefusalDetail: ErrorDetail,
  Stream: StreamSummary,
  StreamDescription: StreamReply,
}

const synced = { durability: 'local-sync', durable: true, replicas: 1 }
const record = {
  offset: 0,
  message_id: 'order-1',
  payload_hex: '7b22736b75223a317d',
  key_hex: null,
  headers: { source: 'shop' },
  event_time_ms: 1_790_000_000_000,
  ingest_time_ms: 1_790_000_000_004,
}
const delivery = {
  delivery_id: 'dlv-9pKT0WmJ1fYVQ2bX5hA7Zg',
  subscription_id: 'sub-3hN8sLd0QmR4tXvC6kYw1A',
  offset: 0,
  attempt: 1,
  leased_at_ms: 1_790_000_001_000,
  lease_expires_at_ms: 1_790_000_031_000,
  lease_remaining_millis: 30_000,
  fencing_token: 1,
  record,
}
const ofDelivery = {
  api_version: 'v1',
  stream: 'orders',
  consumer_group: 'workers',
  subscription_id: delivery.subscription_id,
  delivery_id: delivery.delivery_id,
  offset: 0,
  attempt: 1,
}

const EXAMPLES: Readonly<Record<string, OperationExample>> = {
  createStream: {
    request: {
      default_durability: 'local-disk',
      failure_policy: { max_attempts: 5, dead_letter_stream: 'orders-dead' },
    },
    reply: { api_version: 'v1', stream: 'orders', created: true, acknowledgement: synced },
  },
  publishRecord: {
    request: { message_id: 'order-1', payload: '{"sku":1}', headers: { source: 'shop' } },
    reply: {
      api_version: 'v1',
      stream: 'orders',
      offset: 0,
      next_offset: 1,
      message_id: 'order-1',
      ingest_time_ms: record.ingest_time_ms,
      payload_bytes: 9,
      acknowledgement: synced,
    },
  },
  publishRecords: {
    request: {
      records: [
        { message_id: 'order-1', payload: '{"sku":1}' },
        { message_id: 'order-2', payload_hex: '00' },
      ],
    },
  },
  claimRecords: {
    request: { max_messages: 10, lease_timeout_millis: 30_000, wait_millis: 20_000 },
    reply: {
      api_version: 'v1',
      stream: 'orders',
      stream_created_at_ms: 1_789_000_000_000,
      consumer_group: 'workers',
      subscription_id: delivery.subscription_id,
      deliveries: [delivery],
      next_offset: 1,
      delivery_count: 1,
    },
  },
  ackDelivery: {
    request: {},
    reply: { ...ofDelivery, acknowledged_at_ms: 1_790_000_002_000, acknowledgement: synced },
  },
  nackDelivery: {
    request: { reason: 'the database is away', requeue: true },
    reply: { ...ofDelivery, will_redeliver: true, policy_action: 'redeliver_now', acknowledgement: synced },
  },
  renewDelivery: { request: { extend_by_millis: 30_000 } },
  retryDelivery: { request: { reason: 'rate limited', delay_millis: 5000 } },
  deadLetterDelivery: { request: { dead_letter_stream: 'orders-dead', reason: 'cannot be parsed' } },
  commitCursor: { request: { offset: 100 } },
}
