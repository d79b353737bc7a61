/** Specification "Audit, metrics, storage administration": what retention plans and does, and tiering. */
import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import type { Static } from 'typebox'
import {
  ArchiveManifestReply,
  RetentionPlanReply,
  TieringReadinessReply,
} from '../../../src/broker/wire/storage-answers.ts'
import { BrokerServer, assertRefused } from '../../support/broker.ts'
import type { Delivery, Stream } from '../../support/broker.ts'
import { eventually } from '../../support/waiting.ts'

const HOUR_MS = 3_600_000
const LONG_AGO_MS = 1
const MANIFEST_TYPE = /storage-tiering/

let broker: BrokerServer
before(async () => {
  broker = await BrokerServer.start({ flags: ['--segment-bytes', String(1 << 20)] })
})
after(() => broker.stop())

type Plan = Static<typeof RetentionPlanReply>
const planOf = ({ unversionedPath }: Stream, query = ''): Promise<Plan> =>
  broker.get(`${unversionedPath}/retention/dry-run?${query}`, RetentionPlanReply)
const tieringOf = ({ unversionedPath }: Stream, query = '') =>
  broker.get(`${unversionedPath}/tiering/readiness?${query}`, TieringReadinessReply)

async function manifestOf({ unversionedPath }: Stream, query = ''): Promise<Static<typeof ArchiveManifestReply>> {
  const reply = await broker.request('GET', `${unversionedPath}/tiering/archive-manifest?${query}`)
  assert.match(reply.headers.get('content-type')!, MANIFEST_TYPE)
  return reply.succeeded(ArchiveManifestReply)
}

/** A stream of ten records with payloads of ten bytes. */
async function tens(retention: object | null = null): Promise<Stream> {
  const stream = await broker.newStream({ retention })
  await stream.fill(10, () => '0123456789')
  return stream
}

