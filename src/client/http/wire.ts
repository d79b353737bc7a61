/** Encodes calls as the routes take them: paths, queries, bodies. */
import { refuse } from '../../broker/refusals.ts'
import { isInstance, isObject } from '../../plain-objects.ts'
import type { DeliveryPath, GroupPath } from '../../broker/operations.ts'
import type { RecordToPublish } from '../broker-client.ts'
import { hexOf, isBytes } from '../bytes.ts'
import type { ClientConfig, Headers } from '../client-config.ts'

export const STREAMS = '/v1/streams'
export const streamPath = (stream: string): string => `${STREAMS}/${segment(stream)}`
export const groupPath = ({ stream, group }: GroupPath): string =>
  `${streamPath(stream)}/consumer-groups/${segment(group)}`
export const cursorPath = (path: GroupPath, cursor: string): string => `${groupPath(path)}/cursors/${segment(cursor)}`
export const deliveriesPath = ({ stream, subscriptionId }: Pick<DeliveryPath, 'stream' | 'subscriptionId'>): string =>
  `${streamPath(stream)}/subscriptions/${segment(subscriptionId)}/deliveries`
export const deliveryPath = (path: DeliveryPath): string => `${deliveriesPath(path)}/${segment(path.deliveryId)}`

/** Dots are percent-encoded, because proxies take them for directories. */
const segment = (name: string): string =>
  name === '.' || name === '..' ? name.replaceAll('.', '%2E') : encodeURIComponent(name)

/** Options that are null or undefined are left out. */
export function queryOf(options: object): string {
  const pairs = Object.entries(options).flatMap(([name, value]) =>
    value === null || value === undefined ? [] : `${encoded(name)}=${encoded(String(value))}`,
  )
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`
}

function encoded(text: string): string {
  if (!text.isWellFormed()) throw refuse('invalid_query', 'the query must be well-formed Unicode')
  return encodeURIComponent(text)
}

/** Numbers that JSON lacks become strings, which the broker refuses: JSON would make them null, which is a default. */
const withAllNumbers = (_name: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isFinite(value) ? String(value) : value

export const bodyOf = (body: object): string => json(body, withAllNumbers)

/** @throws BrokerError when JSON cannot express it */
export function json(value: unknown, replacer?: (name: string, value: unknown) => unknown): string {
  try {
    return JSON.stringify(value, replacer) ?? 'null'
  } catch (cause) {
    throw refuse('invalid_request', 'the body must have only values that JSON can express', { cause })
  }
}

/** A record as its route takes it. A value that is no record is sent as it is: the broker says what is wrong. */
export function recordOf(record: RecordToPublish, config: ClientConfig): unknown {
  if (!isObject(record)) return record
  const { payload, key, headers, durability_mode, event_time_ms, ...rest } = record
  return {
    ...rest,
    ...bytesField('payload', payload),
    ...bytesField('key', key),
    headers: headersOf(headers, config),
    durability_mode: durability_mode ?? config.defaultDurability,
    event_time_ms: withAllNumbers('', event_time_ms),
  }
}

const bytesField = (name: 'payload' | 'key', value: unknown): Readonly<Record<string, unknown>> =>
  isBytes(value) ? { [`${name}_hex`]: hexOf(value) } : { [name]: value }

/** A value that cannot be headers is sent as one that the broker refuses; any other can be spread. */
function headersOf(own: unknown, config: ClientConfig): unknown {
  if (isInstance(own) || typeof own === 'function') return ''
  if (own === null || own === undefined) return config.headersOf(null)
  return isObject(own) ? config.headersOf(own as Headers) : own // each value is looked at by the broker
}
