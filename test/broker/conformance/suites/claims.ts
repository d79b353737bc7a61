/** Specification "Shared queue" and "Queue delivery and lease": claiming records, and leases that expire. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClaimReply } from '../../../../src/broker/wire/queue-answers.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { Delivery, Group, Stream } from '../../../support/broker.ts'
import { eventually } from '../../../support/waiting.ts'
import { broker } from './shared-node.ts'

async function streamOf(count: number): Promise<Stream> {
  const stream = await broker.newStream()
  if (count > 0) await stream.fill(count)
  return stream
}
const HOUR_MS = 3_600_000
const offsetsOf = (deliveries: readonly Delivery[]): number[] => deliveries.map(({ offset }) => offset)
const hexOf = (text: string): string => Buffer.from(text).toString('hex')

/** Waits until the group has no active lease. */
const expired = (group: Group): Promise<void> => eventually(async () => (await group.describe()).in_flight_count === 0)

describe('the body of a claim', () => {
  it('may be absent, empty or an object; null fields are absent ones', async () => {
    const group = (await streamOf(6)).group()
    const nothing = { start_offset: null, max_messages: null, lease_timeout_millis: null, wait_millis: null }
    for (const body of [null, '', {}, nothing]) {
      const { deliveries } = (await group.tryClaim(body)).succeeded(ClaimReply)
      assert.equal(deliveries.length, 1)
      const { leased_at_ms, lease_expires_at_ms } = deliveries[0]!
      assert.equal(lease_expires_at_ms - leased_at_ms, 30_000)
    }
  })
  it('start_offset: unsigned, 0 by default, not above the highest next offset of the stream', async () => {
    const group = (await streamOf(3)).group()
    assert.deepEqual(offsetsOf(await group.claim({ start_offset: 2 })), [2])
    assert.deepEqual(offsetsOf(await group.claim({ start_offset: 3 })), [])
    assert.deepEqual(offsetsOf(await group.claim({ start_offset: 0, max_messages: 9 })), [0, 1])
    assertRefused(await group.tryClaim({ start_offset: 4 }), 400, 'invalid_request', /next offset/)
    for (const start_offset of [-1, 1.5, '1', true, 2 ** 53]) {
      assertRefused(await group.tryClaim({ start_offset }), 400, 'invalid_request', /^start_offset/)
    }
  })
  it('max_messages: 1 to 1000, 1 by default', async () => {
    const group = (await streamOf(1000)).group()
    assert.equal((await group.claim()).length, 1)
    assert.equal((await group.claim({ max_messages: 1000 })).length, 999)
    for (const max_messages of [0, 1001, -1, 1.5, '1']) {
      assertRefused(await group.tryClaim({ max_messages }), 400, 'invalid_request', /^max_messages/)
    }
  })
  it('lease_timeout_millis: positive, 30000 by default', async () => {
    const group = (await streamOf(2)).group()
    for (const lease_timeout_millis of [86_400_000, 120_000]) {
      const { leased_at_ms, lease_expires_at_ms } = (await group.claimOne({ lease_timeout_millis })).fields
      assert.equal(lease_expires_at_ms - leased_at_ms, lease_timeout_millis)
    }
    for (const lease_timeout_millis of [0, -1, 1.5, '1', 2 ** 53]) {
      assertRefused(await group.tryClaim({ lease_timeout_millis }), 400, 'invalid_request', /^lease_timeout_millis/)
    }
  })
  it('is invalid_request when it is nothing of that kind, or when there is a query', async () => {
    const group = (await streamOf(1)).group()
    assertRefused(
      await group.tryClaim({ max: 1 }),
      400,
      'invalid_request',
      /^the body has an unknown field; known are /,
    )
    for (const body of ['null', '[]', '{', '1']) assertRefused(await group.tryClaim(body), 400, 'invalid_request')
    const path = `${group.path}/claims?max_messages=1`
    assertRefused(await broker.request('POST', path), 400, 'invalid_request')
    assert.equal((await group.describe()).in_flight_count, 0)
  })
})

