/** gRPC clients against the whole log store. */
import assert from 'node:assert/strict'
import { randomFillSync } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:http2'
import type { IncomingHttpHeaders } from 'node:http2'
import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { after, before, describe, it } from 'node:test'
import { Client, credentials, status } from '@grpc/grpc-js'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { loadConfig } from '../../../src/config/config.ts'
import { AcceptGate } from '../../../src/http/accept-gate.ts'
import { EXPORT_METHODS } from '../../../src/logstore/grpc/export-methods.ts'
import { openLogStore } from '../../../src/logstore/logstore.ts'
import type { LogStore } from '../../../src/logstore/logstore.ts'
import { ProcessMetrics } from '../../../src/observability/process-metrics.ts'
import { systemClock } from '../../../src/observability/system-clock.ts'
import { exportOnce, goodMetadata } from './grpc-rig.ts'
import { snappyStream } from '../../support/snappy.ts'

let directory: string
let store: LogStore
let client: Client

interface Found {
  readonly matched_records: number
  readonly results: readonly { readonly record: { readonly source: string; readonly signal: string } }[]
}

describe('the log store over gRPC', () => {
  before(async () => {
    directory = mkdtempSync(`${tmpdir()}/logstore-grpc-`)
    const config = loadConfig({
      TRILOG_SERVICES: 'logstore',
      LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
      LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:0',
      LOGSTORE_DATA_DIR: directory,
      LOGSTORE_MAX_BODY_BYTES: String(1024 * 1024),
    }).services.logstore
    assert(config)
    const quiet = { debug() {}, info() {}, warn() {}, error: assert.fail }
    const acceptGate = new AcceptGate({ clock: systemClock, logger: quiet })
    const world = {
      clock: systemClock,
      random: randomFillSync,
      version: 'test',
      logger: quiet,
      acceptGate,
      processMetrics: new ProcessMetrics({ version: 'test', clock: systemClock }),
      metricsSeriesMax: 1000,
    }
    store = await openLogStore(config, world)
    assert(store.grpc)
    client = new Client(store.grpc, credentials.createInsecure(), { 'grpc.max_send_message_length': -1 })
  })
  after(async () => {
    client.close()
    await store.close({ withinMs: 5000 })
    rmSync(directory, { recursive: true })
  })

  describe('what OpenTelemetry exports over gRPC', () => {
    const resource = resourceFromAttributes({ 'service.name': 'checkout', tenant_id: 'local' })

    it('is found by a query as soon as it was acknowledged', async () => {
      const exporter = { url: `http://${store.grpc}`, metadata: goodMetadata() }
      const logs = new LoggerProvider({
        resource,
        processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter(exporter) })],
      })
      for (let i = 0; i < 300; i++) logs.getLogger('shop').emit({ body: `order ${i}` })
      await logs.shutdown()
      const spans = new TracerProvider({
        resource,
        spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter(exporter) })],
      })
      spans.getTracer('shop').startSpan('charge').end()
      await spans.shutdown()

      const found = await query('checkout')
      assert.equal(found.matched_records, 301)
      const sources = new Set(found.results.map(({ record }) => record.source))
      assert.deepEqual(sources, new Set(['v1.otlp_grpc']))
      const signals = found.results.map(({ record }) => record.signal).sort()
      assert.deepEqual(signals.slice(-2), ['log', 'trace'])
    })
  })

  describe('a compressed message', () => {
    const large = batch('local', 400)

    for (const [encoding, compress] of [
      ['gzip', gzipSync],
      ['deflate', deflateSync],
      ['zstd', zstdCompressSync],
      ['snappy', snappyStream],
    ] as const) {
      it(`is stored, in ${encoding}`, async () => {
        const { code } = await exportCompressed(encoding, compress(large))
        assert.equal(code, status.OK)
      })

      it(`in ${encoding} that is damaged is malformed_batch, and one that grows beyond the limit is payload_too_large`, async () => {
        const damaged = await exportCompressed(encoding, Buffer.from('no such thing'))
        assert.deepEqual(damaged, { code: status.INVALID_ARGUMENT, kind: 'malformed_batch' })
        const bomb = await exportCompressed(encoding, compress(Buffer.alloc(16 * 1024 * 1024)))
        assert.deepEqual(bomb, { code: status.RESOURCE_EXHAUSTED, kind: 'payload_too_large' })
      })
    }
  })

  describe('a batch that is refused', () => {
    const cases = [
      ['without bytes', Buffer.alloc(0), status.INVALID_ARGUMENT, 'empty_batch'],
      ['that is no protobuf', Buffer.from([0xff]), status.INVALID_ARGUMENT, 'malformed_batch'],
      ['of 513 records', batch('local', 513), status.INVALID_ARGUMENT, 'batch_too_large'],
      ['of another tenant', batch('acme', 1), status.PERMISSION_DENIED, 'tenant_mismatch'],
    ] as const
    for (const [what, message, code, kind] of cases) {
      it(`${what} is ${kind}, and not to be repeated`, async () => {
        const outcome = await exportOnce(client, message)
        assert.equal(outcome.code, code)
        assert.match(outcome.message, new RegExp(`^${kind}: `))
        assert.deepEqual([outcome.status?.reason, outcome.status?.retryAfterSeconds], [kind, null])
      })
    }

    it('over the window of the tenant says when to come back', async () => {
      let outcome = await exportOnce(client, batch('local', 512))
      for (let i = 0; i < 20 && outcome.code === status.OK; i++) outcome = await exportOnce(client, batch('local', 512))
      assert.equal(outcome.code, status.RESOURCE_EXHAUSTED)
      assert.equal(outcome.status?.reason, 'record_quota_exceeded')
      assert(outcome.status.retryAfterSeconds! >= 1)
    })

    it('over the body limit is RESOURCE_EXHAUSTED, and not to be repeated', async () => {
      const outcome = await exportOnce(client, Buffer.alloc(1024 * 1024 + 1))
      assert.equal(outcome.code, status.RESOURCE_EXHAUSTED)
      assert.deepEqual([outcome.status?.reason, outcome.status?.retryAfterSeconds], ['payload_too_large', null])
    })
  })
})

