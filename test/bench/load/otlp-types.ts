/** protobufjs decoders of the repository's own definitions: the oracle for what the load tool encodes. */
import { join } from 'node:path'
import protobuf from 'protobufjs'

const protoDirectory = join(import.meta.dirname, '../../../proto')

function load(path: string, type: string): protobuf.Type {
  const root = new protobuf.Root()
  const resolve = root.resolvePath.bind(root)
  root.resolvePath = (origin, target) =>
    /^(?:opentelemetry|google\/rpc)\//.test(target) ? join(protoDirectory, target) : resolve(origin, target)
  return root.loadSync(join(protoDirectory, path)).lookupType(type)
}

export const logsType = load(
  'opentelemetry/proto/collector/logs/v1/logs_service.proto',
  'opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest',
)
export const tracesType = load(
  'opentelemetry/proto/collector/trace/v1/trace_service.proto',
  'opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest',
)
export const statusType = load('google/rpc/status.proto', 'google.rpc.Status')

export interface SentRecord {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly timeNs: bigint
  readonly secondTimeNs: bigint
  /** Body of a log record; attribute `request.id` of a span. */
  readonly text: string
  readonly attributes: unknown
}

export interface SentBatch {
  readonly dataset: string
  readonly tenant: string
  readonly records: readonly SentRecord[]
}

/** Reads a batch of either signal in either format into the same shape. */
export function readBatch(signal: 'logs' | 'traces', format: 'protobuf' | 'json', body: Buffer): SentBatch {
  const type = signal === 'logs' ? logsType : tracesType
  const parsed: unknown =
    format === 'json' ? JSON.parse(body.toString()) : type.toObject(type.decode(body), { longs: String, bytes: Buffer })
  const [resource, ...moreResources] = list(parsed, signal === 'logs' ? 'resourceLogs' : 'resourceSpans')
  const [scope, ...moreScopes] = list(resource, signal === 'logs' ? 'scopeLogs' : 'scopeSpans')
  if (moreResources.length + moreScopes.length > 0) throw new Error('one resource and one scope expected')
  const resourceAttributes = list(field(resource, 'resource'), 'attributes')
  return {
    dataset: String(attribute(resourceAttributes, 'service.name')),
    tenant: String(attribute(resourceAttributes, 'tenant_id')),
    records: list(scope, signal === 'logs' ? 'logRecords' : 'spans').map((record) => ({
      traceId: hex(field(record, 'traceId')),
      spanId: hex(field(record, 'spanId')),
      parentSpanId: hex(field(record, 'parentSpanId')),
      timeNs: BigInt(String(field(record, signal === 'logs' ? 'timeUnixNano' : 'startTimeUnixNano'))),
      secondTimeNs: BigInt(String(field(record, signal === 'logs' ? 'observedTimeUnixNano' : 'endTimeUnixNano'))),
      text:
        signal === 'logs'
          ? String(field(field(record, 'body'), 'stringValue'))
          : String(attribute(list(record, 'attributes'), 'request.id')),
      attributes: list(record, 'attributes').map((entry) => [
        field(entry, 'key'),
        Object.entries(Object(field(entry, 'value'))).map(([type, value]) => [type, String(value)]),
      ]),
    })),
  }
}

function field(object: unknown, name: string): unknown {
  return Object(object)[name]
}

function list(object: unknown, name: string): unknown[] {
  const value = field(object, name)
  return Array.isArray(value) ? value : []
}

function attribute(attributes: readonly unknown[], key: string): unknown {
  return field(
    field(
      attributes.find((entry) => field(entry, 'key') === key),
      'value',
    ),
    'stringValue',
  )
}

function hex(value: unknown): string {
  return Buffer.isBuffer(value) ? value.toString('hex') : typeof value === 'string' ? value : ''
}
