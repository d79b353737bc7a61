/** Traces over several datasets, as a tree and for Jaeger's clients, over real sockets. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { Compile } from 'typebox/schema'
import type { TSchema } from 'typebox'
import { JaegerNames, JaegerOperations, JaegerTraces, TraceReply } from '../../../src/logstore/reads/read-routes.ts'
import { policyTenant } from '../../support/logstore.ts'
import type { RequestOptions } from '../../support/logstore.ts'
import {
  JSON_LOGS,
  JSON_TRACES,
  PROTOBUF,
  QUERY,
  TRACES,
  accept,
  assertRefused,
  jsonLogs,
  jsonTraces,
  protobufTraces,
  startForTests,
} from './batches.ts'
import type { Span } from '../../support/otlp.ts'

const NO_LIMIT = { records: null, bytes: null }
const server = await startForTests({
  policy: [
    policyTenant('local', 'local-dev-token', NO_LIMIT),
    {
      ...policyTenant('acme', 'all', NO_LIMIT),
      credentials: [
        ...policyTenant('acme', 'all').credentials,
        ...policyTenant('acme', 'two', {}, ['shop', 'bank']).credentials,
      ],
    },
  ],
})
const ALL: RequestOptions = { tenant: 'acme', token: 'all' }
const TWO: RequestOptions = { tenant: 'acme', token: 'two' }

const TRACE = '5b8efff798038103d269b633813fc60c'
const START = 1_767_225_600_000_000_000n
const MS = 1_000_000n

const spanOf = (
  id: string,
  parent: string,
  name: string,
  fromMs: number,
  toMs: number,
  more: Partial<Span> = {},
): Span => ({
  traceId: Buffer.from(TRACE, 'hex'),
  spanId: Buffer.from(id.repeat(8), 'hex'),
  ...(parent !== '' && { parentSpanId: Buffer.from(parent.repeat(8), 'hex') }),
  name,
  startTimeUnixNano: String(START + BigInt(fromMs) * MS),
  endTimeUnixNano: String(START + BigInt(toMs) * MS),
  ...more,
})

/** A trace through three services, their spans as protobuf and as JSON, and log records. */
before(async () => {
  const tenant = 'acme'
  const bank = protobufTraces([spanOf('0c', '0b', 'book', 30, 40)], { tenant, dataset: 'bank' })
  assert.equal((await server.request(TRACES, bank, { ...ALL, ...PROTOBUF })).status, 200)
  const shop = [
    spanOf('0a', '', 'checkout', 0, 100, { kind: 2, status: { code: 2, message: 'refused' } }),
    spanOf('0d', '0a', 'render', 90, 99),
  ]
  await accept(server, JSON_TRACES, jsonTraces(shop, { tenant, dataset: 'shop' }), ALL)
  const payments = [
    spanOf('0b', '0a', 'charge', 10, 80, {
      kind: 3,
      attributes: [{ key: 'http.status_code', value: { intValue: '502' } }],
    }),
  ]
  await accept(server, JSON_TRACES, jsonTraces(payments, { tenant, dataset: 'payments' }), ALL)
  const log = (spanId: string, text: string, atMs: number) => ({
    timeUnixNano: String(START + BigInt(atMs) * MS),
    traceId: Buffer.from(TRACE, 'hex'),
    ...(spanId !== '' && { spanId: Buffer.from(spanId.repeat(8), 'hex') }),
    body: { stringValue: text },
  })
  const logs = [log('0b', 'the card was refused', 70), log('', 'of no span', 75)]
  await accept(server, JSON_LOGS, jsonLogs(logs, { tenant, dataset: 'payments' }), ALL)
  // Another trace of the same tenant, and the same ids of another tenant.
  const other = { ...spanOf('0e', '', 'checkout', 200, 205), traceId: Buffer.from('ab'.repeat(16), 'hex') }
  await accept(server, JSON_TRACES, jsonTraces([other], { tenant, dataset: 'shop' }), ALL)
  await accept(server, JSON_TRACES, jsonTraces([spanOf('0f', '0a', 'foreign', 0, 1)], { dataset: 'shop' }))
})

interface Node {
  readonly name: string
  readonly root?: string
  readonly logs: readonly object[]
  readonly children: readonly Node[]
}

interface Tree {
  readonly datasets: readonly string[]
  readonly matched_records: number
  readonly spans: number
  readonly log_records: number
  readonly truncated: boolean
  readonly roots: readonly Node[]
  readonly logs: readonly object[]
}

/** The body of an answer, which must be as its schema says. */
async function got<Body>(path: string, schema: TSchema, options: RequestOptions = ALL): Promise<Body> {
  const body = (await server.request(path, null, options)).ok()
  const [isFine, errors] = Compile(schema).Errors(body)
  assert(isFine, JSON.stringify(errors))
  return body as Body // the schema is that of the service, the fields are what the tests look at
}