/** A call whose message is compressed, on HTTP/2 itself: the client library knows fewer encodings. */
async function exportCompressed(encoding: string, bytes: Buffer): Promise<{ code: number; kind: string | undefined }> {
  const session = connect(`http://${store.grpc!}`)
  const request = session.request({
    ':method': 'POST',
    ':path': EXPORT_METHODS[0]!.path,
    'content-type': 'application/grpc',
    'grpc-encoding': encoding,
    'x-logstore-tenant': 'local',
    authorization: 'Bearer local-dev-token',
    te: 'trailers',
  })
  const head = Buffer.alloc(5)
  head[0] = 1
  head.writeUInt32BE(bytes.byteLength, 1)
  request.end(Buffer.concat([head, bytes]))
  let told: IncomingHttpHeaders = {}
  request.on('response', (headers) => (told = { ...told, ...headers }))
  request.on('trailers', (headers) => (told = { ...told, ...headers }))
  request.resume()
  await once(request, 'close')
  session.close()
  const message = decodeURIComponent(String(told['grpc-message'] ?? ''))
  return { code: Number(told['grpc-status']), kind: /^(\w+): /.exec(message)?.[1] }
}

async function query(dataset: string): Promise<Found> {
  const reply = await fetch(`http://${store.http}/v1/query`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-logstore-tenant': 'local',
      authorization: 'Bearer local-dev-token',
    },
    body: JSON.stringify({ dataset, page: { limit: 500 } }),
  })
  assert.equal(reply.status, 200)
  return (await reply.json()) as Found // the service's documented reply
}

/** An ExportLogsServiceRequest of one resource with this many small log records. */
function batch(tenant: string, records: number): Buffer {
  const record = field(2, field(5, field(1, Buffer.from('hello'))))
  const attribute = field(
    1,
    Buffer.concat([field(1, Buffer.from('tenant_id')), field(2, field(1, Buffer.from(tenant)))]),
  )
  const scopeLogs = field(2, Buffer.concat(Array.from({ length: records }, () => record)))
  return field(1, Buffer.concat([field(1, attribute), scopeLogs]))
}

/** A length-delimited protobuf field. */
function field(number: number, bytes: Buffer): Buffer {
  const head = [(number << 3) | 2]
  let length = bytes.byteLength
  for (; length >= 0x80; length >>>= 7) head.push((length & 0x7f) | 0x80)
  return Buffer.concat([Buffer.from([...head, length]), bytes])
}
