import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { AuditPageReply } from '../../../src/broker/wire/storage-answers.ts'
import { BrokerServer, assertRefused } from '../../support/broker.ts'
import type { BrokerReply, Delivery, Group, Stream } from '../../support/broker.ts'
import { eventually } from '../../support/waiting.ts'
import { HASTENED } from '../../support/process.ts'
import { WHERE_MOUNTED, mountSmallDisk } from '../../support/small-disk.ts'
import { HealthReply } from '../../../src/broker/wire/node-answers.ts'
import { BreakableBroker } from './breakable.ts'

function assertFailed(reply: BrokerReply, code: 'internal_error' | 'queue_state_persistence_failed'): void {
  assertRefused(reply, 500, code)
  assert.equal(reply.refusal().retryable, true, reply.text)
}

/** Asserts that every kind of change is refused, with its own code. */
async function assertTakesNothing(stream: Stream, delivery: Delivery): Promise<void> {
  const { group } = delivery
  assertFailed(await stream.server.request('PUT', '/v1/streams/another'), 'internal_error')
  assertFailed(await stream.post('/records', { message_id: 'm', payload: 'p' }), 'internal_error')
  assertFailed(await group.commit('c', { offset: 1 }), 'internal_error')
  assertFailed(await group.rewind('c', { offset: 1, reason: 'again' }), 'internal_error')
  assertFailed(await group.tryClaim(), 'queue_state_persistence_failed')
  assertFailed(await delivery.ack(), 'queue_state_persistence_failed')
  assertFailed(await delivery.nack(true), 'queue_state_persistence_failed')
  assertFailed(await delivery.renew(1000), 'queue_state_persistence_failed')
  assertFailed(await delivery.retry(0), 'queue_state_persistence_failed')
  assertFailed(await delivery.deadLetter('dead'), 'queue_state_persistence_failed')
}

interface Shown {
  readonly group: unknown
  readonly leases: unknown
  readonly records: unknown
  readonly events: unknown
  readonly copies: number
}

/** What the broker shows of a stream, its group and the audit events. The remaining time of leases is left out, as it changes. */
async function shownOf(group: Group): Promise<Shown> {
  const { server } = group.stream
  const { leases } = await group.leases(true)
  return {
    group: await group.describe(),
    leases: leases.map((lease) => ({ ...lease, lease_remaining_millis: 0 })),
    records: await group.stream.replay(),
    events: await server.get('/v1/audit/events', AuditPageReply),
    copies: (await server.stream('dead').describe()).next_offset,
  }
}

async function withDeliveries(server: BrokerServer, count: number): Promise<Delivery[]> {
  const stream = await server.newStream()
  assert.equal((await server.request('PUT', '/v1/streams/dead')).code, null)
  await stream.fill(2 * count)
  return stream.group().claim({ max_messages: count, lease_timeout_millis: 600_000 })
}

describe('a disk that fails', () => {
  it('makes the broker read-only until a restart when fdatasync of the log fails: what cannot be stored did not happen, audit and queue agree, reads go on', async (context) => {
    const broker = await BreakableBroker.start(context)
    const { server, faults } = broker
    const [delivery] = await withDeliveries(server, 1)
    const load = await broker.load(context, { onlyDurable: true })
    for (const name of [delivery!.group.stream.name, 'dead']) load.scene.audit.asked('stream_created', name)
    await load.untilDelivered(200)
    load.scene.failures = 'unknown'
    faults.set('fdatasync-eio', 'records.log')
    await load.during(eventually(async () => (await broker.storage()).status === 'read-only'))
    assert.match((await broker.storage()).message!, /EIO/)
    assert.equal(broker.logged('"msg":"the log is read-only"'), 1)
    await assertTakesNothing(delivery!.group.stream, delivery!)
    await load.hold()
    await load.check(false)

    faults.clear('fdatasync-eio') // a sync that succeeds after one that failed proves nothing
    await assertTakesNothing(delivery!.group.stream, delivery!)
    await load.checkAfterKill(server)
    assert.equal((await delivery!.ack()).code, null)
    await load.untilDelivered(50)
    await load.finish()
  })

  it('that is full though it says it has room takes nothing until there is room, then all goes on without a restart', async (context) => {
    const broker = await BreakableBroker.start(context)
    const { server, faults } = broker
    const [delivery] = await withDeliveries(server, 1)
    const load = await broker.load(context, { onlyDurable: true })
    for (const name of [delivery!.group.stream.name, 'dead']) load.scene.audit.asked('stream_created', name)
    await load.untilDelivered(200)
    load.scene.failures = 'unknown'
    faults.set('write-enospc', '/segments/')
    await load.during(eventually(() => broker.logged('the log is restarting') > 0))
    await load.during(eventually(async () => (await broker.storage()).status !== 'restarting'))
    await load.hold()
    await assertTakesNothing(delivery!.group.stream, delivery!)
    assert.equal(broker.logged('"msg":"the log is read-only"'), 0)
    faults.clear('write-enospc')
    const post = () => delivery!.group.stream.post('/records', { message_id: 'm', payload: 'p' })
    await load.during(eventually(async () => (await post()).status === 201))
    load.scene.failures = 'forbidden'
    await load.check()
    assert.equal((await delivery!.ack()).code, null)
    await load.untilDelivered(50)
    await load.finish()
  })

  it('that is slow delays what is stored, and what tells of it, not what is read', async (context) => {
    const { server, faults } = await BreakableBroker.start(context)
    const stream = await server.newStream()
    const other = await server.newStream()
    await stream.fill(10)
    const group = stream.group()
    await group.claim({ max_messages: 10 })
    faults.set('fdatasync-slow', '1500')
    const order: string[] = []
    const told = (what: string) => (): void => void order.push(what)
    const waiting = other.group().claim({ wait_millis: 20_000 })
    void waiting.then(told('claimed'))
    const published = other.publish('slow')
    void published.then(told('published'))
    const page = await stream.replay()
    told('read')()
    assert.equal(page.records.length, 10)
    await published
    const [delivery] = await waiting
    assert.equal(delivery?.fields.record.payload_hex, Buffer.from('slow').toString('hex'))
    assert.deepEqual(order, ['read', 'published', 'claimed'])
    faults.clear('fdatasync-slow')
    assert.equal((await delivery.ack()).code, null)
  })

  it('that cannot read a segment fails what needs it, retryably, and nothing else, and gives back what was claimed there', async (context) => {
    const { server, faults } = await BreakableBroker.start(context)
    const stream = await server.newStream()
    for (let batch = 0; batch < 8; batch++) await stream.fill(400, (n) => ''.padEnd(400, `${n}`)) // fills more than a segment
    await server.restart() // no segment is open or cached now
    const reopened = server.stream(stream.name)
    faults.set('read-eio', '/0000000000000000/')
    assertFailed(await server.request('GET', `${stream.path}/records`), 'internal_error')
    const { records } = await reopened.replay('start_offset=3100')
    assert.equal(records.length, 100)
    const claimed = await reopened.group().claimed({ max_messages: 5 })
    assert.deepEqual([claimed.delivery_count, claimed.next_offset], [0, 0])
    faults.clear('read-eio')
    const again = await reopened.group().claim({ max_messages: 5 })
    assert.deepEqual(
      again.map(({ offset, attempt }) => [offset, attempt]),
      [
        [0, 2],
        [1, 2],
        [2, 2],
        [3, 2],
        [4, 2],
      ],
    )
    assert.equal((await reopened.replay()).records[0]!.offset, 0)
    const health = await server.request('GET', '/health')
    assert.deepEqual(health.succeeded(HealthReply).storage.status, 'degraded')
    assert.match(health.headers.get('x-trilog-degraded')!, /reads .* failed, .*0000000000000000 cannot be read: EIO/)
    assert.match((await server.request('GET', '/readyz')).text, /"status":"degraded".*"kind":"read_errors"/)
    await server.logged(/"reason":"[^"]*EIO[^"]*"[^\n]*"msg":"stored data could not be read"/)
  })
})

