/** Batches, queries and what the service answers to them, in the words of the specification. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after } from 'node:test'
import { LogStoreServer } from '../../support/logstore.ts'
import type { Reply, RequestOptions, ServerOptions } from '../../support/logstore.ts'
import { encodeLogs, encodeTraces, logsRequest, text, toOtlpJson, tracesRequest } from '../../support/otlp.ts'
import type { KeyValue, LogRecord, Span } from '../../support/otlp.ts'

export const JSON_LOGS = '/v1/otlp/logs'
export const JSON_TRACES = '/v1/otlp/traces'
export const LOGS = '/v1/logs'
export const TRACES = '/v1/traces'
export const QUERY = '/v1/query'
export const PROTOBUF_TYPE = 'application/x-protobuf'
export const PROTOBUF: RequestOptions = { headers: { 'content-type': PROTOBUF_TYPE } }

/** The server of all tests of a file; each test keeps to a tenant or a dataset of its own. */
export async function startForTests(options: ServerOptions = {}): Promise<LogStoreServer> {
  const server = await LogStoreServer.start(options)
  after(() => server.stop())
  return server
}

/** One of the four ingest routes and how a batch is written for it. */
export interface IngestRoute {
  readonly path: string
  readonly contentType: string
  readonly signal: 'log' | 'trace'
  readonly source: string
  readonly batch: (recordCount: number, options?: BatchOptions) => Buffer
}

export interface BatchOptions {
  readonly dataset?: string
  readonly tenant?: string
  /** Tells batches apart that would be equal otherwise. */
  readonly label?: string
  /** Attributes of the resource, in place of those for the dataset and the tenant claim. */
  readonly attributes?: readonly KeyValue[]
}

const attributesOf = ({ dataset = 'checkout', tenant = 'local', attributes }: BatchOptions): readonly KeyValue[] =>
  attributes ?? [text('service.name', dataset), text('tenant_id', tenant)]

/** 2026-01-01T00:00:00Z and a number that a double cannot hold. */
export const TIME = 1_767_225_600_000_000_001n

export const logRecordsOf = (count: number, label = 'paid'): LogRecord[] =>
  Array.from({ length: count }, (_, i) => ({
    timeUnixNano: String(TIME + BigInt(i)),
    body: { stringValue: `${label} ${i}` },
  }))

export const spansOf = (count: number, label = 'charge'): Span[] =>
  Array.from({ length: count }, (_, i) => {
    const digest = createHash('sha256').update(`${label} ${i}`).digest()
    return {
      traceId: digest.subarray(0, 16),
      spanId: digest.subarray(16, 24),
      name: `${label} ${i}`,
      startTimeUnixNano: String(TIME + BigInt(i)),
    }
  })

const json = (request: object): Buffer => Buffer.from(JSON.stringify(toOtlpJson(request)))

export const jsonLogs = (records: readonly LogRecord[], options: BatchOptions = {}): Buffer =>
  json(logsRequest(records, attributesOf(options)))
export const jsonTraces = (spans: readonly Span[], options: BatchOptions = {}): Buffer =>
  json(tracesRequest(spans, attributesOf(options)))
export const protobufLogs = (records: readonly LogRecord[], options: BatchOptions = {}): Buffer =>
  encodeLogs(logsRequest(records, attributesOf(options)))
export const protobufTraces = (spans: readonly Span[], options: BatchOptions = {}): Buffer =>
  encodeTraces(tracesRequest(spans, attributesOf(options)))

export const INGEST_ROUTES: readonly IngestRoute[] = [
  {
    path: JSON_LOGS,
    contentType: 'application/json',
    signal: 'log',
    source: 'v1.otlp_http',
    batch: (count, options = {}) => jsonLogs(logRecordsOf(count, options.label), options),
  },
  {
    path: JSON_TRACES,
    contentType: 'application/json',
    signal: 'trace',
    source: 'v1.otlp_http',
    batch: (count, options = {}) => jsonTraces(spansOf(count, options.label), options),
  },
  {
    path: LOGS,
    contentType: PROTOBUF_TYPE,
    signal: 'log',
    source: 'v1.otlp_http_protobuf',
    batch: (count, options = {}) => protobufLogs(logRecordsOf(count, options.label), options),
  },
  {
    path: TRACES,
    contentType: PROTOBUF_TYPE,
    signal: 'trace',
    source: 'v1.otlp_http_protobuf',
    batch: (count, options = {}) => protobufTraces(spansOf(count, options.label), options),
  },
]

export interface Accepted {
  readonly status: string
  readonly signal: string
  readonly accepted_records: number
  readonly record_ids: readonly string[]
}

export interface StoredRecord {
  readonly record_id: string
  readonly source: string
  readonly signal: string
  readonly tenant_id: string
  readonly dataset: string
  readonly time_unix_nano: string
  readonly trace_id: string | null
  readonly span_id: string | null
  readonly severity_number?: number
  readonly raw_payload: {
    readonly resource: { readonly attributes?: readonly KeyValue[] }
    readonly scope: object
    readonly record: Readonly<Record<string, unknown>>
    readonly resourceSchemaUrl?: string
    readonly scopeSchemaUrl?: string
  }
}

export interface QueryReply {
  readonly status: string
  readonly api_version: string
  readonly tenant_id: string
  readonly dataset: string
  readonly matched_records: number
  readonly results: readonly { readonly record: StoredRecord }[]
  readonly page: { readonly limit: number; readonly cursor: string | null; readonly next_cursor: string | null }
  readonly used_indexes: readonly string[]
  readonly scanned_bundles: number
}

/** Sends a batch to a JSON route; it must be accepted. */
export async function accept(
  server: LogStoreServer,
  path: string,
  batch: Uint8Array | object,
  options: RequestOptions = {},
): Promise<Accepted> {
  return (await server.request(path, batch, options)).ok() as Accepted // its fields are what the tests assert
}

/** A query that must be answered. */
export async function find(server: LogStoreServer, query: object, options: RequestOptions = {}): Promise<QueryReply> {
  return (await server.request(QUERY, query, options)).ok() as QueryReply // likewise
}

export const recordsOf = ({ results }: QueryReply): readonly StoredRecord[] => results.map(({ record }) => record)

/** What a refusal in the JSON envelope must be. */
export function assertRefused(
  reply: Reply,
  status: number,
  kind: string,
  { retryable = false }: { readonly retryable?: boolean } = {},
): void {
  assert.deepEqual([reply.status, reply.kind, reply.rejection().retryable], [status, kind, retryable], reply.text)
  const retryAfter = reply.headers.get('retry-after')
  if (retryable && (status === 429 || status === 503)) assert.match(retryAfter ?? '', /^[1-9][0-9]*$/)
  else assert.equal(retryAfter, null)
}