const shapeOf = (nodes: readonly Node[]): unknown[] =>
  nodes.map(({ name, root, logs, children }) => [`${name} ${root ?? ''} ${logs.length}`.trim(), ...shapeOf(children)])

describe('GET /v1/traces/{trace_id}', () => {
  it('is the tree of a trace over three services', async () => {
    for (const id of [TRACE, TRACE.toUpperCase()]) {
      const tree = await got<Tree>(`/v1/traces/${id}`, TraceReply)
      assert.deepEqual(shapeOf(tree.roots), [['checkout no_parent 0', ['charge  1', ['book  0']], ['render  0']]])
      assert.deepEqual(tree.datasets, ['bank', 'payments', 'shop'])
      assert.deepEqual([tree.matched_records, tree.spans, tree.log_records, tree.logs.length], [6, 4, 2, 1])
      assert.equal(tree.truncated, false)
    }
  })

  it('has what the credential may read: spans whose parent it may not read are roots, and say so', async () => {
    const tree = await got<Tree>(`/v1/traces/${TRACE}`, TraceReply, TWO)
    assert.deepEqual(tree.datasets, ['bank', 'shop'])
    assert.deepEqual(shapeOf(tree.roots), [['checkout no_parent 0', ['render  0']], ['book parent_missing 0']])
    const own = await got<Tree>(`/v1/traces/${TRACE}`, TraceReply, {})
    assert.deepEqual(shapeOf(own.roots), [['foreign parent_missing 0']])
  })

  it('is refused when there is none, and for what is no trace id', async () => {
    assertRefused(await server.request(`/v1/traces/${'0c'.repeat(16)}`, null, ALL), 404, 'trace_not_found')
    for (const id of ['x', TRACE.slice(2), `${TRACE}00`]) {
      assertRefused(await server.request(`/v1/traces/${id}`, null, ALL), 400, 'invalid_query')
    }
    assertRefused(await server.request(`/v1/traces/${TRACE}`, null, { ...ALL, token: 'x' }), 401, 'invalid_credentials')
  })

  it('of more than 10 000 records shows the earliest, and says so', async () => {
    const traceId = Buffer.from('cd'.repeat(16), 'hex')
    const count = 21 * 500
    for (let batch = 0; batch < 21; batch++) {
      const spans = Array.from({ length: 500 }, (_, i) => {
        const number = batch * 500 + i
        const spanId = Buffer.alloc(8)
        spanId.writeUInt32BE(number + 1)
        return { ...spanOf('0a', '0a', `n${number}`, number, number + 1), traceId, spanId }
      })
      await accept(server, JSON_TRACES, jsonTraces(spans, { dataset: 'large' }))
    }
    const tree = await got<Tree>(`/v1/traces/${'cd'.repeat(16)}`, TraceReply, {})
    assert.deepEqual([tree.matched_records, tree.spans, tree.truncated], [count, 10_000, true])
    assert.deepEqual([tree.roots[0]!.name, tree.roots.at(-1)!.name], ['n0', 'n9999'])
    const jaeger = await got<JaegerReply>(`/jaeger/api/traces/${'cd'.repeat(16)}`, JaegerTraces, {})
    assert.match(jaeger.data[0]!.warnings![0]!, /^500 more/)
  })
})

describe('a query without a dataset', () => {
  it('finds the records of a trace in every dataset that may be read', async () => {
    const found = async (options: RequestOptions, filter = {}): Promise<unknown> => {
      const reply = await server.request(QUERY, { filter: { trace_id: TRACE, ...filter } }, options)
      const { dataset, results } = reply.ok() as { dataset: null; results: { record: { dataset: string } }[] }
      assert.equal(dataset, null)
      return results.map(({ record }) => record.dataset)
    }
    assert.deepEqual(await found(ALL), ['shop', 'payments', 'bank', 'payments', 'payments', 'shop'])
    assert.deepEqual(await found(TWO), ['shop', 'bank', 'shop'])
    assert.deepEqual(await found(ALL, { search: 'refused signal:log' }), ['payments'])
    assertRefused(await server.request(QUERY, { filter: { search: 'a' } }, ALL), 400, 'invalid_query')
  })
})

interface JaegerReply {
  readonly total: number
  readonly data: readonly {
    readonly traceID: string
    readonly spans: readonly { readonly operationName: string; readonly processID: string }[]
    readonly processes: Readonly<Record<string, { readonly serviceName: string }>>
    readonly warnings: readonly string[] | null
  }[]
}

