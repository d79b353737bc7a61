import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import protobuf from 'protobufjs'
import { MalformedBatchError, OtlpBatch, RECORDS_PER_BATCH_MAX } from '../../native-free-codecs/otlp-batch.ts'
import { scanLogsProtobuf, scanTracesProtobuf } from '../../native-free-codecs/otlp-protobuf-scan.ts'
import { messageType } from '../../src/logstore/query/render/otlp-types.ts'
import {
  encode,
  encodeLogs,
  encodeTraces,
  LOGS_REQUEST,
  logsRequest,
  logsRequests,
  text,
  tracesRequest,
  tracesRequests,
} from '../support/otlp.ts'
import type { KeyValue, LogRecord } from '../support/otlp.ts'
import { describedByProtobufjs, describedByScan, LOG_RECORD, SPAN, timeOf } from './described.ts'
import type { Described } from './described.ts'

const TRACE_ID = Buffer.from('0102030405060708090a0b0c0d0e0f10', 'hex')
const SPAN_ID = Buffer.from('0102030405060708', 'hex')

const scanLogs = (bytes: Uint8Array): OtlpBatch => {
  const batch = new OtlpBatch()
  scanLogsProtobuf(bytes, 0, bytes.length, batch)
  return batch
}
const scanTraces = (bytes: Uint8Array): OtlpBatch => {
  const batch = new OtlpBatch()
  scanTracesProtobuf(bytes, 0, bytes.length, batch)
  return batch
}
const one = (record: LogRecord, attributes?: KeyValue[]): OtlpBatch =>
  scanLogs(encodeLogs(logsRequest([record], attributes)))

/** A length-delimited field. */
const field = (number: number, ...content: Uint8Array[]): Buffer => {
  const bytes = Buffer.concat(content)
  return Buffer.from(
    new protobuf.Writer()
      .uint32(number * 8 + 2)
      .bytes(bytes)
      .finish(),
  )
}
const logs = (...record: Uint8Array[]): Buffer => field(1, field(2, field(2, ...record)))

