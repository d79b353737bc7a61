/** The query parameters that each route takes, row by row of the specification's tables. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { TestBroker, assertRefused } from './support.ts'
import type { OperationName } from './support.ts'

let broker: TestBroker

const REPLAY = '/v1/streams/orders/records'
const LEGACY = '/streams/orders/records'
const GROUP = '/v1/streams/orders/consumer-groups/workers'
const NOT_UNSIGNED = ['', '-1', '1.0', '1e3', '0x1', '%2B1', '+1', 'null', 'a', '1%00', String(2 ** 53), '٣']
const SAFE = String(Number.MAX_SAFE_INTEGER)

/** The last argument with which the route called its operation. */
async function taken(path: string, operation: OperationName): Promise<unknown> {
  const answer = await broker.ask('GET', path)
  assert.equal(answer.status, 200, `${path}: ${answer.text}`)
  return broker.taken(operation).at(-1)
}

async function refuses(path: string, code: string, message?: string | RegExp): Promise<void> {
  assertRefused(await broker.ask('GET', path), 400, code, message)
  assert.deepEqual(broker.calls, [])
}

describe('queries that the broker takes', () => {
  before(async () => {
    broker = await TestBroker.start()
  })
  after(() => broker.stop())

  for (const [route, legacy] of [
    [REPLAY, false],
    [LEGACY, true],
  ] as const) {
    describe(`the query of GET ${route}`, () => {
      const defaults = {
        start: { by: 'offset', offset: 0 },
        maxRecords: 100,
        maxPayloadBytes: null,
        consumer: null,
        legacy,
      }
      it('starts at an offset, an event time or an ingest time', async () => {
        for (const [query, start] of [
          ['start_offset=0', { by: 'offset', offset: 0 }],
          [`start_offset=${SAFE}`, { by: 'offset', offset: Number.MAX_SAFE_INTEGER }],
          ['event_time_ms=007', { by: 'event_time', timeMs: 7 }],
          ['ingest_time_ms=%31', { by: 'ingest_time', timeMs: 1 }],
        ] as const) {
          assert.deepEqual(await taken(`${route}?${query}`, 'replay'), { ...defaults, start })
        }
      })
      it('with two selectors is invalid_start', async () => {
        await refuses(`${route}?start_offset=1&event_time_ms=1`, 'invalid_start')
        await refuses(`${route}?start_offset=0&ingest_time_ms=1`, 'invalid_start')
        await refuses(`${route}?ingest_time_ms=1&event_time_ms=1`, 'invalid_start')
      })
      for (const selector of ['start_offset', 'event_time_ms', 'ingest_time_ms'])
        it(`with a ${selector} that is no unsigned integer is invalid_start`, async () => {
          for (const value of NOT_UNSIGNED) await refuses(`${route}?${selector}=${value}`, 'invalid_start')
          await refuses(`${route}?${selector}`, 'invalid_start')
        })
      it('max_records is 1 to 1000, else invalid_page_size', async () => {
        for (const value of [1, 1000]) {
          assert.deepEqual(await taken(`${route}?max_records=${value}`, 'replay'), { ...defaults, maxRecords: value })
        }
        for (const value of ['0', '1001', ...NOT_UNSIGNED]) {
          await refuses(
            `${route}?max_records=${value}`,
            'invalid_page_size',
            'max_records must be an integer from 1 to 1000',
          )
        }
      })
      it('max_payload_bytes is greater than 0, else invalid_page_size', async () => {
        for (const value of [1, Number.MAX_SAFE_INTEGER]) {
          const expected = { ...defaults, maxPayloadBytes: value }
          assert.deepEqual(await taken(`${route}?max_payload_bytes=${value}`, 'replay'), expected)
        }
        for (const value of ['0', ...NOT_UNSIGNED]) {
          await refuses(`${route}?max_payload_bytes=${value}`, 'invalid_page_size')
        }
      })
      it('consumer_group and consumer_id come together, not blank, without slash and control characters', async () => {
        const expected = { ...defaults, consumer: { group: 'a b', id: 'größe+1' } }
        const query = 'consumer_group=a+b&consumer_id=gr%C3%B6%C3%9Fe%2B1'
        assert.deepEqual(await taken(`${route}?${query}`, 'replay'), expected)
        await refuses(`${route}?consumer_group=a`, 'invalid_query')
        await refuses(`${route}?consumer_id=a`, 'invalid_query')
        for (const bad of ['', '%20', 'a%2Fb', 'a/b', '%09', 'a%00', 'a%7F', '%C2%85', 'x'.repeat(257)]) {
          await refuses(`${route}?consumer_group=${bad}&consumer_id=a`, 'invalid_query')
          await refuses(`${route}?consumer_group=a&consumer_id=${bad}`, 'invalid_query')
        }
      })
      it('that is unknown, twice there or not UTF-8 in percent-encoding is invalid_query', async () => {
        for (const query of [
          'limit=1',
          'start_offset=1&start_offset=1',
          'max_records=1&max_records=2',
          'Start_Offset=1',
          'start_offset=1&',
          '&',
          '=',
          'max_records=%',
          'consumer_group=%ff&consumer_id=a',
          'consumer_group=%C3&consumer_id=a',
          '%ED%A0%80=1',
          'start_offset%00=1',
          'toString=1',
          '__proto__=1',
        ]) {
          await refuses(`${route}?${query}`, 'invalid_query')
        }
      })
      it('in raw bytes is UTF-8 as well', async () => {
        const group = { group: 'größe', id: '😀' }
        const path = `${route}?consumer_group=größe&consumer_id=😀`
        assert.deepEqual(await taken(path, 'replay'), { ...defaults, consumer: group })
        const client = await broker.connect()
        const bytes = Buffer.from(
          `GET ${route}?consumer_group=\xff&consumer_id=a HTTP/1.1\r\nhost: localhost\r\n\r\n`,
          'latin1',
        )
        await client.send(bytes)
        const reply = await client.reply()
        client.destroy()
        assertRefused({ ...reply!, text: reply!.body }, 400, 'invalid_query')
      })
      it('may be an empty one', async () => {
        assert.deepEqual(await taken(`${route}?`, 'replay'), defaults)
      })
    })
  }

  describe('the query of the audit routes', () => {
    for (const [path, format] of [
      ['/v1/audit/events', 'json'],
      ['/v1/audit/export', 'ndjson'],
    ] as const)
      it(`${path} takes start_offset and max_records`, async () => {
        const query = `start_offset=${SAFE}&max_records=1000`
        const expected = { startOffset: Number.MAX_SAFE_INTEGER, maxRecords: 1000, format }
        assert.deepEqual(await taken(`${path}?${query}`, 'audit'), expected)
        for (const value of NOT_UNSIGNED) await refuses(`${path}?start_offset=${value}`, 'invalid_start_offset')
        for (const value of ['0', '1001', ...NOT_UNSIGNED]) {
          await refuses(`${path}?max_records=${value}`, 'invalid_page_size')
        }
        for (const query of ['x=1', 'start_offset=1&start_offset=2', 'max_records=%']) {
          await refuses(`${path}?${query}`, 'invalid_query')
        }
      })
  })

  describe('include_completed of leases', () => {
    it('is true or false, else invalid_query', async () => {
      assert.equal(await taken(`${GROUP}/leases?include_completed=true`, 'leases'), true)
      assert.equal(await taken(`${GROUP}/leases?include_completed=false`, 'leases'), false)
      for (const value of ['', '1', 'TRUE', 'yes', 'null']) {
        await refuses(`${GROUP}/leases?include_completed=${value}`, 'invalid_query')
      }
      await refuses(`${GROUP}/leases?completed=true`, 'invalid_query')
      await refuses(`${GROUP}/leases?include_completed=true&include_completed=true`, 'invalid_query')
    })
  })

  describe('the limits of storage administration', () => {
    for (const [path, operation, code] of [
      ['/streams/orders/retention/dry-run', 'retentionPlan', 'invalid_retention_policy'],
      ['/streams/orders/tiering/readiness', 'tieringReadiness', 'invalid_tiering_policy'],
      ['/streams/orders/tiering/archive-manifest', 'archiveManifest', 'invalid_tiering_policy'],
    ] as const)
      it(`of ${path} are unsigned, else ${code}`, async () => {
        assert.deepEqual(await taken(`${path}?max_bytes=0`, operation), { maxBytes: 0, maxAgeMs: null })
        assert.deepEqual(await taken(`${path}?max_age_ms=5&max_bytes=${SAFE}`, operation), {
          maxBytes: Number.MAX_SAFE_INTEGER,
          maxAgeMs: 5,
        })
        for (const value of NOT_UNSIGNED) {
          await refuses(`${path}?max_bytes=${value}`, code)
          await refuses(`${path}?max_age_ms=${value}`, code)
        }
        await refuses(`${path}?max_age_millis=1`, 'invalid_query')
        await refuses(`${path}?max_bytes=1&max_bytes=1`, 'invalid_query')
      })
  })

  describe('a route without a query', () => {
    for (const path of [
      '/v1/streams',
      '/v1/streams/orders',
      GROUP,
      `${GROUP}/delayed`,
      `${GROUP}/replay-consumers`,
      `${GROUP}/cursors`,
      '/v1/replication/status',
      '/streams/orders/quarantine',
      '/metrics',
    ])
      it(`GET ${path} with any parameter is invalid_query`, async () => {
        for (const query of ['x=1', 'start_offset=0', '&', '%', '%20'])
          await refuses(`${path}?${query}`, 'invalid_query')
      })
  })
})
