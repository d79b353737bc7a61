/** Specification "Replication": the routes of a node without a binding, and applying another site's records. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ReplicaApplyReply, ReplicationStatusReply } from '../../../src/broker/wire/node-answers.ts'
import { AuditPageReply } from '../../../src/broker/wire/storage-answers.ts'
import type { Static } from 'typebox'
import { BrokerServer, assertRefused } from '../../support/broker.ts'
import type { BrokerReply } from '../../support/broker.ts'
import type { RequestBody } from '../../support/http.ts'

const MIB = 1 << 20
const SYNCED = { durability: 'local-sync', durable: true, replicas: 1 }

let broker: BrokerServer
before(async () => {
  broker = await BrokerServer.start({ flags: ['--node-id', 'eu-1', '--max-body-bytes', '1024'] })
})
after(() => broker.stop())

const post = (path: string, body: RequestBody = null): Promise<BrokerReply> =>
  broker.request('POST', `/v1/replication${path}`, body)

describe('GET /v1/replication/status', () => {
  it('without a binding is not_configured, with node_id, runtime_boundary, scheduler, transport, workers, checkpoints and targets', async () => {
    const { targets, ...status } = await broker.get('/v1/replication/status', ReplicationStatusReply)
    assert.deepEqual(status, {
      api_version: 'v1',
      status: 'not_configured',
      node_id: 'eu-1',
      runtime_boundary: 'in-process',
      scheduler: { state: 'not_configured' },
      transport: { state: 'not_configured' },
      workers: [],
      checkpoints: [],
    })
    assert(Array.isArray(targets))
  })
  it('with a query is 400 invalid_query', async () => {
    assertRefused(await broker.request('GET', '/v1/replication/status?x=1'), 400, 'invalid_query')
  })
})

describe('POST /v1/replication/workers/…', () => {
  it('poll without a binding is 409 replication_not_configured', async () => {
    for (const body of [null, '', {}])
      assertRefused(await post('/workers/poll', body), 409, 'replication_not_configured')
  })
  it('poll with a body or a query is 400 invalid_payload', async () => {
    for (const body of [{ stream: 's' }, '[]', 'null', '{']) {
      assertRefused(await post('/workers/poll', body), 400, 'invalid_payload')
    }
    assertRefused(await post('/workers/poll?x=1'), 400, 'invalid_payload')
  })
  for (const verb of ['pause', 'resume']) {
    const good = { stream: 'orders', source_site: 'a', target_site: 'b' }
    it(`${verb} without a binding is 409 replication_not_configured`, async () => {
      for (const more of [{}, { tenant: 'local', reason: 'r' }, { tenant: null, reason: null }]) {
        assertRefused(await post(`/workers/${verb}`, { ...good, ...more }), 409, 'replication_not_configured')
      }
    })
    it(`${verb} requires stream, source_site and target_site; tenant and reason are optional: else 400 invalid_request`, async () => {
      const missing = Object.keys(good).flatMap((field) => [null, '', ' ', 1].map((bad) => ({ ...good, [field]: bad })))
      const optional = [{ tenant: '' }, { tenant: 1 }, { reason: 1 }].map((bad) => ({ ...good, ...bad }))
      for (const body of [...missing, ...optional, {}, '', '{', { ...good, more: 1 }, { ...good, stream: 'a/b' }]) {
        assertRefused(await post(`/workers/${verb}`, body), 400, 'invalid_request')
      }
    })
  }
})

describe('POST /v1/replication/target/apply', () => {
  let streams = 0
  const record = (origin_offset: number, more: object = {}) => ({
    origin_offset,
    message_id: `m-${origin_offset}`,
    payload_hex: Buffer.from(`payload ${origin_offset}`).toString('hex'),
    event_time_ms: 100 + origin_offset,
    ingest_time_ms: 200 + origin_offset,
    ...more,
  })
  const records = (from: number, end: number) => Array.from({ length: end - from }, (_, i) => record(from + i))
  const batch = (stream: string, list: readonly object[], more: object = {}) => ({
    source_site: 'a',
    target_site: 'b',
    policy: 'dr',
    stream,
    records: list,
    ...more,
  })
  const newName = (): string => `replica-${streams++}`
  const apply = async (
    stream: string,
    list: readonly object[],
    more: object = {},
  ): Promise<Static<typeof ReplicaApplyReply>> =>
    (await post('/target/apply', batch(stream, list, more))).succeeded(ReplicaApplyReply)

  it('creates the stream and answers applied, skipped, next_expected_offset, target_watermark and applied_origin_offsets', async () => {
    const name = newName()
    assert.deepEqual(await apply(name, records(0, 3)), {
      api_version: 'v1',
      stream: name,
      applied: 3,
      skipped: 0,
      next_expected_offset: 3,
      target_watermark: 3,
      applied_origin_offsets: [0, 1, 2],
      acknowledgement: SYNCED,
    })
    const created = (await broker.get('/v1/audit/events?max_records=1000', AuditPageReply)).events
    assert.equal(created.filter(({ stream }) => stream === name).length, 1)
  })
  it('stores message_id, payload, key, headers and event time as they were; the ingest time is that of this site', async () => {
    const name = newName()
    await apply(name, [record(0, { key_hex: 'ff', headers: { a: 'b' } }), record(1, { key_hex: null, headers: null })])
    const [first, second] = (await broker.stream(name).replay()).records
    assert.deepEqual([first?.message_id, first?.payload_hex], ['m-0', Buffer.from('payload 0').toString('hex')])
    assert.deepEqual([first?.key_hex, first?.headers, first?.event_time_ms], ['ff', { a: 'b' }, 100])
    assert.deepEqual([second?.key_hex, second?.headers, second?.event_time_ms], [null, {}, 101])
    assert(Math.abs(first!.ingest_time_ms - Date.now()) < 60_000)
  })
  it('is idempotent by origin offset: what was applied before is skipped, what is new is applied', async () => {
    const name = newName()
    await apply(name, records(0, 2))
    for (const [from, end, applied] of [
      [0, 2, []],
      [1, 4, [2, 3]],
      [0, 4, []],
      [4, 5, [4]],
    ] as const) {
      const reply = await apply(name, records(from, end))
      const next = applied.at(-1) === undefined ? reply.target_watermark : applied.at(-1)! + 1
      assert.deepEqual(
        [reply.applied, reply.skipped, reply.applied_origin_offsets, reply.next_expected_offset],
        [applied.length, end - from - applied.length, applied, next],
      )
    }
    const { records: stored } = await broker.stream(name).replay()
    assert.deepEqual(
      stored.map(({ message_id }) => message_id),
      ['m-0', 'm-1', 'm-2', 'm-3', 'm-4'],
    )
  })
  it('of the same batch many times at once applies it once', async () => {
    const name = newName()
    const replies = await Promise.all(Array.from({ length: 6 }, () => apply(name, records(0, 5))))
    assert.deepEqual(
      replies.map(({ applied }) => applied).toSorted((a, b) => a - b),
      [0, 0, 0, 0, 0, 5],
    )
    assert.equal((await broker.stream(name).describe()).next_offset, 5)
  })
  it('with a gap is 409 replica_apply_gap, and nothing is applied', async () => {
    const name = newName()
    assertRefused(await post('/target/apply', batch(name, records(1, 2))), 409, 'replica_apply_gap', /\b0\b/)
    assertRefused(await broker.request('GET', `/v1/streams/${name}`), 404, 'stream_not_found')
    await apply(name, records(0, 2))
    assertRefused(await post('/target/apply', batch(name, records(3, 4))), 409, 'replica_apply_gap', /\b2\b/)
    assert.equal((await broker.stream(name).describe()).next_offset, 2)
  })
  it('with skipped_ranges or origin_first_offset passes over what the source does not have, and notes it', async () => {
    const name = newName()
    await apply(name, records(0, 2))
    const reply = await apply(name, [record(3), record(6)], {
      skipped_ranges: [
        [4, 6],
        [2, 3],
        [7, 9],
      ],
    })
    assert.deepEqual([reply.applied_origin_offsets, reply.next_expected_offset], [[3, 6], 9])
    assert.equal((await apply(name, [record(3), record(6)], { skipped_ranges: [[4, 6]] })).applied, 0)
    assert.equal((await apply(name, records(9, 10))).applied, 1)
    assertRefused(await post('/target/apply', batch(name, records(20, 21))), 409, 'replica_apply_gap', /\b10\b/)
    assert.equal((await apply(name, records(20, 21), { origin_first_offset: 20 })).next_expected_offset, 21)
    assert.equal((await apply(name, [], { skipped_ranges: [[21, 25]] })).next_expected_offset, 25)
    const { targets } = await broker.get('/v1/replication/status', ReplicationStatusReply)
    const mine = targets.find((target) => target.stream === name)
    assert.deepEqual([mine?.next_expected_offset, mine?.skipped_records], [25, 19])
    const stored = (await broker.stream(name).replay()).records.map(({ message_id }) => message_id)
    assert.deepEqual(stored, ['m-0', 'm-1', 'm-3', 'm-6', 'm-9', 'm-20'])
    await broker.restart()
    const again = await broker.get('/v1/replication/status', ReplicationStatusReply)
    assert.deepEqual(
      again.targets.filter((target) => target.stream === name),
      [mine],
    )
  })
  it('with wait_millis waits for the batch before it, and is refused when that does not come', async () => {
    const name = newName()
    await apply(name, records(0, 1))
    const waiting = apply(name, records(2, 3), { wait_millis: 10_000 })
    await apply(name, records(1, 2))
    assert.deepEqual((await waiting).applied_origin_offsets, [2])
    const late = batch(name, records(9, 10), { wait_millis: 1 })
    assertRefused(await post('/target/apply', late), 409, 'replica_apply_gap', /\b3\b/)
  })
  it('refuses ranges that make no sense, records that were here before, and those of a stream that was replaced', async () => {
    const name = newName()
    const bad = [
      { skipped_ranges: [[2, 1]] },
      { skipped_ranges: [[0]] },
      { skipped_ranges: [[0, 1]] },
      { skipped_ranges: [[5, 6]] },
      { origin_first_offset: 1 },
      { via_sites: ['c', 'b'] },
    ]
    for (const more of bad) {
      assertRefused(await post('/target/apply', batch(name, records(0, 2), more)), 400, 'replica_apply_invalid')
    }
    await apply(name, records(0, 2), { origin_created_at_ms: 10 })
    assert.equal((await apply(name, records(0, 1), { origin_created_at_ms: 20 })).applied, 1)
    const older = batch(name, records(2, 3), { origin_created_at_ms: 10 })
    assertRefused(await post('/target/apply', older), 400, 'replica_apply_invalid')
  })
  it('counts origin offsets by stream, source, target and policy, into an own stream beside local records', async () => {
    const stream = await broker.newStream()
    await stream.publish()
    assert.equal((await apply(stream.name, records(0, 1))).target_watermark, 2)
    assert.equal((await apply(stream.name, records(0, 1), { source_site: 'c' })).target_watermark, 3)
    const { targets } = await broker.get('/v1/replication/status', ReplicationStatusReply)
    const mine = targets.filter((target) => target.stream === stream.name)
    const target = { tenant: 'local', stream: stream.name, target_site: 'b', policy: 'dr' }
    assert.deepEqual(mine, [
      { ...target, source_site: 'a', next_expected_offset: 1, target_watermark: 3, skipped_records: 0 },
      { ...target, source_site: 'c', next_expected_offset: 1, target_watermark: 3, skipped_records: 0 },
    ])
  })
  it('requires each of its fields: else 400 replica_apply_invalid, and nothing is applied', async () => {
    const name = newName()
    const good = batch(name, records(0, 1))
    const bad = [
      ...['source_site', 'target_site', 'policy', 'stream'].flatMap((field) =>
        [null, '', ' ', 1].map((value) => ({ ...good, [field]: value })),
      ),
      ...[null, [], {}, [null], [1]].map((records) => ({ ...good, records })),
      { ...good, stream: 'a/b' },
      { ...good, tenant: 'acme' },
      { ...good, tenant: 1 },
      { ...good, more: 1 },
      ...[
        { origin_offset: -1 },
        { origin_offset: null },
        { message_id: '' },
        { message_id: null },
        { payload_hex: '0' },
        { payload_hex: null },
        { payload: 'text' },
        { key_hex: 'z' },
        { headers: { a: 1 } },
        { event_time_ms: null },
        { event_time_ms: -1 },
        { ingest_time_ms: null },
      ].map((fields) => batch(name, [record(0, fields)])),
      batch(name, [record(0), record(2)]),
      batch(name, [record(1), record(0)]),
      batch(name, [record(0), record(0)]),
      '',
      'null',
      '[]',
      '{',
    ]
    for (const body of bad) assertRefused(await post('/target/apply', body), 400, 'replica_apply_invalid')
    assertRefused(await post('/target/apply?x=1', good), 400, 'replica_apply_invalid')
    assertRefused(await broker.request('GET', `/v1/streams/${name}`), 404, 'stream_not_found')
  })
  it('takes 1000 records, however large --max-body-bytes is; more are 413 replica_apply_too_large', async () => {
    const name = newName()
    assertRefused(await post('/target/apply', batch(name, records(0, 1001))), 413, 'replica_apply_too_large')
    assert.equal((await apply(name, records(0, 1000))).applied, 1000)
  })
  it('takes a batch that is stored in several frames', async () => {
    const name = newName()
    const payload_hex = '0'.repeat(2 * 7 * MIB)
    const list = records(0, 3).map((each) => ({ ...each, payload_hex }))
    assert.deepEqual((await apply(name, list)).applied_origin_offsets, [0, 1, 2])
    assert.equal((await broker.stream(name).describe()).payload_bytes, 3 * 7 * MIB)
  })
  it('a record that no frame can hold is 413 replica_apply_too_large, and does not advise a smaller batch', async () => {
    const name = newName()
    const [record] = records(0, 1)
    const reply = await post('/target/apply', batch(name, [{ ...record, payload_hex: '0'.repeat(2 * 32 * MIB) }]))
    assertRefused(reply, 413, 'replica_apply_too_large', /^a single record must not exceed \d+ bytes$/)
    assert.match(reply.refusal().action, /^Shorten the record/)
  })
  it('is known after a restart', async () => {
    const name = newName()
    await apply(name, records(0, 2))
    await broker.restart()
    assert.deepEqual((await apply(name, records(0, 3))).applied_origin_offsets, [2])
    assertRefused(await post('/target/apply', batch(name, records(4, 5))), 409, 'replica_apply_gap')
  })
})
