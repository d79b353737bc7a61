/** The real process takes any request, or refuses it with a code that the route documents. It never hangs, and 503 is its only 5xx. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import * as fc from 'fast-check'
import { HealthReply } from '../../../src/broker/wire/node-answers.ts'
import { BrokerServer } from '../../support/broker.ts'
import type { BrokerReply, Delivery, Stream } from '../../support/broker.ts'

interface Route {
  readonly method: string
  readonly path: string
  /** The codes of refusals that the route documents. */
  readonly codes: ReadonlySet<string>
}

let broker: BrokerServer
let stream: Stream
let delivery: Delivery
let routes: readonly Route[]
before(async () => {
  broker = await BrokerServer.start({ flags: ['--metrics-exposure', 'http'] })
  stream = await broker.newStream({ failure_policy: { max_attempts: 2, retry_delay_millis: 1 } })
  await stream.fill(1000)
  delivery = await stream.group().claimOne()
  routes = await documentedRoutes()
})
after(() => broker.stop())

interface Operation {
  readonly responses: { readonly default?: { readonly description: string } }
}

async function documentedRoutes(): Promise<Route[]> {
  const reply = await broker.request('GET', '/openapi.json')
  const { paths } = reply.json() as { paths: Record<string, Record<string, Operation>> } // the broker's own document, tested elsewhere
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses }]) => {
      const [, codes = ''] = responses.default?.description.split('refused: ') ?? []
      return { method: method.toUpperCase(), path, codes: new Set(codes.split(', ')) }
    }),
  )
}

function assertTakenOrRefused({ method, path, codes }: Route, reply: BrokerReply): void {
  if (reply.status >= 200 && reply.status < 300) return
  const { code } = reply.refusal()
  assert(reply.status < 500 || reply.status === 503, reply.text)
  assert(codes.has(code), `${method} ${path} answers ${code}: ${reply.text}`)
}

const pick = <T>(...values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values)
const anyRoute = fc.nat().map((number) => routes[number % routes.length]!)

/** Mostly a usual value, so that most requests are good as a whole. */
const mostly = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.oneof({ weight: 15, arbitrary: usual }, { weight: 1, arbitrary: odd })

/** Names that exist, names that do not, and texts that are no names. `<…>` is replaced by the id of the current delivery when the request is sent. */
const TOKENS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  stream: mostly(pick('stream-0'), pick('nothing', 'system.audit', ' ', 'a\tb', 'x'.repeat(257))),
  group: mostly(pick('workers', 'größe'), pick('x'.repeat(256), 'x'.repeat(257))),
  cursor: mostly(pick('main', 'other'), pick('\u0000')),
  subscription: mostly(pick('<subscription>'), pick(`sub-${'A'.repeat(22)}`, 'nothing', '<delivery>')),
  delivery: mostly(pick('<delivery>'), pick(`dlv-${'A'.repeat(22)}`, 'nothing', '<subscription>')),
  incident: pick('inc-1', ' '),
}
const NEW_STREAM = fc.nat(999).map((number) => `new ${number}`)
const tokensOf = ({ method, path }: Route): fc.Arbitrary<string[]> => {
  const places = placesOf(path).map((name) => (isOfWholeStream(method, path) ? NEW_STREAM : TOKENS[name]!))
  return fc.tuple(...places)
}
/** The route creates, changes, purges or deletes a stream: it gets a stream of its own, as the other routes need theirs. */
const isOfWholeStream = (method: string, path: string): boolean =>
  path.endsWith('/purge') || (path.endsWith('/{stream}') && method !== 'GET')
const placesOf = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)

function pathOf(path: string, tokens: readonly string[]): string {
  const known: Readonly<Record<string, string>> = { '<subscription>': delivery.subscription, '<delivery>': delivery.id }
  return placesOf(path).reduce(
    (filled, name, i) => filled.replace(`{${name}}`, encodeURIComponent(known[tokens[i]!] ?? tokens[i]!)),
    path,
  )
}

