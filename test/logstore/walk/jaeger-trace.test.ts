import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { jaegerTrace } from '../../../src/logstore/walk/jaeger-trace.ts'
import type { TraceRecord } from '../../../src/logstore/walk/trace-record.ts'

const TRACE = '5b8efff798038103d269b633813fc60c'
const SPAN = 'eee19b7ec3c1b174'

/** A record as a query shows it. */
function recordOf(
  record: object,
  options: Partial<TraceRecord> & { resource?: object; scope?: object } = {},
): TraceRecord {
  const { resource = {}, scope = {}, ...rest } = options
  return {
    json: JSON.stringify({ record_id: 'x', raw_payload: { resource, scope, record } }),
    isLog: false,
    dataset: 'shop',
    spanId: SPAN,
    parentSpanId: null,
    name: 'checkout',
    startTime: 1_763_721_600_000_000_999n,
    endTime: 1_763_721_600_000_002_999n,
    ...rest,
  }
}

interface JaegerTrace {
  readonly traceID: string
  readonly spans: readonly Record<string, unknown>[]
  readonly processes: Readonly<Record<string, object>>
  readonly warnings: readonly string[] | null
}

const textOf = (records: readonly TraceRecord[], matched = records.length): string =>
  jaegerTrace({ tenant: 'acme', traceId: TRACE, records, matched, quarantined: 0 })
const traceOf = (records: readonly TraceRecord[], matched?: number): JaegerTrace =>
  JSON.parse(textOf(records, matched)) as JaegerTrace // the tests look at what it has

