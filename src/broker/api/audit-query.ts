/** The query of a page of audit events. The client library asks by the same rules. */
import { PAGE_RECORDS_DEFAULT } from '../limits.ts'
import type { AuditRequest } from '../operations.ts'
import { PAGE_RECORDS, UNSIGNED, integerOf, integerSchema } from './query.ts'
import type { QueryRules } from './query.ts'

export const auditRules: QueryRules<Omit<AuditRequest, 'format'>> = {
  parameters: {
    start_offset: integerSchema(UNSIGNED, { default: 0 }),
    max_records: integerSchema(PAGE_RECORDS, { default: PAGE_RECORDS_DEFAULT }),
  },
  take: (query) => ({
    startOffset: integerOf(query, 'start_offset', UNSIGNED, 'invalid_start_offset') ?? 0,
    maxRecords: integerOf(query, 'max_records', PAGE_RECORDS, 'invalid_page_size') ?? PAGE_RECORDS_DEFAULT,
  }),
}