describe('the protobuf scanner', () => {
  it('finds every record with its range, time, trace id, scope and resource', () => {
    const body = encodeLogs(
      logsRequest([{ timeUnixNano: '1732181000123456789', body: { stringValue: 'hi' }, traceId: TRACE_ID }, {}]),
    )
    const batch = scanLogs(body)
    assert.equal(batch.recordCount, 2)
    assert.equal(timeOf(batch, 0), 1732181000123456789n)
    assert.deepEqual([...batch.traceWords.subarray(0, 8)], [0x01020304, 0x05060708, 0x090a0b0c, 0x0d0e0f10, 0, 0, 0, 0])
    assert.equal(batch.resourceTenantClaim[0], 'local')
    assert.equal(batch.resourceDataset[0], 'checkout')
    const record = messageType(LOG_RECORD).decode(body.subarray(batch.recordStart[0], batch.recordEnd[0]))
    assert.equal(record.toJSON()['body'].stringValue, 'hi')
  })

  it('takes the observed time when there is no time, and says 0 when there is neither', () => {
    assert.equal(timeOf(one({ observedTimeUnixNano: '7' }), 0), 7n)
    assert.equal(timeOf(one({ timeUnixNano: '0', observedTimeUnixNano: '18446744073709551615' }), 0), 2n ** 64n - 1n)
    assert.equal(timeOf(one({ timeUnixNano: '5', observedTimeUnixNano: '7' }), 0), 5n)
    assert.equal(timeOf(one({}), 0), 0n)
  })

  it('keeps a log record with invalid ids, without them', () => {
    for (const traceId of [Buffer.alloc(16), TRACE_ID.subarray(1), Buffer.concat([TRACE_ID, SPAN_ID])]) {
      assert.deepEqual([...one({ traceId }).traceWords.subarray(0, 4)], [0, 0, 0, 0])
    }
  })

  it('refuses a batch with a span without valid ids', () => {
    for (const [traceId, spanId] of [
      [Buffer.alloc(16), SPAN_ID],
      [TRACE_ID, Buffer.alloc(8)],
      [TRACE_ID.subarray(1), SPAN_ID],
      [TRACE_ID, SPAN_ID.subarray(1)],
      [Buffer.alloc(0), SPAN_ID],
    ] as const) {
      assert.throws(() => scanTraces(encodeTraces(tracesRequest([{ traceId, spanId }]))), MalformedBatchError)
    }
    assert.equal(scanTraces(encodeTraces(tracesRequest([{ traceId: TRACE_ID, spanId: SPAN_ID }]))).recordCount, 1)
  })

  it('counts all records, describes the first 512 and validates the rest', () => {
    const many = encodeLogs(logsRequest(Array.from({ length: 600 }, () => ({ severityText: 'INFO' }))))
    const batch = scanLogs(many)
    assert.equal(batch.recordCount, 600)
    assert.equal(batch.recordGroup[RECORDS_PER_BATCH_MAX - 1], 0)
    assert.throws(() => scanLogs(Buffer.concat([many, logs(Buffer.of(0x1a, 5))])), MalformedBatchError)
  })

  it('numbers only groups and resources that have described records', () => {
    const batch = scanLogs(
      encodeLogs({
        resourceLogs: [
          { scopeLogs: [] },
          { scopeLogs: [{ logRecords: [] }, { logRecords: [{ flags: 1 }] }] },
          { resource: { attributes: [text('service.name', 'b')] }, scopeLogs: [{ scope: {}, logRecords: [{}, {}] }] },
        ],
      }),
    )
    assert.equal(batch.recordCount, 3)
    assert.equal(batch.groupCount, 2)
    assert.equal(batch.resourceCount, 2)
    assert.deepEqual([...batch.recordGroup.subarray(0, 3)], [0, 1, 1])
    assert.deepEqual([...batch.groupResource.subarray(0, 2)], [0, 1])
    assert.deepEqual([batch.resourceStart[0], batch.resourceEnd[0]], [0, 0]) // absent
    assert.deepEqual([batch.groupScopeStart[0], batch.groupScopeEnd[0]], [0, 0])
    assert.ok(batch.groupScopeStart[1]! > 0) // present and empty
    assert.equal(batch.groupScopeStart[1], batch.groupScopeEnd[1])
    assert.deepEqual(batch.resourceDataset.slice(0, 2), [null, 'b'])
  })

  it('takes an empty body and empty envelopes for a batch of no records', () => {
    assert.equal(scanLogs(Buffer.alloc(0)).recordCount, 0)
    assert.equal(scanLogs(encodeLogs({ resourceLogs: [{ scopeLogs: [] }] })).recordCount, 0)
  })

  it('reads the same from the middle of a SharedArrayBuffer', () => {
    const body = encodeLogs(logsRequest([{ severityText: 'größe', body: { stringValue: 'x'.repeat(99) }, flags: 1 }]))
    for (const offset of [0, 1, 2, 3, 64]) {
      const shared = new Uint8Array(new SharedArrayBuffer(body.length + offset), offset)
      shared.set(body)
      const batch = new OtlpBatch()
      scanLogsProtobuf(shared, 0, body.length, batch)
      assert.deepEqual(describedByScan(shared, batch, LOG_RECORD), describedByScan(body, scanLogs(body), LOG_RECORD))
    }
  })
})

