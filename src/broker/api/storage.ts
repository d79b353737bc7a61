/** Routes of storage administration. They have no version in their path, and none in their answers. */
import type { Endpoint } from '../../http/routes.ts'
import type { RetentionLimits } from '../operations.ts'
import type { RefusalCode } from '../refusals.ts'
import { QuarantineAcknowledgeBody } from '../wire/requests.ts'
import {
  ArchiveManifestReply,
  QuarantineAcknowledgeReply,
  QuarantineListReply,
  RetentionPlanReply,
  TieringReadinessReply,
} from '../wire/storage-answers.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { RouteParts } from './parts.ts'
import { UNSIGNED, integerOf, integerSchema } from './query.ts'
import type { QueryRules } from './query.ts'
import { incidentOf, streamOf } from './request.ts'
import { inSlices } from './sliced-json.ts'

const MANIFEST_TYPE = 'application/vnd.broker.storage-tiering.v1+json'

const TIERING_ERRORS: readonly RefusalCode[] = [
  'invalid_request',
  'invalid_tiering_policy',
  'invalid_query',
  'missing_stream',
  'tiering_manifest_failed',
]

export const retentionDryRun = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'What retention would remove now; changes nothing',
    path: streamOf,
    query: limitRules('invalid_retention_policy'),
    reply: RetentionPlanReply,
    errors: ['invalid_request', 'invalid_retention_policy', 'invalid_query', 'missing_stream'],
    handle: ({ admitted: { caller, path, query } }, answer) =>
      parts.operations.retentionPlan(answer, caller, path, query),
  })

export const tieringReadiness = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Which segments of a stream could be moved to an archive',
    path: streamOf,
    query: limitRules('invalid_tiering_policy'),
    reply: TieringReadinessReply,
    errors: TIERING_ERRORS,
    handle: ({ admitted: { caller, path, query } }, answer) =>
      parts.operations.tieringReadiness(answer, caller, path, query),
  })

export const archiveManifest = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'The files that an archive of the stream consists of',
    path: streamOf,
    query: limitRules('invalid_tiering_policy'),
    reply: ArchiveManifestReply,
    replyType: MANIFEST_TYPE,
    errors: TIERING_ERRORS,
    handle: ({ admitted: { caller, path, query } }, answer) =>
      parts.operations.archiveManifest(answer, caller, path, query),
  })

const limitRules = (invalid: RefusalCode): QueryRules<RetentionLimits> => ({
  parameters: { max_bytes: integerSchema(UNSIGNED), max_age_ms: integerSchema(UNSIGNED) },
  take: (query) => ({
    maxBytes: integerOf(query, 'max_bytes', UNSIGNED, invalid),
    maxAgeMs: integerOf(query, 'max_age_ms', UNSIGNED, invalid),
  }),
})

export const quarantine = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Damaged ranges that hold records of the stream, without payloads',
    path: streamOf,
    reply: QuarantineListReply,
    errors: ['invalid_request', 'invalid_query', 'missing_stream', 'quarantine_storage_failed'],
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.quarantine(inSlices(answer, 'incidents', parts.turn), caller, path),
  })

export const acknowledgeQuarantine = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Acknowledge an incident; audited',
    path: incidentOf,
    body: QuarantineAcknowledgeBody,
    bodyOptional: true,
    reply: QuarantineAcknowledgeReply,
    errors: [
      'invalid_request',
      'missing_stream',
      'quarantine_not_found',
      'write_not_allowed',
      'quarantine_storage_failed',
    ],
    handle: ({ admitted: { caller, path }, body }, answer) =>
      parts.operations.acknowledgeQuarantine(answer, caller, path.stream, path.incidentId, body),
  })
