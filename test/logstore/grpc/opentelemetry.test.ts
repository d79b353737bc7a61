import assert from 'node:assert/strict'
import { gunzipSync } from 'node:zlib'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { LoggerProvider, SimpleLogRecordProcessor } from '@opentelemetry/sdk-logs'
import { SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import protobuf from 'protobufjs'
import { SIGNAL_LOG, SIGNAL_TRACE } from '../../../src/logstore/batch-frame.ts'
import { refusal } from '../../../src/logstore/refusals.ts'
import { LIMIT_MS } from '../../support/waiting.ts'
import { GrpcRig, goodMetadata, metadataOf } from './grpc-rig.ts'

const resource = resourceFromAttributes({ 'service.name': 'checkout', tenant_id: 'local' })

type TraceExporterConfig = NonNullable<ConstructorParameters<typeof OTLPTraceExporter>[0]>
// The exporter's package does not export the enum; this is the value that users write in the environment.
const GZIP = 'gzip' as NonNullable<TraceExporterConfig['compression']>

let rig: GrpcRig

describe("OpenTelemetry's own gRPC exporter", () => {
  beforeEach(async () => {
    rig = await GrpcRig.start()
  })
  afterEach(() => rig.close())

  it('delivers a log record', async () => {
    const { provider, results } = logs(goodMetadata())
    provider.getLogger('shop').emit({ body: 'paid', severityText: 'INFO' })
    await provider.shutdown()
    assert.deepEqual(results, [0])
    const [batch] = rig.ingest.submitted
    assert.equal(batch?.client.signal, SIGNAL_LOG)
    assert.partialDeepStrictEqual(decode('logs.v1.ExportLogsServiceRequest', batch.body), {
      resourceLogs: [
        {
          resource: { attributes: [{ key: 'service.name', value: { stringValue: 'checkout' } }] },
          scopeLogs: [{ logRecords: [{ severityText: 'INFO', body: { stringValue: 'paid' } }] }],
        },
      ],
    })
  })

  it('delivers a span, gzipped', async () => {
    const { provider, results } = spans(goodMetadata())
    provider.getTracer('shop').startSpan('charge').end()
    await provider.shutdown()
    assert.deepEqual(results, [0])
    const [batch] = rig.ingest.submitted
    assert.equal(batch?.client.signal, SIGNAL_TRACE)
    assert.partialDeepStrictEqual(decode('trace.v1.ExportTraceServiceRequest', gunzipSync(batch.body)), {
      resourceSpans: [{ scopeSpans: [{ spans: [{ name: 'charge' }] }] }],
    })
  })

  it('reports a refusal as a failed export', async () => {
    const { provider, results, errors } = logs(metadataOf('local', 'Bearer wrong'))
    provider.getLogger('shop').emit({ body: 'lost' })
    await provider.shutdown()
    assert.deepEqual(results, [1])
    assert.match(errors[0]!, /invalid_credentials: /)
    assert.deepEqual(rig.ingest.submitted, [])
  })

  it('reports a retryable refusal too', async () => {
    rig.ingest.answer = ({ client }) => client.refused(refusal('record_quota_exceeded', 'the window is full', 1))
    const { provider, results, errors } = spans(goodMetadata())
    provider.getTracer('shop').startSpan('charge').end()
    await provider.shutdown()
    assert.deepEqual(results, [1])
    assert.match(errors[0]!, /record_quota_exceeded: the window is full/)
  })
})

/** Result codes (0 success, 1 failed) and error messages of every export, as the SDK sees them. */
interface Watched<Provider> {
  readonly provider: Provider
  readonly results: number[]
  readonly errors: string[]
}

interface Exporter<Batch> {
  export(batch: Batch, done: (result: { code: number; error?: Error }) => void): void
}

function watch<Batch>(exporter: Exporter<Batch>, results: number[], errors: string[]): void {
  const send = exporter.export.bind(exporter)
  exporter.export = (batch, done) =>
    send(batch, (result) => {
      results.push(result.code)
      if (result.error) errors.push(result.error.message)
      done(result)
    })
}

function logs(metadata: ReturnType<typeof goodMetadata>): Watched<LoggerProvider> {
  const results: number[] = []
  const errors: string[] = []
  const exporter = new OTLPLogExporter({ url: `http://127.0.0.1:${rig.front.port}`, metadata, timeoutMillis: LIMIT_MS })
  watch(exporter, results, errors)
  const provider = new LoggerProvider({ resource, processors: [new SimpleLogRecordProcessor({ exporter })] })
  return { provider, results, errors }
}

function spans(metadata: ReturnType<typeof goodMetadata>): Watched<TracerProvider> {
  const results: number[] = []
  const errors: string[] = []
  const url = `http://127.0.0.1:${rig.front.port}`
  const exporter = new OTLPTraceExporter({ url, metadata, compression: GZIP, timeoutMillis: LIMIT_MS })
  watch(exporter, results, errors)
  const provider = new TracerProvider({ resource, spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  return { provider, results, errors }
}

const root = new protobuf.Root()
root.resolvePath = (_origin, target) => fileURLToPath(new URL(`../../../proto/${target}`, import.meta.url))
root.loadSync(['logs/v1/logs', 'trace/v1/trace'].map((name) => `opentelemetry/proto/collector/${name}_service.proto`))

/** The bytes as a receiver with the published message types reads them. */
function decode(type: string, bytes: Buffer): object {
  return root.lookupType(`opentelemetry.proto.collector.${type}`).decode(bytes).toJSON()
}