describe('the claims of a resource', () => {
  const claims = (...attributes: KeyValue[]) => {
    const batch = one({}, attributes)
    return [batch.resourceTenantClaim[0], batch.resourceTenantConflict[0], batch.resourceDataset[0]]
  }

  it('come from either tenant attribute and may come twice when they agree', () => {
    assert.deepEqual(claims(text('tenant_id', 'a')), ['a', false, null])
    assert.deepEqual(claims(text('service.logstore.tenant_id', 'a')), ['a', false, null])
    assert.deepEqual(claims(text('tenant_id', 'a'), text('service.logstore.tenant_id', 'a')), ['a', false, null])
    assert.deepEqual(claims(), [null, false, null])
  })

  it('conflict when they differ, and when one is not a string', () => {
    assert.equal(claims(text('tenant_id', 'a'), text('service.logstore.tenant_id', 'b'))[1], true)
    assert.equal(claims(text('tenant_id', 'a'), text('tenant_id', 'b'))[1], true)
    assert.equal(claims(text('tenant_id', 'a'), { key: 'tenant_id', value: { intValue: '1' } })[1], true)
    assert.equal(claims({ key: 'tenant_id' })[1], true)
  })

  it('name no dataset when service.name is empty or not a string, and the last one wins', () => {
    assert.equal(claims(text('service.name', ''))[2], null)
    assert.equal(claims({ key: 'service.name', value: { boolValue: true } })[2], null)
    assert.equal(claims(text('service.name', 'a'), text('service.name', 'b'))[2], 'b')
  })

  it('are not mixed up when batches with different resources alternate', () => {
    for (const name of ['a', 'b', 'a', 'ab', 'b']) assert.equal(claims(text('service.name', name))[2], name)
  })

  it('come from one resource: a second one in its group is refused, and a second scope too', () => {
    const resource = field(1, encode('opentelemetry.proto.resource.v1.Resource', { attributes: [text('a', 'b')] }))
    const scope = field(1, encode('opentelemetry.proto.common.v1.InstrumentationScope', { name: 'n' }))
    const record = field(2)
    assert.equal(scanLogs(field(1, field(2, record, scope), resource)).recordCount, 1)
    assert.throws(() => scanLogs(field(1, resource, field(2, record), resource)), /a second resource in a group/)
    assert.throws(() => scanLogs(field(1, field(2, scope, record, scope))), /a second scope in a group/)
  })
})

describe('a malformed protobuf batch', () => {
  const refused: Record<string, Buffer> = {
    'field number 0': logs(Buffer.of(0x02, 0x00)),
    'an end group tag without a group': logs(Buffer.of(0x0c)),
    'a group that is not closed': logs(Buffer.of(0x9b, 0x06, 0x08, 0x01)),
    'a group closed by another number': logs(Buffer.of(0x9b, 0x06, 0xa4, 0x06)),
    'wire type 6': logs(Buffer.of(0x0e)),
    'a length beyond the message': logs(Buffer.of(0x1a, 0x05, 0x61)),
    'a length over 31 bits': logs(Buffer.of(0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f)),
    'a tag over 32 bits': logs(Buffer.of(0x9a, 0x80, 0x80, 0x80, 0x10, 0x00)),
    'a truncated varint': logs(Buffer.of(0x10, 0x80)),
    'a varint of 11 bytes': logs(Buffer.of(0x10, ...Buffer.alloc(10, 0x80), 0x00)),
    'a truncated fixed64': logs(Buffer.of(0x09, 1, 2, 3)),
    'a string that is not UTF-8': logs(Buffer.of(0x1a, 0x01, 0xff)),
    'a key that is not UTF-8, deep inside': logs(field(5, field(6, field(1, field(1, Buffer.of(0xc0, 0x80)))))),
  }
  for (const [what, bytes] of Object.entries(refused)) {
    it(`is refused for ${what}`, () => {
      assert.throws(() => scanLogs(bytes), MalformedBatchError)
      assert.throws(() => messageType(LOGS_REQUEST).decode(bytes))
    })
  }

  it('says where and quotes nothing of the payload', () => {
    assert.throws(
      () => scanLogs(logs(field(3, Buffer.from('secret'), Buffer.of(0xff)))),
      (error: MalformedBatchError) => {
        assert.match(error.message, /^protobuf string that is not UTF-8 at byte 8$/)
        assert.equal(error.byteOffset, 8)
        return true
      },
    )
  })

  it('is one nested deeper than 100 messages, like protobufjs says', () => {
    const nested = (levels: number): Buffer => {
      let value: Buffer = Buffer.alloc(0)
      for (let i = 0; i < levels; i++) value = field(5, field(1, value))
      return logs(field(5, value))
    }
    assert.equal(scanLogs(nested(48)).recordCount, 1)
    messageType(LOGS_REQUEST).decode(nested(48))
    assert.throws(() => scanLogs(nested(49)), MalformedBatchError)
    assert.throws(() => messageType(LOGS_REQUEST).decode(nested(49)))
  })
})

