import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  CursorDeleteReply,
  GroupDeleteReply,
  GroupListReply,
  GroupSeekReply,
} from '../../../../src/broker/wire/group-answers.ts'
import {
  DeleteStreamReply,
  PurgeStreamReply,
  RedriveReply,
  UpdateStreamReply,
} from '../../../../src/broker/wire/record-answers.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { Stream } from '../../../support/broker.ts'
import { broker } from './shared-node.ts'
import { SYNCED, isNow } from './delivery.ts'

const remove = (path: string) => broker.request('DELETE', path)
const patch = (stream: Stream, body: object) => broker.request('PATCH', stream.path, JSON.stringify(body))

async function eventsOf(stream: Stream): Promise<{ kind: string; detail: Record<string, unknown> }[]> {
  const found: { kind: string; stream: string; detail: Record<string, unknown> }[] = []
  for (let start = 0; ;) {
    const page = (await broker.request('GET', `/v1/audit/events?start_offset=${start}&max_records=1000`)).json() as {
      events: typeof found
      next_offset: number
      end_of_stream: boolean
    }
    found.push(...page.events)
    if (page.end_of_stream) return found.filter((event) => event.stream === stream.name)
    start = page.next_offset
  }
}

describe('PATCH of a stream', () => {
  it('changes what is named and answers with all of it', async () => {
    const stream = await broker.newStream({ retention: { max_bytes: 5000 } })
    const reply = (await patch(stream, { default_durability: 'memory' })).succeeded(UpdateStreamReply)
    assert.deepEqual([reply.default_durability, reply.retention.max_bytes], ['memory', 5000])
    assert.deepEqual(reply.acknowledgement, SYNCED)
    assert(isNow(reply.updated_at_ms))
    assert.equal((await stream.publish()).acknowledgement.durability, 'volatile')
    assert.deepEqual(
      (await eventsOf(stream)).map(({ kind }) => kind),
      ['stream_created', 'stream_updated'],
    )
  })
  it('is refused with a body of nothing or of something else', async () => {
    const stream = await broker.newStream()
    for (const body of [{}, { retention: { max_age: 1 } }, { stream: 'x' }, { default_durability: 'disk' }]) {
      assertRefused(await patch(stream, body), 400, 'invalid_request')
    }
    assertRefused(await patch(broker.stream('nowhere'), { retention: null }), 404, 'stream_not_found')
    assertRefused(await patch(broker.stream('system.audit'), { retention: null }), 409, 'write_not_allowed')
  })
})

describe('DELETE of a stream', () => {
  it('removes it with everything; one that has its name later is new', async () => {
    const stream = await broker.newStream()
    await stream.fill(3)
    const delivery = await stream.group().claimOne()
    await stream.group().commit('c', { offset: 2 })
    const reply = (await remove(stream.path)).succeeded(DeleteStreamReply)
    assert.deepEqual([reply.deleted, reply.removed_records, reply.removed_bytes], [true, 3, 3])
    assertRefused(await remove(stream.path), 404, 'stream_not_found')
    assertRefused(await stream.post('/records', { message_id: 'm', payload: 'p' }), 404, 'stream_not_found')
    assertRefused(await stream.group().tryClaim(), 404, 'missing_stream')
    assertRefused(await delivery.ack(), 404, 'missing_stream')
    assert.equal((await stream.put('')).status, 201)
    assert.equal((await stream.publish()).offset, 0)
    assertRefused(await delivery.ack(), 404, 'delivery_not_found')
    assert.equal((await stream.group().cursors()).cursor_count, 0)
    assert.deepEqual(
      (await eventsOf(stream)).map(({ kind }) => kind),
      ['stream_created', 'stream_deleted', 'stream_created'],
    )
  })
  it('is refused while a policy names it, and takes force', async () => {
    const dead = await broker.newStream()
    const source = await broker.newStream({ failure_policy: { max_attempts: 1, dead_letter_stream: dead.name } })
    assertRefused(await remove(dead.path), 409, 'write_not_allowed', new RegExp(`"${source.name}"`))
    assertRefused(await remove(`${dead.path}?force=yes`), 400, 'invalid_query')
    assert.equal((await remove(`${dead.path}?force=true`)).status, 200)
    const [, deleted] = await eventsOf(dead)
    assert.equal(deleted!.detail['forced'], true)
  })
})

