/** Routes that take a body, and values of their fields that are taken or refused: the rows of the specification's tables. */
import type { OperationName } from './support.ts'

const GROUP = '/v1/streams/orders/consumer-groups/workers'
const DELIVERIES = '/v1/streams/orders/subscriptions/sub-1/deliveries'
export const APPLY = '/v1/replication/target/apply'
export const long = (bytes: number): string => 'x'.repeat(bytes)
const CONTROL = '\u0007'

export interface Route {
  readonly method: string
  readonly path: string
  readonly operation: OperationName
  /** A body that the route takes. */
  readonly good: Readonly<Record<string, unknown>>
  /** Code that refuses a bad body. */
  readonly code: string
  readonly optional?: boolean
}
const route = (
  method: string,
  path: string,
  operation: OperationName,
  good: object,
  more: Partial<Route> = {},
): Route => ({
  method,
  path,
  operation,
  good: { ...good },
  code: 'invalid_request',
  ...more,
})
export const create = route('PUT', '/v1/streams/orders', 'createStream', {}, { optional: true })
export const publish = route('POST', '/v1/streams/orders/records', 'publish', { message_id: 'm', payload: 'p' })
export const batch = route('POST', '/v1/streams/orders/records/batch', 'publishBatch', { records: [publish.good] })
const commit = route('PUT', `${GROUP}/cursors/main`, 'commitCursor', { offset: 0 })
const rewind = route('POST', `${GROUP}/cursors/main/rewind`, 'rewindCursor', { offset: 0, reason: 'r' })
export const claim = route('POST', `${GROUP}/claims`, 'claim', {}, { optional: true })
const ack = route('POST', `${DELIVERIES}/dlv-1/ack`, 'ack', {}, { optional: true })
const batchAck = route('POST', `${DELIVERIES}/batch-ack`, 'batchAck', { delivery_ids: ['dlv-1'] })
export const nack = route('POST', `${DELIVERIES}/dlv-1/nack`, 'nack', { reason: 'r', requeue: false })
const renew = route('POST', `${DELIVERIES}/dlv-1/renew`, 'renew', { extend_by_millis: 1 })
const retry = route('POST', `${DELIVERIES}/dlv-1/retry`, 'retry', { reason: 'r', delay_millis: 0 })
const deadLetter = route('POST', `${DELIVERIES}/dlv-1/dead-letter`, 'deadLetter', {
  dead_letter_stream: 'dead',
  reason: 'r',
})
const acknowledge = route(
  'POST',
  '/streams/orders/quarantine/inc-1/acknowledge',
  'acknowledgeQuarantine',
  {},
  {
    optional: true,
  },
)
export const replicated = {
  origin_offset: 0,
  message_id: 'm',
  payload_hex: '00',
  key_hex: null,
  headers: null,
  event_time_ms: 1,
  ingest_time_ms: 1,
}
export const apply = route(
  'POST',
  APPLY,
  'applyReplica',
  { source_site: 'a', target_site: 'b', policy: 'dr', tenant: null, stream: 'orders', records: [replicated] },
  { code: 'replica_apply_invalid' },
)
export const ROUTES = [
  create,
  publish,
  batch,
  commit,
  rewind,
  claim,
  ack,
  batchAck,
  nack,
  renew,
  retry,
  deadLetter,
  acknowledge,
  apply,
]

