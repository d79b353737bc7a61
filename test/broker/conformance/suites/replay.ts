/** Specification "Replay query parameters", and the legacy fetch that shares them. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { ReplayReply } from '../../../../src/broker/wire/record-answers.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { ReplayPage, Stream } from '../../../support/broker.ts'
import { broker } from './shared-node.ts'

const RECORDS = 1050
/** Out of order, as event times may be. */
const EVENT_TIMES = [50, 10, 40, 20, 30, 30, 60]
const SAFE = Number.MAX_SAFE_INTEGER

/** 1050 records whose payloads are their offsets. */
let long: Stream
/** A record for each of EVENT_TIMES, with payloads of 10 bytes. */
let timed: Stream
before(async () => {
  long = await broker.newStream()
  await long.fill(1000)
  await long.fill(RECORDS - 1000, (i) => String(1000 + i))
  timed = await broker.newStream()
  for (const event_time_ms of EVENT_TIMES) await timed.publish({ payload: '0123456789', event_time_ms })
})

const offsetsOf = ({ records }: ReplayPage): number[] => records.map(({ offset }) => offset)
const isNow = (time: number): boolean => Math.abs(time - Date.now()) < 60_000
const upTo = (from: number, end: number): number[] => Array.from({ length: end - from }, (_, i) => from + i)

async function assertQueryRefused(query: string, code: Parameters<typeof assertRefused>[2]): Promise<void> {
  for (const path of [long.path, long.unversionedPath]) {
    assertRefused(await broker.request('GET', `${path}/records?${query}`), 400, code)
  }
}

describe('replay query parameters', () => {
  it('start_offset: first stored offset at or above it, 0 when no selector is given', async () => {
    assert.deepEqual(offsetsOf(await long.replay('max_records=3')), [0, 1, 2])
    assert.deepEqual(offsetsOf(await long.replay('start_offset=0&max_records=2')), [0, 1])
    assert.deepEqual(offsetsOf(await long.replay('start_offset=1048')), [1048, 1049])
  })
  it('start_offset: at or behind the end there is nothing yet, and the page says where to go on', async () => {
    for (const start of [RECORDS, RECORDS + 5, SAFE]) {
      const { records, next_offset, end_of_stream, diagnostics } = await long.replay(`start_offset=${start}`)
      assert.deepEqual([records, next_offset, end_of_stream], [[], start, true])
      assert.equal(diagnostics.beyond_end, start > RECORDS, 'a start at the end is where the next record will be')
    }
  })
  it('event_time_ms: from the first record whose event time is at or above it, then by offset', async () => {
    for (const [time, offsets] of [
      [0, [0, 1, 2, 3, 4, 5, 6]],
      [50, [0, 1, 2, 3, 4, 5, 6]],
      [51, [6]],
      [60, [6]],
      [61, []],
      [SAFE, []],
    ] as const) {
      const page = await timed.replay(`event_time_ms=${time}`)
      assert.deepEqual(offsetsOf(page), offsets, String(time))
      assert.deepEqual([page.next_offset, page.end_of_stream], [7, true])
    }
    const page = await timed.replay('event_time_ms=60&max_records=1')
    assert.deepEqual([offsetsOf(page), page.next_offset, page.end_of_stream], [[6], 7, true])
  })
  it('ingest_time_ms: the same for the time of ingest', async () => {
    const { records } = await timed.replay()
    for (const { ingest_time_ms: time } of records) {
      const first = records.findIndex(({ ingest_time_ms }) => ingest_time_ms >= time)
      assert.deepEqual(offsetsOf(await timed.replay(`ingest_time_ms=${time}`)), upTo(first, EVENT_TIMES.length))
    }
    assert.deepEqual(offsetsOf(await timed.replay(`ingest_time_ms=${records.at(-1)!.ingest_time_ms + 1}`)), [])
    assert.equal(offsetsOf(await long.replay('ingest_time_ms=0&max_records=1'))[0], 0)
  })
  for (const selector of ['start_offset', 'event_time_ms', 'ingest_time_ms'])
    it(`${selector}: what is no unsigned integer is invalid_start`, async () => {
      for (const value of ['', '-1', '1.0', '1e3', 'null', 'a', '%2B1', String(2 ** 53)]) {
        await assertQueryRefused(`${selector}=${value}`, 'invalid_start')
      }
    })
  it('the three selectors exclude each other: invalid_start', async () => {
    await assertQueryRefused('start_offset=0&event_time_ms=1', 'invalid_start')
    await assertQueryRefused('start_offset=0&ingest_time_ms=1', 'invalid_start')
    await assertQueryRefused('event_time_ms=1&ingest_time_ms=1', 'invalid_start')
    await assertQueryRefused('start_offset=0&event_time_ms=1&ingest_time_ms=1', 'invalid_start')
  })
  it('max_records: 1 to 1000, 100 by default', async () => {
    assert.deepEqual(offsetsOf(await long.replay()), upTo(0, 100))
    assert.deepEqual(offsetsOf(await long.replay('max_records=1')), [0])
    assert.deepEqual(offsetsOf(await long.replay('max_records=1000')), upTo(0, 1000))
    for (const value of ['0', '1001', '-1', '1.5', '', 'null', 'all']) {
      await assertQueryRefused(`max_records=${value}`, 'invalid_page_size')
    }
  })
  it('max_payload_bytes: a page ends before the record that would exceed it, and the diagnostics say so', async () => {
    const page = await timed.replay('max_payload_bytes=25')
    assert.deepEqual([offsetsOf(page), page.next_offset, page.end_of_stream], [[0, 1], 2, false])
    const { diagnostics } = page
    assert.deepEqual(diagnostics, {
      returned_records: 2,
      returned_payload_bytes: 20,
      max_records: 100,
      max_payload_bytes: 25,
      payload_cap_reached: true,
      first_record_exceeds_cap: false,
      first_offset: 0,
      skipped_by_retention: false,
      beyond_end: false,
      quarantined_records: 0,
    })
    assert.deepEqual(offsetsOf(await timed.replay('max_payload_bytes=30')), [0, 1, 2])
    const whole = await timed.replay('max_payload_bytes=70')
    assert.deepEqual(
      [whole.records.length, whole.end_of_stream, whole.diagnostics.payload_cap_reached],
      [7, true, false],
    )
  })
  it('max_payload_bytes: the first matching record comes even when it alone exceeds the cap, and the diagnostics say so', async () => {
    const page = await timed.replay('start_offset=3&max_payload_bytes=9')
    assert.deepEqual([offsetsOf(page), page.next_offset, page.end_of_stream], [[3], 4, false])
    assert.equal(page.diagnostics.first_record_exceeds_cap, true)
    const last = await timed.replay('start_offset=6&max_payload_bytes=1')
    assert.deepEqual([offsetsOf(last), last.end_of_stream], [[6], true])
    assert.equal((await timed.replay('max_payload_bytes=10')).diagnostics.first_record_exceeds_cap, false)
  })
  it('max_payload_bytes: greater than 0, else invalid_page_size', async () => {
    for (const value of ['0', '-1', '1.5', '', 'null'])
      await assertQueryRefused(`max_payload_bytes=${value}`, 'invalid_page_size')
  })
  it('consumer_group and consumer_id: both or neither, not blank, without slash or control characters', async () => {
    await assertQueryRefused('consumer_group=a', 'invalid_query')
    await assertQueryRefused('consumer_id=a', 'invalid_query')
    for (const bad of ['', '%20', 'a%2Fb', 'a%09', '%00', 'x'.repeat(257)]) {
      await assertQueryRefused(`consumer_group=${bad}&consumer_id=a`, 'invalid_query')
      await assertQueryRefused(`consumer_group=a&consumer_id=${bad}`, 'invalid_query')
    }
  })
  it('what is unknown, twice there or not in percent-encoding is invalid_query', async () => {
    for (const query of ['limit=1', 'start_offset=1&start_offset=1', 'max_records=%zz', '&', 'x']) {
      await assertQueryRefused(query, 'invalid_query')
    }
  })
})