describe('what Jaeger’s clients ask', () => {
  it('services are the datasets with spans that may be read', async () => {
    await accept(
      server,
      JSON_LOGS,
      jsonLogs([{ body: { stringValue: 'x' } }], { tenant: 'acme', dataset: 'logs only' }),
      ALL,
    )
    const names = async (options?: RequestOptions): Promise<unknown> =>
      (await got<{ data: unknown }>('/jaeger/api/services', JaegerNames, options)).data
    assert.deepEqual(await names(), ['bank', 'payments', 'shop'])
    assert.deepEqual(await names(TWO), ['bank', 'shop'])
  })

  it('operations are the names of spans', async () => {
    const { data } = await got<{ data: unknown }>('/jaeger/api/services/shop/operations', JaegerNames)
    assert.deepEqual(data, ['checkout', 'render'])
    const operations = await got<{ data: unknown }>('/jaeger/api/operations?service=shop', JaegerOperations)
    assert.deepEqual(operations.data, [
      { name: 'checkout', spanKind: 'unspecified' },
      { name: 'checkout', spanKind: 'server' },
      { name: 'render', spanKind: 'unspecified' },
    ])
    const servers = await got<{ data: unknown }>(
      '/jaeger/api/operations?service=shop&spanKind=server',
      JaegerOperations,
    )
    assert.deepEqual(servers.data, [{ name: 'checkout', spanKind: 'server' }])
    assertRefused(await server.request('/jaeger/api/operations', null, ALL), 400, 'invalid_query')
  })

  it('traces are found by their spans, newest first, and shown whole', async () => {
    const ids = async (parameters: Readonly<Record<string, string>>): Promise<unknown> => {
      const path = `/jaeger/api/traces?${new URLSearchParams(parameters).toString()}`
      const { data, total } = await got<JaegerReply>(path, JaegerTraces)
      assert.equal(total, data.length)
      return data.map(({ traceID, spans }) => `${traceID.slice(0, 2)} ${spans.length}`)
    }
    const whole = '5b 4'
    const other = 'ab 1'
    const us = (ms: bigint): string => String((START + ms * MS) / 1000n)
    assert.deepEqual(await ids({ service: 'shop' }), [other, whole])
    assert.deepEqual(await ids({ service: 'shop', limit: '1' }), [other])
    assert.deepEqual(await ids({ service: 'shop', operation: 'render' }), [whole])
    assert.deepEqual(await ids({ service: 'shop', minDuration: '50ms', maxDuration: '0.1s' }), [whole])
    assert.deepEqual(await ids({ service: 'shop', maxDuration: '5ms' }), [other])
    assert.deepEqual(await ids({ service: 'shop', tags: '{"error":"true"}' }), [whole])
    assert.deepEqual(await ids({ service: 'shop', tags: '{"span.kind":"server"}' }), [whole])
    assert.deepEqual(await ids({ service: 'payments', tags: '{"http.status_code":"502"}' }), [whole])
    assert.deepEqual(await ids({ service: 'payments', tags: '{"http.status_code":"50"}' }), [])
    assert.deepEqual(await ids({ service: 'shop', start: us(0n), end: us(100n), lookback: 'custom' }), [whole])
    assert.deepEqual(await ids({ service: 'shop', start: us(150n), end: us(300n) }), [other])
    assertRefused(await server.request('/jaeger/api/traces?service=payments', null, TWO), 403, 'dataset_not_authorized')
    assertRefused(await server.request('/jaeger/api/traces', null, ALL), 400, 'invalid_query')
  })

  it('a trace has its processes and references', async () => {
    const { data } = await got<JaegerReply>(`/jaeger/api/traces/${TRACE}`, JaegerTraces)
    const [trace] = data
    const services = trace!.spans.map(({ processID, operationName }) => [
      operationName,
      trace!.processes[processID]!.serviceName,
    ])
    assert.deepEqual(services, [
      ['checkout', 'shop'],
      ['charge', 'payments'],
      ['book', 'bank'],
      ['render', 'shop'],
    ])
    assertRefused(await server.request('/jaeger/api/traces/1', null, ALL), 404, 'trace_not_found')
    assertRefused(await server.request('/jaeger/api/traces/x', null, ALL), 400, 'invalid_query')
    const { data: dependencies } = await got<{ data: unknown }>(
      '/jaeger/api/dependencies?endTs=1&lookback=1',
      JaegerNames,
    )
    assert.deepEqual(dependencies, [])
  })

  it('needs the credentials of any route', async () => {
    for (const path of [
      'services',
      'services/shop/operations',
      'operations',
      'traces',
      `traces/${TRACE}`,
      'dependencies',
    ]) {
      assertRefused(await server.request(`/jaeger/api/${path}`, null, { token: 'x' }), 401, 'invalid_credentials')
    }
  })
})
