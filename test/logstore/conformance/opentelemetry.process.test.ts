/** OpenTelemetry's own exporters, unmodified, against the real process: what went in is what a query shows. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { Metadata } from '@grpc/grpc-js'
import { ROOT_CONTEXT, SeverityNumber, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api'
import type { AnyValue as ApiValue } from '@opentelemetry/api'
import { OTLPLogExporter as GrpcLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc'
import { OTLPLogExporter as JsonLogExporter } from '@opentelemetry/exporter-logs-otlp-http'
import { OTLPLogExporter as ProtobufLogExporter } from '@opentelemetry/exporter-logs-otlp-proto'
import { OTLPTraceExporter as GrpcTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc'
import { OTLPTraceExporter as JsonTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtobufTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import type { LogRecordExporter } from '@opentelemetry/sdk-logs'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import { find, recordsOf } from './batches.ts'
import type { StoredRecord } from './batches.ts'
import { DEVELOPMENT_CREDENTIALS, LogStoreServer, policyTenant } from '../../support/logstore.ts'
import { LIMIT_MS } from '../../support/waiting.ts'

for (const name of ['OTEL_EXPORTER_OTLP_TIMEOUT', 'OTEL_BLRP_EXPORT_TIMEOUT', 'OTEL_BSP_EXPORT_TIMEOUT']) {
  process.env[name] = String(LIMIT_MS)
}

const { tenant, token } = DEVELOPMENT_CREDENTIALS
const headers = { 'x-logstore-tenant': tenant, authorization: `Bearer ${token}` }

let server: LogStoreServer
before(async () => {
  server = await LogStoreServer.start({ env: { LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:0' } })
})
after(() => server.stop())

function metadata(): Metadata {
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  return metadata
}

const ATTRIBUTES = {
  text: 'paid',
  'text.empty': '',
  'text.unicode': 'größe 🚀 日本語 \u0000 "quoted" \\ \n',
  'text.long': 'x'.repeat(20_000),
  yes: true,
  no: false,
  zero: 0,
  'integer.negative': -1,
  'integer.safe': Number.MAX_SAFE_INTEGER,
  'integer.large': 2 ** 60,
  'integer.least': Number.MIN_SAFE_INTEGER,
  double: 0.1,
  'double.small': -5e-324,
  'double.large': 2 ** 51 + 0.5, // larger ones are integers, and the exporters send those beyond 64 bits as broken ones
  texts: ['a', '', 'ß'],
  numbers: [1, 2, 3],
  booleans: [true, false],
  nothing: [],
}
/** What log attributes and bodies may hold besides. */
const NESTED = {
  map: { inner: { deep: [1, { deeper: 'yes' }], empty: {} }, other: false },
  bytes: Uint8Array.of(0, 1, 127, 128, 255),
  mixed: [1, 'two', 3.5, [true], { four: 4 }],
}

/** An OTLP JSON value as the plain value it stands for. */
function plain(value: Readonly<Record<string, unknown>>): unknown {
  const [kind, inner] = Object.entries(value)[0] ?? ['', undefined]
  switch (kind) {
    case 'intValue':
      return Number(inner)
    case 'bytesValue':
      return Uint8Array.from(Buffer.from(String(inner), 'base64'))
    case 'arrayValue':
      return ((inner as { values?: readonly Record<string, unknown>[] }).values ?? []).map(plain) // as in OTLP's JSON mapping
    case 'kvlistValue':
      return attributesOf((inner as { values?: unknown }).values)
    default:
      return inner
  }
}

const attributesOf = (list: unknown = []): Record<string, unknown> =>
  Object.fromEntries(
    (list as { key: string; value: Record<string, unknown> }[]).map(({ key, value }) => [key, plain(value)]), // as in OTLP's JSON mapping
  )

const resourceOf = (dataset: string) =>
  resourceFromAttributes({ 'service.name': dataset, tenant_id: tenant, ...ATTRIBUTES })

