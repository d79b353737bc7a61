import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { serializer } from '../../../src/http/serializer.ts'
import { publishText } from '../../../src/broker/api/publish-text.ts'
import { PublishReply } from '../../../src/broker/wire/record-answers.ts'
import { codePoint } from '../../support/code-point.ts'

const bySchema = serializer(PublishReply)
const acknowledgements = [
  { durability: 'local-sync', durable: true, replicas: 1 },
  { durability: 'volatile', durable: false, replicas: 0 },
]
const receipt = {
  policy: 'p',
  source_site: 'a',
  target_site: 'b',
  next_expected_offset: 1,
  target_watermark: 2,
  acknowledged_at_ms: 3,
}
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: codePoint }),
  fc.constantFrom('plain', '"', '\\', '\u007f', 'ä', '\ud800'),
)
const reply = fc.record(
  {
    api_version: fc.constant('v1' as const),
    stream: fc.oneof(fc.constant('orders'), text),
    offset: fc.nat(),
    next_offset: fc.maxSafeNat(),
    message_id: text,
    ingest_time_ms: fc.constantFrom(1_700_000_000_000, 1_700_000_000_001),
    payload_bytes: fc.nat(),
    acknowledgement: fc.constantFrom(...acknowledgements),
    replication_receipt: fc.constant(receipt),
  },
  {
    requiredKeys: [
      'api_version',
      'stream',
      'offset',
      'next_offset',
      'message_id',
      'ingest_time_ms',
      'payload_bytes',
      'acknowledgement',
    ],
  },
)

it('T1: an answer to a publish is what its schema makes of it, whatever the one before was', () => {
  fc.assert(fc.property(reply, (reply) => assert.equal(publishText(reply), bySchema(reply))))
})