describe('GET /streams/{stream}/retention/dry-run', () => {
  it('of a stream without limits plans nothing', async () => {
    const stream = await tens()
    const { evaluated_at_ms, ...plan } = await planOf(stream)
    assert(Math.abs(evaluated_at_ms - Date.now()) < 60_000)
    assert.deepEqual(plan, {
      stream: stream.name,
      dry_run: true,
      policy: { max_age_millis: null, max_bytes: null, min_cursor_name: null },
      first_offset: 0,
      next_offset: 10,
      planned_first_offset: 0,
      cursor_floor_offset: null,
      removable_records: 0,
      removable_bytes: 0,
      retained_records: 10,
      retained_bytes: 100,
    })
  })
  it('by bytes keeps the newest records that fit', async () => {
    const stream = await tens()
    for (const [max_bytes, first] of [
      [0, 10],
      [9, 10],
      [10, 9],
      [35, 7],
      [100, 0],
      [1000, 0],
    ] as const) {
      const plan = await planOf(stream, `max_bytes=${max_bytes}`)
      assert.deepEqual(
        [
          plan.planned_first_offset,
          plan.removable_records,
          plan.removable_bytes,
          plan.retained_records,
          plan.retained_bytes,
        ],
        [first, first, 10 * first, 10 - first, 100 - 10 * first],
        String(max_bytes),
      )
    }
  })
  it('tells records and bytes exactly, whatever their sizes', async () => {
    const stream = await broker.newStream()
    const sizes = [5, 0, 900, 3, 7, 20, 8, 4000, 6, 10]
    await stream.fill(sizes.length, (i) => 'x'.repeat(sizes[i]!))
    const sum = (some: readonly number[]): number => some.reduce((total, size) => total + size, 0)
    for (const max_bytes of [0, 9, 10, 16, 4015, 4016, 4024, 4054, 5000]) {
      const first = sizes.findIndex((_, i) => sum(sizes.slice(i)) <= max_bytes)
      const kept = first < 0 ? sizes.length : first
      const plan = await planOf(stream, `max_bytes=${max_bytes}`)
      assert.deepEqual(
        [plan.planned_first_offset, plan.removable_records, plan.removable_bytes, plan.retained_bytes],
        [kept, kept, sum(sizes.slice(0, kept)), sum(sizes.slice(kept))],
        String(max_bytes),
      )
    }
  })
  it('by age removes what came in before', async () => {
    const stream = await tens()
    await eventually(async () => (await planOf(stream, `max_age_ms=${LONG_AGO_MS}`)).removable_records === 10)
    assert.equal((await planOf(stream, `max_age_ms=${HOUR_MS}`)).removable_records, 0)
    const both = await planOf(stream, `max_age_ms=${HOUR_MS}&max_bytes=30`)
    assert.deepEqual([both.removable_records, both.policy.max_age_millis, both.policy.max_bytes], [7, HOUR_MS, 30])
  })
  it('takes the limits of the query instead of those of the stream', async () => {
    const stream = await tens({ max_bytes: 1000, max_age_millis: HOUR_MS })
    const { policy, removable_records } = await planOf(stream, 'max_bytes=20')
    assert.deepEqual(policy, { max_age_millis: HOUR_MS, max_bytes: 20, min_cursor_name: null })
    assert.equal(removable_records, 8)
  })
  it('keeps what the slowest cursor of min_cursor_name has not passed, and everything while there is none', async () => {
    const stream = await tens({ min_cursor_name: 'archive' })
    const floorAndFirst = async (): Promise<unknown[]> => {
      const { cursor_floor_offset, planned_first_offset } = await planOf(stream, 'max_bytes=20')
      return [cursor_floor_offset, planned_first_offset]
    }
    assert.deepEqual(await floorAndFirst(), [0, 0])
    await stream.group('a').commit('archive', { offset: 9 })
    assert.deepEqual(await floorAndFirst(), [9, 8])
    await stream.group('b').commit('archive', { offset: 3 })
    await stream.group('b').commit('other', { offset: 1 })
    assert.deepEqual(await floorAndFirst(), [3, 3])
  })
  it('changes nothing', async () => {
    const stream = await tens()
    const before = await stream.describe()
    await planOf(stream, 'max_bytes=0&max_age_ms=0')
    assert.deepEqual(await stream.describe(), before)
    assert.equal((await stream.replay()).records.length, 10)
  })
  it('is refused: invalid_retention_policy, invalid_query, invalid_request, missing_stream', async () => {
    const { unversionedPath } = await tens()
    await areRefused(`${unversionedPath}/retention/dry-run`, 'invalid_retention_policy')
  })
})

async function areRefused(path: string, code: 'invalid_retention_policy' | 'invalid_tiering_policy'): Promise<void> {
  for (const field of ['max_bytes', 'max_age_ms']) {
    for (const value of ['', '-1', '1.5', 'null', '1e3', String(2 ** 53)]) {
      assertRefused(await broker.request('GET', `${path}?${field}=${value}`), 400, code)
    }
  }
  for (const query of ['max_age_millis=1', 'x=1', 'max_bytes=1&max_bytes=1']) {
    assertRefused(await broker.request('GET', `${path}?${query}`), 400, 'invalid_query')
  }
  const [, , name] = path.split('/')
  assertRefused(await broker.request('GET', path.replace(name!, 'nothing')), 404, 'missing_stream')
  assertRefused(await broker.request('GET', path.replace(name!, '%20')), 400, 'invalid_request')
}

