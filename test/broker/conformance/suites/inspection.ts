/** Specification "Cursors and inspection": group descriptions, leases, delayed retries, cursors and their rewind. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CursorCommitReply, CursorRewindReply } from '../../../../src/broker/wire/group-answers.ts'
import { RetryReply } from '../../../../src/broker/wire/queue-answers.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { Group, Stream } from '../../../support/broker.ts'
import { eventually } from '../../../support/waiting.ts'
import { broker } from './shared-node.ts'

const SYNCED = { durability: 'local-sync', durable: true, replicas: 1 }
const HOUR_MS = 3_600_000

async function streamOf(count: number): Promise<Stream> {
  const stream = await broker.newStream()
  if (count > 0) await stream.fill(count)
  return stream
}
const isNow = (time: number): boolean => Math.abs(time - Date.now()) < 60_000

/** highest_next_offset, progress_offset, lag_messages, in_flight_count, delayed_count */
async function numbersOf(group: Group): Promise<number[]> {
  const { highest_next_offset, progress_offset, lag_messages, in_flight_count, delayed_count } = await group.describe()
  return [highest_next_offset, progress_offset, lag_messages, in_flight_count, delayed_count]
}

/** The refusals that all inspection routes share. */
function itIsRefusedAsInspection(route: string): void {
  it('is 404 stream_not_found for a stream that is not there', async () => {
    assertRefused(
      await broker.request('GET', `${broker.stream('nothing').group().path}${route}`),
      404,
      'stream_not_found',
    )
  })
  it('is 400 invalid_query for any other parameter, 400 invalid_request for what is no group', async () => {
    const stream = await streamOf(0)
    assertRefused(await broker.request('GET', `${stream.group().path}${route}?x=1`), 400, 'invalid_query')
    for (const name of [' ', 'a/b', 'a\tb', 'x'.repeat(257)]) {
      assertRefused(await broker.request('GET', `${stream.group(name).path}${route}`), 400, 'invalid_request')
    }
  })
}

describe('GET …/consumer-groups/{group}', () => {
  it('of a group that nobody used shows a fresh one, and does not bring it into being', async () => {
    const stream = await streamOf(3)
    assert.deepEqual(await stream.group('fresh').describe(), {
      api_version: 'v1',
      stream: stream.name,
      consumer_group: 'fresh',
      mode: 'shared_queue',
      highest_next_offset: 3,
      progress_offset: 0,
      lag_messages: 3,
      in_flight_count: 0,
      delayed_count: 0,
      cursors: [],
      delayed_retries: [],
    })
  })
  it('progress_offset is the first unfinished offset, lag_messages counts the unfinished, in_flight_count the active leases', async () => {
    const stream = await streamOf(6)
    const group = stream.group()
    const [a, b, c, d] = await group.claim({ max_messages: 4 })
    assert.deepEqual(await numbersOf(group), [6, 0, 6, 4, 0])
    await b!.ack()
    assert.deepEqual(await numbersOf(group), [6, 0, 5, 3, 0])
    await a!.ack()
    assert.deepEqual(await numbersOf(group), [6, 2, 4, 2, 0])
    await d!.nack(false)
    assert.deepEqual(await numbersOf(group), [6, 2, 3, 1, 0])
    await c!.retry(HOUR_MS)
    assert.deepEqual(await numbersOf(group), [6, 2, 3, 0, 1])
    await stream.publish()
    assert.deepEqual(await numbersOf(group), [7, 2, 4, 0, 1])
    for (const delivery of await group.claim({ max_messages: 9 })) await delivery.ack()
    assert.deepEqual(await numbersOf(group), [7, 2, 1, 0, 1])
  })
  it('of a group that has finished everything is at the end', async () => {
    const group = (await streamOf(2)).group()
    for (const delivery of await group.claim({ max_messages: 2 })) await delivery.ack()
    assert.deepEqual(await numbersOf(group), [2, 2, 0, 0, 0])
  })
  it('does not count an expired lease as in flight', async () => {
    const group = (await streamOf(1)).group()
    await group.claimOne({ lease_timeout_millis: 20 })
    await eventually(async () => (await group.describe()).in_flight_count === 0)
    assert.deepEqual(await numbersOf(group), [1, 0, 1, 0, 0])
  })
  it('has cursors and delayed retries, and no payload', async () => {
    const stream = await broker.newStream()
    await stream.publish('secret payload')
    const group = stream.group()
    const delivery = await group.claimOne()
    const { available_at_ms } = (await delivery.retry(HOUR_MS)).succeeded(RetryReply)
    await group.commit('main', { offset: 1 })
    const { cursors, delayed_retries } = await group.describe()
    assert.deepEqual(cursors, (await group.cursors()).cursors)
    assert.deepEqual(delayed_retries, [{ offset: 0, attempt: 1, available_at_ms }])
    for (const route of ['', '/leases', '/delayed', '/cursors', '/replay-consumers']) {
      const { text } = await broker.request('GET', `${group.path}${route}`)
      assert(!text.includes('secret') && !text.includes(Buffer.from('secret').toString('hex')))
    }
  })
  it('of the reserved stream counts events', async () => {
    const audit = broker.stream('system.audit')
    const { highest_next_offset, cursors } = await audit.group().describe()
    assert.deepEqual([highest_next_offset, cursors], [(await audit.describe()).next_offset, []])
  })
  itIsRefusedAsInspection('')
})