describe('POST …/claims', () => {
  it('answers api_version, stream, consumer_group, subscription_id, deliveries, next_offset and delivery_count', async () => {
    const stream = await broker.newStream()
    const record = { message_id: 'm-1', payload: 'job', key: 'k', headers: { a: 'b' }, event_time_ms: 7 }
    const { ingest_time_ms } = await stream.publish(record)
    await stream.publish('second')
    const claim = await stream.group('größe 1').claimed({ max_messages: 5 })
    const { subscription_id } = claim
    const [first, second] = claim.deliveries
    assert(first && second)
    assert.match(subscription_id, /^sub-[\w-]{16,}$/)
    assert.match(first.delivery_id, /^dlv-[\w-]{16,}$/)
    assert.notEqual(first.delivery_id, second.delivery_id)
    assert(Math.abs(first.leased_at_ms - Date.now()) < 60_000)
    assert.deepEqual(claim, {
      api_version: 'v1',
      stream: stream.name,
      stream_created_at_ms: (await stream.describe()).created_at_ms,
      consumer_group: 'größe 1',
      subscription_id,
      deliveries: [
        {
          delivery_id: first.delivery_id,
          subscription_id,
          offset: 0,
          attempt: 1,
          leased_at_ms: first.leased_at_ms,
          lease_expires_at_ms: first.leased_at_ms + 30_000,
          lease_remaining_millis: first.lease_remaining_millis,
          fencing_token: first.fencing_token,
          record: {
            offset: 0,
            message_id: 'm-1',
            payload_hex: hexOf('job'),
            key_hex: hexOf('k'),
            headers: { a: 'b' },
            event_time_ms: 7,
            ingest_time_ms,
          },
        },
        second,
      ],
      next_offset: 2,
      delivery_count: 2,
    })
    assert.deepEqual((await stream.replay()).records, [first.record, second.record])
  })
  it('may give nothing: delivery_count is 0', async () => {
    const stream = await streamOf(1)
    const group = stream.group()
    await group.claimOne()
    const { created_at_ms: stream_created_at_ms } = await stream.describe()
    for (const [body, next] of [
      [{}, 0],
      [{ start_offset: 1 }, 1],
      [{ stream_created_at_ms }, 0],
    ] as const) {
      const { subscription_id, ...claim } = await group.claimed(body)
      assert.match(subscription_id, /^sub-/)
      assert.deepEqual(claim, {
        api_version: 'v1',
        stream: stream.name,
        stream_created_at_ms,
        consumer_group: 'workers',
        deliveries: [],
        next_offset: next,
        delivery_count: 0,
      })
    }
  })
  it('with stream_created_at_ms of another stream of the name finds none, as a replay does', async () => {
    const stream = await streamOf(1)
    const stream_created_at_ms = (await stream.describe()).created_at_ms - 1
    assertRefused(await stream.group().tryClaim({ stream_created_at_ms }), 404, 'missing_stream')
    const page = `${stream.path}/records?stream_created_at_ms=${stream_created_at_ms}`
    assertRefused(await broker.request('GET', page), 404, 'stream_not_found')
  })
  it('takes available records by increasing offset from start_offset, and leaves the ones before', async () => {
    const group = (await streamOf(6)).group()
    await group.claim({ start_offset: 3, max_messages: 1 })
    assert.deepEqual(offsetsOf(await group.claim({ start_offset: 2, max_messages: 3 })), [2, 4, 5])
    assert.deepEqual(offsetsOf(await group.claim({ max_messages: 9 })), [0, 1])
  })
  it('gives a record to one of many that ask at once', async () => {
    const group = (await streamOf(60)).group()
    const claims = await Promise.all(Array.from({ length: 30 }, () => group.claim({ max_messages: 3 })))
    const offsets = claims.flatMap(offsetsOf).toSorted((a, b) => a - b)
    assert.deepEqual(
      offsets,
      Array.from({ length: 60 }, (_, i) => i),
    )
    const subscriptions = new Set(claims.flatMap((claim) => claim.map(({ subscription }) => subscription)))
    assert.equal(subscriptions.size, 20)
  })
  it('gives every group each record', async () => {
    const stream = await streamOf(1)
    const first = await stream.group('a').claimOne()
    const second = await stream.group('b').claimOne()
    assert.notEqual(first.id, second.id)
    assert.equal((await first.ack()).status, 200)
    assert.equal((await second.ack()).status, 200)
  })
  it('is 404 missing_stream for a stream that is not there, 400 invalid_request for what is no group', async () => {
    assertRefused(await broker.stream('nothing').group().tryClaim(), 404, 'missing_stream')
    const stream = await streamOf(0)
    for (const name of [' ', 'a/b', 'a\tb', '\u0000', 'x'.repeat(257), 'é'.repeat(129)]) {
      assertRefused(await stream.group(name).tryClaim(), 400, 'invalid_request', /^the consumer group must not/)
    }
    assert.deepEqual(await stream.group('é'.repeat(128)).claim(), [])
  })
  it('of the reserved stream is 409 write_not_allowed: events are read, not worked off', async () => {
    const audit = broker.stream('system.audit')
    assertRefused(await audit.group().tryClaim(), 409, 'write_not_allowed')
    assert.equal((await audit.describe()).record_count, (await audit.describe()).next_offset)
  })
})

