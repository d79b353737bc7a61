/** Claims of more records than one answer can hold: specification "Shared queue" and "States and transitions", where attempts are counted. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { NackReply } from '../../../src/broker/wire/queue-answers.ts'
import { BrokerServer, Delivery } from '../../support/broker.ts'
import type { Stream } from '../../support/broker.ts'

const HOUR_MS = 3_600_000
const RECORDS = 16
const PAYLOAD = 'x'.repeat(8 << 20)

describe('a claim of more than 32 MiB', () => {
  let broker: BrokerServer
  let stream: Stream
  before(async () => {
    broker = await BrokerServer.start({ flags: ['--flush-policy', 'append-only'] })
    const dead = await broker.newStream()
    stream = await broker.newStream({ failure_policy: { max_attempts: 3, dead_letter_stream: dead.name } })
    for (let n = 0; n < RECORDS; n++) await stream.publish(PAYLOAD)
  })
  after(() => broker.stop())

  it('leases what its answer holds: all else has its first attempt before it, and next_offset is where it begins', async () => {
    const group = stream.group()
    const given: Delivery[] = []
    while (given.length < RECORDS) {
      const { deliveries, next_offset } = await group.claimed({ max_messages: RECORDS, lease_timeout_millis: HOUR_MS })
      assert(deliveries.length === 4 || given.length + deliveries.length === RECORDS)
      for (const fields of deliveries) {
        assert.deepEqual([fields.offset, fields.attempt], [given.length, 1])
        given.push(new Delivery(group, fields))
      }
      assert.equal(next_offset, given.length)
      assert.equal((await group.describe()).in_flight_count, given.length)
    }
    assert.equal((await given.at(-1)!.nack(true)).succeeded(NackReply).policy_action, 'redeliver_now')
  })
})
