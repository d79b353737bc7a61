import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { OtlpBatch } from '../../../../native-free-codecs/otlp-batch.ts'
import { scanLogsJson, scanTracesJson } from '../../../../native-free-codecs/otlp-json-scan.ts'
import { scanLogsProtobuf, scanTracesProtobuf } from '../../../../native-free-codecs/otlp-protobuf-scan.ts'
import {
  FORMAT_JSON,
  FORMAT_PROTOBUF,
  SIGNAL_LOG,
  SIGNAL_TRACE,
  SOURCE_OTLP_GRPC,
  SOURCE_OTLP_HTTP,
} from '../../../../src/logstore/batch-frame.ts'
import { PartTexts, renderRecord } from '../../../../src/logstore/query/render/record.ts'
import { anyValues, encodeLogs, encodeTraces, logsRequest, toOtlpJson, tracesRequest } from '../../../support/otlp.ts'
import type { AnyValue, LogRecord, Span } from '../../../support/otlp.ts'

const TRACE_ID = Buffer.from('0A02030405060708090a0b0c0d0e0f10', 'hex')
const SPAN_ID = Buffer.from('f102030405060708', 'hex')

interface Rendered {
  [field: string]: unknown
  raw_payload: { resource: Record<string, unknown>; scope: unknown; record: Record<string, unknown> }
}

/** The JSON text of record 0 of a body. */
function renderFirst(body: Buffer, signal: number, format: number): string {
  const batch = new OtlpBatch()
  if (format === FORMAT_JSON) (signal === SIGNAL_LOG ? scanLogsJson : scanTracesJson)(body, 0, body.length, batch)
  else (signal === SIGNAL_LOG ? scanLogsProtobuf : scanTracesProtobuf)(body, 0, body.length, batch)
  const record = {
    recordId: `logstore_${'ab'.repeat(16)}`,
    signal,
    format,
    source: format === FORMAT_JSON ? SOURCE_OTLP_HTTP : SOURCE_OTLP_GRPC,
    tenant: 'local',
    dataset: 'größe "1"',
    timeHigh: batch.timeHigh[0]!,
    timeLow: batch.timeLow[0]!,
    body,
    resourceStart: batch.resourceStart[0]!,
    resourceEnd: batch.resourceEnd[0]!,
    scopeStart: batch.groupScopeStart[0]!,
    scopeEnd: batch.groupScopeEnd[0]!,
    recordStart: batch.recordStart[0]!,
    recordEnd: batch.recordEnd[0]!,
    resourceSchemaUrl: body.subarray(batch.resourceSchemaUrlStart[0], batch.resourceSchemaUrlEnd[0]),
    scopeSchemaUrl: body.subarray(batch.groupSchemaUrlStart[0], batch.groupSchemaUrlEnd[0]),
  }
  return renderRecord(record, new PartTexts())
}

const render = (text: string): Rendered => JSON.parse(text) as Rendered
/** The value without the sign of -0, which JSON.stringify loses. */
const withoutNegativeZero = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
const log = (record: LogRecord): Rendered =>
  render(renderFirst(encodeLogs(logsRequest([record])), SIGNAL_LOG, FORMAT_PROTOBUF))
const span = (record: Span): Rendered =>
  render(renderFirst(encodeTraces(tracesRequest([record])), SIGNAL_TRACE, FORMAT_PROTOBUF))
const jsonLog = (text: string): string => renderFirst(Buffer.from(text), SIGNAL_LOG, FORMAT_JSON)
const bodyOf = (body: AnyValue): unknown => log({ body }).raw_payload.record['body']

