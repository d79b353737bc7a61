/** What a batch may hold, and that one is admitted whole or not at all. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Reply } from '../../support/logstore.ts'
import { encodeLogs, text } from '../../support/otlp.ts'
import {
  INGEST_ROUTES,
  JSON_LOGS,
  JSON_TRACES,
  LOGS,
  PROTOBUF,
  PROTOBUF_TYPE,
  TIME,
  TRACES,
  accept,
  assertRefused,
  find,
  jsonLogs,
  jsonTraces,
  logRecordsOf,
  protobufLogs,
  protobufTraces,
  recordsOf,
  spansOf,
  startForTests,
} from './batches.ts'
import type { IngestRoute, StoredRecord } from './batches.ts'

const server = await startForTests()

const send = ({ path, contentType }: Pick<IngestRoute, 'path' | 'contentType'>, body: Buffer): Promise<Reply> =>
  server.request(path, body, { headers: { 'content-type': contentType, accept: 'application/json' } })

const ROUTES = INGEST_ROUTES.map((route) => ({ ...route, isJson: route.contentType === 'application/json' }))

const RESOURCE = { attributes: [text('service.name', 'checkout'), text('tenant_id', 'local')] }

/** The one record of a dataset. */
async function onlyRecord(dataset: string): Promise<StoredRecord> {
  const found = await find(server, { dataset })
  assert.equal(found.matched_records, 1)
  return recordsOf(found)[0]!
}

describe('the size of a batch', () => {
  for (const route of ROUTES)
    it(`is 512 records at most on ${route.path}`, async () => {
      assert.equal((await send(route, route.batch(512))).status, 200)
      assertRefused(await send(route, route.batch(513)), 413, 'batch_too_large')
    })

  it('counts the records of all resources and scopes', async () => {
    const scopes = (each: number): object => ({
      resource: RESOURCE,
      scopeLogs: [
        { logRecords: Array.from({ length: each }, () => ({ timeUnixNano: '1' })) },
        { logRecords: Array.from({ length: each }, () => ({ timeUnixNano: '1' })) },
      ],
    })
    const { record_ids } = await accept(server, JSON_LOGS, { resourceLogs: [scopes(128), scopes(128)] })
    assert.equal(record_ids.length, 512)
    assertRefused(await server.request(JSON_LOGS, { resourceLogs: [scopes(128), scopes(129)] }), 413, 'batch_too_large')
  })
  it('in the message of a refusal tells what to set in the exporter', async () => {
    const { message } = (await server.request(JSON_LOGS, jsonLogs(logRecordsOf(600)))).rejection().error
    assert.match(message, /512/)
    assert.match(message, /600/)
  })
})

describe('a batch without records', () => {
  const jsonOf = ([resources, scopes, records]: readonly [string, string, string]): readonly string[] => [
    '',
    '{}',
    ' {} ',
    '{"unknown":1}',
    `{"${resources}":[]}`,
    `{"${resources}":null}`,
    `{"${resources}":[{}]}`,
    `{"${resources}":[{"resource":{},"${scopes}":[]}]}`,
    `{"${resources}":[{"${scopes}":[{}]}]}`,
    `{"${resources}":[{"${scopes}":[{"scope":{},"${records}":[]}]},{}]}`,
    `{"${resources}":[{"${scopes}":[{"${records}":null}]}]}`,
  ]
  for (const [path, ...names] of [
    [JSON_LOGS, 'resourceLogs', 'scopeLogs', 'logRecords'],
    [JSON_TRACES, 'resourceSpans', 'scopeSpans', 'spans'],
  ] as const)
    for (const body of jsonOf(names))
      it(`'${body}' is empty_batch on ${path}`, async () => {
        assertRefused(await server.request(path, body), 400, 'empty_batch')
      })

  const PROTOBUF_BODIES = [
    ['', 'zero bytes'],
    ['0a00', 'an empty resource'],
    ['0a040a001200', 'an empty scope in an empty resource'],
    ['7a0141', 'only an unknown field'],
    ['0a020a000a021200', 'two resources without records'],
  ] as const
  for (const path of [LOGS, TRACES])
    for (const [hex, what] of PROTOBUF_BODIES)
      it(`${what} is empty_batch on ${path}`, async () => {
        assertRefused(await send({ path, contentType: PROTOBUF_TYPE }, Buffer.from(hex, 'hex')), 400, 'empty_batch')
      })

  it('of one signal is what a batch of the other one is in JSON', async () => {
    assertRefused(await server.request(JSON_LOGS, jsonTraces(spansOf(1))), 400, 'empty_batch')
    assertRefused(await server.request(JSON_TRACES, jsonLogs(logRecordsOf(1))), 400, 'empty_batch')
  })
})

