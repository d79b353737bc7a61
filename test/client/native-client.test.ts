import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { runInNewContext } from 'node:vm'
import { HttpBrokerError } from '../../src/client/index.ts'
import type { EmbeddedBroker, NativeClient } from '../../src/client/index.ts'
import { closesBrokers, newStream, openBroker, refusalOf, take } from './support.ts'

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

describe('the client of an embedded broker', () => {
  let broker: EmbeddedBroker
  let client: NativeClient
  closesBrokers()
  before(async () => {
    broker = await openBroker()
    client = broker.client({ producerId: 'tester' })
  })

  describe('publish and fetch', () => {
    it('bring bytes and text back as they were, with what the client adds', async () => {
      const web = broker.client({
        producerId: 'web',
        epoch: 3,
        defaultHeaders: { region: 'eu' },
        traceContext: { traceparent: TRACEPARENT },
      })
      const stream = await newStream(web)
      const bytes = new Uint8Array([1, 2, 0, 255, 3]).subarray(1, 4)
      const reply = await web.publish(stream, {
        message_id: 'm-1',
        payload: bytes,
        key: 'käse',
        event_time_ms: 5,
        headers: { ['__proto__']: 'x', region: 'us' },
      })
      assert.deepEqual([reply.offset, reply.payload_bytes, reply.acknowledgement.durability], [0, 3, 'local-sync'])
      const { records, next_offset, end_of_stream, diagnostics } = await web.fetch(stream)
      const record = records[0]!
      assert.deepEqual([next_offset, end_of_stream, diagnostics.returned_records], [1, true, 1])
      assert.deepEqual(record, {
        offset: 0,
        message_id: 'm-1',
        payload: Buffer.from([2, 0, 255]),
        key: Buffer.from('käse'),
        headers: record.headers,
        event_time_ms: 5,
        ingest_time_ms: reply.ingest_time_ms,
      })
      assert.deepEqual(
        Object.entries(record.headers).sort(([a], [b]) => (a < b ? -1 : 1)),
        [
          ['__proto__', 'x'],
          ['region', 'us'],
          ['traceparent', TRACEPARENT],
          ['x-producer-epoch', '3'],
          ['x-producer-id', 'web'],
        ],
      )
    })

    it('take headers of any plain object, null and none', async () => {
      const stream = await newStream(client)
      const bare: Record<string, string> = Object.assign(Object.create(null), { a: 'b' })
      for (const headers of [
        { a: 'b' },
        bare,
        JSON.parse('{"a":"b"}'),
        runInNewContext('({ a: "b" })'),
        {},
        null,
        undefined,
      ]) {
        await client.publish(stream, { message_id: 'm', payload: '', headers })
      }
      const { records } = await client.fetch(stream)
      assert.deepEqual(
        records.map(({ headers }) => headers['a'] ?? null),
        ['b', 'b', 'b', 'b', null, null, null],
      )
    })

    it('take an empty payload, no key, and the durability of the client unless the record has its own', async () => {
      const careless = broker.client({ producerId: 'careless', defaultDurability: 'volatile' })
      const stream = await newStream(careless)
      const own = await careless.publish(stream, { message_id: 'a', payload: '', durability_mode: 'local-sync' })
      const byDefault = await careless.publish(stream, { message_id: 'b', payload: new Uint8Array() })
      assert.deepEqual(
        [own.acknowledgement.durability, byDefault.acknowledgement.durability],
        ['local-sync', 'volatile'],
      )
      const { records } = await careless.fetch(stream)
      assert.deepEqual(
        records.map(({ payload, key }) => [payload.byteLength, key]),
        [
          [0, null],
          [0, null],
        ],
      )
    })

    it('page by offset and begin by time', async () => {
      const stream = await newStream(client, 'a', 'b')
      await client.publish(stream, { message_id: 'c', payload: 'c', event_time_ms: Number.MAX_SAFE_INTEGER })
      const page = await client.fetchFromOffset(stream, 1, { max_records: 1 })
      assert.deepEqual([page.records[0]?.message_id, page.next_offset, page.end_of_stream], ['b', 2, false])
      const late = await client.fetch(stream, { event_time_ms: Number.MAX_SAFE_INTEGER })
      assert.deepEqual(
        late.records.map(({ message_id }) => message_id),
        ['c'],
      )
    })

    it('are not retried when it makes no sense, and answer the same with retries', async () => {
      const stream = await newStream(client)
      const reply = await client.publishWithRetry(stream, { message_id: 'm', payload: 'p' })
      assert.equal(reply.offset, 0)
      const { code } = await refusalOf(client.publishWithRetry('nowhere', { message_id: 'm', payload: 'p' }))
      assert.equal(code, 'stream_not_found')
      assert.equal((await client.describeStream(stream)).next_offset, 1)
    })

    it('are not tried with a policy that is none', async () => {
      const stream = await newStream(client)
      for (const policy of [null, 5]) {
        const call = client.publishWithRetry(stream, { message_id: 'm', payload: 'p' }, policy as never)
        assert.equal((await refusalOf(call)).kind, 'InvalidConfig')
      }
      assert.equal((await client.describeStream(stream)).next_offset, 0)
    })
  })

  describe('a delivery', () => {
    it('is acknowledged by itself, once', async () => {
      const stream = await newStream(client, 'job')
      const { deliveries, delivery_count } = await client.claimQueue(stream, 'workers')
      const [delivery] = deliveries
      assert.ok(delivery)
      assert.deepEqual(
        [
          delivery_count,
          delivery.stream,
          delivery.consumer_group,
          delivery.attempt,
          delivery.record.payload.toString(),
        ],
        [1, stream, 'workers', 1, 'job'],
      )
      assert.equal((await client.ack(delivery)).offset, 0)
      const late = await refusalOf(client.ack(delivery))
      assert(late instanceof HttpBrokerError)
      const { kind, status, code, retryable, retryAfterSeconds } = late
      assert.deepEqual(
        { kind, status, code, retryable, retryAfterSeconds },
        {
          kind: 'HttpBroker',
          status: 409,
          code: 'lease_not_active',
          retryable: false,
          retryAfterSeconds: null,
        },
      )
      assert.ok(late.action !== '' && late.message !== '')
    })

    it('is given back, renewed, retried and dead-lettered', async () => {
      const stream = await newStream(client, 'job')
      const dead = await newStream(client)
      const claimOne = async () => (await client.claimQueue(stream, 'workers')).deliveries[0]!
      const nacked = await client.nack(await claimOne(), { reason: 'no', requeue: true })
      assert.equal(nacked.policy_action, 'redeliver_now')
      const second = await claimOne()
      const { lease } = await client.renewLease(second, { extend_by_millis: 1000 })
      assert.equal(lease.lease_expires_at_ms, second.lease_expires_at_ms + 1000)
      assert.equal((await client.retryDelivery(second, { reason: 'later', delay_millis: 0 })).attempt, 2)
      const third = await client.deadLetter(await claimOne(), { dead_letter_stream: dead, reason: 'poison' })
      assert.deepEqual([third.attempt, third.dead_letter_offset], [3, 0])
      const [copy] = (await client.fetch(dead)).records
      assert.equal(copy?.headers['x-dead-letter-source-stream'], stream)
      assert.equal(copy.headers['x-producer-id'], 'tester')
    })
  })

  describe('a look into a group', () => {
    it('shows leases, delayed messages, replay consumers and cursors', async () => {
      const stream = await newStream(client, 'a', 'b', 'c')
      const { deliveries } = await client.claimQueue(stream, 'g', { max_messages: 3 })
      await client.ack(deliveries[0]!)
      await client.retryDelivery(deliveries[1]!, { reason: 'later', delay_millis: 3_600_000 })
      await client.commitCursor(stream, 'g', 'report', 2)
      await client.fetch(stream, { consumer_group: 'g', consumer_id: 'reader' })

      assert.deepEqual(
        (await client.inspectLeases(stream, 'g')).leases.map(({ offset }) => offset),
        [2],
      )
      const all = await client.inspectLeases(stream, 'g', { include_completed: true })
      assert.deepEqual(
        all.leases.map(({ offset, state }) => [offset, state]),
        [
          [0, 'acked'],
          [1, 'released'],
          [2, 'active'],
        ],
      )
      assert.deepEqual(
        (await client.inspectDelayedMessages(stream, 'g')).delayed.map(({ offset }) => offset),
        [1],
      )
      const { replay_consumers } = await client.inspectReplayConsumers(stream, 'g')
      assert.deepEqual(
        replay_consumers.map(({ consumer_id, next_offset }) => [consumer_id, next_offset]),
        [['reader', 3]],
      )
      const group = await client.describeConsumerGroup(stream, 'g')
      assert.deepEqual([group.lag_messages, group.in_flight_count, group.cursors[0]?.offset], [2, 1, 2])
    })
  })

  describe('the life cycle', () => {
    it('is that of the routes: change, purge, seek, redrive, delete', async () => {
      const [stream, dead] = [await newStream(client, 'a', 'b'), await newStream(client)]
      const policy = { max_attempts: 1, dead_letter_stream: dead }
      const updated = await client.updateStream(stream, { failure_policy: policy })
      assert.equal(updated.failure_policy?.max_attempts, 1)
      const [delivery] = (await client.claimQueue(stream, 'g', { claim_id: 'mine' })).deliveries
      const [again] = (await client.claimQueue(stream, 'g', { claim_id: 'mine' })).deliveries
      assert.deepEqual([again!.delivery_id, again!.fencing_token], [delivery!.delivery_id, 1])
      await client.nack(delivery!, { reason: 'no', requeue: true })
      assert.deepEqual((await client.redriveDeadLetters(dead)).results, [{ dead_letter_offset: 0, stream, offset: 2 }])
      const held = await refusalOf(client.deleteStream(dead))
      assert(held instanceof HttpBrokerError)
      assert.equal(held.code, 'write_not_allowed')
      assert.equal((await client.deleteStream(dead, { force: true })).removed_records, 1)
      assert.equal((await client.seekConsumerGroup(stream, 'g', { offset: 0, reason: 'again' })).offset, 0)
      assert.equal((await client.listConsumerGroups(stream)).group_count, 1)
      await client.commitCursor(stream, 'g', 'c', 1)
      assert.equal((await client.deleteCursor(stream, 'g', 'c')).offset, 1)
      assert.equal((await client.deleteConsumerGroup(stream, 'g')).deleted, true)
      assert.equal((await client.purgeStream(stream, { offset: 2 })).removed_records, 2)
      const waiting = client.fetch(stream, { start_offset: 3, wait_millis: 30_000 })
      await client.publish(stream, { message_id: 'late', payload: '' })
      assert.equal((await waiting).records.length, 1)
      const stop = new AbortController()
      const abandoned = client.fetch(stream, { start_offset: 4, wait_millis: 30_000 }, stop)
      stop.abort()
      assert.deepEqual((await abandoned).records, [])
    })
  })

  describe('a subscription to a stream', () => {
    it('gives what is there and what comes, until its loop is left', async () => {
      const stream = await newStream(client, 'a', 'b')
      const seen: string[] = []
      for await (const { message_id } of client.subscribeReplay(stream, { start_offset: 1 })) {
        seen.push(message_id)
        if (message_id === 'b') await client.publish(stream, { message_id: 'c', payload: '' })
        if (message_id === 'c') break
      }
      assert.deepEqual(seen, ['b', 'c'])
      assert.equal((await client.describeConsumerGroup(stream, 'g')).in_flight_count, 0)
    })

    it('ends when its signal says stop, while it waits for records', async () => {
      const stream = await newStream(client, 'a')
      const stop = new AbortController()
      const records = client.subscribeReplay(stream, { signal: stop.signal })
      await records.next()
      const waiting = records.next()
      stop.abort()
      assert.equal((await waiting).done, true)
    })

    it('throws the refusal that there is no such stream', async () => {
      assert.equal((await refusalOf(client.subscribeReplay('nowhere').next())).code, 'stream_not_found')
      assert.equal((await refusalOf(client.subscribeQueue('nowhere', 'g').next())).code, 'missing_stream')
    })
  })

  describe('a subscription to a queue', () => {
    it('shares the records out among its workers, as they come, each to one', async () => {
      const stream = await newStream(client)
      const stop = new AbortController()
      const done: string[] = []
      const work = async (): Promise<void> => {
        for await (const delivery of client.subscribeQueue(stream, 'workers', { signal: stop.signal })) {
          await client.ack(delivery)
          if (done.push(delivery.record.message_id) === 20) stop.abort()
        }
      }
      const workers = [work(), work(), work()]
      const ids = Array.from({ length: 20 }, (_, i) => `job-${i}`)
      await Promise.all(ids.map((message_id) => client.publish(stream, { message_id, payload: '' })))
      await Promise.all(workers)
      assert.deepEqual(done.sort(), ids.sort())
      assert.equal((await client.describeConsumerGroup(stream, 'workers')).lag_messages, 0)
    })

    it('gives back at once what its loop did not take', async () => {
      const stream = await newStream(client, 'a', 'b', 'c')
      const [first] = await take(client.subscribeQueue(stream, 'workers', { max_messages: 3 }), 1)
      assert.equal(first?.offset, 0)
      const { deliveries } = await client.claimQueue(stream, 'workers', { max_messages: 3 })
      assert.deepEqual(
        deliveries.map(({ offset, attempt }) => [offset, attempt]),
        [
          [1, 2],
          [2, 2],
        ],
      )
    })

    it('ends when its signal says stop, while it waits, and takes nothing', async () => {
      const stream = await newStream(client)
      const stop = new AbortController()
      const waiting = client.subscribeQueue(stream, 'workers', { signal: stop.signal }).next()
      const alone = client.claimQueue(stream, 'others', { wait_millis: 30_000 }, { signal: stop.signal })
      stop.abort()
      assert.equal((await waiting).done, true)
      assert.equal((await alone).delivery_count, 0)
      await client.publish(stream, { message_id: 'm', payload: '' })
      assert.equal((await client.describeConsumerGroup(stream, 'workers')).in_flight_count, 0)
    })
  })
})