describe('retention', () => {
  const policies = {
    bytes: { max_bytes: 35, min_cursor_name: 'go' }, // keeps everything until the cursor exists
    age: { max_age_millis: 1 },
    cursor: { max_bytes: 0, min_cursor_name: 'c' },
  }
  let streams: Record<keyof typeof policies, Stream>
  let plans: Record<string, Plan>
  let leased: Delivery[]
  before(async () => {
    const bytes = await broker.newStream({ retention: policies.bytes })
    await bytes.fill(10, (i) => 'x'.repeat(18 - i))
    streams = { bytes, age: await tens(policies.age), cursor: await tens(policies.cursor) }
    const { age, cursor } = streams
    await cursor.group().commit('c', { offset: 4 })
    leased = await bytes.group().claim({ max_messages: 9, lease_timeout_millis: HOUR_MS })
    await leased[7]!.ack()
    await bytes.group('archiver').commit('go', { offset: 10 })
    await eventually(
      async () => (await planOf(age)).removable_records === 10 || (await age.describe()).first_offset === 10,
    )
    plans = { bytes: await planOf(bytes), age: await planOf(age), cursor: await planOf(cursor) }
    await eventually(async () => {
      const floors = await Promise.all([bytes, age, cursor].map(async (each) => (await each.describe()).first_offset))
      return floors.every((floor) => floor > 0)
    })
  })

  it('does what the plan said', async () => {
    for (const [name, stream] of Object.entries(streams)) {
      const plan = plans[name]!
      const { first_offset, next_offset, record_count, payload_bytes } = await stream.describe()
      assert.deepEqual(
        [first_offset, next_offset, record_count, payload_bytes],
        [plan.planned_first_offset, 10, plan.retained_records, plan.retained_bytes],
        name,
      )
      const again = await planOf(stream)
      assert.deepEqual([again.first_offset, again.removable_records], [first_offset, 0])
    }
    assert.deepEqual(
      await Promise.all(Object.values(streams).map(async (stream) => (await stream.describe()).first_offset)),
      [7, 10, 4],
    )
  })
  it('shows in replay: what is gone is left out, and the diagnostics say so', async () => {
    const { records, diagnostics, end_of_stream } = await streams.bytes.replay()
    assert.deepEqual(
      records.map(({ offset }) => offset),
      [7, 8, 9],
    )
    assert.deepEqual([diagnostics.first_offset, diagnostics.skipped_by_retention, end_of_stream], [7, true, true])
    assert.equal((await streams.bytes.replay('start_offset=8')).diagnostics.skipped_by_retention, false)
    const empty = await streams.age.replay()
    assert.deepEqual([empty.records, empty.next_offset, empty.end_of_stream], [[], 10, true])
    assert.equal((await streams.bytes.replay('event_time_ms=0')).records[0]?.offset, 7)
  })
  it('never gives an offset again', async () => {
    assert.equal((await streams.age.publish('fresh')).offset, 10)
  })
  it('ends the deliveries of what is gone: delivery_not_found; the others go on', async () => {
    assertRefused(await leased[0]!.ack(), 404, 'delivery_not_found')
    assertRefused(await leased[6]!.renew(1), 404, 'delivery_not_found')
    assertRefused(await leased[7]!.ack(), 409, 'lease_not_active')
    const group = streams.bytes.group()
    const { progress_offset, lag_messages, in_flight_count } = await group.describe()
    assert.deepEqual([progress_offset, lag_messages, in_flight_count], [8, 2, 1])
    assert.equal((await leased[8]!.ack()).status, 200)
    assert.deepEqual(
      (await group.claim({ max_messages: 9 })).map(({ offset }) => offset),
      [9],
    )
  })
  it('begins a new group at the first offset that is left', async () => {
    const group = streams.bytes.group('new')
    const { progress_offset, lag_messages } = await group.describe()
    assert.deepEqual([progress_offset, lag_messages], [7, 3])
    assert.deepEqual(
      (await group.claim({ max_messages: 9 })).map(({ offset }) => offset),
      [7, 8, 9],
    )
  })
  it('keeps cursors from going below: 409 write_not_allowed', async () => {
    const group = streams.bytes.group()
    assertRefused(await group.commit('new', { offset: 6 }), 409, 'write_not_allowed')
    assertRefused(await group.rewind('new', { offset: 6, reason: 'r' }), 409, 'write_not_allowed')
    assert.equal((await group.commit('new', { offset: 7 })).status, 200)
  })
  it('holds over a restart', async () => {
    await broker.restart()
    for (const [stream, first, next] of [
      [streams.bytes, 7, 10],
      [streams.cursor, 4, 10],
    ] as const) {
      const { first_offset, next_offset, record_count } = await stream.describe()
      assert.deepEqual([first_offset, next_offset, record_count], [first, next, next - first])
    }
    assert.equal((await streams.age.publish('fresh')).offset, 11)
    assertRefused(await leased[0]!.ack(), 404, 'delivery_not_found')
  })
})

