/** What every subscription does, wherever the broker is and over any transport. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { BrokerClient } from '../../src/client/index.ts'
import { eventually } from '../support/waiting.ts'
import { KINDS, openSource } from './sources.ts'
import type { ClientSource } from './sources.ts'
import { newStream, refusalOf, take } from './support.ts'

/** Deletes the stream, and creates another of its name with records. */
async function replace(client: BrokerClient, stream: string): Promise<void> {
  const before = await client.describeStream(stream)
  for (let createdAtMs = before.created_at_ms; createdAtMs === before.created_at_ms;) {
    await client.deleteStream(stream)
    await client.createStream(stream)
    createdAtMs = (await client.describeStream(stream)).created_at_ms
  }
  for (const message_id of ['new-0', 'new-1']) await client.publish(stream, { message_id, payload: '' })
}

for (const kind of KINDS)
  describe(`a subscriber ${kind}`, () => {
    let source: ClientSource
    let client: BrokerClient
    before(async () => {
      source = await openSource(kind)
      client = await source.client({ producerId: 'tester' })
    })
    after(() => source.close())

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

      it('ends when its stream is deleted while nobody asks, though another one has its name', async () => {
        const stream = await newStream(client, 'a')
        const records = client.subscribeReplay(stream)
        const deliveries = client.subscribeQueue(stream, 'g')
        await records.next()
        await deliveries.next()
        await replace(client, stream)
        assert.equal((await refusalOf(records.next())).code, 'stream_not_found')
        assert.equal((await refusalOf(deliveries.next())).code, 'missing_stream')
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
        await source.noClaimWaits()
        await client.publish(stream, { message_id: 'm', payload: '' })
        for (const group of ['workers', 'others']) {
          assert.equal((await client.describeConsumerGroup(stream, group)).in_flight_count, 0)
        }
      })
    })

    describe('a queue subscription with handlers', () => {
      it('acknowledges what they do, gives back what they fail at, and handles several at a time', async () => {
        const stream = await newStream(client)
        const ids = Array.from({ length: 30 }, (_, i) => `job-${i}`)
        await client.publishBatch(
          stream,
          ids.map((message_id) => ({ message_id, payload: '' })),
        )
        const stop = new AbortController()
        const done: string[] = []
        const failures: unknown[] = []
        let [running, most] = [0, 0]
        const gate = Promise.withResolvers<void>()
        await client
          .subscribeQueue(stream, 'workers', {
            signal: stop.signal,
            concurrency: 3,
            prefetch: 8,
            onHandlerError: (_, error) => failures.push(error),
          })
          .handle(async ({ record, attempt }) => {
            running += 1
            most = Math.max(most, running)
            if (most === 3) gate.resolve()
            await gate.promise
            running -= 1
            if (record.message_id === 'job-7' && attempt === 1) throw new Error('once')
            if (done.push(record.message_id) === ids.length) stop.abort()
          })
        assert.deepEqual(done.sort(), ids.sort())
        assert.deepEqual([most, failures.map(String)], [3, ['Error: once']])
        const { lag_messages, in_flight_count } = await client.describeConsumerGroup(stream, 'workers')
        assert.deepEqual([lag_messages, in_flight_count], [0, 0])
      })

      it('leaves alone what a handler settled itself', async () => {
        const stream = await newStream(client, 'a')
        const dead = await newStream(client)
        const stop = new AbortController()
        await client.subscribeQueue(stream, 'g', { signal: stop.signal }).handle(async (delivery) => {
          await client.deadLetter(delivery, { dead_letter_stream: dead, reason: 'poison' })
          stop.abort()
        })
        const { leases } = await client.inspectLeases(stream, 'g', { include_completed: true })
        assert.deepEqual(
          leases.map(({ state }) => state),
          ['dead_lettered'],
        )
      })

      it('acknowledges what a handler did after it found no dead-letter stream', async () => {
        const stream = await newStream(client, 'a')
        const stop = new AbortController()
        await client.subscribeQueue(stream, 'g', { signal: stop.signal }).handle(async (delivery) => {
          const refused = client.deadLetter(delivery, { dead_letter_stream: 'nowhere', reason: 'poison' })
          assert.equal((await refusalOf(refused)).code, 'missing_stream')
          stop.abort()
        })
        const { leases } = await client.inspectLeases(stream, 'g', { include_completed: true })
        assert.deepEqual(
          leases.map(({ state }) => state),
          ['acked'],
        )
      })

      it('renews leases for as long as a handler takes, however short they are', async () => {
        const stream = await newStream(client, 'slow')
        const stop = new AbortController()
        const attempts: number[] = []
        await client
          .subscribeQueue(stream, 'g', { signal: stop.signal, lease_timeout_millis: 2000 })
          .handle(async ({ attempt, delivery_id, lease_expires_at_ms }) => {
            attempts.push(attempt)
            const isRenewed = async (): Promise<boolean> => {
              const { leases } = await client.inspectLeases(stream, 'g')
              const lease = leases.find((each) => each.delivery_id === delivery_id)
              return lease === undefined || lease.lease_expires_at_ms! > lease_expires_at_ms + 1000
            }
            await eventually(isRenewed)
            if ((await client.describeConsumerGroup(stream, 'g')).in_flight_count === 1) stop.abort()
          })
        assert.equal((await client.describeConsumerGroup(stream, 'g')).lag_messages, 0)
        assert.ok(attempts.length >= 1)
      })

      it('says when a lease is lost, and lets the handler know', async () => {
        const stream = await newStream(client, 'a')
        const stop = new AbortController()
        const lost: string[] = []
        await client
          .subscribeQueue(stream, 'g', {
            signal: stop.signal,
            lease_timeout_millis: 50,
            renew_for_millis: 0,
            onLeaseLost: ({ record }, { code }) => lost.push(`${record.message_id} ${code}`),
          })
          .handle(async (_, signal) => {
            await new Promise((resolve) => signal.addEventListener('abort', resolve))
            stop.abort()
          })
        assert.deepEqual(lost, ['a lease_expired'])
        await eventually(async () => (await client.claimQueue(stream, 'g')).delivery_count === 1)
      })

      it('takes no settings that are none', async () => {
        const stream = await newStream(client)
        for (const options of [{ prefetch: -1 }, { prefetch: 1001 }, { concurrency: 0 }, { renew_for_millis: 0.5 }]) {
          assert.equal((await refusalOf(client.subscribeQueue(stream, 'g', options).next())).kind, 'InvalidConfig')
          assert.equal(
            (await refusalOf(client.subscribeQueue(stream, 'g', options).handle(() => {}))).kind,
            'InvalidConfig',
          )
        }
      })
    })
  })
