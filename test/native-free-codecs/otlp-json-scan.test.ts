import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { JSON_DEPTH_MAX } from '../../native-free-codecs/json-text.ts'
import { MalformedBatchError, OtlpBatch } from '../../native-free-codecs/otlp-batch.ts'
import { readJsonRecord, scanLogsJson } from '../../native-free-codecs/otlp-json-scan.ts'
import { logsRequest, logsRequests, toOtlpJson } from '../support/otlp.ts'
import { timeOf, traceIdOf } from './described.ts'
import { scanLogs, scanTraces } from './json-batches.ts'

/** A batch of one log record, given as JSON text. */
const withRecord = (record: string): string => `{"resourceLogs":[{"scopeLogs":[{"logRecords":[${record}]}]}]}`
const withResource = (resource: string): string =>
  `{"resourceLogs":[{"resource":${resource},"scopeLogs":[{"logRecords":[{}]}]}]}`
const withSpan = (members: string): string =>
  `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"${TRACE_ID}","spanId":"0102030405060708"${members}}]}]}]}`
const TRACE_ID = '0102030405060708090a0b0c0d0e0f10'

const refuses = (text: string): void => {
  assert.throws(() => scanLogs(text), MalformedBatchError, text)
}

describe('the JSON scanner', () => {
  it('finds records as the text of their objects, in any key order and with whitespace', () => {
    const text = ` {"resourceLogs" : [ {"scopeLogs": [ {"logRecords": [ {"body":{"stringValue":"}"}} , {} ],
      "scope": {"name":"s"} } ], "resource": {"attributes": [{"value":{"stringValue":"shop"},"key":"service.name"}]}} ] }\n`
    const batch = scanLogs(text)
    const range = (start: number | undefined, end: number | undefined) => Buffer.from(text).toString('utf8', start, end)
    assert.equal(batch.recordCount, 2)
    assert.equal(range(batch.recordStart[0], batch.recordEnd[0]), '{"body":{"stringValue":"}"}}')
    assert.equal(range(batch.recordStart[1], batch.recordEnd[1]), '{}')
    assert.equal(range(batch.groupScopeStart[0], batch.groupScopeEnd[0]), '{"name":"s"}')
    assert.match(range(batch.resourceStart[0], batch.resourceEnd[0]), /^\{"attributes": .*\}$/)
    assert.equal(batch.resourceDataset[0], 'shop')
  })

  it('finds schema URLs as the text of their strings, unless they are empty', () => {
    const text =
      '{"resourceLogs":[{"schemaUrl":"r\\u0041","scopeLogs":[{"logRecords":[{}],"schemaUrl": "s"},{"schemaUrl":"","logRecords":[{}]},{"schemaUrl":null,"logRecords":[{}]}]}]}'
    const batch = scanLogs(text)
    const range = (start: number | undefined, end: number | undefined) => Buffer.from(text).toString('utf8', start, end)
    const scopeUrls = [0, 1, 2].map((group) => range(batch.groupSchemaUrlStart[group], batch.groupSchemaUrlEnd[group]))
    assert.deepEqual(scopeUrls, ['"s"', '', ''])
    assert.equal(range(batch.resourceSchemaUrlStart[0], batch.resourceSchemaUrlEnd[0]), '"r\\u0041"')
    assert.equal(batch.schemaUrlCount, 2)
    assert.equal(scanLogs(withRecord('{}')).schemaUrlCount, 0)
  })

  it('gives ranges in the bytes it was given, also from within a SharedArrayBuffer', () => {
    const body = Buffer.from(withRecord('{"flags":1}'))
    const shared = new Uint8Array(new SharedArrayBuffer(body.length + 20))
    shared.fill(0x7d).set(body, 13)
    const batch = new OtlpBatch()
    scanLogsJson(shared, 13, 13 + body.length, batch)
    const record = Buffer.from(shared.slice(batch.recordStart[0], batch.recordEnd[0]))
    assert.equal(record.toString(), '{"flags":1}')
    assert.throws(() => scanLogsJson(shared, 13, shared.length, batch), {
      message: `text after the JSON value at byte ${13 + body.length}`,
    })
  })

  it('keeps 64-bit integers exact, as strings and as numbers', () => {
    for (const spelled of ['1732181000123456789', '18446744073709551615', '9007199254740993', '999999999', '0', '10']) {
      for (const value of [spelled, `"${spelled}"`]) {
        assert.equal(timeOf(scanLogs(withRecord(`{"timeUnixNano":${value}}`)), 0), BigInt(spelled), value)
      }
    }
    for (const [value, expected] of [
      ['1e3', 1000n],
      ['1.5e1', 15n],
      ['"120e-1"', 12n],
      ['1732181000123456789.0', 1732181000123456789n],
      ['1.8446744073709551615E19', 18446744073709551615n],
      ['-0', 0n],
      ['0e999999999', 0n],
      ['"\\u0031\\u0032"', 12n],
    ] as const) {
      assert.equal(timeOf(scanLogs(withRecord(`{"timeUnixNano":${value}}`)), 0), expected, value)
    }
  })

  it('refuses integers that are none or out of range', () => {
    for (const value of [
      '-1',
      '18446744073709551616',
      '1e20',
      '1.5',
      '"1.5"',
      '""',
      '"abc"',
      '" 1"',
      '"0x10"',
      '"01"',
    ]) {
      refuses(withRecord(`{"timeUnixNano":${value}}`))
      refuses(withRecord(`{"observedTimeUnixNano":${value}}`))
    }
    for (const value of ['true', '{}', '[]', '1e999999999999', '99999999999999999999999']) {
      refuses(withRecord(`{"timeUnixNano":${value}}`))
    }
    refuses(withRecord('{"body":{"intValue":"9223372036854775808"}}'))
    refuses(withRecord('{"body":{"intValue":-9223372036854775809}}'))
    refuses(withRecord('{"flags":4294967296}'))
    refuses(withRecord('{"severityNumber":2147483648}'))
    assert.equal(scanLogs(withRecord('{"body":{"intValue":"-9223372036854775808"},"flags":4294967295}')).recordCount, 1)
  })

  it('reads a number of many digits in time in proportion to them', () => {
    const zeros = '0'.repeat(200_000)
    const beganMs = performance.now()
    refuses(withRecord(`{"timeUnixNano":1${zeros}1}`))
    refuses(withRecord(`{"timeUnixNano":"1${zeros}1${zeros}"}`))
    assert.equal(scanLogs(withRecord(`{"timeUnixNano":1.5${zeros}e1}`)).recordCount, 1)
    assert.ok(performance.now() - beganMs < 5000) // quadratic time would be a minute
  })

  it('reads ids in either case, with escapes too, and keeps a log record without an invalid one', () => {
    for (const spelled of [TRACE_ID, TRACE_ID.toUpperCase(), TRACE_ID.replace('0a', '\\u0030a')]) {
      assert.equal(traceIdOf(scanLogs(withRecord(`{"traceId":"${spelled}"}`)), 0), TRACE_ID)
      assert.equal(traceIdOf(scanLogs(withRecord(`{"trace\\u0049d":"${spelled}"}`)), 0), TRACE_ID)
    }
    for (const invalid of [
      '""',
      `"${TRACE_ID.slice(1)}"`,
      `"${TRACE_ID}0"`,
      `"${'0'.repeat(32)}"`,
      `"${'g'.repeat(32)}"`,
      'null',
    ]) {
      assert.equal(traceIdOf(scanLogs(withRecord(`{"traceId":${invalid}}`)), 0), '0'.repeat(32))
    }
    assert.equal(traceIdOf(scanLogs(withRecord(`{"traceId":"${TRACE_ID}"},{}`)), 1), '0'.repeat(32))
    refuses(withRecord('{"traceId":7}'))
  })

  it('refuses a span without valid ids', () => {
    assert.equal(scanTraces(withSpan('')).recordCount, 1)
    for (const members of ['"traceId":null', '"spanId":"01020304"', `"traceId":"${'0'.repeat(32)}"`, '"spanId":""']) {
      assert.throws(() => scanTraces(withSpan(`,${members}`)), MalformedBatchError) // of several members with a name, the last one counts
    }
  })

  it('reads claims and the dataset, decoding escapes', () => {
    const batch = scanLogs(
      withResource(
        '{"attributes":[{"key":"tenant\\u005fid","value":{"stringValue":"a\\n\\u00e9"}},{"key":"service.name","value":{"stringValue":"größe"}}]}',
      ),
    )
    assert.equal(batch.resourceTenantClaim[0], 'a\né')
    assert.equal(batch.resourceDataset[0], 'größe')
    const conflict = (attributes: string) =>
      scanLogs(withResource(`{"attributes":[${attributes}]}`)).resourceTenantConflict[0]
    assert.equal(
      conflict(
        '{"key":"tenant_id","value":{"stringValue":"a"}},{"key":"service.logstore.tenant_id","value":{"stringValue":"b"}}',
      ),
      true,
    )
    assert.equal(conflict('{"key":"tenant_id","value":{"intValue":1}}'), true)
    assert.equal(
      conflict('{"key":"tenant_id","value":{"stringValue":"a"}},{"key":"tenant_id","value":{"stringValue":"a"}}'),
      false,
    )
  })

  it('treats null as absent and takes the last of two members of one name', () => {
    const absent = scanLogs(
      '{"resourceLogs":[{"resource":null,"scopeLogs":[{"scope":null,"logRecords":[{"body":null,"attributes":null}]}]}]}',
    )
    assert.deepEqual([absent.resourceStart[0], absent.resourceEnd[0], absent.groupScopeStart[0]], [0, 0, 0])
    assert.equal(scanLogs('{"resourceLogs":null}').recordCount, 0)
    assert.equal(timeOf(scanLogs(withRecord('{"timeUnixNano":"5","timeUnixNano":"6"}')), 0), 6n)
    assert.equal(timeOf(scanLogs(withRecord('{"timeUnixNano":"5","timeUnixNano":null}')), 0), 0n)
    assert.equal(
      scanLogs(
        '{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"a"}}]},"resource":{},"scopeLogs":[{"logRecords":[{}]}]}]}',
      ).resourceDataset[0],
      null,
    )
    refuses('{"resourceLogs":[],"resourceLogs":[]}')
  })

  it('ignores unknown members whatever they hold', () => {
    assert.equal(
      scanLogs(`{"x":[1,{"y":null}],${withRecord('{"x":{"resourceLogs":7},"y":[[]]}').slice(1)}`).recordCount,
      1,
    )
    assert.equal(scanLogs('{"":1,"resourcelogs":3}').recordCount, 0)
  })

  it('counts all records and describes the first 512', () => {
    const batch = scanLogs(withRecord(Array.from({ length: 600 }, () => '{}').join(',')))
    assert.equal(batch.recordCount, 600)
    assert.equal(batch.groupCount, 1)
  })
})

