import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { claimReply, emptyClaimReply } from '../../../src/broker/operations/claim-reply.ts'
import { OFFSET_MAX } from '../../../src/broker/limits.ts'
import { Tokens } from '../../../src/broker/tokens.ts'

const tokens = new Tokens(new Uint8Array(16))
const name = fc.string({ unit: fc.constantFrom('a', '"', '\\', 'é', '😀', ' '), minLength: 1, maxLength: 20 })
const timeMs = fc.constantFrom(0, 1_800_000_000_000, Number.MAX_SAFE_INTEGER)

const record = fc.record(
  { message_id: fc.string(), payload_hex: fc.constantFrom('', '00', 'ff'.repeat(500)) },
  { noNullPrototype: true },
)
const delivery = fc.record({
  offset: fc.constantFrom(0, 5, OFFSET_MAX),
  attempt: fc.constantFrom(1, 4_294_967_295),
  /** Null: the record cannot be read. */
  record: fc.option(record),
})

test('a claim’s answer has each record that could be read in an envelope of its own, in order, whatever its length', () => {
  fc.assert(
    fc.property(name, name, fc.array(delivery, { minLength: 1 }), timeMs, (stream, group, given, nowMs) => {
      const texts = given.map(({ record }) => Buffer.from(record === null ? '' : JSON.stringify(record)))
      const ends = texts.map((_, i) => texts.slice(0, i + 1).reduce((sum, text) => sum + text.byteLength, 0))
      const deliveries = given.map(({ offset, attempt }) => ({ offset, attempt }))
      const ids = tokens.claim(1, 2, deliveries)
      const bytes = claimReply({
        stream,
        streamCreatedAtMs: 7,
        group,
        ids,
        leasedAtMs: nowMs,
        expiresAtMs: nowMs,
        remainingMs: 17,
        fencingToken: 3,
        deliveries,
        records: {
          bytes: Buffer.concat(texts),
          bytesDone: () => {},
          unreadable: [],
          start: (number) => ends[number - 1] ?? 0,
          end: (number) => ends[number]!,
        },
        nextOffset: 9,
      })
      const expected = deliveries.flatMap(({ offset, attempt }, i) => {
        const { record } = given[i]!
        if (record === null) return []
        const lease = { leased_at_ms: nowMs, lease_expires_at_ms: nowMs, lease_remaining_millis: 17, fencing_token: 3 }
        return [
          { delivery_id: ids.deliveryIds[i], subscription_id: ids.subscriptionId, offset, attempt, ...lease, record },
        ]
      })
      assert.deepEqual(JSON.parse(bytes.toString()), {
        api_version: 'v1',
        stream,
        stream_created_at_ms: 7,
        consumer_group: group,
        subscription_id: ids.subscriptionId,
        deliveries: expected,
        next_offset: 9,
        delivery_count: expected.length,
      })
    }),
  )
})

test('an empty answer has the same fields', () => {
  const bytes = emptyClaimReply({
    stream: 's"',
    streamCreatedAtMs: 7,
    group: 'g',
    subscriptionId: 'sub-x',
    nextOffset: 3,
  })
  assert.deepEqual(JSON.parse(bytes.toString()), {
    api_version: 'v1',
    stream: 's"',
    stream_created_at_ms: 7,
    consumer_group: 'g',
    subscription_id: 'sub-x',
    deliveries: [],
    next_offset: 3,
    delivery_count: 0,
  })
})