const oddities = pick<unknown>(null, -1, 0.5, 1e300, 2 ** 53, '', ' ', '1', '\ud800', '\u0000', true, [], {}, { a: 1 })
const usually = (usual: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> => mostly(usual, oddities)
const fieldsOf = (names: readonly string[], usual: fc.Arbitrary<unknown>) =>
  Object.fromEntries(names.map((name) => [name, usually(usual)]))

const offsets = pick(0, 1, 2, 999, 1000, 2 ** 48 - 1)
const durations = pick(0, 1, 30_000, 2 ** 32, 3_155_760_000_000)
const times = pick(0, 1, 1_800_000_000_000, 2 ** 53 - 1)
const texts = pick('m', 'größe', 'x'.repeat(300), '"\\')
const hex = pick('', '00', 'aAfF')
const headers = pick({}, { a: 'b' }, { 'größe "': '\u0000' })
const recordFields: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  ...fieldsOf(['message_id', 'payload', 'key'], texts),
  ...fieldsOf(['payload_hex', 'key_hex'], hex),
  event_time_ms: usually(times),
  headers: usually(headers),
  durability_mode: usually(pick('volatile', 'local-append', 'local-sync')),
}
const replicated = fc.record({
  origin_offset: usually(pick(0, 1)),
  message_id: usually(texts),
  payload_hex: usually(hex),
  event_time_ms: usually(times),
  ingest_time_ms: usually(times),
})
const FIELDS: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  ...recordFields,
  ...fieldsOf(['offset', 'start_offset'], offsets),
  ...fieldsOf(['lease_timeout_millis', 'extend_by_millis', 'delay_millis'], durations),
  ...fieldsOf(['source_site', 'target_site', 'policy', 'note', 'acknowledged_by', 'reason'], texts),
  max_messages: usually(pick(1, 2, 1000, 1001)),
  wait_millis: usually(pick(0, 1, 30_001)),
  stream: usually(pick('stream-0', 'replica')),
  tenant: pick('local', 'acme', null),
  requeue: usually(fc.boolean()),
  dead_letter_stream: usually(pick('stream-0', 'nothing')),
  delivery_ids: usually(pick(['nothing'], ['dlv-', 'dlv-'])),
  default_durability: usually(pick('memory', 'local-disk', 'local-quorum', 'replication-policy:dr')),
  retention: usually(pick({}, { max_bytes: 2 ** 53 - 1 }, { max_age_millis: 2 ** 53 - 1, min_cursor_name: 'main' })),
  failure_policy: usually(pick({ max_attempts: 1 }, { max_attempts: 1, apply_on_expiry: true }, { max_attempts: 0 })),
  records: usually(fc.array(fc.oneof(fc.record(recordFields), replicated), { maxLength: 3 })),
}
/** Any of the fields, also some that the schema of the route does not have. */
const body: fc.Arbitrary<string> = fc
  .uniqueArray(fc.nat(Object.keys(FIELDS).length - 1), { maxLength: 8 })
  .chain((numbers) =>
    fc.tuple(
      ...numbers.map((number) => fc.tuple(fc.constant(Object.keys(FIELDS)[number]!), Object.values(FIELDS)[number]!)),
    ),
  )
  .map((entries) => JSON.stringify(Object.fromEntries(entries)))
/** All fields that the route may need, so that most bodies are good. */
const wholeBody = (path: string): fc.Arbitrary<string> => {
  const names = Object.entries(NEEDED).find(([end]) => path.endsWith(end))?.[1] ?? []
  return fc
    .record(Object.fromEntries(names.map((name) => [name, FIELDS[name]!])))
    .map((fields) => JSON.stringify(fields))
}
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  '/streams/{stream}': ['default_durability', 'retention', 'failure_policy'],
  '/records': ['message_id', 'payload', 'key', 'event_time_ms', 'headers', 'durability_mode'],
  '/batch': ['records'],
  '/{cursor}': ['offset'],
  '/rewind': ['offset', 'reason'],
  '/claims': ['start_offset', 'max_messages', 'lease_timeout_millis', 'wait_millis'],
  '/nack': ['reason', 'requeue'],
  '/renew': ['extend_by_millis'],
  '/retry': ['reason', 'delay_millis'],
  '/dead-letter': ['dead_letter_stream', 'reason'],
  '/batch-ack': ['delivery_ids'],
  '/apply': ['source_site', 'target_site', 'policy', 'stream', 'records'],
  '/pause': ['stream', 'source_site', 'target_site', 'reason'],
  '/acknowledge': ['acknowledged_by', 'note'],
}

const PARAMETERS = [
  'start_offset',
  'event_time_ms',
  'ingest_time_ms',
  'max_records',
  'max_payload_bytes',
  'consumer_group',
  'consumer_id',
  'include_completed',
  'max_bytes',
  'max_age_ms',
  'x',
  '',
  '%ff',
]