describe('a known member of the wrong type', () => {
  for (const text of [
    '[]',
    'null',
    '""',
    '{"resourceLogs":{}}',
    '{"resourceLogs":[null]}',
    '{"resourceLogs":[[]]}',
    '{"resourceLogs":[{"scopeLogs":{}}]}',
    '{"resourceLogs":[{"schemaUrl":1}]}',
    withResource('[]'),
    withResource('{"attributes":{}}'),
    withResource('{"attributes":[1]}'),
    withResource('{"attributes":[{"key":1}]}'),
    withResource('{"attributes":[{"key":"k","value":"v"}]}'),
    withRecord('null'),
    withRecord('"text"'),
    withRecord('{"body":"text"}'),
    withRecord('{"body":{"stringValue":1}}'),
    withRecord('{"body":{"boolValue":"true"}}'),
    withRecord('{"body":{"doubleValue":"one"}}'),
    withRecord('{"body":{"bytesValue":"a"}}'),
    withRecord('{"body":{"bytesValue":"a b="}}'),
    withRecord('{"body":{"arrayValue":[]}}'),
    withRecord('{"body":{"arrayValue":{"values":[1]}}}'),
    withRecord('{"body":{"kvlistValue":{"values":{}}}}'),
    withRecord('{"severityNumber":"SEVERITY_NUMBER_INFO"}'),
    withRecord('{"severityText":9}'),
    withRecord(
      '{"attributes":[{"key":"deep","value":{"kvlistValue":{"values":[{"key":"k","value":{"intValue":true}}]}}}]}',
    ),
  ]) {
    it(`is refused: ${text}`, () => refuses(text))
  }

  it('is refused in a span, its events, links and status', () => {
    for (const members of [
      '"events":[{"timeUnixNano":-1}]',
      '"links":[{"attributes":1}]',
      '"status":[]',
      '"status":{"code":"OK"}',
      '"kind":"SERVER"',
    ]) {
      assert.throws(() => scanTraces(withSpan(`,${members}`)), MalformedBatchError)
    }
    const good =
      ',"events":[{"timeUnixNano":"1","name":"e","attributes":[]}],"links":[{"traceId":"","flags":1}],"status":{"message":"","code":2},"kind":2'
    assert.equal(scanTraces(withSpan(good)).recordCount, 1)
  })

  it('is not a double given as one of the words that JSON has no number for, or base64 of either alphabet', () => {
    for (const value of ['"NaN"', '"Infinity"', '"-Infinity"', '"-1.5e3"', '0', '-0.5E-7']) {
      assert.equal(scanLogs(withRecord(`{"body":{"doubleValue":${value}}}`)).recordCount, 1)
    }
    for (const value of ['', 'AA==', 'AA', '-_-_', '+/+\\/', 'AAA=']) {
      assert.equal(scanLogs(withRecord(`{"body":{"bytesValue":"${value}"}}`)).recordCount, 1)
    }
  })
})