describe('a disk that is nearly full', () => {
  it(`gets its room back when nothing is needed any more after two restarts${WHERE_MOUNTED}`, async (context) => {
    const disk = mountSmallDisk(context, 200)
    if (disk === null) return
    const flags = ['--segment-bytes', String(8 << 20)]
    const server = await BrokerServer.start({ flags, env: HASTENED, dataDirectory: `${disk}/data` })
    context.after(() => server.kill())
    const kept = await server.newStream()
    await kept.publish('kept')
    const stream = await server.newStream({ retention: { max_bytes: 0, min_cursor_name: 'done' } })
    const publish = () => stream.post('/records', { message_id: 'm', payload: ''.padEnd(1 << 20, 'p') })
    let count = 0
    while ((await publish()).status === 201) count += 1
    assert.ok(count > 60, `${count} MiB`)
    for (let restart = 0; restart < 2; restart += 1) {
      await server.stop()
      await server.startAgain()
    }
    assert.equal((await server.stream(stream.name).group().commit('done', { offset: count })).code, null)
    await eventually(async () => (await publish()).status === 201)
    for (let n = 0; n < 50; n += 1) assert.equal((await publish()).status, 201)
    assert.equal((await server.stream(kept.name).replay()).records.length, 1)
  })

  it('takes nothing new, and still takes what finishes something; when it is full, nothing changes, and with room all goes on', async (context) => {
    const { server, faults } = await BreakableBroker.start(context)
    const [acked, nacked, retried, dead, rest] = await withDeliveries(server, 5)
    const { group } = acked!
    const { stream } = group
    faults.set('disk-full', String(16 << 20))
    await eventually(async () => (await stream.post('/records', { message_id: 'm', payload: 'p' })).status === 500)
    assertFailed(await stream.post('/records', { message_id: 'm', payload: 'p' }), 'internal_error')
    assertFailed(await group.tryClaim(), 'queue_state_persistence_failed')
    assert.equal((await acked!.ack()).code, null)
    assert.equal((await nacked!.nack(false)).code, null)
    assert.equal((await retried!.retry(0)).code, null)
    assert.equal((await dead!.deadLetter('dead')).code, null)
    assert.equal((await group.commit('c', { offset: 1 })).code, null)

    faults.set('disk-full', '0')
    await eventually(async () => (await rest!.renew(1)).status === 500)
    const before = await shownOf(group)
    await assertTakesNothing(stream, rest!)
    assert.deepEqual(await shownOf(group), before)

    faults.clear('disk-full')
    await eventually(async () => (await stream.post('/records', { message_id: 'm', payload: 'p' })).status === 201)
    assert.equal((await rest!.ack()).code, null)
    await server.kill()
    await server.startAgain()
    const { leases } = await group.leases(true)
    const states = leases.map(({ offset, state }) => [offset, state])
    assert.deepEqual(states, [
      [0, 'acked'],
      [1, 'nacked'],
      [2, 'released'],
      [3, 'dead_lettered'],
      [4, 'acked'],
    ])
    assert.equal((await server.stream('dead').describe()).next_offset, 1)
  })
})