interface Field {
  readonly route: Route
  readonly field: string
  readonly good: readonly unknown[]
  readonly bad: readonly unknown[]
}
export const NAMES = {
  good: ['n', ' spaced ', 'größe 😀', 'a/b', long(65_535)],
  bad: ['', ' ', '\u00a0\u2003', `a${CONTROL}`, 'a\tb', 'a\u007f', 'a\u0085', '\ud800', 1, {}, [], true, long(65_536)],
}
const REMARKS = {
  good: ['', ' ', 'two\nlines', `a${CONTROL}`, 'größe 😀', long(65_535)],
  bad: ['\ud800', 1, {}, [], true, long(65_536), 'é'.repeat(32_768)],
}
const REASONS = { good: REMARKS.good.slice(1), bad: ['', ...REMARKS.bad] }
const STREAMS = {
  good: ['s', 'größe 😀', 'a b', '..', long(256)],
  bad: ['', ' ', ' a', 'a\u2003', 'a/b', `a${CONTROL}`, 'a\tb', '\udfff', 'é'.repeat(129), 1, long(257)],
}
export const UNSIGNED = {
  good: [0, 1, Number.MAX_SAFE_INTEGER],
  bad: [-1, 1.5, '1', Number.MAX_SAFE_INTEGER + 1, 1e300, true, [], {}],
}
const DURATION = { good: [0, 1, 3_155_760_000_000], bad: [-1, 0.1, '1', 3_155_760_000_001, false] }
const POSITIVE = { good: [1, 30_000], bad: [0, -1, 1.5, '1'] }
export const OFFSETS = { good: [0, 2 ** 48 - 1], bad: [-1, 2 ** 48, 0.5, '0', true] }
export const HEX = { good: ['', '00', 'aBcDeF09'], bad: ['0', 'zz', '0x', '0 ', 1, 'ａ０', '-1'] }
const withNull = (field: { good: readonly unknown[]; bad: readonly unknown[] }): typeof field => ({
  good: [...field.good, null],
  bad: field.bad,
})
const withoutNull = (field: { good: readonly unknown[]; bad: readonly unknown[] }): typeof field => ({
  good: field.good,
  bad: [...field.bad, null],
})
const durabilities = {
  good: ['memory', 'local-disk', 'local-quorum', 'replication-policy:dr', 'replication-policy:a b', null],
  bad: [
    'Memory',
    'local-sync',
    '',
    'replication-policy:',
    'replication-policy: ',
    'replication-policy:a\\b',
    `replication-policy:${CONTROL}`,
    1,
  ],
}
const retention = (name: string, { good, bad }: { good: readonly unknown[]; bad: readonly unknown[] }): Field => ({
  route: create,
  field: 'retention',
  good: [...good.map((value) => ({ [name]: value })), {}, null],
  bad: [...bad.map((value) => ({ [name]: value })), { unknown: 1 }, [], 'x'],
})
const policy = (name: string, { good, bad }: { good: readonly unknown[]; bad: readonly unknown[] }): Field => ({
  route: create,
  field: 'failure_policy',
  good: [...good.map((value) => ({ max_attempts: 3, [name]: value })), null],
  bad: [...bad.map((value) => ({ max_attempts: 3, [name]: value })), {}, { unknown: 1 }, []],
})
export const FIELDS: readonly Field[] = [
  { route: create, field: 'default_durability', ...durabilities },
  retention('max_age_millis', withNull(UNSIGNED)),
  retention('max_bytes', withNull(UNSIGNED)),
  retention('min_cursor_name', {
    good: ['main', ' a', 'a/b', long(257), null],
    bad: ['', ' ', `a${CONTROL}`, 1, long(65_536)],
  }),
  policy('max_attempts', { good: [1, 4_294_967_295], bad: [0, 4_294_967_296, -1, 1.5, '3', null] }),
  policy('retry_delay_millis', withNull(DURATION)),
  policy('dead_letter_stream', withNull(STREAMS)),
  policy('apply_on_expiry', { good: [true, false, null], bad: [0, 'true'] }),
  { route: publish, field: 'message_id', ...withoutNull(NAMES) },
  { route: publish, field: 'event_time_ms', ...withNull(UNSIGNED) },
  {
    route: publish,
    field: 'headers',
    good: [{}, null, { a: '', 'x y': 'größe\u0000', '1': '2', constructor: 'c' }],
    bad: [
      { a: 1 },
      { a: null },
      { '': 'a' },
      { ' ': 'a' },
      { 'a\n': 'a' },
      { a: '\ud83d' },
      { '\ud83d': 'a' },
      [],
      'a',
      1,
    ],
  },
  {
    route: publish,
    field: 'durability_mode',
    good: ['volatile', 'local-append', 'local-sync', null],
    bad: ['local-disk', 'Volatile', '', 1, {}],
  },
  { route: batch, field: 'records', good: [Array(1000).fill(publish.good)], bad: [[], Array(1001).fill(0), {}, null] },
  { route: commit, field: 'offset', ...withoutNull(OFFSETS) },
  { route: rewind, field: 'offset', ...withoutNull(OFFSETS) },
  { route: rewind, field: 'reason', ...withoutNull(REASONS) },
  { route: claim, field: 'start_offset', ...withNull(OFFSETS) },
  { route: claim, field: 'max_messages', good: [1, 1000, null], bad: [0, 1001, 1.5, '1', -1] },
  { route: claim, field: 'lease_timeout_millis', ...withNull(POSITIVE) },
  { route: claim, field: 'wait_millis', good: [0, 30_000, null], bad: [-1, 30_001, '1'] },
  { route: nack, field: 'reason', ...withoutNull(NAMES) },
  { route: nack, field: 'requeue', good: [true, false], bad: [null, 'true', 0, 1] },
  { route: renew, field: 'extend_by_millis', ...withoutNull(POSITIVE) },
  { route: retry, field: 'reason', ...withoutNull(REMARKS) },
  { route: retry, field: 'delay_millis', ...withoutNull(DURATION) },
  { route: deadLetter, field: 'dead_letter_stream', ...withoutNull(STREAMS) },
  { route: deadLetter, field: 'reason', ...withoutNull(REMARKS) },
  {
    route: batchAck,
    field: 'delivery_ids',
    good: [Array(1000).fill('dlv-1')],
    bad: [[], Array(1001).fill('dlv-1'), [1], null, 'dlv-1'],
  },
  { route: acknowledge, field: 'acknowledged_by', ...withNull(REMARKS) },
  { route: acknowledge, field: 'note', ...withNull(REMARKS) },
  { route: apply, field: 'source_site', ...withoutNull(NAMES) },
  { route: apply, field: 'target_site', ...withoutNull(NAMES) },
  { route: apply, field: 'policy', ...withoutNull(NAMES) },
  { route: apply, field: 'tenant', ...withNull(NAMES) },
  { route: apply, field: 'stream', ...withoutNull(STREAMS) },
]

export const shown = (value: unknown): string => {
  const text = JSON.stringify(value) ?? 'undefined'
  return text.length > 40 ? `${text.slice(0, 40)}…` : text
}