describe('JSON syntax', () => {
  it('must be UTF-8', () => {
    const bytes = Buffer.from(withRecord('{"severityText":"é"}'))
    assert.equal(scanLogs(bytes).recordCount, 1)
    assert.throws(
      () => scanLogs(Buffer.from(bytes.toString('latin1'), 'latin1').fill(0xff, 60, 61)),
      MalformedBatchError,
    )
  })

  it('may nest up to the limit', () => {
    const nested = (depth: number) => `{"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
    assert.equal(scanLogs(nested(JSON_DEPTH_MAX)).recordCount, 0)
    refuses(nested(JSON_DEPTH_MAX + 1))
    refuses(`{"x":${'['.repeat(100_000)}`)
  })

  const parses = (text: string): boolean => {
    try {
      JSON.parse(text)
      return true
    } catch {
      return false
    }
  }
  const scans = (text: string): boolean => {
    try {
      scanLogs(text)
      return true
    } catch (error) {
      assert.ok(error instanceof MalformedBatchError, String(error))
      return false
    }
  }

  for (const value of [
    '01',
    '1.',
    '.5',
    '-',
    '+1',
    '1e',
    '1e+',
    '0x1',
    'tru',
    'nulls',
    '"\t"',
    '"\\x"',
    '"\\u12g4"',
    '[1,]',
    '{"a":1,}',
    "'a'",
    '{a:1}',
    '"\\ud800"',
    '1E-5',
    '[ ]',
    '"\u007f"',
    '\u00a0 1',
    '\uFEFF1',
    '"a',
  ]) {
    it(`has JSON.parse's opinion of ${value}`, () => {
      assert.equal(scans(`{"x":${value}}`), parses(`{"x":${value}}`))
    })
  }

  const pieces = fc.constantFrom(
    '"',
    '\\',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    ' ',
    '\n',
    '0',
    '1',
    '-',
    '.',
    'e',
    'E',
    '+',
    'u',
    't',
    'true',
    'null',
    '\u0001',
    'é',
    '\\u00',
    '\\"',
    '\0',
  )
  const edits = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 2 }), pieces), { minLength: 1, maxLength: 3 })
  const edited = (text: string, changes: [number, number, string][]): string => {
    for (const [position, removed, inserted] of changes) {
      const at = position % (text.length + 1)
      text = text.slice(0, at) + inserted + text.slice(at + removed)
    }
    return text.toWellFormed() // a cut surrogate pair would not survive UTF-8
  }

  it('is accepted exactly when JSON.parse accepts it', () => {
    fc.assert(
      fc.property(fc.json(), edits, (json, changes) => {
        assert.equal(scans(`{"x":${json}}`), true)
        const text = `{"x":${edited(json, changes)}}`
        assert.equal(scans(text), parses(text), text)
      }),
      { numRuns: 3000 },
    )
  })

  it('of a batch, once damaged, is refused as malformed or accepted by JSON.parse with the same records', () => {
    fc.assert(
      fc.property(logsRequests, edits, (request, changes) => {
        const text = edited(JSON.stringify(toOtlpJson(request)), changes)
        if (!scans(text)) return
        const value = JSON.parse(text) as { resourceLogs?: { scopeLogs?: { logRecords?: unknown[] }[] }[] }
        const records = (value.resourceLogs ?? []).flatMap((group) =>
          (group.scopeLogs ?? []).flatMap((scope) => scope.logRecords ?? []),
        )
        const bytes = Buffer.from(text)
        const batch = scanLogs(text)
        assert.deepEqual(
          records,
          records.map(
            (_, i) => JSON.parse(bytes.toString('utf8', batch.recordStart[i], batch.recordEnd[i])) as unknown,
          ),
        )
        assert.equal(batch.recordCount, records.length)
      }),
      { numRuns: 1500 },
    )
  })
})

