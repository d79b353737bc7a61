/** What a call brings, checked by the rules of the route it stands for, and refused with the same codes and words. */
import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import { LongString } from '../../native-free-codecs/json-reader.ts'
import { unknownParameter } from '../broker/api/query.ts'
import { replayRules } from '../broker/api/replay-query.ts'
import { STREAM_NAME_RULE, TOKEN_RULE, isStreamName, isToken } from '../broker/names.ts'
import type { DeliveryPath, GroupPath, ReplayRequest } from '../broker/operations.ts'
import { HEADERS_RULE, boundedHeaders, parsePublish } from '../broker/publish-input.ts'
import type { PublishInput } from '../broker/publish-input.ts'
import { refuse } from '../broker/refusals.ts'
import { isInstance, isObject } from '../plain-objects.ts'
import { describeProblem } from '../validation.ts'
import type { DeliveryName, FetchOptions, Forcible, RecordToPublish } from './broker-client.ts'
import type { ClientConfig } from './client-config.ts'

export function streamOf(name: string): string {
  if (typeof name !== 'string' || !isStreamName(name)) throw refuse('invalid_request', `the stream ${STREAM_NAME_RULE}`)
  return name
}

export const groupOf = (stream: string, group: string): GroupPath => ({
  stream: streamOf(stream),
  group: tokenOf(group, 'consumer group'),
})

export function deliveryOf(delivery: DeliveryName): DeliveryPath {
  const { stream, subscription_id, delivery_id } = objectOf(delivery, 'the delivery')
  return {
    stream: streamOf(stream),
    subscriptionId: tokenOf(subscription_id, 'subscription'),
    deliveryId: tokenOf(delivery_id, 'delivery'),
  }
}

export function tokenOf(token: string, what: string): string {
  if (typeof token !== 'string' || !isToken(token)) throw refuse('invalid_request', `the ${what} ${TOKEN_RULE}`)
  return token
}

export const optionsOf = <Options extends object>(options: Options): Options => objectOf(options, 'the options')

export function forceOf(options: Forcible): boolean {
  const { force = false } = optionsOf(options)
  if (typeof force === 'boolean') return force
  throw refuse('invalid_query', 'force must be true or false')
}

/** For what has no schema, in the words of what has one. */
function objectOf<Given extends object>(value: Given, what: string): Given {
  if (isObject(value)) return value
  throw refuse('invalid_request', `${what} must be object`)
}

/** For bodies of one schema. */
export function bodyCheck<Schema extends TSchema>(schema: Schema): (body: Static<Schema>) => Static<Schema> {
  const validator = Compile(schema)
  return (body) => {
    if (validator.Check(body)) return body
    throw refuse('invalid_request', describeProblem(validator.Errors(body)[1], schema))
  }
}

/** As the query of the same values would be read. */
export function replayOf(options: FetchOptions): ReplayRequest {
  const { parameters } = replayRules
  const query = new Map<string, string>()
  for (const [name, value] of Object.entries(optionsOf(options))) {
    if (!Object.hasOwn(parameters, name)) throw refuse('invalid_query', unknownParameter(parameters))
    if (value !== null && value !== undefined) query.set(name, String(value))
  }
  return { ...replayRules.take(query), legacy: false }
}

/**
 * The record as its body over HTTP would be read. It is complete: sent again, it is the same. Its headers are checked before they are merged:
 * anything can be spread.
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

/** A copy: a call that is repeated publishes the same bytes, whatever becomes of the caller's. */
const bytesField = (name: string, value: string | Uint8Array | null | undefined): Readonly<Record<string, unknown>> =>
  value instanceof Uint8Array
    ? { [`${name}_hex`]: new LongString(new Uint8Array(value), 'hex', true) }
    : { [name]: value }
