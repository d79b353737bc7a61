import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { MalformedBatchError, OtlpBatch } from '../../native-free-codecs/otlp-batch.ts'
import { scanLogsJson, scanTracesJson } from '../../native-free-codecs/otlp-json-scan.ts'
import { scanLogsProtobuf, scanTracesProtobuf } from '../../native-free-codecs/otlp-protobuf-scan.ts'
import { splitBatch } from '../../native-free-codecs/otlp-split.ts'
import type { BatchForm } from '../../native-free-codecs/otlp-split.ts'
import { encodeLogs, encodeTraces, logsRequest, logsRequests, toOtlpJson, tracesRequests } from '../support/otlp.ts'

const SCANS = {
  'logs protobuf': scanLogsProtobuf,
  'traces protobuf': scanTracesProtobuf,
  'logs json': scanLogsJson,
  'traces json': scanTracesJson,
} as const

const WIDE = 2000
/** Name of a whole batch. */
const NAME = Buffer.alloc(32, 7)

function scanned(body: Buffer, form: BatchForm, { capacity = WIDE, isLenient = false } = {}): OtlpBatch {
  const batch = new OtlpBatch(capacity)
  batch.isLenient = isLenient
  SCANS[form](body, 0, body.byteLength, batch)
  return batch
}

/** Each record with its resource and scope, as the bytes that were sent. */
function recordsOf(batch: OtlpBatch, body: Buffer): unknown[] {
  const text = (start: number, end: number): string | null => (end === 0 ? null : body.toString('latin1', start, end))
  return Array.from({ length: batch.recordCount }, (_, record) => {
    const group = batch.recordGroup[record]!
    const resource = batch.groupResource[group]!
    return [
      text(batch.recordStart[record]!, batch.recordEnd[record]!),
      batch.timeHigh[record],
      batch.timeLow[record],
      [...batch.traceWords.subarray(4 * record, 4 * record + 4)],
      text(batch.groupScopeStart[group]!, batch.groupScopeEnd[group]!),
      text(batch.groupSchemaUrlStart[group]!, batch.groupSchemaUrlEnd[group]!),
      text(batch.resourceStart[resource]!, batch.resourceEnd[resource]!),
      text(batch.resourceSchemaUrlStart[resource]!, batch.resourceSchemaUrlEnd[resource]!),
      batch.resourceDataset[resource],
      batch.resourceTenantClaim[resource],
    ]
  })
}

const json = (request: unknown): Buffer => Buffer.from(JSON.stringify(toOtlpJson(request)))
const bodies: fc.Arbitrary<readonly [BatchForm, Buffer]> = fc.oneof(
  logsRequests.map((request) => ['logs protobuf', encodeLogs(request)] as const),
  tracesRequests.map((request) => ['traces protobuf', encodeTraces(request)] as const),
  logsRequests.map((request) => ['logs json', json(request)] as const),
  tracesRequests.map((request) => ['traces json', json(request)] as const),
)

describe('a batch that is cut', () => {
  it('has the same records in its parts, byte for byte, each with what it came in', () => {
    fc.assert(
      fc.property(
        bodies,
        fc.integer({ min: 1, max: 7 }),
        fc.constantFrom(null, NAME),
        ([form, body], recordsMax, name) => {
          const whole = scanned(body, form)
          const cut = splitBatch(whole, body, form, recordsMax, name)
          if (name !== null) assert.equal(new Set(cut.map((part) => part.toString('hex'))).size, cut.length)
          const parts = cut.map((part) => {
            const batch = scanned(part, form, { capacity: recordsMax })
            assert(batch.recordCount > 0 && batch.recordCount <= recordsMax)
            return recordsOf(batch, part)
          })
          assert.equal(parts.length, Math.ceil(whole.recordCount / recordsMax))
          assert.deepEqual(parts.flat(), recordsOf(whole, body))
        },
      ),
    )
  })

  it('is cut at lengths of any number of varint bytes', () => {
    for (const bytes of [0x7f, 0x80, 0x3fff, 0x4000, 0x20_0000]) {
      const body = encodeLogs(logsRequest([{ body: { stringValue: 'x'.repeat(bytes) } }, {}]))
      const whole = scanned(body, 'logs protobuf')
      const parts = splitBatch(whole, body, 'logs protobuf', 1)
      assert.deepEqual(
        parts.flatMap((part) => recordsOf(scanned(part, 'logs protobuf'), part)),
        recordsOf(whole, body),
      )
    }
  })
})

describe('a lenient scan', () => {
  it('leaves out malformed records of either form, counts them and says what is wrong with the first', () => {
    const good = { traceId: '0102030405060708090a0b0c0d0e0f10', spanId: '0102030405060708' }
    const spans = [good, { traceId: '00', spanId: good.spanId }, { ...good, name: 'b' }, { ...good, kind: 'x' }]
    const text = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] })
    const body = Buffer.from(text)
    assert.throws(() => scanned(body, 'traces json'), MalformedBatchError)
    const batch = scanned(body, 'traces json', { isLenient: true })
    assert.deepEqual([batch.recordCount, batch.rejectedCount], [2, 2])
    assert.match(batch.rejectedBecause, /at byte/)
    const [part] = splitBatch(batch, body, 'traces json', 10)
    const kept = recordsOf(scanned(part!, 'traces json'), part!).map((record) => (record as [string])[0])
    assert.deepEqual(kept, [JSON.stringify(good), JSON.stringify({ ...good, name: 'b' })])

    const protobuf = encodeTraces({
      resourceSpans: [
        {
          scopeSpans: [
            {
              spans: [
                { traceId: Buffer.from(good.traceId, 'hex'), spanId: Buffer.alloc(8) },
                { traceId: Buffer.from(good.traceId, 'hex'), spanId: Buffer.from(good.spanId, 'hex'), name: 'kept' },
              ],
            },
          ],
        },
      ],
    })
    const lenient = scanned(protobuf, 'traces protobuf', { isLenient: true })
    assert.deepEqual([lenient.recordCount, lenient.rejectedCount], [1, 1])
    assert.match(lenient.rejectedBecause, /span without a valid span id/)
  })

  it('finds the same as a strict one in what is well-formed, and refuses what is no batch at all', () => {
    fc.assert(
      fc.property(bodies, ([form, body]) => {
        const lenient = scanned(body, form, { isLenient: true })
        assert.deepEqual(recordsOf(lenient, body), recordsOf(scanned(body, form), body))
        assert.equal(lenient.rejectedCount, 0)
      }),
    )
    for (const text of [
      '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{]}]}]}',
      '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}',
    ]) {
      assert.throws(() => scanned(Buffer.from(text), 'logs json', { isLenient: true }), MalformedBatchError)
    }
  })
})
