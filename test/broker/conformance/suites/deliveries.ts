/** Specification "Shared queue" and "Queue delivery and lease": what each verb does to an active lease. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import {
  AckReply,
  BatchAckReply,
  NackReply,
  RenewReply,
  RetryReply,
} from '../../../../src/broker/wire/queue-answers.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { BrokerReply, Delivery, Stream } from '../../../support/broker.ts'
import { eventually } from '../../../support/waiting.ts'
import { broker } from './shared-node.ts'
import {
  SYNCED,
  CONTROL,
  delivery,
  identityOf,
  isNow,
  VERBS,
  assertEveryVerbRefused,
  assertBodiesRefused,
  HOUR_MS,
} from './delivery.ts'

let dead: Stream
before(async () => {
  dead = await broker.newStream()
})

describe('ack', () => {
  it('answers stream, subscription_id, delivery_id, offset, attempt, acknowledged_at_ms and acknowledgement', async () => {
    const claimed = await delivery()
    const { acknowledged_at_ms, ...reply } = (await claimed.ack()).succeeded(AckReply)
    assert.deepEqual(reply, { ...identityOf(claimed), offset: 0, attempt: 1, acknowledgement: SYNCED })
    assert(isNow(acknowledged_at_ms))
  })
  it('takes no body or an empty object', async () => {
    assert.equal((await (await delivery()).post('ack', '')).status, 200)
    assert.equal((await (await delivery()).post('ack', {})).status, 200)
    await assertBodiesRefused(await delivery(), 'ack', [{ reason: 'r' }, '1'])
  })
  it('is terminal: the offset is acknowledged for the group, and a duplicate is 409 lease_not_active', async () => {
    const claimed = await delivery()
    assert.equal((await claimed.ack()).status, 200)
    assert.deepEqual(await claimed.group.claim(), [])
    const { leases } = await claimed.group.leases(true)
    assert.deepEqual(
      leases.map(({ offset, attempt, state }) => [offset, attempt, state]),
      [[0, 1, 'acked']],
    )
    await assertEveryVerbRefused(claimed, 409, 'lease_not_active')
  })
  it('of many at once is taken once', async () => {
    const claimed = await delivery()
    const codes = (await Promise.all(Array.from({ length: 6 }, () => claimed.ack()))).map(({ code }) => code)
    assert.deepEqual(codes.filter((code) => code === null).length, 1)
    assert.deepEqual(codes.filter((code) => code === 'lease_not_active').length, 5)
  })
})

describe('nack', () => {
  it('requires reason (not blank, no control characters) and requeue (boolean)', async () => {
    const good = { reason: 'r', requeue: true }
    await assertBodiesRefused(await delivery(), 'nack', [
      '',
      {},
      { reason: 'r' },
      { requeue: true },
      ...[null, '', ' ', CONTROL, 1].map((reason) => ({ ...good, reason })),
      ...[null, 'true', 1].map((requeue) => ({ ...good, requeue })),
    ])
  })
  it('with requeue false is terminal, and no policy is applied', async () => {
    const claimed = await delivery({ max_attempts: 5, dead_letter_stream: dead.name })
    const reply = (await claimed.nack(false)).succeeded(NackReply)
    const expected = { offset: 0, attempt: 1, will_redeliver: false, policy_action: 'none', acknowledgement: SYNCED }
    assert.deepEqual(reply, { ...identityOf(claimed), ...expected })
    assert.deepEqual(await claimed.group.claim(), [])
    assert.equal((await claimed.group.leases(true)).leases[0]?.state, 'nacked')
    await assertEveryVerbRefused(claimed, 409, 'lease_not_active')
  })
  it('with requeue true and no failure policy is redeliver_now, as often as it is asked', async () => {
    const first = await delivery()
    let claimed = first
    for (let attempt = 1; attempt <= 4; attempt++) {
      const { available_at_ms, ...reply } = (await claimed.nack(true)).succeeded(NackReply)
      const action = { will_redeliver: true, policy_action: 'redeliver_now', acknowledgement: SYNCED }
      assert.deepEqual(reply, { ...identityOf(claimed), offset: 0, attempt, ...action })
      assert(isNow(available_at_ms!))
      await assertEveryVerbRefused(claimed, 409, 'lease_not_active')
      const again = await claimed.group.claimOne()
      assert.notEqual(again.id, claimed.id)
      assert.equal(again.attempt, attempt + 1)
      claimed = again
    }
    await assertEveryVerbRefused(first, 409, 'lease_not_active')
  })
  it('before max_attempts with a retry delay is scheduled_retry: delayed, and claimed again when it is due', async () => {
    const claimed = await delivery({ max_attempts: 2, retry_delay_millis: 80 })
    const reply = (await claimed.nack(true)).succeeded(NackReply)
    assert.deepEqual([reply.will_redeliver, reply.policy_action], [true, 'scheduled_retry'])
    let again: Delivery | undefined
    await eventually(async () => (again = (await claimed.group.claim())[0]) !== undefined)
    assert.equal(again!.attempt, 2)
    assert(again!.fields.leased_at_ms >= reply.available_at_ms!)
  })
  it('scheduled_retry is shown by the delayed route and in the description until it is due', async () => {
    const claimed = await delivery({ max_attempts: 2, retry_delay_millis: 3_600_000 })
    const reply = (await claimed.nack(true)).succeeded(NackReply)
    assert.deepEqual(await claimed.group.claim(), [])
    const entry = { offset: 0, attempt: 1, available_at_ms: reply.available_at_ms }
    assert.deepEqual((await claimed.group.delayed()).delayed, [entry])
    assert.deepEqual((await claimed.group.describe()).delayed_retries, [entry])
    assert(isNow(reply.available_at_ms! - 3_600_000))
  })
  it('before max_attempts without a retry delay is redeliver_now', async () => {
    const claimed = await delivery({ max_attempts: 2, retry_delay_millis: 0 })
    assert.equal((await claimed.nack(true)).succeeded(NackReply).policy_action, 'redeliver_now')
    assert.equal((await claimed.group.claimOne()).attempt, 2)
  })
  it('at max_attempts is dead_lettered: terminal, with stream and offset of the copy', async () => {
    const claimed = await delivery({ max_attempts: 2, dead_letter_stream: dead.name })
    await claimed.nack(true)
    const last = await claimed.group.claimOne()
    const { next_offset } = await dead.describe()
    const reply = (await last.nack(true, 'broken for good')).succeeded(NackReply)
    assert.deepEqual(reply, {
      ...identityOf(last),
      offset: 0,
      attempt: 2,
      will_redeliver: false,
      policy_action: 'dead_lettered',
      dead_letter_stream: dead.name,
      dead_letter_offset: next_offset,
      acknowledgement: SYNCED,
    })
    const [copy] = (await dead.replay(`start_offset=${next_offset}`)).records
    assert.equal(copy?.headers['x-dead-letter-reason'], 'broken for good')
    assert.deepEqual(await claimed.group.claim(), [])
    assert.equal((await claimed.group.leases(true)).leases[0]?.state, 'dead_lettered')
    await assertEveryVerbRefused(last, 409, 'lease_not_active')
    await assertEveryVerbRefused(claimed, 409, 'lease_not_active')
  })
  it('at max_attempts without a dead-letter stream, or with one that does not exist, is stopped: terminal', async () => {
    for (const dead_letter_stream of [null, 'not there']) {
      const claimed = await delivery({ max_attempts: 1, dead_letter_stream })
      const reply = (await claimed.nack(true)).succeeded(NackReply)
      const expected = {
        offset: 0,
        attempt: 1,
        will_redeliver: false,
        policy_action: 'stopped',
        acknowledgement: SYNCED,
      }
      assert.deepEqual(reply, { ...identityOf(claimed), ...expected })
      assert.deepEqual(await claimed.group.claim(), [])
      assert.equal((await claimed.group.leases(true)).leases[0]?.state, 'stopped')
      await assertEveryVerbRefused(claimed, 409, 'lease_not_active')
    }
  })
  it('counts every attempt, however it ended: expired, retried, nacked', async () => {
    const stream = await broker.newStream({ failure_policy: { max_attempts: 4 } })
    await stream.publish()
    const group = stream.group()
    await group.claimOne({ lease_timeout_millis: 20 })
    await eventually(async () => (await group.describe()).in_flight_count === 0)
    await (await group.claimOne()).retry(0)
    assert.equal((await (await group.claimOne()).nack(true)).succeeded(NackReply).policy_action, 'redeliver_now')
    const last = await group.claimOne()
    assert.equal(last.attempt, 4)
    assert.equal((await last.nack(true)).succeeded(NackReply).policy_action, 'stopped')
  })
})

describe('renew', () => {
  it('adds extend_by_millis to the present expiry, again each time, and leaves the attempt', async () => {
    const claimed = await delivery()
    const { leased_at_ms, lease_expires_at_ms } = claimed.fields
    for (const [by, sum] of [
      [60_000, 60_000],
      [1, 60_001],
      [1, 60_002],
    ] as const) {
      const reply = (await claimed.renew(by)).succeeded(RenewReply)
      assert.deepEqual(reply, {
        ...identityOf(claimed),
        lease: {
          consumer_group: 'workers',
          offset: 0,
          attempt: 1,
          state: 'active',
          leased_at_ms,
          lease_expires_at_ms: lease_expires_at_ms + sum,
          lease_remaining_millis: reply.lease.lease_remaining_millis,
        },
        acknowledgement: SYNCED,
      })
    }
    const [lease] = (await claimed.group.leases()).leases
    assert.deepEqual([lease?.attempt, lease?.lease_expires_at_ms], [1, lease_expires_at_ms + 60_002])
    assert.equal((await claimed.ack()).status, 200)
  })
  it('keeps a short lease alive beyond its first expiry', async () => {
    const stream = await broker.newStream()
    await stream.fill(2)
    const group = stream.group()
    let leaseMs = 500
    const claimAndRenew = async (): Promise<Delivery | null> => {
      const claimed = await group.claimOne({ lease_timeout_millis: leaseMs })
      return (await claimed.renew(HOUR_MS)).status === 200 ? claimed : null
    }
    let kept: Delivery | null
    // If the machine is so slow that the renewal comes too late, the next lease is longer.
    while ((kept = await claimAndRenew()) === null) leaseMs *= 4
    // A lease of the same length that begins later: once it has expired, the renewed lease is past its first expiry.
    await group.claimOne({ lease_timeout_millis: leaseMs })
    await eventually(async () => (await group.describe()).in_flight_count === 1)
    assert.equal((await kept.ack()).status, 200)
  })
  it('requires extend_by_millis, a positive integer', async () => {
    const bodies = [null, 0, -1, 1.5, '1', 2 ** 53].map((extend_by_millis) => ({ extend_by_millis }))
    await assertBodiesRefused(await delivery(), 'renew', ['', {}, ...bodies])
  })
})

describe('retry', () => {
  it('with delay_millis 0 is available at once, under a fresh delivery id and a higher attempt', async () => {
    const claimed = await delivery()
    const { available_at_ms, ...reply } = (await claimed.retry(0)).succeeded(RetryReply)
    assert.deepEqual(reply, { ...identityOf(claimed), offset: 0, attempt: 1, acknowledgement: SYNCED })
    assert(isNow(available_at_ms))
    const again = await claimed.group.claimOne()
    assert.equal(again.attempt, 2)
    assert.notEqual(again.id, claimed.id)
    await assertEveryVerbRefused(claimed, 409, 'lease_not_active')
  })
  it('with a delay is available at available_at_ms, and not before', async () => {
    const claimed = await delivery()
    const { available_at_ms } = (await claimed.retry(80)).succeeded(RetryReply)
    let again: Delivery | undefined
    await eventually(async () => (again = (await claimed.group.claim())[0]) !== undefined)
    assert(again!.fields.leased_at_ms >= available_at_ms)
    const later = await delivery()
    assert(isNow((await later.retry(3_600_000)).succeeded(RetryReply).available_at_ms - 3_600_000))
    assert.deepEqual(await later.group.claim(), [])
  })
  it('does not evaluate the failure policy', async () => {
    let claimed = await delivery({ max_attempts: 1 })
    for (let attempt = 1; attempt <= 3; attempt++) {
      assert.equal(claimed.attempt, attempt)
      assert.equal((await claimed.retry(0)).status, 200)
      claimed = await claimed.group.claimOne()
    }
  })
  it('takes any text as its reason', async () => {
    let claimed = await delivery()
    for (const reason of ['', ' ', `two\nlines${CONTROL}`]) {
      assert.equal((await claimed.retry(0, reason)).status, 200)
      claimed = await claimed.group.claimOne()
    }
  })
  it('requires reason and delay_millis, an unsigned integer', async () => {
    const good = { reason: 'r', delay_millis: 0 }
    await assertBodiesRefused(await delivery(), 'retry', [
      '',
      {},
      { reason: 'r' },
      { delay_millis: 0 },
      ...[null, 1].map((reason) => ({ ...good, reason })),
      ...[null, -1, 1.5, '1', 2 ** 53].map((delay_millis) => ({ ...good, delay_millis })),
    ])
  })
})

describe('a delivery is named by the stream, the subscription and the delivery id of its claim', () => {
  let mine: Delivery
  let other: Delivery
  before(async () => {
    mine = await delivery()
    await mine.group.stream.fill(2)
    other = await mine.group.claimOne()
  })

  async function notFound(path: string): Promise<void> {
    for (const [verb, body] of VERBS) {
      assertRefused(await broker.request('POST', `${path}/${verb}`, body), 404, 'delivery_not_found')
    }
  }
  const pathOf = (stream: Stream, subscription: string, id: string): string =>
    `${stream.path}/subscriptions/${subscription}/deliveries/${id}`

  it('else it is 404 delivery_not_found on every verb: unknown ids', async () => {
    const { stream } = mine.group
    await notFound(pathOf(stream, mine.subscription, 'nothing'))
    await notFound(pathOf(stream, 'nothing', mine.id))
    await notFound(pathOf(stream, mine.id, mine.subscription))
    await notFound(pathOf(stream, mine.subscription, `dlv-${'A'.repeat(22)}`))
    await notFound(pathOf(stream, `sub-${'A'.repeat(22)}`, mine.id))
  })
  it('else it is 404 delivery_not_found on every verb: ids with a changed character', async () => {
    const { stream } = mine.group
    for (const at of [4, 12, 24]) {
      const id = mine.id.slice(0, at) + (mine.id[at] === 'A' ? 'B' : 'A') + mine.id.slice(at + 1)
      await notFound(pathOf(stream, mine.subscription, id))
    }
  })
  it('else it is 404 delivery_not_found on every verb: another stream, subscription or group', async () => {
    const { stream } = mine.group
    await notFound(pathOf(await broker.newStream(), mine.subscription, mine.id))
    await notFound(pathOf(stream, other.subscription, mine.id))
    const elsewhere = await stream.group('elsewhere').claimOne()
    await notFound(pathOf(stream, elsewhere.subscription, mine.id))
    await notFound(pathOf(stream, mine.subscription, elsewhere.id))
  })
  it('and when there is no such stream, 404 missing_stream, whatever the ids are', async () => {
    const nowhere = broker.stream('not there')
    for (const path of [pathOf(nowhere, mine.subscription, mine.id), pathOf(nowhere, 'nothing', 'nothing')]) {
      for (const [verb, body] of VERBS) {
        const reply = await broker.request('POST', `${path}/${verb}`, body)
        assertRefused(reply, 404, 'missing_stream')
      }
    }
    const batch = { delivery_ids: [mine.id] }
    const path = `/subscriptions/${mine.subscription}/deliveries/batch-ack`
    assertRefused(await nowhere.post(path, batch), 404, 'missing_stream')
  })
  it('what was asked in vain changed nothing', async () => {
    for (const each of [mine, other]) assert.equal((await each.ack()).status, 200)
  })
  it('a path token is refused with 400 invalid_request when it has slashes, tabs or control characters', async () => {
    const { stream } = mine.group
    for (const bad of ['a%2Fb', 'a%09b', '%00', '%20', 'x'.repeat(257)]) {
      const tokens = [pathOf(stream, bad, mine.id), pathOf(stream, mine.subscription, bad)]
      for (const path of tokens) assertRefused(await broker.request('POST', `${path}/ack`), 400, 'invalid_request')
    }
  })
})

describe('POST …/deliveries/batch-ack (extension)', () => {
  const batchAck = (stream: Stream, subscription: string, delivery_ids: readonly unknown[]): Promise<BrokerReply> =>
    stream.post(`/subscriptions/${subscription}/deliveries/batch-ack`, { delivery_ids })

  it('acknowledges all good deliveries of a subscription, each bad one has its refusal in its place', async () => {
    const stream = await broker.newStream()
    await stream.fill(5)
    const group = stream.group()
    const claimed = await group.claim({ max_messages: 4 })
    const foreign = await group.claimOne()
    const [first, second, third, fourth] = claimed.map(({ id }) => id)
    await claimed[1]!.ack()
    const ids = [first, second, 'nothing', foreign.id, third, first]
    const reply = (await batchAck(stream, claimed[0]!.subscription, ids)).succeeded(BatchAckReply)
    const { acknowledged_at_ms, results, ...rest } = reply
    assert(isNow(acknowledged_at_ms))
    assert.deepEqual(rest, {
      api_version: 'v1',
      stream: stream.name,
      subscription_id: claimed[0]!.subscription,
      acknowledged_count: 2,
      acknowledgement: SYNCED,
    })
    assert.deepEqual(
      results.map(({ delivery_id, error, ...done }) => [delivery_id, error?.code ?? done]),
      [
        [first, { offset: 0, attempt: 1 }],
        [second, 'lease_not_active'],
        ['nothing', 'delivery_not_found'],
        [foreign.id, 'delivery_not_found'],
        [third, { offset: 2, attempt: 1 }],
        [first, 'lease_not_active'],
      ],
    )
    assert.equal((await group.describe()).in_flight_count, 2)
    assert.equal((await batchAck(stream, claimed[3]!.subscription, [fourth])).status, 200)
  })
  it('takes 1 to 1000 ids', async () => {
    const stream = await broker.newStream()
    await stream.fill(1000)
    const claimed = await stream.group().claim({ max_messages: 1000 })
    const { subscription } = claimed[0]!
    const ids = claimed.map(({ id }) => id)
    for (const bad of [[], [...ids, 'x'], [1], [null]]) {
      assertRefused(await batchAck(stream, subscription, bad), 400, 'invalid_request', /^delivery_ids/)
    }
    for (const body of ['', '{}', '{"delivery_ids":null}', '[]']) {
      const path = `/subscriptions/${subscription}/deliveries/batch-ack`
      assertRefused(await stream.post(path, body), 400, 'invalid_request')
    }
    const { acknowledged_count } = (await batchAck(stream, subscription, ids)).succeeded(BatchAckReply)
    assert.equal(acknowledged_count, 1000)
    assert.equal((await stream.group().describe()).lag_messages, 0)
  })
})