describe('any request', () => {
  it('with any body of known fields is taken or refused', async () => {
    const withBody = anyRoute.filter(({ method }) => method !== 'GET')
    const request = withBody.chain((route) =>
      fc.tuple(fc.constant(route), tokensOf(route), mostly(wholeBody(route.path), body)),
    )
    await fc.assert(
      fc.asyncProperty(request, async ([route, tokens, body]) => {
        assertTakenOrRefused(route, await broker.request(route.method, pathOf(route.path, tokens), body))
        if (!tokens.includes('<delivery>')) return
        delivery = (await stream.group('fresh').claim())[0] ?? delivery
      }),
      { numRuns: 400 },
    )
  })

  it('with any bytes for a body is taken or refused', async () => {
    const withBody = anyRoute.filter(({ method }) => method !== 'GET')
    const good = Buffer.from('{"message_id":"m","payload":"p","reason":"r","offset":1,"requeue":true}')
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.tuple(fc.nat(good.byteLength - 1), fc.nat(255)).map(([at, byte]) => {
        const damaged = Buffer.from(good)
        damaged[at] = byte
        return damaged
      }),
      fc.nat(good.byteLength).map((length) => good.subarray(0, length)),
    )
    await fc.assert(
      fc.asyncProperty(withBody, bytes, async (route, bytes) => {
        const name = isOfWholeStream(route.method, route.path) ? 'new' : stream.name
        const tokens = placesOf(route.path).map((place) => (place === 'stream' ? name : 'x'))
        assertTakenOrRefused(route, await broker.request(route.method, pathOf(route.path, tokens), bytes))
      }),
      { numRuns: 150 },
    )
  })

  it('with any query is taken or refused', async () => {
    const names = fc.constantFrom(...PARAMETERS)
    const values = pick(
      '0',
      '1',
      '49',
      '1000',
      '1001',
      '9007199254740991',
      '9007199254740992',
      '-1',
      '',
      'true',
      'a%2Fb',
      '%zz',
      '%00',
      'é',
    )
    const query = fc
      .array(fc.tuple(names, values), { maxLength: 3 })
      .map((pairs) => pairs.map(([name, value]) => `${name}=${value}`).join('&'))
    const getting = anyRoute.filter(({ method, path }) => method === 'GET' && path !== '/health')
    await fc.assert(
      fc.asyncProperty(getting, query, pick('stream-0', 'system.audit', 'nothing'), async (route, query, name) => {
        const path = pathOf(
          route.path,
          placesOf(route.path).map((place) => (place === 'stream' ? name : 'workers')),
        )
        assertTakenOrRefused(route, await broker.request('GET', `${path}?${query}`))
      }),
      { numRuns: 250 },
    )
  })

  it('with any bytes in its path is taken or refused', async () => {
    const connection = await broker.connect()
    const piece = fc.oneof(
      pick('a', '/', '%2F', '%', '%zz', '%C3', '%ff', '%00', '..', ';', '+', '?', '#', '\xff', '\xc3\xa9'),
      fc.nat(255).map((byte) => `%${byte.toString(16).padStart(2, '0')}`),
    )
    const rest = fc.array(piece, { minLength: 1, maxLength: 5 }).map((pieces) => pieces.join(''))
    await fc.assert(
      fc.asyncProperty(
        pick('/v1/streams/', '/streams/', '/v1/streams/stream-0/consumer-groups/', '/'),
        rest,
        async (head, rest) => {
          connection.write(Buffer.from(`GET ${head}${rest} HTTP/1.1\r\nhost: localhost\r\n\r\n`, 'latin1'))
          const reply = await connection.reply()
          if (reply.status !== 200) assert([400, 404, 405].includes(reply.status) && reply.refusal(), reply.text)
        },
      ),
      { numRuns: 100 },
    )
    connection.close()
  })

  it('leaves the broker as sound as it was', async () => {
    assert.equal((await broker.get('/health', HealthReply)).status, 'ok')
    assert(!broker.stderr.includes('request failed'), broker.stderr)
    const { offset } = await stream.publish('after all')
    assert.equal((await stream.replay(`start_offset=${offset}`)).records[0]?.offset, offset)
    const before = await finished()
    await broker.restart()
    assert.deepEqual(await finished(), before)
    assert.equal((await stream.describe()).next_offset, offset + 1)
    assert.equal((await broker.get('/health', HealthReply)).status, 'ok')
  })
  /** What the broker shows of groups, streams, events and records, without what changes as time passes. */
  async function finished(): Promise<unknown[]> {
    const groups = ['workers', 'größe', 'fresh'].map((name) => stream.group(name))
    const states = groups.map(async (group) => {
      const { progress_offset, lag_messages, cursors } = await group.describe()
      const { leases } = await group.leases(true)
      return {
        progress_offset,
        lag_messages,
        cursors,
        leases: leases.filter((lease) => lease.subscription_id === null),
      }
    })
    const texts = ['/v1/streams', '/v1/audit/export?max_records=1000', `${stream.path}/records?start_offset=1000`]
    const replies = texts.map(async (path) => (await broker.request('GET', path)).text)
    return Promise.all([...states, ...replies])
  }
})