describe('a malformed batch', () => {
  const around = (record: string): string =>
    `{"resourceLogs":[{"resource":${JSON.stringify(RESOURCE)},"scopeLogs":[{"logRecords":[${record}]}]}]}`
  const BODIES: readonly (readonly [what: string, body: string | Buffer])[] = [
    ['white space', '  '],
    ['text', 'hello'],
    ['an array', '[]'],
    ['a number', '1'],
    ['null', 'null'],
    ['JSON cut off', around('{"timeUnixNano":"1"}').slice(0, -1)],
    ['JSON with something behind it', `${around('{}')}{}`],
    ['JSON with a comment', `/**/${around('{}')}`],
    ['a trailing comma', around('{},')],
    ['single quotes', around("{'timeUnixNano':'1'}")],
    ['a raw line break in a string', around('{"body":{"stringValue":"a\nb"}}')],
    ['bytes that are not UTF-8', Buffer.from(around('{"body":{"stringValue":"\xff"}}'), 'latin1')],
    ['a UTF-16 body', Buffer.from(around('{}'), 'utf16le')],
    ['resourceLogs that is an object', '{"resourceLogs":{}}'],
    ['a resource that is a string', '{"resourceLogs":["a"]}'],
    ['a record that is a string', around('"a"')],
    ['a time that is no number', around('{"timeUnixNano":"today"}')],
    ['a time in RFC 3339', around('{"timeUnixNano":"2026-01-01T00:00:00Z"}')],
    ['a negative time', around('{"timeUnixNano":"-1"}')],
    ['a time beyond 64 bits', around('{"timeUnixNano":"18446744073709551616"}')],
    ['a broken time', around('{"timeUnixNano":1.5}')],
    ['an integer beyond 64 bits', around('{"body":{"intValue":"9223372036854775808"}}')],
    ['a body that is a string', around('{"body":"text"}')],
    ['an attribute list that is an object', around('{"attributes":{"a":1}}')],
    ['bytes that are no base64', around('{"body":{"bytesValue":"!"}}')],
    ['nesting without end', around(`{"body":${'{"arrayValue":{"values":['.repeat(5000)}${']}}'.repeat(5000)}}`)],
  ]
  for (const [what, body] of BODIES)
    it(`of ${what} is refused`, async () => {
      assertRefused(await server.request(JSON_LOGS, body), 400, 'malformed_batch')
    })

  const whole = protobufLogs(logRecordsOf(2))
  const PROTOBUF_BODIES: readonly (readonly [what: string, body: Buffer])[] = [
    ['text', Buffer.from('hello')],
    ['a length beyond the end', Buffer.from('0aff01', 'hex')],
    ['a batch cut off', whole.subarray(0, -1)],
    ['a batch with half a field behind it', Buffer.concat([whole, Buffer.of(0x0a)])],
    ['a varint without end', Buffer.from('ffffffffffffffffffffff', 'hex')],
    ['field number 0', Buffer.from('0200', 'hex')],
    ['JSON', jsonLogs(logRecordsOf(1))],
  ]
  for (const [what, body] of PROTOBUF_BODIES)
    it(`of ${what} is refused in protobuf`, async () => {
      for (const path of [LOGS, TRACES])
        assertRefused(await send({ path, contentType: PROTOBUF_TYPE }, body), 400, 'malformed_batch')
    })

  const id = (hex: string): Uint8Array => Buffer.from(hex, 'hex')
  const traceId = id('0af7651916cd43dd8448eb211c80319c')
  const spanId = id('b7ad6b7169203331')
  const INVALID_SPAN_IDS: readonly (readonly [what: string, traceId: Uint8Array, spanId: Uint8Array])[] = [
    ['no trace id', id(''), spanId],
    ['no span id', traceId, id('')],
    ['a trace id of zeros', Buffer.alloc(16), spanId],
    ['a span id of zeros', traceId, Buffer.alloc(8)],
    ['a short trace id', traceId.subarray(1), spanId],
    ['a long span id', traceId, traceId],
  ]
  for (const [what, traceId, spanId] of INVALID_SPAN_IDS)
    it(`of spans, one of them with ${what}, is refused whole`, async () => {
      const dataset = `spans ${what}`
      const spans = [...spansOf(1), { traceId, spanId, startTimeUnixNano: '1' }]
      assertRefused(await server.request(JSON_TRACES, jsonTraces(spans, { dataset })), 400, 'malformed_batch')
      const protobuf = protobufTraces(spans, { dataset })
      assertRefused(await send({ path: TRACES, contentType: PROTOBUF_TYPE }, protobuf), 400, 'malformed_batch')
      assert.equal((await find(server, { dataset })).matched_records, 0)
    })
  it('of spans whose ids are not hexadecimal is refused', async () => {
    const spans = [{ traceId: 'x'.repeat(32), spanId: 'b7ad6b7169203331' }]
    const batch = { resourceSpans: [{ resource: RESOURCE, scopeSpans: [{ spans }] }] }
    assertRefused(await server.request(JSON_TRACES, batch), 400, 'malformed_batch')
  })
})