describe('a log record that came as protobuf', () => {
  it('is shown with its fields and in OTLP JSON', () => {
    const shown = log({
      timeUnixNano: '1732181000123456789',
      observedTimeUnixNano: '1732181000123456790',
      severityNumber: 17,
      severityText: 'ERROR',
      body: { stringValue: 'oops "quoted" \n é' },
      attributes: [{ key: 'count', value: { intValue: '9007199254740993' } }],
      droppedAttributesCount: 4294967295,
      flags: 257,
      traceId: TRACE_ID,
      spanId: SPAN_ID,
      eventName: 'payment.failed',
    })
    assert.deepEqual(shown, {
      record_id: `logstore_${'ab'.repeat(16)}`,
      source: 'v1.otlp_grpc',
      signal: 'log',
      tenant_id: 'local',
      dataset: 'größe "1"',
      time_unix_nano: '1732181000123456789',
      trace_id: '0a02030405060708090a0b0c0d0e0f10',
      span_id: 'f102030405060708',
      severity_number: 17,
      raw_payload: {
        resource: {
          attributes: [
            { key: 'service.name', value: { stringValue: 'checkout' } },
            { key: 'tenant_id', value: { stringValue: 'local' } },
          ],
        },
        scope: { name: 'test', version: '1.0.0' },
        record: {
          timeUnixNano: '1732181000123456789',
          severityNumber: 17,
          severityText: 'ERROR',
          body: { stringValue: 'oops "quoted" \n é' },
          attributes: [{ key: 'count', value: { intValue: '9007199254740993' } }],
          droppedAttributesCount: 4294967295,
          flags: 257,
          traceId: '0a02030405060708090a0b0c0d0e0f10',
          spanId: 'f102030405060708',
          observedTimeUnixNano: '1732181000123456790',
          eventName: 'payment.failed',
        },
      },
    })
  })

  it('leaves out what was not sent', () => {
    const shown = log({})
    assert.deepEqual(shown.raw_payload.record, {})
    assert.equal(shown['trace_id'], null)
    assert.equal(shown['span_id'], null)
    assert.equal(shown['severity_number'], 0)
    assert.equal(shown['time_unix_nano'], '0')
  })

  it('shows no trace id when it is invalid, and still what was sent', () => {
    const shown = log({ traceId: Buffer.alloc(16), spanId: Buffer.of(1, 2) })
    assert.equal(shown['trace_id'], null)
    assert.equal(shown['span_id'], null)
    assert.deepEqual(shown.raw_payload.record, { traceId: '0'.repeat(32), spanId: '0102' })
  })

  it('has an empty object for an absent resource or scope', () => {
    const body = encodeLogs({ resourceLogs: [{ scopeLogs: [{ logRecords: [{ flags: 1 }] }] }] })
    const shown = render(renderFirst(body, SIGNAL_LOG, FORMAT_PROTOBUF))
    assert.deepEqual(shown.raw_payload, { resource: {}, scope: {}, record: { flags: 1 } })
  })
})

describe('a value', () => {
  it('of an attribute without a name has no key member, as in the proto3 mapping', () => {
    assert.deepEqual(bodyOf({ kvlistValue: { values: [{ key: '', value: {} }] } }), {
      kvlistValue: { values: [{ value: {} }] },
    })
  })

  for (const value of [
    { stringValue: '' },
    { boolValue: false },
    { intValue: '0' },
    { intValue: '-9223372036854775808' },
    { intValue: '9223372036854775807' },
    { doubleValue: 0 },
    { doubleValue: 1e21 },
    { doubleValue: -1.5e-7 },
    { arrayValue: { values: [] } },
    { kvlistValue: { values: [] } },
    { arrayValue: { values: [{}, { intValue: '1' }, { arrayValue: { values: [{ stringValue: '' }] } }] } },
    { kvlistValue: { values: [{ key: 'k', value: { kvlistValue: { values: [{ key: 'without value' }] } } }] } },
    {},
  ]) {
    it(`is kept as it is: ${JSON.stringify(value)}`, () => assert.deepEqual(bodyOf(value), value))
  }

  it('has words for doubles that JSON has no number for, and keeps the sign of -0', () => {
    assert.deepEqual(bodyOf({ doubleValue: Number.NaN }), { doubleValue: 'NaN' })
    assert.deepEqual(bodyOf({ doubleValue: Number.POSITIVE_INFINITY }), { doubleValue: 'Infinity' })
    assert.deepEqual(bodyOf({ doubleValue: Number.NEGATIVE_INFINITY }), { doubleValue: '-Infinity' })
    assert.ok(Object.is((bodyOf({ doubleValue: -0 }) as AnyValue).doubleValue, -0))
  })

  it('has bytes in base64', () => {
    assert.deepEqual(bodyOf({ bytesValue: Buffer.of(0, 255, 254) }), { bytesValue: 'AP/+' })
    assert.deepEqual(bodyOf({ bytesValue: Buffer.alloc(0) }), { bytesValue: '' })
  })

  it('that has two members on the wire is shown with the last one', () => {
    const record = Buffer.from('2a050a01611807', 'hex') // body: string_value "a", then int_value 7
    const body = Buffer.concat([Buffer.of(0x0a, 11, 0x12, 9, 0x12, 7), record])
    const shown = render(renderFirst(body, SIGNAL_LOG, FORMAT_PROTOBUF))
    assert.deepEqual(shown.raw_payload.record['body'], { intValue: '7' })
  })

  it('of any shape is what it was', () => {
    fc.assert(
      fc.property(anyValues, (value) => {
        assert.deepEqual(withoutNegativeZero(bodyOf(value)), withoutNegativeZero(toOtlpJson(value)))
      }),
      { numRuns: 200 },
    )
  })
})