async function stored(dataset: string, count: number): Promise<readonly StoredRecord[]> {
  const found = await find(server, { dataset, page: { limit: 500 } })
  assert.equal(found.matched_records, count)
  return recordsOf(found)
}

function assertCommon(record: StoredRecord, dataset: string, source: string): void {
  assert.deepEqual([record.source, record.dataset, record.tenant_id], [source, dataset, tenant])
  const resource = attributesOf(record.raw_payload.resource.attributes)
  assert.deepEqual(resource, { 'service.name': dataset, tenant_id: tenant, ...ATTRIBUTES })
  assert.partialDeepStrictEqual(record.raw_payload.scope, { name: 'shop', version: '1.2.3' })
}

describe('log records exported', () => {
  const exporters: [name: string, source: string, make: () => LogRecordExporter][] = [
    [
      'over HTTP in protobuf',
      'v1.otlp_http_protobuf',
      () => new ProtobufLogExporter({ url: `${server.url}/v1/logs`, headers }),
    ],
    ['over HTTP in JSON', 'v1.otlp_http', () => new JsonLogExporter({ url: `${server.url}/v1/otlp/logs`, headers })],
    ['over gRPC', 'v1.otlp_grpc', () => new GrpcLogExporter({ url: `http://${server.grpc}`, metadata: metadata() })],
  ]
  for (const [how, source, make] of exporters)
    it(`${how} are found with everything they had`, async () => {
      const dataset = `logs ${how}`
      const provider = new LoggerProvider({
        resource: resourceOf(dataset),
        processors: [new BatchLogRecordProcessor({ exporter: make() })],
      })
      const logger = provider.getLogger('shop', '1.2.3')
      const spanContext = {
        traceId: randomBytes(16).toString('hex'),
        spanId: randomBytes(8).toString('hex'),
        traceFlags: TraceFlags.SAMPLED,
      }
      const bodies: ApiValue[] = ['text', '', 42, 0.5, true, { ...NESTED }, ['a', 1]]
      for (const [i, body] of bodies.entries())
        logger.emit({
          timestamp: [1_767_225_600, 123_456_700 + i],
          observedTimestamp: [1_767_225_601, i],
          severityNumber: SeverityNumber.ERROR2,
          severityText: 'ERROR2',
          body,
          attributes: { ...ATTRIBUTES, ...NESTED },
          context: trace.setSpanContext(ROOT_CONTEXT, spanContext),
        })
      await provider.shutdown()

      const records = await stored(dataset, bodies.length)
      for (const [i, record] of records.entries()) {
        assertCommon(record, dataset, source)
        assert.equal(record.signal, 'log')
        assert.equal(record.time_unix_nano, String(1_767_225_600_123_456_700n + BigInt(i)))
        assert.deepEqual(
          [record.trace_id, record.span_id, record.severity_number],
          [spanContext.traceId, spanContext.spanId, 18],
        )
        const { body, attributes, severityText, observedTimeUnixNano, traceId, flags } = record.raw_payload.record
        assert.deepEqual(plain(body as Record<string, unknown>), bodies[i]) // as in OTLP's JSON mapping
        assert.deepEqual(attributesOf(attributes), { ...ATTRIBUTES, ...NESTED })
        assert.deepEqual(
          [severityText, String(observedTimeUnixNano)],
          ['ERROR2', String(1_767_225_601_000_000_000n + BigInt(i))],
        )
        assert.deepEqual([traceId, flags], [spanContext.traceId, 1])
      }
      const byTrace = await find(server, { dataset, filter: { trace_id: spanContext.traceId } })
      assert.equal(byTrace.matched_records, bodies.length)
    })
})