describe('purge', () => {
  it('removes what is below the offset', async () => {
    const stream = await broker.newStream()
    await stream.fill(4)
    const reply = (await stream.post('/purge', { offset: 3, reason: 'old' })).succeeded(PurgeStreamReply)
    assert.deepEqual([reply.first_offset, reply.removed_records, reply.removed_bytes], [3, 3, 3])
    assert.deepEqual(
      (await stream.replay()).records.map(({ offset }) => offset),
      [3],
    )
    assertRefused(await stream.post('/purge', { offset: 5 }), 400, 'invalid_request')
    assertRefused(await stream.post('/purge', {}), 400, 'invalid_request')
  })
})

describe('groups', () => {
  it('are listed, sought and deleted, with their cursors', async () => {
    const stream = await broker.newStream()
    await stream.fill(2)
    const group = stream.group()
    const groupsPath = `${stream.path}/consumer-groups`
    assert.equal((await broker.get(groupsPath, GroupListReply)).group_count, 0)
    for (const delivery of await group.claim({ max_messages: 2 })) await delivery.ack()
    await group.commit('c', { offset: 1 })
    assert.deepEqual((await broker.get(groupsPath, GroupListReply)).consumer_groups, [
      {
        consumer_group: 'workers',
        progress_offset: 2,
        lag_messages: 0,
        in_flight_count: 0,
        delayed_count: 0,
        cursor_count: 1,
        oldest_unfinished_age_millis: null,
      },
    ])
    const seek = (body: object) => broker.request('POST', `${group.path}/seek`, JSON.stringify(body))
    const sought = (await seek({ offset: 1, reason: 'a bug' })).succeeded(GroupSeekReply)
    assert.deepEqual([sought.offset, sought.previous_offset], [1, 2])
    assert.deepEqual(
      (await group.claim({ max_messages: 9 })).map(({ offset, attempt }) => [offset, attempt]),
      [[1, 1]],
    )
    assertRefused(await seek({ offset: 1 }), 400, 'invalid_request')
    const cursor = `${group.path}/cursors/c`
    assert.equal((await remove(cursor)).succeeded(CursorDeleteReply).offset, 1)
    assertRefused(await remove(cursor), 404, 'not_found')
    assert.equal((await remove(group.path)).succeeded(GroupDeleteReply).deleted, true)
    assertRefused(await remove(group.path), 404, 'not_found')
    assert.equal((await group.describe()).lag_messages, 2)
  })
})

describe('redrive', () => {
  it('puts dead letters back into their source, once', async () => {
    const dead = await broker.newStream()
    const source = await broker.newStream()
    await source.fill(2)
    for (const delivery of await source.group().claim({ max_messages: 2 })) await delivery.deadLetter(dead.name)
    const redrive = (body: object | null) =>
      dead.post('/dead-letters/redrive', body === null ? null : JSON.stringify(body))
    const one = (await redrive({ offsets: [1], reason: 'fixed' })).succeeded(RedriveReply)
    assert.deepEqual(one.results, [{ dead_letter_offset: 1, stream: source.name, offset: 2 }])
    const all = (await redrive(null)).succeeded(RedriveReply)
    assert.deepEqual(all.results, [{ dead_letter_offset: 0, stream: source.name, offset: 3 }])
    assert.equal((await redrive({ offsets: [0, 1] })).succeeded(RedriveReply).redriven_count, 0)
    assert.deepEqual(
      (await source.replay()).records.map(({ message_id, headers }) => [message_id, headers]),
      [
        ['m-0', {}],
        ['m-1', {}],
        ['m-1', {}],
        ['m-0', {}],
      ],
    )
    for (const body of [{ offsets: [] }, { max_records: 1001 }, { offsets: [-1] }]) {
      assertRefused(await redrive(body), 400, 'invalid_request')
    }
    assert.equal((await eventsOf(dead)).filter(({ kind }) => kind === 'dead_letters_redriven').length, 2)
  })
})

describe('claims and replays', () => {
  it('have fencing tokens, ids to be repeated by, and can wait for records', async () => {
    const stream = await broker.newStream()
    await stream.fill(3)
    const first = await stream.group().claimed({ claim_id: 'mine' })
    const again = await stream.group().claimed({ claim_id: 'mine' })
    const other = await stream.group().claimed()
    const idsOf = ({ deliveries }: typeof first) => deliveries.map(({ delivery_id }) => delivery_id)
    assert.deepEqual(idsOf(again), idsOf(first))
    assert.ok(first.deliveries[0]!.fencing_token < other.deliveries[0]!.fencing_token)
    const waiting = stream.replay('start_offset=3&wait_millis=30000')
    await stream.publish('late')
    assert.equal((await waiting).records.length, 1)
    assert.deepEqual((await stream.replay('start_offset=4&wait_millis=1')).records, [])
    assertRefused(await broker.request('GET', `${stream.path}/records?wait_millis=30001`), 400, 'invalid_query')
  })
})