describe('GET …/consumer-groups/{group}/leases', () => {
  it('shows active leases, and with include_completed what became of the others', async () => {
    const dead = await streamOf(0)
    const stream = await broker.newStream({ failure_policy: { max_attempts: 1 } })
    await stream.fill(7)
    const group = stream.group()
    await group.claim({ lease_timeout_millis: 20 })
    await eventually(async () => (await group.describe()).in_flight_count === 0)
    const [acked, nacked, copied, stopped, released, active] = await group.claim({ start_offset: 1, max_messages: 6 })
    await acked!.ack()
    await nacked!.nack(false)
    await copied!.deadLetter(dead.name)
    await stopped!.nack(true)
    await released!.retry(0)
    const list = await group.leases()
    assert.deepEqual(list, {
      api_version: 'v1',
      stream: stream.name,
      consumer_group: 'workers',
      lease_count: 1,
      leases: [
        {
          offset: 6,
          attempt: 1,
          state: 'active',
          subscription_id: active!.subscription,
          delivery_id: active!.id,
          leased_at_ms: active!.fields.leased_at_ms,
          lease_expires_at_ms: active!.fields.lease_expires_at_ms,
          lease_remaining_millis: list.leases[0]!.lease_remaining_millis,
          reason: null,
        },
      ],
      truncated: false,
    })
    const { lease_remaining_millis } = list.leases[0]!
    assert(lease_remaining_millis! > 0 && lease_remaining_millis! <= active!.fields.lease_remaining_millis)
    const all = await group.leases(true)
    assert.equal(all.lease_count, all.leases.length)
    assert.deepEqual(
      all.leases.map(({ offset, attempt, state }) => [offset, attempt, state]),
      [
        [0, 1, 'expired'],
        [1, 1, 'acked'],
        [2, 1, 'nacked'],
        [3, 1, 'dead_lettered'],
        [4, 1, 'stopped'],
        [5, 1, 'released'],
        [6, 1, 'active'],
      ],
    )
    assert.equal(all.leases[1]?.delivery_id, acked!.id)
  })
  it('shows why a record was given back or ended, until it is acknowledged: 256 bytes of it at most', async () => {
    const stream = await broker.newStream({ failure_policy: { max_attempts: 2 } })
    await stream.fill(4)
    const group = stream.group()
    const [nacked, retried, delayed, returned] = await group.claim({ max_messages: 4 })
    const reasons = async () => (await group.leases(true)).leases.map(({ state, reason }) => [state, reason])
    await nacked!.nack(false, 'no such account')
    await retried!.retry(0, 'ä'.repeat(200))
    await delayed!.retry(HOUR_MS, 'not yet')
    await returned!.nack(true, 'busy')
    const clipped = 'ä'.repeat(128)
    assert.deepEqual(await reasons(), [
      ['nacked', 'no such account'],
      ['released', clipped],
      ['released', 'not yet'],
      ['released', 'busy'],
    ])
    const [again, stopped] = await group.claim({ max_messages: 2 })
    assert.deepEqual(await reasons(), [
      ['nacked', 'no such account'],
      ['active', clipped],
      ['released', 'not yet'],
      ['active', 'busy'],
    ])
    await again!.ack()
    await stopped!.nack(true, 'still busy')
    assert.deepEqual(await reasons(), [
      ['nacked', 'no such account'],
      ['acked', null],
      ['released', 'not yet'],
      ['stopped', 'still busy'],
    ])
  })
  it('of a group that nobody used is empty', async () => {
    const { lease_count, leases } = await (await streamOf(1)).group().leases(true)
    assert.deepEqual([lease_count, leases], [0, []])
  })
  it('include_completed is true or false, else 400 invalid_query', async () => {
    const { path } = (await streamOf(0)).group()
    for (const value of ['', '1', 'TRUE', 'null']) {
      assertRefused(await broker.request('GET', `${path}/leases?include_completed=${value}`), 400, 'invalid_query')
    }
  })
  itIsRefusedAsInspection('/leases')
})