describe('spans exported', () => {
  const exporters: [name: string, source: string, make: () => SpanExporter][] = [
    [
      'over HTTP in protobuf',
      'v1.otlp_http_protobuf',
      () => new ProtobufTraceExporter({ url: `${server.url}/v1/traces`, headers }),
    ],
    [
      'over HTTP in JSON',
      'v1.otlp_http',
      () => new JsonTraceExporter({ url: `${server.url}/v1/otlp/traces`, headers }),
    ],
    ['over gRPC', 'v1.otlp_grpc', () => new GrpcTraceExporter({ url: `http://${server.grpc}`, metadata: metadata() })],
  ]
  for (const [how, source, make] of exporters)
    it(`${how} are found with their attributes, events, links, status and parents`, async () => {
      const dataset = `spans ${how}`
      const provider = new TracerProvider({
        resource: resourceOf(dataset),
        spanProcessors: [new BatchSpanProcessor({ exporter: make() })],
      })
      const tracer = provider.getTracer('shop', '1.2.3')
      const linked = {
        traceId: randomBytes(16).toString('hex'),
        spanId: randomBytes(8).toString('hex'),
        traceFlags: TraceFlags.SAMPLED,
      }
      const parent = tracer.startSpan('order', { startTime: [1_767_225_600, 1], kind: SpanKind.SERVER })
      const child = tracer.startSpan(
        'charge größe 🚀',
        {
          startTime: [1_767_225_600, 2],
          kind: SpanKind.CLIENT,
          attributes: ATTRIBUTES,
          links: [{ context: linked, attributes: ATTRIBUTES }],
        },
        trace.setSpan(ROOT_CONTEXT, parent),
      )
      child.addEvent('declined', ATTRIBUTES, [1_767_225_600, 3])
      child.addEvent('', {}, [1_767_225_600, 4])
      child.setStatus({ code: SpanStatusCode.ERROR, message: 'no funds ß' })
      child.end([1_767_225_600, 5])
      parent.end([1_767_225_600, 999_999_999])
      await provider.shutdown()

      const [first, second] = await stored(dataset, 2)
      assert(first && second)
      for (const record of [first, second]) assertCommon(record, dataset, source)
      const { traceId, spanId } = child.spanContext()
      const parentId = parent.spanContext().spanId
      assert.deepEqual(
        [first.signal, first.trace_id, first.span_id, first.time_unix_nano],
        ['trace', traceId, parentId, '1767225600000000001'],
      )
      assert.deepEqual(
        [second.signal, second.trace_id, second.span_id, second.time_unix_nano],
        ['trace', traceId, spanId, '1767225600000000002'],
      )
      assert(!('severity_number' in second))

      const { record } = second.raw_payload
      const { attributes, events, links, status, name, kind, endTimeUnixNano, parentSpanId } = record
      assert.deepEqual(
        [name, kind, String(endTimeUnixNano), parentSpanId],
        ['charge größe 🚀', 3, '1767225600000000005', parentId],
      )
      assert.deepEqual(attributesOf(attributes), ATTRIBUTES)
      assert.deepEqual(status, { message: 'no funds ß', code: 2 })
      const [declined, nameless] = events as Record<string, unknown>[] // as in OTLP's JSON mapping
      assert.deepEqual([declined?.['name'], String(declined?.['timeUnixNano'])], ['declined', '1767225600000000003'])
      assert.deepEqual(attributesOf(declined?.['attributes']), ATTRIBUTES)
      assert.equal(String(nameless?.['timeUnixNano']), '1767225600000000004')
      const [link] = links as Record<string, unknown>[] // likewise
      assert.deepEqual([link?.['traceId'], link?.['spanId']], [linked.traceId, linked.spanId])
      assert.deepEqual(attributesOf(link?.['attributes']), ATTRIBUTES)
      assert.equal(String(first.raw_payload.record['endTimeUnixNano']), '1767225600999999999')
    })
})