describe('a span that came as protobuf', () => {
  it('is shown with its events, links and status', () => {
    const shown = span({
      traceId: TRACE_ID,
      spanId: SPAN_ID,
      traceState: 'a=b',
      parentSpanId: SPAN_ID,
      flags: 256,
      name: 'GET /',
      kind: 2,
      startTimeUnixNano: '1732181000000000001',
      endTimeUnixNano: '1732181000000000002',
      droppedEventsCount: 1,
      events: [{ timeUnixNano: '18446744073709551615', name: 'exception', attributes: [{ key: 'k', value: {} }] }],
      links: [{ traceId: TRACE_ID, spanId: SPAN_ID, traceState: '', flags: 1 }],
      status: { message: 'no', code: 2 },
    })
    const traceId = TRACE_ID.toString('hex')
    const spanId = SPAN_ID.toString('hex')
    assert.equal(shown['signal'], 'trace')
    assert.equal(shown['trace_id'], traceId)
    assert.equal(shown['span_id'], spanId)
    assert.equal(shown['time_unix_nano'], '1732181000000000001')
    assert.equal('severity_number' in shown, false)
    assert.deepEqual(shown.raw_payload.record, {
      traceId,
      spanId,
      traceState: 'a=b',
      parentSpanId: spanId,
      name: 'GET /',
      kind: 2,
      startTimeUnixNano: '1732181000000000001',
      endTimeUnixNano: '1732181000000000002',
      events: [{ timeUnixNano: '18446744073709551615', name: 'exception', attributes: [{ key: 'k', value: {} }] }],
      droppedEventsCount: 1,
      links: [{ traceId, spanId, flags: 1 }],
      status: { message: 'no', code: 2 },
      flags: 256,
    })
  })
})

describe('a record that came as JSON', () => {
  it('is shown as the very text that was sent, unknown members and digits included', () => {
    const record =
      '{ "timeUnixNano" : 1732181000123456789, "new": [1.0, 1e2], "body":{"intValue":9007199254740993}, "severityNumber":9, "traceId":"0A02030405060708090A0B0C0D0E0F10"}'
    const resource = '{"x": 18446744073709551616}'
    const text = jsonLog(`{"resourceLogs":[{"resource":${resource},"scopeLogs":[{"logRecords":[${record}]}]}]}`)
    assert.ok(text.endsWith(`"raw_payload":{"resource":${resource},"scope":{},"record":${record}}}`))
    const shown = render(text)
    assert.equal(shown['source'], 'v1.otlp_http')
    assert.equal(shown['time_unix_nano'], '1732181000123456789')
    assert.equal(shown['trace_id'], '0a02030405060708090a0b0c0d0e0f10')
    assert.equal(shown['span_id'], null)
    assert.equal(shown['severity_number'], 9)
  })

  it('has severity 0 when the sender gave none', () => {
    const text = jsonLog('{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":null}]}]}]}')
    assert.equal(render(text)['severity_number'], 0)
  })

  it('is a span without a severity', () => {
    const record = '{"traceId":"0a02030405060708090a0b0c0d0e0f10","spanId":"F102030405060708","severityNumber":"any"}'
    const body = Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[${record}]}]}]}`)
    const shown = render(renderFirst(body, SIGNAL_TRACE, FORMAT_JSON))
    assert.equal(shown['span_id'], 'f102030405060708')
    assert.equal('severity_number' in shown, false)
  })
})

test('a record is the same in raw_payload whether its batch came as protobuf or as JSON', () => {
  fc.assert(
    fc.property(anyValues, (value) => {
      const request = logsRequest([{ timeUnixNano: '1', body: value, attributes: [{ key: 'k', value }] }])
      const fromJson = jsonLog(JSON.stringify(toOtlpJson(request)))
      const fromProtobuf = renderFirst(encodeLogs(request), SIGNAL_LOG, FORMAT_PROTOBUF)
      assert.deepEqual(
        withoutNegativeZero(render(fromJson).raw_payload),
        withoutNegativeZero(render(fromProtobuf).raw_payload),
      )
    }),
    { numRuns: 100 },
  )
})