describe('a log record with an invalid trace or span id', () => {
  const IDS = [
    ['', ''],
    ['00000000000000000000000000000000', '0000000000000000'],
    ['0af7651916cd43dd8448eb211c8031', 'b7ad6b7169203331aa'],
    ['xyz', 'not hexadecimal'],
  ] as const
  for (const [traceId, spanId] of IDS)
    it(`('${traceId}', '${spanId}') is kept without them`, async () => {
      const dataset = `log ids ${traceId} ${spanId}`
      const resource = { attributes: [text('service.name', dataset), text('tenant_id', 'local')] }
      const logRecords = [{ timeUnixNano: '1', traceId, spanId, body: { stringValue: 'kept' } }]
      await accept(server, JSON_LOGS, { resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] })
      const { trace_id, span_id, raw_payload } = await onlyRecord(dataset)
      assert.deepEqual([trace_id, span_id, raw_payload.record['body']], [null, null, { stringValue: 'kept' }])
    })
  it('keeps the valid one of the two', async () => {
    const dataset = 'half linked'
    const traceId = Buffer.from('0af7651916cd43dd8448eb211c80319c', 'hex')
    const body = protobufLogs([{ timeUnixNano: '1', traceId, spanId: Buffer.alloc(8) }], { dataset })
    assert.equal((await send({ path: LOGS, contentType: PROTOBUF_TYPE }, body)).status, 200)
    const { trace_id, span_id } = await onlyRecord(dataset)
    assert.deepEqual([trace_id, span_id], [traceId.toString('hex'), null])
  })
})

