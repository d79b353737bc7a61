/** Specification "Audit" and "Events", contract "Broker": the reserved stream, and the acts that have exactly one event in it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Static } from 'typebox'
import { AuditPageReply, RetentionPlanReply } from '../../../../src/broker/wire/storage-answers.ts'
import { assertRefused } from '../../../support/broker.ts'
import { eventually } from '../../../support/waiting.ts'
import { broker } from './shared-node.ts'

type Page = Static<typeof AuditPageReply>
type Event = Page['events'][number]

const page = (query = ''): Promise<Page> => broker.get(`/v1/audit/events?${query}`, AuditPageReply)
const exported = async (query = ''): Promise<string> => {
  const reply = await broker.request('GET', `/v1/audit/export?${query}`)
  assert.deepEqual([reply.status, reply.headers.get('content-type')], [200, 'application/x-ndjson'], reply.text)
  return reply.text
}
const audit = () => broker.stream('system.audit')

/** The events of an act in the audit stream, without ids and times, which are checked here. */
async function eventsOf(act: () => Promise<unknown>): Promise<object[]> {
  const { next_offset } = await audit().describe()
  await act()
  const { events } = await page(`start_offset=${next_offset}&max_records=1000`)
  return events.map(({ event_id, at_ms, offset, tenant, principal, ...event }, i) => {
    assert.match(event_id, /^evt-[0-9a-f]{12}$/)
    assert(Math.abs(at_ms - Date.now()) < 60_000)
    assert.deepEqual([offset, tenant], [next_offset + i, 'local'])
    assert.equal(principal, event.kind === 'delivery_dead_lettered' && isOfBroker(event) ? 'broker' : 'local')
    return event
  })
}
const isOfBroker = ({ detail }: Pick<Event, 'detail'>): boolean => detail['cause'] === 'expiry'

describe('an audit event', () => {
  it('is there once for a stream that was created, with its configuration', async () => {
    const stream = broker.stream('created')
    const body = { retention: { max_bytes: 9 }, failure_policy: { max_attempts: 2 } }
    const detail = {
      default_durability: 'local-disk',
      retention: { max_age_millis: null, max_bytes: 9, min_cursor_name: null },
      failure_policy: { max_attempts: 2, retry_delay_millis: 0, dead_letter_stream: null, apply_on_expiry: false },
    }
    assert.deepEqual(await eventsOf(() => stream.put('', body)), [
      { kind: 'stream_created', stream: 'created', detail },
    ])
    assert.deepEqual(await eventsOf(() => stream.put('', body)), []) // refused: the stream exists
  })
  it('is there once for a cursor that was rewound, with the reason', async () => {
    const stream = await broker.newStream()
    await stream.fill(3)
    const group = stream.group()
    await group.commit('main', { offset: 3 })
    const detail = { consumer_group: 'workers', cursor: 'main', offset: 1, previous_offset: 3, reason: 'größe "1"' }
    assert.deepEqual(await eventsOf(() => group.rewind('main', { offset: 1, reason: 'größe "1"' })), [
      { kind: 'cursor_rewound', stream: stream.name, detail },
    ])
    assert.deepEqual(await eventsOf(() => group.rewind('main', { offset: 4, reason: 'refused' })), [])
  })
  it('is there once for a dead letter, whoever caused it, without anything of the record', async () => {
    const dead = await broker.newStream()
    const policy = { max_attempts: 1, dead_letter_stream: dead.name, apply_on_expiry: true }
    const stream = await broker.newStream({ failure_policy: policy })
    await stream.fill(3, () => 'secret')
    const group = stream.group()
    const detail = (offset: number, cause: string, reason: string) => ({
      consumer_group: 'workers',
      offset,
      attempt: 1,
      cause,
      reason,
      dead_letter_stream: dead.name,
      dead_letter_offset: offset,
    })
    const event = { kind: 'delivery_dead_lettered', stream: stream.name }
    const explicit = await group.claimOne()
    assert.deepEqual(await eventsOf(() => explicit.deadLetter(dead.name, 'poison')), [
      { ...event, detail: detail(0, 'explicit', 'poison') },
    ])
    const nacked = await group.claimOne()
    assert.deepEqual(await eventsOf(() => nacked.nack(true, 'failed')), [
      { ...event, detail: detail(1, 'policy', 'failed') },
    ])
    const expiring = async (): Promise<void> => {
      await group.claimOne({ lease_timeout_millis: 20 })
      await eventually(async () => (await dead.describe()).next_offset === 3)
    }
    assert.deepEqual(await eventsOf(expiring), [{ ...event, detail: detail(2, 'expiry', 'the lease expired') }])
    assert(!(await exported('max_records=1000')).includes('secret'))
  })
  it('is there once for a delivery that was stopped, without a dead-letter stream or with a missing one', async () => {
    for (const dead_letter_stream of [null, 'missing']) {
      const stream = await broker.newStream({ failure_policy: { max_attempts: 1, dead_letter_stream } })
      await stream.publish()
      const delivery = await stream.group().claimOne()
      const detail = { consumer_group: 'workers', offset: 0, attempt: 1, reason: 'failed' }
      assert.deepEqual(await eventsOf(() => delivery.nack(true, 'failed')), [
        { kind: 'delivery_stopped', stream: stream.name, detail },
      ])
    }
  })
  it('is not there for what is no administrative act', async () => {
    const stream = await broker.newStream({ failure_policy: { max_attempts: 9 } })
    const events = await eventsOf(async () => {
      await stream.fill(5)
      const group = stream.group()
      const [a, b, c, d] = await group.claim({ max_messages: 4 })
      await a!.ack()
      await b!.nack(false)
      await c!.nack(true)
      await d!.renew(1000)
      await d!.retry(0)
      await group.commit('main', { offset: 1 })
      await stream.replay('consumer_group=g&consumer_id=c')
      assertRefused(await d!.deadLetter('missing'), 409, 'lease_not_active')
      for (const path of ['/v1/streams', stream.path, group.path, `${group.path}/leases`, '/v1/audit/events']) {
        await broker.request('GET', path)
      }
    })
    assert.deepEqual(events, [])
  })
})

