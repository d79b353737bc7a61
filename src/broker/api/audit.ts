/** Routes of the audit stream. */
import { Type } from 'typebox'
import type { TSchema } from 'typebox'
import type { Endpoint } from '../../http/routes.ts'
import { JSON_TYPE } from '../../http/text-answer.ts'
import { PAGE_RECORDS_DEFAULT } from '../limits.ts'
import type { AuditRequest } from '../operations.ts'
import { AuditPageReply } from '../wire/storage-answers.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { RouteParts } from './parts.ts'
import { PAGE_RECORDS, UNSIGNED, integerOf, integerSchema } from './query.ts'
import type { QueryRules } from './query.ts'
import { noPath } from './request.ts'

export const auditEvents = (parts: RouteParts): Endpoint =>
  auditing(parts, 'json', { summary: 'A page of audit events', reply: AuditPageReply, replyType: JSON_TYPE })

export const auditExport = (parts: RouteParts): Endpoint =>
  auditing(parts, 'ndjson', {
    summary: 'A page of audit events, one a line',
    reply: Type.String({ description: 'one JSON object a line' }),
    replyType: 'application/x-ndjson',
  })

const auditing = (
  parts: RouteParts,
  format: AuditRequest['format'],
  shown: { readonly summary: string; readonly reply: TSchema; readonly replyType: string },
): Endpoint =>
  brokerEndpoint(parts, {
    ...shown,
    path: noPath,
    query: auditRules,
    errors: ['invalid_request', 'invalid_query', 'invalid_start_offset', 'invalid_page_size', 'internal_error'],
    handle: ({ admitted: { caller, query } }, answer) => parts.operations.audit(answer, caller, { ...query, format }),
  })

const auditRules: QueryRules<Omit<AuditRequest, 'format'>> = {
  parameters: {
    start_offset: integerSchema(UNSIGNED, { default: 0 }),
    max_records: integerSchema(PAGE_RECORDS, { default: PAGE_RECORDS_DEFAULT }),
  },
  take: (query) => ({
    startOffset: integerOf(query, 'start_offset', UNSIGNED, 'invalid_start_offset') ?? 0,
    maxRecords: integerOf(query, 'max_records', PAGE_RECORDS, 'invalid_page_size') ?? PAGE_RECORDS_DEFAULT,
  }),
}