describe('GET …/consumer-groups/{group}/delayed', () => {
  it('shows the delayed retries by offset', async () => {
    const stream = await streamOf(3)
    const group = stream.group()
    const deliveries = await group.claim({ max_messages: 3 })
    const due: number[] = []
    for (const delivery of deliveries.toReversed()) {
      due.unshift((await delivery.retry(HOUR_MS)).succeeded(RetryReply).available_at_ms)
    }
    assert.deepEqual(await group.delayed(), {
      api_version: 'v1',
      stream: stream.name,
      consumer_group: 'workers',
      delayed_count: 3,
      delayed: due.map((available_at_ms, offset) => ({ offset, attempt: 1, available_at_ms })),
      truncated: false,
    })
  })
  it('forgets what has become due', async () => {
    const group = (await streamOf(1)).group()
    await (await group.claimOne()).retry(20)
    await eventually(async () => (await group.delayed()).delayed_count === 0)
    assert.equal((await group.claimOne()).attempt, 2)
  })
  itIsRefusedAsInspection('/delayed')
})

describe('PUT …/cursors/{cursor}', () => {
  it('commits an offset, is listed with its group, and can be moved forward or left where it is', async () => {
    const stream = await streamOf(5)
    const group = stream.group()
    for (const offset of [0, 3, 3, 5]) {
      const { committed_at_ms, ...reply } = (await group.commit('größe 1', { offset })).succeeded(CursorCommitReply)
      assert(isNow(committed_at_ms))
      assert.deepEqual(reply, {
        api_version: 'v1',
        stream: stream.name,
        consumer_group: 'workers',
        cursor: 'größe 1',
        offset,
        acknowledgement: SYNCED,
      })
      const { cursors, ...list } = await group.cursors()
      assert.deepEqual(list, { api_version: 'v1', stream: stream.name, consumer_group: 'workers', cursor_count: 1 })
      assert.deepEqual(cursors, [{ cursor: 'größe 1', offset, updated_at_ms: committed_at_ms }])
    }
  })
  it('keeps cursors by name and group', async () => {
    const stream = await streamOf(5)
    await stream.group('a').commit('x', { offset: 1 })
    await stream.group('a').commit('y', { offset: 2 })
    await stream.group('b').commit('x', { offset: 3 })
    const offsets = async (group: string): Promise<unknown[]> =>
      (await stream.group(group).cursors()).cursors.map(({ cursor, offset }) => [cursor, offset])
    assert.deepEqual(await offsets('a'), [
      ['x', 1],
      ['y', 2],
    ])
    assert.deepEqual(await offsets('b'), [['x', 3]])
    assert.deepEqual(await offsets('c'), [])
  })
  it('has no effect on the queue of the group', async () => {
    const group = (await streamOf(2)).group()
    await group.commit('main', { offset: 2 })
    assert.deepEqual(await numbersOf(group), [2, 0, 2, 0, 0])
    assert.equal((await group.claimOne()).offset, 0)
  })
  it('below the present offset is 409 write_not_allowed: that is what rewind is for', async () => {
    const group = (await streamOf(5)).group()
    await group.commit('main', { offset: 3 })
    assertRefused(await group.commit('main', { offset: 2 }), 409, 'write_not_allowed')
    assert.equal((await group.cursors()).cursors[0]?.offset, 3)
  })
  it('above the next offset of the stream is 400 invalid_request', async () => {
    const group = (await streamOf(2)).group()
    assertRefused(await group.commit('main', { offset: 3 }), 400, 'invalid_request', /next offset/)
    assertRefused(await group.rewind('main', { offset: 3, reason: 'r' }), 400, 'invalid_request', /next offset/)
    assert.deepEqual((await group.cursors()).cursors, [])
  })
  it('requires offset, an unsigned integer', async () => {
    const group = (await streamOf(2)).group()
    const offsets = [null, -1, 0.5, '1', true, 2 ** 53].map((offset) => ({ offset }))
    for (const body of [...offsets, {}, '', 'null', '[]', '{', { offset: 1, more: 1 }]) {
      assertRefused(await group.commit('main', body), 400, 'invalid_request')
    }
    const query = `${group.path}/cursors/main?x=1`
    assertRefused(await broker.request('PUT', query, { offset: 1 }), 400, 'invalid_request')
  })
  it('is 404 stream_not_found for a stream that is not there, 400 invalid_request for what is no cursor', async () => {
    const nothing = broker.stream('nothing').group()
    assertRefused(await nothing.commit('main', { offset: 0 }), 404, 'stream_not_found')
    assertRefused(await nothing.rewind('main', { offset: 0, reason: 'r' }), 404, 'stream_not_found')
    const group = (await streamOf(0)).group()
    for (const name of [' ', 'a/b', 'a\tb', '\u0000', 'x'.repeat(257)]) {
      assertRefused(await group.commit(name, { offset: 0 }), 400, 'invalid_request')
      assertRefused(await group.rewind(name, { offset: 0, reason: 'r' }), 400, 'invalid_request')
    }
  })
  it('of the reserved stream is 409 write_not_allowed', async () => {
    const group = broker.stream('system.audit').group()
    assertRefused(await group.commit('main', { offset: 0 }), 409, 'write_not_allowed')
    assertRefused(await group.rewind('main', { offset: 0, reason: 'r' }), 409, 'write_not_allowed')
    assert.deepEqual((await group.cursors()).cursors, [])
  })
})