describe('GET /v1/audit/events', () => {
  it('answers api_version, events, event_count, next_offset and end_of_stream, 100 events by default', async () => {
    for (let i = 0; i < 101; i++) await broker.newStream()
    const { next_offset: end } = await audit().describe()
    const first = await page()
    const { events, ...rest } = first
    assert.deepEqual(rest, { api_version: 'v1', event_count: 100, next_offset: 100, end_of_stream: false })
    assert.deepEqual(
      events.map(({ offset }) => offset),
      Array.from({ length: 100 }, (_, i) => i),
    )
    const last = await page(`start_offset=${end - 1}`)
    assert.deepEqual([last.event_count, last.next_offset, last.end_of_stream], [1, end, true])
    const behind = await page(`start_offset=${end}`)
    assert.deepEqual([behind.event_count, behind.events, behind.end_of_stream], [0, [], true])
  })
  it('pages give every event once, with an id of its own', async () => {
    const all: Event[] = []
    for (let next = 0, ended = false; !ended;) {
      const each = await page(`start_offset=${next}&max_records=7`)
      all.push(...each.events)
      next = each.next_offset
      ended = each.end_of_stream
    }
    assert.deepEqual(all, (await page('max_records=1000')).events)
    assert.equal(new Set(all.map(({ event_id }) => event_id)).size, all.length)
  })
  for (const [name, code, bad] of [
    ['start_offset', 'invalid_start_offset', ['', '-1', '1.5', 'a', String(2 ** 53)]],
    ['max_records', 'invalid_page_size', ['', '0', '1001', '-1', '1.5']],
  ] as const)
    it(`${name}: what is out of bounds is 400 ${code}`, async () => {
      for (const value of bad) {
        for (const route of ['events', 'export']) {
          assertRefused(await broker.request('GET', `/v1/audit/${route}?${name}=${value}`), 400, code)
        }
      }
    })
  it('with another parameter is 400 invalid_query', async () => {
    for (const query of ['x=1', 'max_records=1&max_records=1', 'event_time_ms=1']) {
      for (const route of ['events', 'export']) {
        assertRefused(await broker.request('GET', `/v1/audit/${route}?${query}`), 400, 'invalid_query')
      }
    }
  })
})

