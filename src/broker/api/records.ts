/** Routes of the records of a stream. */
import type { Endpoint } from '../../http/routes.ts'
import { mapInTurns } from '../../http/turns.ts'
import { bodyCheck } from '../body-check.ts'
import { longStringEncodingOf, parsePublish, tryParsePublish } from '../publish-input.ts'
import type { PublishInput } from '../publish-input.ts'
import { scanPublish } from './publish-scan.ts'
import { publishText } from './publish-text.ts'
import type { BrokerError, RefusalCode } from '../refusals.ts'
import { PublishBatchReply, PublishReply, ReplayReply } from '../wire/record-answers.ts'
import { PublishBatchBody, PublishBody } from '../wire/requests.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { RouteParts } from './parts.ts'
import { replayRules } from './replay-query.ts'
import { abandonedSignalOf, countedAsUnread, streamOf } from './request.ts'

const PUBLISH_ERRORS: readonly RefusalCode[] = [
  'invalid_request',
  'stream_not_found',
  'write_not_allowed',
  'payload_too_large',
  'quota_exceeded',
  'replication_unavailable',
  'internal_error',
]

export const publish = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Publish a record; answered when it is as durable as asked',
    path: streamOf,
    body: PublishBody,
    parse: parsePublish,
    scan: scanPublish,
    longStringOf: longStringEncodingOf,
    bodyLimitBytes: parts.maxBodyBytes,
    reply: PublishReply,
    stringify: publishText,
    status: 201,
    errors: ['invalid_payload', ...PUBLISH_ERRORS],
    handle: ({ admitted: { caller, path }, body }, answer) => parts.operations.publish(answer, caller, path, body),
  })

export const publishBatch = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: publish many records with one commit; a bad one is refused in its own result',
    path: streamOf,
    body: PublishBatchBody,
    parse: parseBatch,
    longStringOf: longStringEncodingOf,
    bodyLimitBytes: parts.maxBodyBytes,
    reply: PublishBatchReply,
    errors: PUBLISH_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) => parts.operations.publishBatch(answer, caller, path, body),
  })

const checkBatch = bodyCheck(PublishBatchBody)

const parseBatch = (value: unknown): ReturnType<typeof mapInTurns<unknown, PublishInput | BrokerError>> =>
  mapInTurns(checkBatch(value).records, tryParsePublish)

export const replay = (parts: RouteParts): Endpoint => replaying(parts, 'A page of records', false)

export const legacyFetch = (parts: RouteParts): Endpoint =>
  replaying(parts, 'A page of records, without api_version', true)

const replaying = (parts: RouteParts, summary: string, legacy: boolean): Endpoint =>
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
    handle({ admitted: { caller, path, query }, exchange }, answer) {
      const abandonedSignal = query.waitMs === undefined ? [] : ([abandonedSignalOf(exchange)] as const)
      parts.operations.replay(
        countedAsUnread(parts, exchange, answer),
        caller,
        path,
        { ...query, legacy },
        ...abandonedSignal,
      )
    },
  })