describe('GET /v1/streams/{stream}/records', () => {
  it('answers api_version, stream, records, next_offset, end_of_stream and diagnostics', async () => {
    const stream = await broker.newStream()
    await stream.publish({ message_id: 'a "1"', payload: 'p', key: 'k', headers: { h: 'v' }, event_time_ms: 5 })
    await stream.publish({ message_id: 'b', payload_hex: 'ff', event_time_ms: 6 })
    const { records, diagnostics, ...page } = await stream.replay()
    const { created_at_ms: stream_created_at_ms } = await stream.describe()
    const about = { api_version: 'v1', stream: stream.name, stream_created_at_ms }
    assert.deepEqual(page, { ...about, next_offset: 2, end_of_stream: true })
    assert.equal(diagnostics.returned_records, 2)
    const [first, second] = records.map((record) => ({ ...record, ingest_time_ms: isNow(record.ingest_time_ms) }))
    assert.deepEqual(first, {
      offset: 0,
      message_id: 'a "1"',
      payload_hex: '70',
      key_hex: '6b',
      headers: { h: 'v' },
      event_time_ms: 5,
      ingest_time_ms: true,
    })
    assert.deepEqual(second, {
      offset: 1,
      message_id: 'b',
      payload_hex: 'ff',
      key_hex: null,
      headers: {},
      event_time_ms: 6,
      ingest_time_ms: true,
    })
  })
  it('of an empty stream is its end', async () => {
    const { records, next_offset, end_of_stream, diagnostics } = await (await broker.newStream()).replay()
    assert.deepEqual([records, next_offset, end_of_stream, diagnostics.returned_records], [[], 0, true, 0])
  })
  it('continues at next_offset until end_of_stream, each record once and in order', async () => {
    const seen: number[] = []
    let start = 0
    for (let ended = false; !ended;) {
      const { records, next_offset, end_of_stream } = await long.replay(`start_offset=${start}&max_records=400`)
      seen.push(...records.map(({ payload_hex }) => Number(Buffer.from(payload_hex, 'hex').toString())))
      start = next_offset
      ended = end_of_stream
    }
    assert.deepEqual(seen, upTo(0, RECORDS))
    assert.equal(start, RECORDS)
  })
  it('says end_of_stream on a page that ends exactly with the stream', async () => {
    const page = await long.replay('start_offset=1000&max_records=50')
    assert.deepEqual([page.records.length, page.next_offset, page.end_of_stream], [50, RECORDS, true])
  })
  it('finds later what was appended after the end was reached', async () => {
    const stream = await broker.newStream()
    await stream.publish('one')
    const { next_offset, end_of_stream } = await stream.replay()
    assert(end_of_stream)
    await stream.publish('two')
    assert.deepEqual(offsetsOf(await stream.replay(`start_offset=${next_offset}`)), [1])
  })
  it('claims nothing and moves no cursor, and can be repeated', async () => {
    const stream = await broker.newStream()
    await stream.fill(2)
    const query = 'consumer_group=workers&consumer_id=c'
    assert.deepEqual(await stream.replay(query), await stream.replay(query))
    const group = stream.group()
    const { cursors, in_flight_count, lag_messages } = await group.describe()
    assert.deepEqual([cursors, in_flight_count, lag_messages], [[], 0, 2])
    assert.equal((await group.claimOne()).attempt, 1)
  })
  it('is 404 stream_not_found for a stream that is not there, 400 invalid_request for what is no name', async () => {
    for (const prefix of ['/v1', '']) {
      assertRefused(await broker.request('GET', `${prefix}/streams/nothing/records`), 404, 'stream_not_found')
      assertRefused(await broker.request('GET', `${prefix}/streams/%20/records`), 400, 'invalid_request')
    }
  })
})