describe('a single JSON record', () => {
  const read = (record: string) => {
    const bytes = Buffer.from(`  ${record}`)
    return readJsonRecord(bytes, 2, bytes.length, 'log')
  }

  it('is read for its ids and severity', () => {
    assert.deepEqual(read(`{"severityNumber":9,"traceId":"${TRACE_ID.toUpperCase()}","spanId":"0102030405060708"}`), {
      traceId: TRACE_ID,
      spanId: '0102030405060708',
      severityNumber: 9,
    })
    assert.deepEqual(read('{"severityNumber":1.7e1}').severityNumber, 17)
  })

  it('has null ids and severity 0 when they are absent', () => {
    assert.deepEqual(read('{"severityNumber":null,"spanId":"01"}'), { traceId: null, spanId: null, severityNumber: 0 })
    assert.deepEqual(read('{}'), { traceId: null, spanId: null, severityNumber: 0 })
  })

  it('can be read while nothing is left of an earlier text', () => {
    scanLogs(JSON.stringify(toOtlpJson(logsRequest([{ severityNumber: 5, body: { stringValue: 'x'.repeat(1000) } }]))))
    assert.deepEqual(read('{}').severityNumber, 0)
    assert.throws(() => read('{"body":{"stringValue":"cut'), { message: 'JSON text that ends too early at byte 29' })
  })
})