describe('the dataset of a record', () => {
  const stored = async (route: IngestRoute, dataset: string, label: string): Promise<boolean> => {
    const { results } = await find(server, { dataset, page: { limit: 500 } })
    return results.some(
      ({ record }) => JSON.stringify(record.raw_payload.record).includes(label) && record.source === route.source,
    )
  }
  for (const route of ROUTES) {
    it(`is service.name, whatever it is, on ${route.path}`, async () => {
      for (const [i, dataset] of ['a', 'größe/β 🚀', ' spaces ', 'q"uo\\te', 'x'.repeat(1024)].entries()) {
        const label = `${route.path} ${i}`
        assert.equal((await send(route, route.batch(1, { dataset, label }))).status, 200)
        assert(await stored(route, dataset, label), dataset)
      }
    })
    it(`is unknown_service without service.name, or with one that is empty or no string, on ${route.path}`, async () => {
      const tenant = text('tenant_id', 'local')
      const without = [
        [tenant],
        [tenant, text('service.name', '')],
        [tenant, { key: 'service.name', value: { intValue: '7' } }],
        [tenant, { key: 'service.name' }],
      ]
      for (const [i, attributes] of without.entries()) {
        const label = `unknown ${route.path} ${i}`
        assert.equal((await send(route, route.batch(1, { attributes, label }))).status, 200)
        assert(await stored(route, 'unknown_service', label))
      }
    })
  }
  it('is that of each resource in a batch of several', async () => {
    const resourceLogs = ['left', 'right', 'left'].map((dataset, i) => ({
      resource: { attributes: [text('service.name', dataset), text('tenant_id', 'local')] },
      scopeLogs: [{ logRecords: [{ timeUnixNano: String(i + 1) }] }],
    }))
    const { record_ids } = await accept(server, JSON_LOGS, { resourceLogs })
    const left = recordsOf(await find(server, { dataset: 'left' }))
    assert.deepEqual(
      left.map(({ record_id }) => record_id),
      [record_ids[0], record_ids[2]],
    )
    assert.equal((await onlyRecord('right')).record_id, record_ids[1])
  })
})