describe('a trace in the JSON of Jaeger', () => {
  it('has times in whole microseconds, references, fields of the span as tags, events as logs', () => {
    const span = {
      kind: 3,
      traceState: 'a=b',
      status: { code: 2, message: 'refused' },
      events: [
        { timeUnixNano: '1763721600000001500', name: 'retry', attributes: [{ key: 'n', value: { intValue: '2' } }] },
      ],
      links: [{ traceId: 'AB'.repeat(16), spanId: 'CD'.repeat(8) }],
    }
    const scope = { name: 'lib', version: '2' }
    const { spans, traceID, warnings } = traceOf([recordOf(span, { scope, parentSpanId: 'aaaaaaaaaaaaaaaa' })])
    assert.deepEqual([traceID, warnings], [TRACE, null])
    assert.deepEqual(spans, [
      {
        traceID: TRACE,
        spanID: SPAN,
        flags: 1,
        operationName: 'checkout',
        references: [
          { refType: 'CHILD_OF', traceID: TRACE, spanID: 'aaaaaaaaaaaaaaaa' },
          { refType: 'FOLLOWS_FROM', traceID: 'ab'.repeat(16), spanID: 'cd'.repeat(8) },
        ],
        startTime: 1_763_721_600_000_000,
        duration: 2,
        tags: [
          { key: 'span.kind', type: 'string', value: 'client' },
          { key: 'otel.status_code', type: 'string', value: 'ERROR' },
          { key: 'error', type: 'bool', value: true },
          { key: 'otel.status_description', type: 'string', value: 'refused' },
          { key: 'otel.scope.name', type: 'string', value: 'lib' },
          { key: 'otel.scope.version', type: 'string', value: '2' },
          { key: 'w3c.tracestate', type: 'string', value: 'a=b' },
        ],
        logs: [
          {
            timestamp: 1_763_721_600_000_001,
            fields: [
              { key: 'event', type: 'string', value: 'retry' },
              { key: 'n', type: 'int64', value: 2 },
            ],
          },
        ],
        processID: 'p1',
        warnings: null,
      },
    ])
  })

  it('has attributes with their types, 64-bit integers with all their digits', () => {
    const values = [
      [{ stringValue: '' }, 'string', ''],
      [{ boolValue: false }, 'bool', false],
      [{ intValue: -5 }, 'int64', -5],
      [{ intValue: '7' }, 'int64', 7],
      [{ doubleValue: 1.5 }, 'float64', 1.5],
      [{ doubleValue: 'NaN' }, 'string', 'NaN'],
      [{ bytesValue: 'AAE=' }, 'binary', 'AAE='],
      [{ arrayValue: { values: [{ stringValue: 'a' }, { intValue: '1' }] } }, 'string', '["a",1]'],
      [{ kvlistValue: { values: [{ key: 'k', value: { boolValue: true } }] } }, 'string', '{"k":true}'],
    ] as const
    const attributes = values.map(([value], i) => ({ key: `k${i}`, value }))
    const { spans } = traceOf([recordOf({ attributes })])
    const shown = values.map(([, type, value], i) => ({ key: `k${i}`, type, value }))
    assert.deepEqual(spans[0]!['tags'], shown)
    const beside = {
      stringValue: null,
      boolValue: null,
      intValue: null,
      doubleValue: null,
      bytesValue: null,
      arrayValue: null,
      kvlistValue: null,
    }
    const withNulls = attributes.map(({ key, value }) => ({ key, value: { ...beside, ...value } }))
    const tags = traceOf([recordOf({ attributes: [...withNulls, { key: 'none', value: beside }] })]).spans[0]!['tags']
    assert.deepEqual(tags, shown) // null stands for an absent member
    const digits = '9223372036854775807'
    const json = `{"raw_payload":{"record":{"attributes":[{"key":"a","value":{"intValue":${digits}}},{"key":"b","value":{"intValue":"-${digits}"}}]}}}`
    const text = textOf([{ ...recordOf({}), json }])
    assert.ok(text.includes(`"value":${digits}}`) && text.includes(`"value":-${digits}}`))
  })

  it('takes whatever a sender put where something else should be', () => {
    const odd = [null, 1, 'x', [], {}, [null], [{ key: 7, value: 8 }], [{ value: { intValue: 'x' } }]]
    for (const value of odd) {
      const span = { attributes: value, events: value, links: value, status: value, kind: value, traceState: value }
      assert.equal(traceOf([recordOf(span, { resource: { attributes: value } })]).spans.length, 1)
    }
    assert.equal(traceOf([recordOf({}, { endTime: 0n })]).spans[0]!['duration'], 0)
  })

  it('has a process for each different resource, and log records among the logs of their span', () => {
    const resource = {
      attributes: [
        { key: 'service.name', value: { stringValue: 'shop' } },
        { key: 'host.name', value: { stringValue: 'h' } },
      ],
    }
    const log = {
      body: { stringValue: 'refused' },
      severityText: 'ERROR',
      attributes: [{ key: 'n', value: { intValue: 1 } }],
    }
    const trace = traceOf([
      recordOf({}, { resource }),
      recordOf({}, { resource, spanId: 'bbbbbbbbbbbbbbbb' }),
      recordOf({}, { dataset: 'payments' }),
      recordOf(log, { isLog: true }),
      recordOf(log, { isLog: true, spanId: null }),
    ])
    assert.deepEqual(trace.processes, {
      p1: { serviceName: 'shop', tags: [{ key: 'host.name', type: 'string', value: 'h' }] },
      p2: { serviceName: 'payments', tags: [] },
    })
    assert.deepEqual(
      trace.spans.map(({ processID }) => processID),
      ['p1', 'p1', 'p2'],
    )
    const fields = [
      { key: 'message', type: 'string', value: 'refused' },
      { key: 'severity', type: 'string', value: 'ERROR' },
      { key: 'n', type: 'int64', value: 1 },
    ]
    assert.deepEqual(
      trace.spans.map(({ logs }) => logs),
      [[{ timestamp: 1_763_721_600_000_000, fields }], [], []],
    )
  })

  it('says when it is cut', () => {
    assert.match(traceOf([recordOf({})], 3).warnings![0]!, /^2 more/)
  })
})
