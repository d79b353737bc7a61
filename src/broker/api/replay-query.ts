/** The query of a replay: where it begins, how much it takes, who reads. The client library asks by the same rules. */
import { Type } from '../../schema.ts'
import { PAGE_RECORDS_DEFAULT, REPLAY_WAIT_MS_MAX } from '../limits.ts'
import { TOKEN_RULE, isToken } from '../names.ts'
import type { ReplayRequest } from '../operations.ts'
import { refuse } from '../refusals.ts'
import { PAGE_RECORDS, POSITIVE, UNSIGNED, integerOf, integerSchema } from './query.ts'
import type { Query, QueryRules } from './query.ts'

const WAIT_MS = { min: 0, max: REPLAY_WAIT_MS_MAX }

export const replayRules: QueryRules<Omit<ReplayRequest, 'legacy'>> = {
  parameters: {
    start_offset: integerSchema(UNSIGNED, { description: '0 unless one of the times is given' }),
    event_time_ms: integerSchema(UNSIGNED),
    ingest_time_ms: integerSchema(UNSIGNED),
    max_records: integerSchema(PAGE_RECORDS, { default: PAGE_RECORDS_DEFAULT }),
    max_payload_bytes: integerSchema(POSITIVE),
    wait_millis: integerSchema(WAIT_MS, {
      default: 0,
      description: 'extension: how long the answer waits for a record when there is none yet',
    }),
    consumer_group: Type.String(),
    consumer_id: Type.String(),
    stream_created_at_ms: integerSchema(UNSIGNED, {
      description: 'extension: when the expected stream was created; a later stream of the same name is not found',
    }),
  },
  take: (query) => ({
    start: startOf(query),
    maxRecords: integerOf(query, 'max_records', PAGE_RECORDS, 'invalid_page_size') ?? PAGE_RECORDS_DEFAULT,
    maxPayloadBytes: integerOf(query, 'max_payload_bytes', POSITIVE, 'invalid_page_size'),
    ...waitOf(query),
    consumer: consumerOf(query),
    ...createdOf(query),
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

function createdOf(query: Query): Pick<ReplayRequest, 'streamCreatedAtMs'> {
  const createdAtMs = integerOf(query, 'stream_created_at_ms', UNSIGNED, 'invalid_query')
  return createdAtMs === null ? {} : { streamCreatedAtMs: createdAtMs }
}

function waitOf(query: Query): Pick<ReplayRequest, 'waitMs'> {
  const waitMs = integerOf(query, 'wait_millis', WAIT_MS, 'invalid_query') ?? 0
  return waitMs === 0 ? {} : { waitMs }
}