describe('fields a scanner does not know', () => {
  for (const [what, bytes] of Object.entries({
    varint: Buffer.of(0xf8, 0x06, 0x96, 0x01),
    fixed64: Buffer.of(0xf9, 0x06, 1, 2, 3, 4, 5, 6, 7, 8),
    bytes: Buffer.of(0xfa, 0x06, 0x02, 0xff, 0xfe),
    'balanced groups': Buffer.of(0xfb, 0x06, 0x0b, 0x08, 0x01, 0x0c, 0xfc, 0x06),
    fixed32: Buffer.of(0xfd, 0x06, 1, 2, 3, 4),
    'a known number with another wire type': Buffer.of(0x08, 0x01),
  })) {
    it(`are ignored: ${what}`, () => {
      const batch = scanLogs(logs(bytes, Buffer.of(0x59, 9, 0, 0, 0, 0, 0, 0, 0)))
      assert.equal(timeOf(batch, 0), 9n)
    })
  }

  it('may be written with a longer tag and still be a known one', () => {
    assert.equal(timeOf(scanLogs(logs(Buffer.of(0x89, 0x00, 3, 0, 0, 0, 0, 0, 0, 0))), 0), 3n)
  })
})

test('the scanner describes what protobufjs decodes: ranges, times, ids, claims and datasets', () => {
  fc.assert(
    fc.property(logsRequests, (request) => {
      const body = encodeLogs(request)
      assert.deepEqual(describedByScan(body, scanLogs(body), LOG_RECORD), describedByProtobufjs(body, 'log'))
    }),
    { numRuns: 150 },
  )
  fc.assert(
    fc.property(tracesRequests, (request) => {
      const body = encodeTraces(request)
      assert.deepEqual(describedByScan(body, scanTraces(body), SPAN), describedByProtobufjs(body, 'trace'))
    }),
    { numRuns: 150 },
  )
})

/**
 * Asserts that the scanner refuses the bytes as malformed, or describes their records like protobufjs. Resources and scopes are decoded but not
 * compared: if a group has two, protobufjs merges them, and the scanner takes the last.
 */
function checkAnyBytes(bytes: Buffer, signal: 'log' | 'trace'): void {
  let batch: OtlpBatch
  try {
    batch = signal === 'log' ? scanLogs(bytes) : scanTraces(bytes)
  } catch (error) {
    assert.ok(error instanceof MalformedBatchError, String(error))
    return
  }
  const ofRecord = ({ time, traceId, record }: Described) => ({ time, traceId, record })
  assert.deepEqual(
    describedByScan(bytes, batch, signal === 'log' ? LOG_RECORD : SPAN).map(ofRecord),
    describedByProtobufjs(bytes, signal).map(ofRecord),
  )
}

const mutations = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { minLength: 1, maxLength: 4 })

test('a batch cut at any byte is malformed or a shorter batch that protobufjs accepts too', () => {
  fc.assert(
    fc.property(logsRequests, (request) => {
      const body = encodeLogs(request)
      for (let cut = 0; cut < body.length; cut += 1 + Math.floor(body.length / 100)) {
        checkAnyBytes(body.subarray(0, cut), 'log')
      }
    }),
    { numRuns: 40 },
  )
})

test('a batch with damaged bytes is malformed or one that protobufjs accepts too', () => {
  const damaged = (body: Buffer, changes: [number, number][]): Buffer => {
    for (const [at, byte] of changes) if (body.length > 0) body[at % body.length] = byte
    return body
  }
  fc.assert(
    fc.property(logsRequests, mutations, (request, changes) => {
      checkAnyBytes(damaged(encodeLogs(request), changes), 'log')
    }),
    { numRuns: 1500 },
  )
  fc.assert(
    fc.property(tracesRequests, mutations, (request, changes) => {
      checkAnyBytes(damaged(encodeTraces(request), changes), 'trace')
    }),
    { numRuns: 1000 },
  )
})

test('random bytes are malformed or protobufjs accepts them too', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => checkAnyBytes(Buffer.from(bytes), 'log')),
    { numRuns: 2000 },
  )
})
