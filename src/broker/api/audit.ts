/** Routes of the audit stream. */
import { Type } from '../../schema.ts'
import type { TSchema } from 'typebox'
import type { Endpoint } from '../../http/routes.ts'
import { JSON_TYPE } from '../../http/text-answer.ts'
import type { AuditRequest } from '../operations.ts'
import { AuditPageReply } from '../wire/storage-answers.ts'
import { auditRules } from './audit-query.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { RouteParts } from './parts.ts'
import { countedAsUnread, noPath } from './request.ts'

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
    handle: ({ admitted: { caller, query }, exchange }, answer) =>
      parts.operations.audit(countedAsUnread(parts, exchange, answer), caller, { ...query, format }),
  })