describe('GET /streams/{stream}/records (legacy fetch)', () => {
  it('answers as the versioned route does, without api_version', async () => {
    for (const query of ['', 'max_records=2', 'start_offset=1&max_payload_bytes=25', 'event_time_ms=51']) {
      const { api_version, ...page } = await timed.replay(query)
      assert.equal(api_version, 'v1')
      assert.deepEqual(await broker.get(`${timed.unversionedPath}/records?${query}`, ReplayReply), page)
    }
  })
})

describe('GET …/consumer-groups/{group}/replay-consumers', () => {
  it('shows what replays that named consumer_group and consumer_id saw last, of both routes', async () => {
    const stream = await broker.newStream()
    await stream.fill(3)
    await stream.replay('consumer_group=readers&consumer_id=c-1&max_records=2')
    await stream.replay('consumer_group=others&consumer_id=c-9')
    await broker.request('GET', `${stream.unversionedPath}/records?consumer_group=readers&consumer_id=c-2`)
    const list = await stream.group('readers').replayConsumers()
    assert.deepEqual([list.api_version, list.stream, list.consumer_group], ['v1', stream.name, 'readers'])
    assert.equal(list.replay_consumer_count, 2)
    const seen = list.replay_consumers.map((seen) => ({ ...seen, observed_at_ms: isNow(seen.observed_at_ms) }))
    assert.deepEqual(seen, [
      { consumer_id: 'c-1', returned_records: 2, end_of_stream: false, next_offset: 2, observed_at_ms: true },
      { consumer_id: 'c-2', returned_records: 3, end_of_stream: true, next_offset: 3, observed_at_ms: true },
    ])
    await stream.replay('consumer_group=readers&consumer_id=c-1&start_offset=2')
    const again = await stream.group('readers').replayConsumers()
    assert.equal(again.replay_consumer_count, 2)
    const last = again.replay_consumers.find(({ consumer_id }) => consumer_id === 'c-1')
    assert.deepEqual([last?.returned_records, last?.end_of_stream, last?.next_offset], [1, true, 3])
  })
  it('shows none of replays without a name, of other groups and of other streams', async () => {
    const stream = await broker.newStream()
    await stream.fill(1)
    await stream.replay()
    const { replay_consumer_count, replay_consumers } = await stream.group('readers').replayConsumers()
    assert.deepEqual([replay_consumer_count, replay_consumers], [0, []])
  })
  it('is 404 stream_not_found and 400 invalid_query as inspection is', async () => {
    const path = '/v1/streams/nothing/consumer-groups/g/replay-consumers'
    assertRefused(await broker.request('GET', path), 404, 'stream_not_found')
    assertRefused(await broker.request('GET', `${path}?x=1`), 400, 'invalid_query')
  })
})