describe('GET …/cursors', () => {
  itIsRefusedAsInspection('/cursors')
})

describe('POST …/cursors/{cursor}/rewind', () => {
  it('moves a cursor back, or anywhere in the stream, and says where it was', async () => {
    const stream = await streamOf(5)
    const group = stream.group()
    await group.commit('main', { offset: 4 })
    for (const [offset, previous] of [
      [1, 4],
      [1, 1],
      [5, 1],
    ] as const) {
      const reply = (await group.rewind('main', { offset, reason: 'again' })).succeeded(CursorRewindReply)
      const { rewound_at_ms, ...rest } = reply
      assert(isNow(rewound_at_ms))
      assert.deepEqual(rest, {
        api_version: 'v1',
        stream: stream.name,
        consumer_group: 'workers',
        cursor: 'main',
        offset,
        previous_offset: previous,
        reason: 'again',
        acknowledgement: SYNCED,
      })
      assert.equal((await group.cursors()).cursors[0]?.offset, offset)
    }
    const fresh = (await group.rewind('new', { offset: 2, reason: 'r' })).succeeded(CursorRewindReply)
    assert.equal(fresh.previous_offset, null)
  })
  it('requires offset and a non-empty reason', async () => {
    const group = (await streamOf(1)).group()
    const good = { offset: 0, reason: 'r' }
    const reasons = [null, '', 1].map((reason) => ({ ...good, reason }))
    const offsets = [null, -1, 0.5, '1'].map((offset) => ({ ...good, offset }))
    for (const body of [...reasons, ...offsets, {}, { offset: 0 }, { reason: 'r' }, '', '{', { ...good, more: 1 }]) {
      assertRefused(await group.rewind('main', body), 400, 'invalid_request')
    }
    assert.deepEqual((await group.cursors()).cursors, [])
  })
})
