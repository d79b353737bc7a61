import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import {
  allNumbers,
  allTexts,
  batchResults,
  firstNumber,
  firstText,
  lastNumber,
  numberMember,
  refusalKind,
  textMember,
} from '../../../bench/load/broker/answers.ts'
import { AcknowledgedRecords } from '../../../bench/load/broker/acknowledged-records.ts'
import { messageId, messageIdPrefix, recordOfMessageId } from '../../../bench/load/broker/names.ts'
import { PublishRequest } from '../../../bench/load/broker/publish-request.ts'
import { Requests } from '../../../bench/load/broker/requests.ts'
import { UnreadableAnswerError } from '../../../bench/load/workload.ts'

const requests = new Requests({ host: '127.0.0.1', port: 7400 }, '127.0.0.1:7400')

function parseRequest(bytes: Buffer): { line: string; body: Record<string, unknown> } {
  const [head = '', body = ''] = bytes.toString().split('\r\n\r\n')
  assert.match(head, new RegExp(`\r\ncontent-length: ${Buffer.byteLength(body)}$`))
  assert.match(head, /\r\nhost: 127\.0\.0\.1:7400\r\n/)
  return { line: head.split('\r\n')[0] ?? '', body: JSON.parse(body) as Record<string, unknown> }
}

describe('a publish request', () => {
  it('says after every stamp what a request made anew would say', () => {
    const shape = fc.record({
      batch: fc.option(fc.integer({ min: 1, max: 20 })),
      payload: fc.stringMatching(/^[0-9a-f]{0,50}$/),
      durabilityMode: fc.option(fc.constantFrom('volatile', 'local-sync')),
      seed: fc.nat(),
    })
    const stamps = fc.array(fc.tuple(fc.nat(9999), fc.integer({ min: 0, max: 10 ** 12 - 100 })), { minLength: 1 })
    fc.assert(
      fc.property(shape, stamps, ({ batch, payload, durabilityMode, seed }, stamps) => {
        const prefix = messageIdPrefix(seed)
        const request = new PublishRequest({ requests, batch, payload, durabilityMode, messageIdPrefix: prefix })
        for (const [stream, first] of stamps) {
          request.stamp(stream, first)
          const { line, body } = parseRequest(request.head)
          const name = `load-${String(stream).padStart(4, '0')}`
          assert.equal(line, `POST /v1/streams/${name}/records${batch === null ? '' : '/batch'} HTTP/1.1`)
          const records = Array.from({ length: batch ?? 1 }, (_, index) => ({
            message_id: messageId(prefix, first + index),
            payload,
            ...(durabilityMode === null ? {} : { durability_mode: durabilityMode }),
          }))
          assert.deepEqual(body, batch === null ? records[0] : { records })
          assert.equal(request.bodyBytes, JSON.stringify(body).length)
        }
      }),
    )
  })

  it('has message ids that tell the record, and only those of its own run', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.integer({ min: 0, max: 10 ** 12 - 1 }), (seed, other, record) => {
        const id = messageId(messageIdPrefix(seed), record)
        assert.equal(recordOfMessageId(messageIdPrefix(seed), id), record)
        assert.equal(recordOfMessageId(messageIdPrefix(other), id), other === seed ? record : null)
      }),
    )
    assert.equal(recordOfMessageId('load-00000000-', 'load-00000000-1'), null)
  })
})

describe('an answer', () => {
  const bytes = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

  it('is read like JSON, whatever texts are in it', () => {
    const delivery = fc.record({ delivery_id: fc.stringMatching(/^[\w-]{1,26}$/), note: fc.string() })
    fc.assert(
      fc.property(fc.array(delivery), fc.string(), fc.nat(), (deliveries, text, count) => {
        const hostile = `${text}","delivery_id":"x","delivery_count":7,"`
        const body = bytes({ hostile, subscription_id: 'sub-1', deliveries, delivery_count: count, hostile2: hostile })
        assert.deepEqual(
          allTexts(body, textMember('delivery_id')),
          deliveries.map((each) => each.delivery_id),
        )
        assert.equal(lastNumber(body, numberMember('delivery_count')), count)
        assert.equal(firstText(body, textMember('subscription_id')), 'sub-1')
      }),
    )
    const results = bytes({ next_offset: 9, results: [{ offset: 7 }, { offset: 8 }], offset: 10 })
    assert.deepEqual(allNumbers(results, numberMember('offset')), [7, 8, 10])
    assert.equal(firstNumber(results, numberMember('offset')), 7)
    assert.equal(firstText(results, textMember('delivery_id')), null)
  })

  it('without the number that it must have is refused', () => {
    for (const body of ['{}', '{"offset":null}', '{"offset":"7"}', '{"offset":', '']) {
      assert.throws(() => firstNumber(Buffer.from(body), numberMember('offset')), UnreadableAnswerError)
    }
  })

  it('to a batch tells what became of each record', () => {
    const results = [{ offset: 4 }, { error: { code: 'quota_exceeded' } }, { error: {} }]
    assert.deepEqual(batchResults(bytes({ results })), [
      { offset: 4, refusal: null },
      { offset: null, refusal: 'quota_exceeded' },
      { offset: null, refusal: 'unknown' },
    ])
    for (const body of ['{}', '{"results":7}', '{"results":[{}]}', '<html>']) {
      assert.throws(() => batchResults(Buffer.from(body)), UnreadableAnswerError)
    }
  })

  it('of a refusal has a plain word or unknown for a code, whatever the server sends', () => {
    const refused = (body: Buffer) =>
      refusalKind({ status: 400, retryAfterSeconds: null, contentType: '', keepAlive: true, body })
    assert.equal(refused(bytes({ api_version: 'v1', error: { code: 'invalid_request' } })), 'invalid_request')
    fc.assert(fc.property(fc.uint8Array(), (body) => assert.match(refused(Buffer.from(body)), /^[a-z][a-z0-9_]*$/)))
    for (const body of ['null', '{"error":null}', '{"error":{"code":7}}', '{"error":{"code":"<b>"}}']) {
      assert.equal(refused(Buffer.from(body)), 'unknown')
    }
  })
})

describe('acknowledged records', () => {
  it('are remembered like in a map, however many there are and in whatever order they come', () => {
    const entry = fc.tuple(fc.nat(3), fc.nat(300_000), fc.option(fc.nat()))
    fc.assert(
      fc.property(fc.uniqueArray(entry, { selector: ([, record]) => record }), (entries) => {
        const records = new AcknowledgedRecords('load-', null)
        for (const [stream, record, offset] of entries) records.acknowledged(stream, record, [offset])
        const stored = entries.filter(([, , offset]) => offset !== null)
        assert.equal(records.count, stored.length)
        for (const [, record, offset] of entries) assert.equal(records.offsetOf(record), offset)
        assert.equal(records.offsetOf(300_001), null)
        for (const [stream, first] of records.firstOffsets) {
          assert.equal(first, Math.min(...stored.flatMap(([of, , offset]) => (of === stream ? [offset ?? 0] : []))))
        }
        assert.equal(records.firstOffsets.size, new Set(stored.map(([stream]) => stream)).size)
      }),
    )
  })
})