describe('a lease that expires', () => {
  it('is redelivered by a later claim under a fresh delivery id and a higher attempt; late verbs are lease_expired', async () => {
    const group = (await streamOf(1)).group()
    const late = await group.claimOne({ lease_timeout_millis: 30 })
    await expired(group)
    const verbs = () => [
      late.ack(),
      late.nack(true),
      late.nack(false),
      late.renew(9),
      late.retry(0),
      late.deadLetter('x'),
    ]
    for (const reply of await Promise.all(verbs())) assertRefused(reply, 409, 'lease_expired')
    const again = await group.claimOne()
    assert.deepEqual([again.offset, again.attempt], [0, 2])
    assert.notEqual(again.id, late.id)
    assert.notEqual(again.subscription, late.subscription)
    for (const reply of await Promise.all(verbs())) assertRefused(reply, 409, 'lease_expired')
    assert.equal((await again.ack()).status, 200)
    for (const reply of await Promise.all(verbs())) assertRefused(reply, 409, 'lease_expired')
  })
  it('frees its records alone, in the order of their offsets', async () => {
    const group = (await streamOf(4)).group()
    await group.claim({ max_messages: 2, lease_timeout_millis: 30 })
    const kept = await group.claim({ start_offset: 2, max_messages: 2, lease_timeout_millis: HOUR_MS })
    await eventually(async () => (await group.describe()).in_flight_count === 2)
    const again = await group.claim({ max_messages: 9 })
    assert.deepEqual(
      again.map(({ offset, attempt }) => [offset, attempt]),
      [
        [0, 2],
        [1, 2],
      ],
    )
    for (const delivery of kept) assert.equal((await delivery.ack()).status, 200)
  })
  it('does not apply the failure policy: attempts go on beyond max_attempts', async () => {
    const stream = await broker.newStream({ failure_policy: { max_attempts: 1 } })
    await stream.publish()
    const group = stream.group()
    await group.claimOne({ lease_timeout_millis: 20 })
    await expired(group)
    assert.equal((await group.claimOne()).attempt, 2)
  })
  it('applies it with apply_on_expiry (ours): the record is dead-lettered at max_attempts, and the cause audited', async () => {
    const dead = await broker.newStream()
    const stream = await broker.newStream({
      failure_policy: { max_attempts: 2, dead_letter_stream: dead.name, apply_on_expiry: true },
    })
    await stream.publish('poison')
    const group = stream.group()
    await group.claimOne({ lease_timeout_millis: 20 })
    let second: Delivery | undefined
    await eventually(async () => (second = (await group.claim({ lease_timeout_millis: 20 }))[0]) !== undefined)
    assert.equal(second!.attempt, 2)
    await eventually(async () => (await dead.describe()).next_offset === 1)
    assertRefused(await second!.ack(), 409, 'lease_expired')
    const [copy] = (await dead.replay()).records
    assert.equal(copy?.headers['x-dead-letter-source-stream'], stream.name)
    assert.deepEqual(await group.claim(), [])
    assert.equal((await group.describe()).lag_messages, 0)
  })
})