describe('exporters that are configured by nothing but the environment variables of SDKs', () => {
  const EXPORTERS = {
    'http/protobuf, gzipped': {
      log: () => new ProtobufLogExporter(),
      trace: () => new ProtobufTraceExporter(),
      environment: () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: server.url, OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip' }),
    },
    'http/json, pointed at the JSON routes': {
      log: () => new JsonLogExporter(),
      trace: () => new JsonTraceExporter(),
      environment: () => ({
        OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: `${server.url}/v1/otlp/logs`,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${server.url}/v1/otlp/traces`,
      }),
    },
    grpc: {
      log: () => new GrpcLogExporter(),
      trace: () => new GrpcTraceExporter(),
      environment: () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://${server.grpc}` }),
    },
  }
  for (const [how, { log, trace: traces, environment }] of Object.entries(EXPORTERS))
    it(`deliver logs and spans over ${how}`, async (test) => {
      const dataset = `sdk ${how}`
      const variables = {
        OTEL_SERVICE_NAME: dataset,
        OTEL_RESOURCE_ATTRIBUTES: `tenant_id=${tenant}`,
        OTEL_EXPORTER_OTLP_HEADERS: `x-logstore-tenant=${tenant},authorization=${encodeURIComponent(`Bearer ${token}`)}`,
        ...environment(),
      }
      Object.assign(process.env, variables)
      test.after(() => {
        for (const name of Object.keys(variables)) delete process.env[name]
      })
      const resource = detectResources({ detectors: [envDetector] })
      const logProvider = new LoggerProvider({
        resource,
        processors: [new BatchLogRecordProcessor({ exporter: log() })],
      })
      const spanProvider = new TracerProvider({
        resource,
        spanProcessors: [new BatchSpanProcessor({ exporter: traces() })],
      })
      const charge = spanProvider.getTracer('shop').startSpan('charge')
      const logger = logProvider.getLogger('shop')
      logger.emit({ body: 'paid', attributes: ATTRIBUTES })
      logger.emit({ body: 'charging', context: trace.setSpan(ROOT_CONTEXT, charge) })
      charge.end()
      await logProvider.shutdown()
      await spanProvider.shutdown()

      const records = await stored(dataset, 3)
      const span = records.find(({ signal }) => signal === 'trace')
      const bodyOf = ({ raw_payload }: StoredRecord): unknown =>
        plain((raw_payload.record['body'] ?? {}) as Record<string, unknown>) // as in OTLP's JSON mapping
      const paid = records.find((record) => bodyOf(record) === 'paid')
      const charging = records.find((record) => bodyOf(record) === 'charging')
      assert.deepEqual(attributesOf(paid?.raw_payload.record['attributes']), ATTRIBUTES)
      assert(span?.trace_id)
      assert.deepEqual([charging?.trace_id, charging?.span_id], [span.trace_id, span.span_id])
    })
})

describe('an exporter that is refused for a moment', () => {
  it('waits as long as it is told and sends again: nothing is lost or doubled', async () => {
    const limits = { window_seconds: 1, records: 100, bytes: null }
    const brief = await LogStoreServer.start({ policy: [policyTenant(tenant, token, limits)] })
    const exporter = new ProtobufLogExporter({ url: `${brief.url}/v1/logs`, headers })
    const processor = new BatchLogRecordProcessor({ exporter, maxExportBatchSize: 80, scheduledDelayMillis: 1 })
    const provider = new LoggerProvider({ resource: resourceOf('brief'), processors: [processor] })
    const wasRefused = async (): Promise<boolean> =>
      /^logstore_ingest_refusals_total\{kind="record_quota_exceeded"\} [1-9]/m.test(
        (await brief.request('/metrics', null)).text,
      )
    let sent = 0
    do {
      for (let i = 0; i < 240; i++) provider.getLogger('shop').emit({ body: `order ${sent++}` })
      await provider.forceFlush()
    } while (!(await wasRefused())) // repeats only if the machine stalled between any two batches for as long as the window
    await provider.shutdown()

    assert.equal((await find(brief, { dataset: 'brief' })).matched_records, sent)
    await brief.stop()
  })
})
