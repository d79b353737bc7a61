/**
 * What was acknowledged is there after the process ended, however it ended. Other tests check what the durability settings mean for an
 * acknowledgement. Specification "Stream creation body", contract "Broker" and "All three".
 */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Type } from 'typebox'
import { HealthReply } from '../../../src/broker/wire/node-answers.ts'
import { AckReply } from '../../../src/broker/wire/queue-answers.ts'
import { CreateStreamReply } from '../../../src/broker/wire/record-answers.ts'
import { BrokerServer, assertRefused, failToStartBroker } from '../../support/broker.ts'
import type { Delivery, Stream } from '../../support/broker.ts'
import { eventually } from '../../support/waiting.ts'
import { temporaryDirectory } from '../../support/directories.ts'

const HOUR_MS = 3_600_000
const SYNCED = { durability: 'local-sync', durable: true, replicas: 1 }
const WRITTEN = { durability: 'local-append', durable: false, replicas: 1 }

describe('a broker that is started again', () => {
  let broker: BrokerServer
  let stream: Stream
  let dead: Stream
  /** One record: a group leases it for a short time, and another group waits for the next record. */
  let short: Stream
  const deliveries = new Map<string, Delivery>()
  const of = (name: string): Delivery => deliveries.get(name)!

  before(async () => {
    broker = await BrokerServer.start({ flags: ['--segment-bytes', String(1 << 20), '--metrics-exposure', 'http'] })
    dead = await broker.newStream({ retention: { min_cursor_name: 'c' } })
    stream = await broker.newStream({
      default_durability: 'memory',
      failure_policy: { max_attempts: 2, retry_delay_millis: HOUR_MS, dead_letter_stream: dead.name },
    })
    short = await broker.newStream()
    await short.publish()
    await stream.publish({ message_id: 'größe', payload_hex: '00ff', key: 'k', headers: { a: 'b' }, event_time_ms: 7 })
    await stream.fill(9)
    await stream.publish({ payload: 'x'.repeat(700_000), durability_mode: 'local-sync' })
    const group = stream.group()
    await group.claimOne({ lease_timeout_millis: 20 })
    await eventually(async () => (await group.describe()).in_flight_count === 0)
    deliveries.set('again', await group.claimOne({ lease_timeout_millis: HOUR_MS }))
    const names = ['acked', 'nacked', 'delayed', 'copied', 'renewed', 'released', 'held']
    const claimed = await group.claim({ max_messages: names.length, lease_timeout_millis: HOUR_MS })
    for (const [i, name] of names.entries()) deliveries.set(name, claimed[i]!)
    await of('acked').ack()
    await of('nacked').nack(false)
    await of('delayed').nack(true)
    await of('copied').deadLetter(dead.name)
    await of('renewed').renew(HOUR_MS)
    await stream.publish({ payload: 'x'.repeat(700_000), durability_mode: 'local-sync' }) // with the first such record, fills and seals a segment
    await of('released').retry(0)
    await stream.group('readers').commit('main', { offset: 5 })
    await stream.group('readers').rewind('main', { offset: 3, reason: 'again' })
    await stream.replay('consumer_group=readers&consumer_id=c-1')
    await broker.request('POST', '/v1/replication/target/apply', {
      source_site: 'a',
      target_site: 'b',
      policy: 'dr',
      stream: 'replica',
      records: [{ origin_offset: 0, message_id: 'm', payload_hex: '00', event_time_ms: 1, ingest_time_ms: 2 }],
    })
    await stream.publish({ payload: 'last', durability_mode: 'local-sync' })
  })
  after(() => broker.stop())

  /** The answers of all routes that describe what is stored. */
  async function everything(): Promise<unknown[]> {
    const groups = [stream.group(), stream.group('readers'), stream.group('new')]
    const routes = ['', '/leases?include_completed=true', '/delayed', '/cursors', '/replay-consumers']
    const paths = [
      '/v1/streams',
      '/v1/audit/events?max_records=1000',
      '/v1/audit/export',
      '/v1/replication/status',
      `${stream.path}/records`,
      `${stream.path}/records?event_time_ms=100&max_records=2`,
      `${dead.path}/records`,
      '/v1/streams/replica/records',
      ...groups.flatMap(({ path }) => routes.map((route) => `${path}${route}`)),
    ]
    return Promise.all(paths.map(async (path) => [path, withoutRemaining((await broker.request('GET', path)).text)]))
  }

  /** The remaining time of a lease is left out, as it changes. */
  const withoutRemaining = (text: string): string => text.replaceAll(/"lease_remaining_millis":\d+,?/g, '')

  /** A request in flight is answered when the broker stops. */
  async function stopWithClaimWaiting(): Promise<void> {
    const waiting = short.group('waiting').claimed({ start_offset: 1, wait_millis: 30_000 })
    await eventually(async () => /^mq_queue_waiting_claims 1$/m.test((await broker.request('GET', '/metrics')).text))
    await broker.stop()
    assert.equal((await waiting).delivery_count, 0)
  }

  for (const [how, end] of [
    ['SIGTERM', () => stopWithClaimWaiting()],
    ['SIGKILL', () => broker.kill()],
  ] as const)
    it(`after ${how} knows everything that it had answered, and leases run on`, async () => {
      const before = await everything()
      const late = await short.group().claimOne({ lease_timeout_millis: 200 })
      await end()
      await broker.startAgain()
      assert.deepEqual(await everything(), before)
      await eventually(async () => (await short.group().describe()).in_flight_count === 0)
      assertRefused(await late.ack(), 409, 'lease_expired')
    })
  it('knows every delivery by its id', async () => {
    for (const name of ['acked', 'nacked', 'delayed', 'copied', 'released']) {
      assertRefused(await of(name).ack(), 409, 'lease_not_active')
    }
    for (const name of ['again', 'renewed', 'held']) {
      const { attempt, offset } = (await of(name).ack()).succeeded(AckReply)
      assert.deepEqual([attempt, offset], [of(name).attempt, of(name).offset])
    }
    const [again] = await stream.group().claim()
    assert.deepEqual([again?.offset, again?.attempt], [of('released').offset, 2])
  })
  it('goes on where it was: offsets, origin offsets, failure policy', async () => {
    const { next_offset } = await stream.describe()
    assert.equal((await stream.publish()).offset, next_offset)
    const released = (await stream.group().leases()).leases.find(({ offset }) => offset === of('released').offset)
    const path = `${stream.path}/subscriptions/${released!.subscription_id}/deliveries/${released!.delivery_id}`
    const reply = await broker.request('POST', `${path}/nack`, { reason: 'failed', requeue: true })
    const { policy_action } = reply.succeeded(Type.Object({ policy_action: Type.String() }))
    assert.equal(policy_action, 'dead_lettered')
  })
  it('has the data directory alone: a second process on it has exit code 2 and names the setting', async () => {
    const { code, stdout, stderr } = await failToStartBroker(['--data-dir', broker.dataDirectory])
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /^--data-dir.*in use/m)
    assert.equal((await broker.get('/health', HealthReply)).status, 'ok')
  })
})