describe('wait_millis (extension)', () => {
  it('lets a claim wait until a record is published', async () => {
    const stream = await streamOf(0)
    const waiting = stream.group().claim({ wait_millis: 30_000 })
    await stream.publish('at last')
    assert.deepEqual(
      (await waiting).map(({ fields }) => fields.record.payload_hex),
      [hexOf('at last')],
    )
  })
  it('lets it wait for a record that is given back, and for a lease that expires', async () => {
    const group = (await streamOf(2)).group()
    const held = await group.claimOne()
    await group.claimOne({ lease_timeout_millis: 200 })
    const waiting = [group.claim({ wait_millis: 30_000 }), group.claim({ wait_millis: 30_000 })]
    await held.retry(0)
    const again = (await Promise.all(waiting)).flat()
    assert.deepEqual(
      again.map(({ attempt }) => attempt),
      [2, 2],
    )
    assert.deepEqual(
      offsetsOf(again).toSorted((a, b) => a - b),
      [0, 1],
    )
  })
  it('gives a record to one of those who wait', async () => {
    const stream = await streamOf(0)
    const group = stream.group()
    const received: Delivery[] = []
    const waiting = Array.from({ length: 4 }, async () => {
      received.push(...(await group.claim({ wait_millis: 30_000, max_messages: 9, lease_timeout_millis: HOUR_MS })))
    })
    for (const count of [2, 4]) {
      await stream.fill(2)
      await eventually(() => received.length === count)
    }
    await Promise.all(waiting)
    assert.deepEqual(
      offsetsOf(received).toSorted((a, b) => a - b),
      [0, 1, 2, 3],
    )
    assert(received.every(({ attempt }) => attempt === 1))
  })
  it('answers empty when nothing came in time', async () => {
    const { deliveries, delivery_count } = await (await streamOf(0)).group().claimed({ wait_millis: 20 })
    assert.deepEqual([deliveries, delivery_count], [[], 0])
  })
  it('takes 0 to 30000', async () => {
    const group = (await streamOf(1)).group()
    assert.equal((await group.claim({ wait_millis: 30_000 })).length, 1)
    assert.equal((await group.claim({ wait_millis: 0 })).length, 0)
    for (const wait_millis of [-1, 30_001, 1.5, '1']) {
      assertRefused(await group.tryClaim({ wait_millis }), 400, 'invalid_request', /^wait_millis/)
    }
  })
  it('leaves the record to others when its client is gone', async () => {
    const stream = await streamOf(0)
    const group = stream.group()
    const waiting = await waitingClaims()
    const gone = await broker.connect()
    const body = JSON.stringify({ wait_millis: 30_000 })
    gone.write(`POST ${group.path}/claims HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
    await eventually(async () => (await waitingClaims()) === waiting + 1)
    gone.close()
    await eventually(async () => (await waitingClaims()) === waiting)
    await stream.publish()
    assert.equal((await group.claimOne()).attempt, 1)
  })

  async function waitingClaims(): Promise<number> {
    const { text } = await broker.request('GET', '/metrics')
    return Number(/^mq_queue_waiting_claims (\d+)$/m.exec(text)?.[1])
  }
})