describe('GET /v1/audit/export', () => {
  it('gives the same events as the parsed page, one a line', async () => {
    for (const query of ['', 'max_records=3', 'start_offset=5&max_records=1000', 'start_offset=100000']) {
      const lines = (await exported(query)).split('\n')
      assert.equal(lines.pop(), '')
      assert.deepEqual(
        lines.map((line) => JSON.parse(line) as Event),
        (await page(query)).events,
      )
    }
  })
})

describe('the stream system.audit', () => {
  it('is given to many at once, as JSON, as lines and as records, to each whole', async () => {
    const { next_offset: from } = await audit().describe()
    for (let n = 0; n < 40; n++) await broker.newStream()
    const query = `start_offset=${from}&max_records=40`
    const ids = (await page(query)).events.map(({ event_id }) => event_id)
    assert.equal(new Set(ids).size, 40)
    const forms = [
      async () => (await page(query)).events.map(({ event_id }) => event_id),
      async () =>
        (await exported(query))
          .trimEnd()
          .split('\n')
          .map((line) => (JSON.parse(line) as Event).event_id),
      async () => (await audit().replay(query)).records.map(({ message_id }) => message_id),
    ]
    const asked = Array.from({ length: 30 }, (_, n) => forms[n % forms.length]!())
    for (const found of await Promise.all(asked)) assert.deepEqual(found, ids)
  })
  it('can be described and replayed: message_id is the event_id, the payload the event', async () => {
    const { next_offset, first_offset, record_count } = await audit().describe()
    assert.deepEqual([first_offset, record_count], [0, next_offset])
    const { events } = await page('max_records=10')
    const { records, end_of_stream } = await audit().replay('max_records=10')
    assert.equal(end_of_stream, false)
    assert.deepEqual(
      records.map(({ offset, message_id, payload_hex, event_time_ms }) => {
        return [offset, message_id, event_time_ms, JSON.parse(Buffer.from(payload_hex, 'hex').toString()) as Event]
      }),
      events.map((event) => [event.offset, event.event_id, event.at_ms, event]),
    )
  })
  it('can be replayed by time', async () => {
    const { events } = await page('max_records=1000')
    const [middle] = events.slice(60)
    const first = events.findIndex(({ at_ms }) => at_ms >= middle!.at_ms)
    for (const selector of ['event_time_ms', 'ingest_time_ms']) {
      const { records } = await audit().replay(`${selector}=${middle!.at_ms}&max_records=1`)
      assert.equal(records[0]?.offset, first)
    }
  })
  it('is retained: a plan with limits tells what they would remove', async () => {
    const { next_offset } = await audit().describe()
    const plan = (query: string): Promise<Static<typeof RetentionPlanReply>> =>
      broker.get(`/streams/system.audit/retention/dry-run?${query}`, RetentionPlanReply)
    assert.equal((await plan('')).removable_records, 0)
    for (const query of ['max_age_ms=3600000', 'max_bytes=1000000000']) {
      const { removable_records, retained_records } = await plan(query)
      assert.deepEqual([removable_records, retained_records], [0, next_offset], query)
    }
    assert((await plan('max_age_ms=0')).removable_records > 0)
  })
  it('has only the events of the broker in it: it is reserved', async () => {
    const events = await eventsOf(async () => {
      assertRefused(await audit().put('', {}), 409, 'stream_already_exists')
      assertRefused(await audit().post('/records', { message_id: 'm', payload: '' }), 409, 'write_not_allowed')
      assertRefused(await audit().group().commit('c', { offset: 0 }), 409, 'write_not_allowed')
      assertRefused(await audit().group().tryClaim(), 409, 'write_not_allowed')
      const body = { source_site: 'a', target_site: 'b', policy: 'p', stream: 'system.audit', records: [replicated] }
      assertRefused(await broker.request('POST', '/v1/replication/target/apply', body), 400, 'replica_apply_invalid')
    })
    assert.deepEqual(events, [])
  })
})

const replicated = { origin_offset: 0, message_id: 'm', payload_hex: '', event_time_ms: 0, ingest_time_ms: 0 }
