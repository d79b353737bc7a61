/** Checks the arguments of a call by the rules of the route it stands for, and refuses with the same codes and words. */
import { LongString } from '../../native-free-codecs/json-reader.ts'
import { auditRules } from '../broker/api/audit-query.ts'
import { unknownParameter } from '../broker/api/query.ts'
import type { QueryRules } from '../broker/api/query.ts'
import { replayRules } from '../broker/api/replay-query.ts'
import { HEADERS_RULE } from '../broker/names.ts'
import type { AuditRequest, ReplayRequest } from '../broker/operations.ts'
import { boundedHeaders, parsePublish } from '../broker/publish-input.ts'
import type { PublishInput } from '../broker/publish-input.ts'
import { refuse } from '../broker/refusals.ts'
import { isInstance, isObject } from '../plain-objects.ts'
import { optionsOf } from './arguments.ts'
import type { AuditOptions, FetchOptions, RecordToPublish } from './broker-client.ts'
import type { ClientConfig } from './client-config.ts'

export const replayOf = (options: FetchOptions): ReplayRequest => ({ ...taken(replayRules, options), legacy: false })

export const auditOf = (options: AuditOptions, format: AuditRequest['format']): AuditRequest => ({
  ...taken(auditRules, options),
  format,
})

/** Reads options as a query with the same values would be read. */
function taken<Taken>(rules: QueryRules<Taken>, options: object): Taken {
  const { parameters } = rules
  const query = new Map<string, string>()
  for (const [name, value] of Object.entries(optionsOf(options))) {
    if (!Object.hasOwn(parameters, name)) throw refuse('invalid_query', unknownParameter(parameters))
    if (value !== null && value !== undefined) query.set(name, String(value))
  }
  return rules.take(query)
}

/**
 * The record as its body over HTTP would be read. It is complete, so that a repeated publish is the same. Its headers are checked before they
 * are merged, because anything can be spread.
 */
export function publishInputOf(record: RecordToPublish, config: ClientConfig): PublishInput {
  if (!isObject(record)) return parsePublish(record) // which refuses it
  const { payload, key, headers, durability_mode, ...rest } = record
  if (isInstance(headers)) throw refuse('invalid_request', `headers ${HEADERS_RULE}`)
  const input = parsePublish({
    ...rest,
    ...bytesField('payload', payload),
    ...bytesField('key', key),
    headers,
    durability_mode: durability_mode ?? config.defaultDurability,
  })
  return { ...input, headers: boundedHeaders(config.headersOf(input.headers)) }
}

/** Copies the bytes, so that a repeated call publishes the same ones even if the caller changes its own. */
const bytesField = (name: string, value: string | Uint8Array | null | undefined): Readonly<Record<string, unknown>> =>
  value instanceof Uint8Array
    ? { [`${name}_hex`]: new LongString(new Uint8Array(value), 'hex', true) }
    : { [name]: value }
