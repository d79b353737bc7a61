/** Routes of the records of a stream. */
import { Type } from 'typebox'
import type { Endpoint } from '../../http/routes.ts'
import { PAGE_RECORDS_DEFAULT } from '../limits.ts'
import { TOKEN_RULE, isToken } from '../names.ts'
import type { ReplayRequest } from '../operations.ts'
import { parsePublish, tryParsePublish } from '../publish-input.ts'
import { refuse } from '../refusals.ts'
import type { RefusalCode } from '../refusals.ts'
import { PublishBatchBody, PublishBatchReply, PublishBody, PublishReply, ReplayReply } from '../wire.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { BrokerHttpParts } from './parts.ts'
import { PAGE_RECORDS, POSITIVE, UNSIGNED, integerOf, integerSchema } from './query.ts'
import type { Query, QueryRules } from './query.ts'
import { streamOf } from './request.ts'

const PUBLISH_ERRORS: readonly RefusalCode[] = [
  'invalid_request',
  'stream_not_found',
  'write_not_allowed',
  'payload_too_large',
  'quota_exceeded',
  'replication_unavailable',
  'internal_error',
]

export const publish = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Publish a record; answered when it is as durable as asked',
    path: streamOf,
    body: PublishBody,
    parse: parsePublish,
    bodyLimitBytes: parts.maxBodyBytes,
    reply: PublishReply,
    status: 201,
    errors: ['invalid_payload', ...PUBLISH_ERRORS],
    handle: ({ admitted: { caller, path }, body }) => parts.operations.publish(caller, path, body),
  })

export const publishBatch = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: publish many records with one commit; a bad one is refused in its own result',
    path: streamOf,
    body: PublishBatchBody,
    bodyLimitBytes: parts.maxBodyBytes,
    reply: PublishBatchReply,
    errors: PUBLISH_ERRORS,
    handle: ({ admitted: { caller, path }, body }) =>
      parts.operations.publishBatch(caller, path, body.records.map(tryParsePublish)),
  })

export const replay = (parts: BrokerHttpParts): Endpoint => replaying(parts, 'A page of records', false)

export const legacyFetch = (parts: BrokerHttpParts): Endpoint =>
  replaying(parts, 'A page of records, without api_version', true)

const replaying = (parts: BrokerHttpParts, summary: string, legacy: boolean): Endpoint =>
  brokerEndpoint(parts, {
    summary,
    path: streamOf,
    query: replayRules,
    reply: ReplayReply,
    errors: [
      'invalid_request',
      'invalid_start',
      'invalid_page_size',
      'invalid_query',
      'stream_not_found',
      'internal_error',
    ],
    handle: ({ admitted: { caller, path, query } }) => parts.operations.replay(caller, path, { ...query, legacy }),
  })

const replayRules: QueryRules<Omit<ReplayRequest, 'legacy'>> = {
  parameters: {
    start_offset: integerSchema(UNSIGNED, { default: 0 }),
    event_time_ms: integerSchema(UNSIGNED),
    ingest_time_ms: integerSchema(UNSIGNED),
    max_records: integerSchema(PAGE_RECORDS, { default: PAGE_RECORDS_DEFAULT }),
    max_payload_bytes: integerSchema(POSITIVE),
    consumer_group: Type.String(),
    consumer_id: Type.String(),
  },
  take: (query) => ({
    start: startOf(query),
    maxRecords: integerOf(query, 'max_records', PAGE_RECORDS, 'invalid_page_size') ?? PAGE_RECORDS_DEFAULT,
    maxPayloadBytes: integerOf(query, 'max_payload_bytes', POSITIVE, 'invalid_page_size'),
    consumer: consumerOf(query),
  }),
}

function startOf(query: Query): ReplayRequest['start'] {
  const offset = integerOf(query, 'start_offset', UNSIGNED, 'invalid_start')
  const eventTimeMs = integerOf(query, 'event_time_ms', UNSIGNED, 'invalid_start')
  const ingestTimeMs = integerOf(query, 'ingest_time_ms', UNSIGNED, 'invalid_start')
  if ([offset, eventTimeMs, ingestTimeMs].filter((given) => given !== null).length > 1) {
    throw refuse('invalid_start', 'start_offset, event_time_ms and ingest_time_ms exclude each other')
  }
  if (eventTimeMs !== null) return { by: 'event_time', timeMs: eventTimeMs }
  if (ingestTimeMs !== null) return { by: 'ingest_time', timeMs: ingestTimeMs }
  return { by: 'offset', offset: offset ?? 0 }
}

function consumerOf(query: Query): ReplayRequest['consumer'] {
  const group = query.get('consumer_group')
  const id = query.get('consumer_id')
  if (group === undefined && id === undefined) return null
  if (group === undefined || id === undefined) {
    throw refuse('invalid_query', 'consumer_group and consumer_id go together')
  }
  if (!isToken(group)) throw refuse('invalid_query', `consumer_group ${TOKEN_RULE}`)
  if (!isToken(id)) throw refuse('invalid_query', `consumer_id ${TOKEN_RULE}`)
  return { group, id }
}