describe('tiering', () => {
  const RECORDS = 8
  const RECORD_BYTES = 300_000
  let stream: Stream
  before(async () => {
    stream = await broker.newStream()
    for (let i = 0; i < RECORDS; i++) await stream.publish('x'.repeat(RECORD_BYTES))
    await eventually(async () => (await tieringOf(stream)).eligible_segments.length >= 2)
  })

  it('GET …/tiering/readiness shows sealed segments as eligible and the one that is written to as blocked', async () => {
    const { evaluated_at_ms, eligible_segments, blocked, ...sums } = await tieringOf(stream)
    assert(Math.abs(evaluated_at_ms - Date.now()) < 60_000)
    const records = eligible_segments.reduce((sum, segment) => sum + segment.records, 0)
    assert.deepEqual(sums, {
      stream: stream.name,
      ready: true,
      eligible_records: records,
      eligible_bytes: records * RECORD_BYTES,
    })
    let next = 0
    for (const { sealed, records, payload_bytes, first_offset, last_offset } of eligible_segments) {
      assert.deepEqual([sealed, first_offset, payload_bytes], [true, next, records * RECORD_BYTES])
      next = last_offset + 1
    }
    assert(records >= 4 && records <= RECORDS)
    for (const { reason } of blocked) assert.equal(reason, 'the segment is still written to')
  })
  it('GET …/tiering/readiness of a stream with nothing sealed is not ready', async () => {
    const fresh = await tens()
    const { ready, eligible_segments, eligible_records, blocked } = await tieringOf(fresh)
    assert.deepEqual([ready, eligible_segments, eligible_records, blocked.length], [false, [], 0, 1])
  })
  it('GET …/tiering/readiness takes max_bytes and max_age_ms: what they keep is blocked', async () => {
    const all = await tieringOf(stream)
    const young = await tieringOf(stream, `max_age_ms=${HOUR_MS}`)
    assert.deepEqual([young.ready, young.eligible_records], [false, 0])
    assert.equal(young.blocked.length, all.blocked.length + all.eligible_segments.length)
    const [first] = all.eligible_segments
    const keepsTheRest = (RECORDS - first!.records) * RECORD_BYTES
    const some = await tieringOf(stream, `max_bytes=${keepsTheRest}`)
    assert.deepEqual(some.eligible_segments, [first])
    assert.deepEqual((await tieringOf(stream, 'max_bytes=0')).eligible_segments, all.eligible_segments)
  })
  it('GET …/tiering/archive-manifest names the files of the eligible segments, with a storage-tiering content type', async () => {
    const { created_at_ms, segments, ...manifest } = await manifestOf(stream)
    assert(Math.abs(created_at_ms - Date.now()) < 60_000)
    assert.deepEqual(manifest, {
      schema: 'broker.archive_manifest.v1',
      stream: stream.name,
      first_offset: 0,
      next_offset: RECORDS,
    })
    const { eligible_segments } = await tieringOf(stream)
    assert.deepEqual(
      segments.map(({ file, file_bytes, ...segment }) => {
        assert.equal(file_bytes, statSync(`${broker.dataDirectory}/${file}`).size)
        return { ...segment, sealed: true }
      }),
      eligible_segments,
    )
    assert.deepEqual((await manifestOf(stream, `max_age_ms=${HOUR_MS}`)).segments, [])
  })
  it('shows no payload', async () => {
    for (const route of ['readiness', 'archive-manifest']) {
      const { text } = await broker.request('GET', `${stream.unversionedPath}/tiering/${route}`)
      assert(!text.includes('xxx') && !text.includes('787878'))
    }
  })
  it('is refused: invalid_tiering_policy, invalid_query, invalid_request, missing_stream', async () => {
    for (const route of ['readiness', 'archive-manifest']) {
      await areRefused(`${stream.unversionedPath}/tiering/${route}`, 'invalid_tiering_policy')
    }
  })
})
