/** What every client does, wherever the broker is and over any transport. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { runInNewContext } from 'node:vm'
import { HttpBrokerError, textOf } from '../../src/client/index.ts'
import type { BrokerClient } from '../../src/client/index.ts'
import { KINDS, openSource } from './sources.ts'
import type { ClientSource } from './sources.ts'
import { newStream, refusalOf } from './support.ts'

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

for (const kind of KINDS)
  describe(`the client ${kind}`, () => {
    let source: ClientSource
    let client: BrokerClient
    before(async () => {
      source = await openSource(kind)
      client = await source.client({ producerId: 'tester' })
    })
    after(() => source.close())

    describe('publish and fetch', () => {
      it('bring bytes and text back as they were, with what the client adds', async () => {
        const web = await source.client({
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
          payload: record.payload,
          key: record.key,
          headers: record.headers,
          event_time_ms: 5,
          ingest_time_ms: reply.ingest_time_ms,
        })
        assert.deepEqual([[...record.payload], textOf(record.key!)], [[2, 0, 255], 'käse'])
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
        const careless = await source.client({ producerId: 'careless', defaultDurability: 'volatile' })
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
          [delivery_count, delivery.stream, delivery.consumer_group, delivery.attempt, textOf(delivery.record.payload)],
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
        assert.deepEqual((await client.redriveDeadLetters(dead)).results, [
          { dead_letter_offset: 0, stream, offset: 2 },
        ])
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

    describe('batches, cursors and the audit', () => {
      it('publish many at once, each with its own result, in order', async () => {
        const stream = await newStream(client)
        const reply = await client.publishBatch(stream, [
          { message_id: 'a', payload: new Uint8Array([255]), key: 'k' },
          { message_id: ' ', payload: 'refused' },
          { message_id: 'c', payload: 'c', headers: new Map() as never },
          { message_id: 'd', payload: 'd', headers: { own: 'yes' } },
        ])
        assert.equal(reply.published_count, 2)
        assert.deepEqual(
          reply.results.map(({ offset, error }) => offset ?? error?.code),
          [0, 'invalid_request', 'invalid_request', 1],
        )
        const { records } = await client.fetch(stream)
        assert.deepEqual([[...records[0]!.payload], textOf(records[0]!.key!)], [[255], 'k'])
        assert.deepEqual([records[1]!.headers['own'], records[1]!.headers['x-producer-id']], ['yes', 'tester'])
      })

      it('acknowledge the deliveries of a claim at once, and of one claim only', async () => {
        const stream = await newStream(client, 'a', 'b', 'c')
        const { deliveries } = await client.claimQueue(stream, 'g', { max_messages: 2 })
        const other = await client.claimQueue(stream, 'g')
        await client.ack(deliveries[1]!)
        const reply = await client.batchAck(deliveries)
        assert.deepEqual(
          reply.results.map(({ offset, error }) => offset ?? error?.code),
          [0, 'lease_not_active'],
        )
        const mixed = await refusalOf(client.batchAck([deliveries[0]!, other.deliveries[0]!]))
        assert.deepEqual([mixed.code, mixed.message], ['invalid_request', 'the deliveries must be of one claim'])
        for (const none of [[], null, 'x']) {
          assert.equal((await refusalOf(client.batchAck(none as never))).code, 'invalid_request')
        }
      })

      it('move a cursor forward and back, and list it', async () => {
        const stream = await newStream(client, 'a', 'b')
        await client.commitCursor(stream, 'g', 'käse / x'.replace('/', '%'), 2)
        const rewound = await client.rewindCursor(stream, 'g', 'käse % x', { offset: 1, reason: 'again' })
        assert.deepEqual([rewound.previous_offset, rewound.offset], [2, 1])
        const { cursors } = await client.listCursors(stream, 'g')
        assert.deepEqual(
          cursors.map(({ cursor, offset }) => [cursor, offset]),
          [['käse % x', 1]],
        )
      })

      it('list streams and show the audit, as a page and as lines', async () => {
        const stream = await newStream(client)
        const { streams, stream_count } = await client.listStreams()
        assert.equal(streams.length, stream_count)
        assert.ok(streams.some((each) => each.stream === stream))
        const { next_offset } = await client.auditEvents({ max_records: 1000 })
        await client.rewindCursor(stream, 'g', 'c', { offset: 0, reason: 'r' })
        const page = await client.auditEvents({ start_offset: next_offset, max_records: 10 })
        assert.deepEqual(
          page.events.map(({ kind, stream }) => [kind, stream]),
          [['cursor_rewound', stream]],
        )
        const lines = (await client.auditExport({ start_offset: next_offset })).trimEnd().split('\n')
        assert.deepEqual(
          lines.map((line) => JSON.parse(line).offset),
          [next_offset],
        )
        assert.equal((await refusalOf(client.auditEvents({ start_offset: -1 }))).code, 'invalid_start_offset')
        assert.equal((await refusalOf(client.auditEvents({ since: 1 } as never))).code, 'invalid_query')
      })
    })

    describe('a signal', () => {
      it('that said stop before keeps a call from being made', async () => {
        const stream = await newStream(client)
        const signal = AbortSignal.abort()
        for (const call of [
          client.publish(stream, { message_id: 'm', payload: '' }, { signal }),
          client.publishWithRetry(stream, { message_id: 'm', payload: '' }, undefined, { signal }),
          client.describeStream(stream, { signal }),
          client.deleteStream(stream, { signal, force: true }),
          client.fetch(stream, {}, { signal }),
          client.claimQueue(stream, 'g', {}, { signal }),
        ]) {
          const { kind, code, retryable } = await refusalOf(call)
          assert.deepEqual([kind, code, retryable], ['Aborted', 'aborted', false])
        }
        assert.equal((await client.describeStream(stream)).next_offset, 0)
      })

      it('that said stop before ends a wait at once: records are read, and nothing is claimed', async () => {
        const stream = await newStream(client)
        await client.publish(stream, { message_id: 'm', payload: '' })
        const signal = AbortSignal.abort()
        const { records } = await client.fetch(stream, { wait_millis: 1000 }, { signal })
        assert.deepEqual(
          records.map(({ message_id }) => message_id),
          ['m'],
        )
        const { deliveries } = await client.claimQueue(stream, 'g', { wait_millis: 1000 }, { signal })
        assert.deepEqual([deliveries, (await client.inspectLeases(stream, 'g')).leases], [[], []])
      })

      it('that says stop meanwhile ends the waiting of the caller, and leaves nothing behind', async () => {
        const stream = await newStream(client)
        const stop = new AbortController()
        const call = client.publish(stream, { message_id: 'm', payload: '' }, stop)
        stop.abort()
        const { kind } = await refusalOf(call)
        assert.equal(kind, 'Aborted')
        assert.equal((await client.describeStream(stream)).stream, stream)
      })
    })
  })
