/** What the load's logs and spans say: requests of a web shop, in the words of the OpenTelemetry conventions. */
import type { Random } from '../random.ts'

export type Signal = 'logs' | 'traces'

/** Wrapped numbers, because OTLP tells integers and doubles apart. */
export type AttributeValue = string | { readonly int: number } | { readonly double: number }
export type Attribute = readonly [key: string, value: AttributeValue]

export interface ResourceModel {
  readonly attributes: readonly Attribute[]
  /** `service.name`; when `numbered`, four digits that differ from batch to batch are appended. */
  readonly dataset: string
  readonly numbered: boolean
  readonly scopeName: string
  readonly scopeVersion: string
}

export interface RecordModel {
  readonly severityNumber: number
  readonly severityText: string
  /** Log: the body, between a hole for the sequence number and the end. Span: the value of a long attribute. */
  readonly message: string
  readonly spanName: string
  readonly spanKind: number
  readonly durationNs: number
  readonly attributes: readonly Attribute[]
}

/** Digits of the sequence number that makes every record's text unique: what `writeTwelveDigits` writes. */
export const SEQUENCE_DIGITS = 12
export const DATASET_DIGITS = 4

const WORDS = (
  'order payment cart checkout session cache database upstream retry queue customer address shipment invoice token ' +
  'accepted rejected completed started timed out after before while reading writing connection pool exhausted latency ' +
  'threshold exceeded replica primary shard partition leader follower request response header body'
).split(' ')

const ROUTES = ['/api/v1/orders/{id}', '/api/v1/carts/{id}', '/api/v1/checkout', '/api/v1/search', '/login'] as const
const SEVERITIES = [
  [9, 'INFO'],
  [9, 'INFO'],
  [9, 'INFO'],
  [5, 'DEBUG'],
  [13, 'WARN'],
  [17, 'ERROR'],
] as const

export function resourceModel(tenant: string, dataset: string, numbered: boolean, random: Random): ResourceModel {
  return {
    dataset,
    numbered,
    scopeName: 'trilog.load',
    scopeVersion: '1.0.0',
    attributes: [
      ['tenant_id', tenant],
      ['service.version', '4.18.2'],
      ['service.instance.id', hex(random, 4)],
      ['host.name', `node-${random.between(1, 40)}.eu-central-1.example`],
      ['deployment.environment.name', 'load'],
      ['telemetry.sdk.language', 'nodejs'],
    ],
  }
}

/**
 * @param bytesTarget encoded size aimed at, in the unit `encodedBytes` counts in
 * @param encodedBytes size of a record with its sequence number, ids and times
 * @returns a record of that size to within a few bytes. When even its attributes are too much, the last ones are
 *          dropped; a target below about 120 bytes is exceeded.
 */
export function recordModel(
  random: Random,
  bytesTarget: number,
  encodedBytes: (record: RecordModel) => number,
): RecordModel {
  const [severityNumber, severityText] = random.pick(SEVERITIES)
  const route = random.pick(ROUTES)
  const method = random.pick(['GET', 'GET', 'POST', 'PUT'])
  const durationNs = random.between(50_000, 90_000_000)
  const attributes: Attribute[] = [
    ['http.request.method', method],
    ['http.route', route],
    ['http.response.status_code', { int: random.pick([200, 200, 200, 201, 204, 400, 404, 500]) }],
    ['http.server.request.duration', { double: durationNs / 1e9 }],
    ['user.id', `user-${hex(random, 1)}`],
    ['client.address', `10.${random.between(0, 255)}.${random.between(0, 255)}.${random.between(1, 254)}`],
    ['thread.id', { int: random.between(1, 64) }],
    ['network.protocol.version', '1.1'],
  ]
  const bare: RecordModel = {
    severityNumber,
    severityText,
    message: '',
    spanName: `${method} ${route}`,
    spanKind: random.between(1, 3),
    durationNs,
    attributes,
  }
  let bareBytes = encodedBytes(bare)
  while (bareBytes > bytesTarget && attributes.pop() !== undefined) bareBytes = encodedBytes(bare)
  return { ...bare, message: words(random, bytesTarget - bareBytes) }
}

/** Text of exactly `length` characters, ASCII; '' when `length` is not positive. */
function words(random: Random, length: number): string {
  let text = ''
  while (text.length < length) text += `${WORDS[random.between(0, WORDS.length - 1)]!} `
  return text.slice(0, Math.max(0, length))
}

function hex(random: Random, wordCount: number): string {
  return Array.from({ length: wordCount }, () => random.uint32().toString(16).padStart(8, '0')).join('')
}