describe('replica directories', () => {
  let broker: BrokerServer
  let stream: Stream
  before(async () => {
    const directory = temporaryDirectory()
    const flags = ['--replica-dir', `${directory}/a`, '--replica-dir', `${directory}/b`, '--write-quorum', '2']
    broker = await BrokerServer.start({ flags })
    stream = await broker.newStream({ default_durability: 'local-quorum' })
  })
  after(() => broker.stop())

  it('make local-quorum available: synced on a quorum of directories', async () => {
    const quorum = { durability: 'local-quorum', durable: true, replicas: 2 }
    assert.deepEqual((await stream.publish('kept')).acknowledgement, quorum)
    assert.deepEqual((await stream.fill(2)).acknowledgement, quorum)
    assert.deepEqual((await stream.publish({ durability_mode: 'local-sync' })).acknowledgement, SYNCED)
    const policy = await broker.newStream({ default_durability: 'replication-policy:dr' })
    const refusal = await policy.post('/records', { message_id: 'm', payload: 'p' })
    assertRefused(refusal, 503, 'replication_unavailable')
    assert.match(refusal.text, /Publish to a stream of another durability/)
  })
  it('bring back what was acknowledged when the data directory is lost', async () => {
    const delivery = await stream.group().claimOne()
    const { records } = await stream.replay()
    await broker.kill()
    rmSync(broker.dataDirectory, { recursive: true })
    await broker.startAgain()
    assert.deepEqual((await stream.replay()).records, records)
    assert.equal((await delivery.ack()).status, 200)
    assert.equal((await broker.get('/health', HealthReply)).status, 'ok')
  })
})

describe('--flush-policy append-only', () => {
  let broker: BrokerServer
  before(async () => {
    broker = await BrokerServer.start({ flags: ['--flush-policy', 'append-only'] })
  })
  after(() => broker.stop())

  it('makes local-disk mean written: of records, of the queue and of everything else', async () => {
    const named = broker.stream('named')
    assert.deepEqual((await named.put('')).succeeded(CreateStreamReply, 201).acknowledgement, WRITTEN)
    const stream = await broker.newStream({ default_durability: 'local-disk' })
    assert.deepEqual((await stream.publish()).acknowledgement, WRITTEN)
    assert.deepEqual((await stream.publish({ durability_mode: 'local-sync' })).acknowledgement, SYNCED)
    const delivery = await stream.group().claimOne()
    assert.deepEqual((await delivery.ack()).succeeded(AckReply).acknowledgement, WRITTEN)
  })
})