describe('the OTLP JSON mapping', () => {
  it('takes 64-bit integers as strings or numbers, and never rounds them', async () => {
    const dataset = 'integers'
    const records = [
      '"1767225600000000001"',
      '1767225600000000002',
      '"9223372036854775809"',
      '18446744073709551615',
    ].map((time) => `{"timeUnixNano":${time},"body":{"intValue":-9223372036854775807}}`)
    const resource = JSON.stringify({ attributes: [text('service.name', dataset), text('tenant_id', 'local')] })
    const batch = `{"resourceLogs":[{"resource":${resource},"scopeLogs":[{"logRecords":[${records.join(',')}]}]}]}`
    await accept(server, JSON_LOGS, Buffer.from(batch))
    const reply = await server.request('/v1/query', { dataset })
    const times = [...reply.text.matchAll(/"time_unix_nano":"(\d+)"/g)].map(([, time]) => time)
    assert.deepEqual(times, [
      '1767225600000000001',
      '1767225600000000002',
      '9223372036854775809',
      '18446744073709551615',
    ])
    assert.equal(reply.text.match(/-9223372036854775807/g)?.length, 4)
  })
  it('takes trace and span ids in either case', async () => {
    const dataset = 'upper case'
    const resource = { attributes: [text('service.name', dataset), text('tenant_id', 'local')] }
    const spans = [{ traceId: '0AF7651916CD43DD8448EB211C80319C', spanId: 'B7AD6B7169203331', startTimeUnixNano: '1' }]
    await accept(server, JSON_TRACES, { resourceSpans: [{ resource, scopeSpans: [{ spans }] }] })
    const { trace_id, span_id } = await onlyRecord(dataset)
    assert.deepEqual([trace_id, span_id], ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'])
  })
  it('ignores fields it does not know, and keeps them in raw_payload', async () => {
    const dataset = 'unknown fields'
    const attributes = [text('service.name', dataset), text('tenant_id', 'local')]
    const record = { timeUnixNano: '1', future: { deep: [1, null, 'x'] }, severityNumber: 9 }
    const scope = { name: 'lib', colour: 'red' }
    const resource = { attributes, entityRefs: [{ type: 'service' }] }
    await accept(server, JSON_LOGS, {
      resourceLogs: [{ resource, more: true, scopeLogs: [{ scope, logRecords: [record], extra: 1 }] }],
      top: {},
    })
    assert.deepEqual((await onlyRecord(dataset)).raw_payload, { resource, scope, record })
  })
  it('keeps the schema URLs of resource and scope, of either format', async () => {
    const dataset = 'schema URLs'
    const resource = { attributes: [text('service.name', dataset), text('tenant_id', 'local')] }
    const group = (n: number) => ({
      resource,
      schemaUrl: `https://r.example/"${n}"`,
      scopeLogs: [
        { schemaUrl: 'https://s.example/größe', logRecords: [{ timeUnixNano: '1', severityNumber: n }] },
        { schemaUrl: '', logRecords: [{ timeUnixNano: '2', severityNumber: n }] },
      ],
    })
    await accept(server, JSON_LOGS, { resourceLogs: [group(1)] })
    assert.equal((await server.request(LOGS, encodeLogs({ resourceLogs: [group(2)] }), PROTOBUF)).status, 200)
    const payloads = recordsOf(await find(server, { dataset })).map(({ raw_payload }) => raw_payload)
    const urls = payloads.map(({ resourceSchemaUrl, scopeSchemaUrl }) => [resourceSchemaUrl, scopeSchemaUrl])
    assert.deepEqual(urls, [
      ['https://r.example/"1"', 'https://s.example/größe'],
      ['https://r.example/"2"', 'https://s.example/größe'],
      ['https://r.example/"1"', undefined],
      ['https://r.example/"2"', undefined],
    ])
  })
  it('takes members in any order', async () => {
    const dataset = 'order'
    const record = { body: { stringValue: 'b' }, timeUnixNano: '5' }
    const resource = { attributes: [text('tenant_id', 'local'), text('service.name', dataset)] }
    await accept(server, JSON_LOGS, { resourceLogs: [{ scopeLogs: [{ logRecords: [record], scope: {} }], resource }] })
    assert.equal((await onlyRecord(dataset)).time_unix_nano, '5')
  })
  it('takes null for an absent field', async () => {
    const dataset = 'nulls'
    const record = { timeUnixNano: '5', body: null, attributes: null, traceId: null, severityNumber: null }
    const resource = { attributes: [text('tenant_id', 'local'), text('service.name', dataset)] }
    await accept(server, JSON_LOGS, {
      resourceLogs: [{ resource, scopeLogs: [{ scope: null, logRecords: [record] }] }],
    })
    const { trace_id, severity_number } = await onlyRecord(dataset)
    assert.deepEqual([trace_id, severity_number], [null, 0])
  })
})

describe('a stored record', () => {
  it('shows exactly the fields of the contract, the same for JSON and protobuf', async () => {
    const [traceId, spanId] = [Buffer.alloc(16, 0xa1), Buffer.alloc(8, 0xb2)]
    const log = { timeUnixNano: String(TIME), severityNumber: 17, body: { stringValue: 'failed' }, traceId, spanId }
    const span = { traceId, spanId, name: 'charge', startTimeUnixNano: String(TIME) }
    const hex = { traceId: traceId.toString('hex'), spanId: spanId.toString('hex') }
    const batches: Record<string, readonly [Buffer, boolean, boolean]> = {
      [JSON_LOGS]: [jsonLogs([log], { dataset: 'fields-0' }), true, true],
      [LOGS]: [protobufLogs([log], { dataset: 'fields-1' }), true, false],
      [JSON_TRACES]: [jsonTraces([span], { dataset: 'fields-2' }), false, true],
      [TRACES]: [protobufTraces([span], { dataset: 'fields-3' }), false, false],
    }
    for (const [i, [path, [body, isLog, isJson]]] of Object.entries(batches).entries()) {
      const contentType = isJson ? 'application/json' : PROTOBUF_TYPE
      assert.equal((await send({ path, contentType }, body)).status, 200)
      const dataset = `fields-${i}`
      const { record_id, ...rest } = await onlyRecord(dataset)
      assert.match(record_id, /^logstore_[0-9a-f]{32}$/)
      assert.deepEqual(rest, {
        source: isJson ? 'v1.otlp_http' : 'v1.otlp_http_protobuf',
        signal: isLog ? 'log' : 'trace',
        tenant_id: 'local',
        dataset,
        time_unix_nano: String(TIME),
        trace_id: hex.traceId,
        span_id: hex.spanId,
        ...(isLog && { severity_number: 17 }),
        raw_payload: {
          resource: { attributes: [text('service.name', dataset), text('tenant_id', 'local')] },
          scope: { name: 'test', version: '1.0.0' },
          record: isLog ? { ...log, ...hex } : { ...span, ...hex },
        },
      })
    }
  })
})
