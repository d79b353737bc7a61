/** OTLP batches for tests: plain objects in the shape of the protobuf messages, encoded by protobufjs. */
import fc from 'fast-check'
import { messageType } from '../../src/logstore/query/render/otlp-types.ts'

export interface AnyValue {
  readonly stringValue?: string
  readonly boolValue?: boolean
  readonly intValue?: string
  readonly doubleValue?: number
  readonly arrayValue?: { readonly values: readonly AnyValue[] }
  readonly kvlistValue?: { readonly values: readonly KeyValue[] }
  readonly bytesValue?: Uint8Array
}

export interface KeyValue {
  readonly key: string
  readonly value?: AnyValue
}

export interface LogRecord {
  readonly timeUnixNano?: string
  readonly observedTimeUnixNano?: string
  readonly severityNumber?: number
  readonly severityText?: string
  readonly body?: AnyValue
  readonly attributes?: readonly KeyValue[]
  readonly droppedAttributesCount?: number
  readonly flags?: number
  readonly traceId?: Uint8Array
  readonly spanId?: Uint8Array
  readonly eventName?: string
}

export interface Span {
  readonly traceId: Uint8Array
  readonly spanId: Uint8Array
  readonly traceState?: string
  readonly parentSpanId?: Uint8Array
  readonly flags?: number
  readonly name?: string
  readonly kind?: number
  readonly startTimeUnixNano?: string
  readonly endTimeUnixNano?: string
  readonly attributes?: readonly KeyValue[]
  readonly droppedAttributesCount?: number
  readonly events?: readonly object[]
  readonly droppedEventsCount?: number
  readonly links?: readonly object[]
  readonly droppedLinksCount?: number
  readonly status?: object
}

export interface Resource {
  readonly attributes?: readonly KeyValue[]
  readonly droppedAttributesCount?: number
}

interface Scope extends Resource {
  readonly name?: string
  readonly version?: string
}

interface LogsRequest {
  readonly resourceLogs: readonly {
    readonly resource?: Resource
    readonly schemaUrl?: string
    readonly scopeLogs: readonly {
      readonly scope?: Scope
      readonly schemaUrl?: string
      readonly logRecords: readonly LogRecord[]
    }[]
  }[]
}

interface TracesRequest {
  readonly resourceSpans: readonly {
    readonly resource?: Resource
    readonly scopeSpans: readonly { readonly scope?: Scope; readonly spans: readonly Span[] }[]
  }[]
}

export const LOGS_REQUEST = 'opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest'
export const TRACES_REQUEST = 'opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest'

export function encode(typeName: string, message: object): Buffer {
  const type = messageType(typeName)
  return Buffer.from(type.encode(type.fromObject(message)).finish())
}

export const encodeLogs = (request: LogsRequest): Buffer => encode(LOGS_REQUEST, request)
export const encodeTraces = (request: TracesRequest): Buffer => encode(TRACES_REQUEST, request)

export const text = (key: string, value: string): KeyValue => ({ key, value: { stringValue: value } })

/** One resource and one scope around the records. */
export const logsRequest = (
  logRecords: readonly LogRecord[],
  attributes: readonly KeyValue[] = [text('service.name', 'checkout'), text('tenant_id', 'local')],
): LogsRequest => ({
  resourceLogs: [{ resource: { attributes }, scopeLogs: [{ scope: { name: 'test', version: '1.0.0' }, logRecords }] }],
})

export const tracesRequest = (
  spans: readonly Span[],
  attributes: readonly KeyValue[] = [text('service.name', 'checkout'), text('tenant_id', 'local')],
): TracesRequest => ({
  resourceSpans: [{ resource: { attributes }, scopeSpans: [{ scope: { name: 'test', version: '1.0.0' }, spans }] }],
})

/** The request in OTLP JSON, as a value. */
export function toOtlpJson(message: unknown): unknown {
  if (message instanceof Uint8Array) return Buffer.from(message).toString('base64')
  if (Array.isArray(message)) return message.map(toOtlpJson)
  if (typeof message === 'number' && !Number.isFinite(message)) return String(message)
  if (typeof message !== 'object' || message === null) return message
  return Object.fromEntries(
    Object.entries(message).map(([name, value]) => [
      name,
      value instanceof Uint8Array && /^(?:trace|span|parentSpan)Id$/.test(name)
        ? Buffer.from(value).toString('hex')
        : toOtlpJson(value),
    ]),
  )
}

// Arbitrary messages for properties.

const uint32 = fc.nat({ max: 0xffff_ffff })
const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String)
const nanoseconds = fc.oneof(
  fc.constant('0'),
  uint64,
  fc.bigInt({ min: 1_700_000_000_000_000_000n, max: 1_800_000_000_000_000_000n }).map(String),
)
const id = (bytes: number) =>
  fc.oneof(
    { weight: 6, arbitrary: fc.uint8Array({ minLength: bytes, maxLength: bytes }) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 20 }) },
    { weight: 1, arbitrary: fc.constant(new Uint8Array(bytes)) },
  )
const validId = (bytes: number) =>
  fc
    .uint8Array({ minLength: bytes, maxLength: bytes })
    .map((id) => Uint8Array.from(id, (byte, i) => (i === 0 ? byte | 1 : byte)))
const word = fc.string({ maxLength: 12, unit: 'grapheme' })

const values = fc.letrec<{ any: AnyValue; pair: KeyValue }>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record({ stringValue: fc.oneof(word, fc.string({ maxLength: 100 })) }),
    fc.record({ boolValue: fc.boolean() }),
    fc.record({ intValue: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String) }),
    fc.record({ doubleValue: fc.double() }),
    fc.record({ bytesValue: fc.uint8Array({ maxLength: 10 }) }),
    fc.constant({}),
    fc.record({ arrayValue: fc.record({ values: fc.array(tie('any'), { maxLength: 3 }) }) }),
    fc.record({ kvlistValue: fc.record({ values: fc.array(tie('pair'), { maxLength: 3 }) }) }),
  ),
  pair: fc.record({ key: word.filter((key) => key !== ''), value: tie('any') }, { requiredKeys: ['key'] }),
}))

export const anyValues = values.any
const attributes = fc.array(values.pair, { maxLength: 3 })
const resourceAttributes = fc.array(
  fc.oneof(
    values.pair,
    fc.record({
      key: fc.constantFrom('tenant_id', 'service.logstore.tenant_id', 'service.name'),
      value: fc.oneof(fc.record({ stringValue: fc.constantFrom('local', 'acme', '', 'größe "1"\n') }), values.any),
    }),
  ),
  { maxLength: 4 },
)

export const logRecords: fc.Arbitrary<LogRecord> = fc.record(
  {
    timeUnixNano: nanoseconds,
    observedTimeUnixNano: nanoseconds,
    severityNumber: fc.nat({ max: 24 }),
    severityText: word,
    body: values.any,
    attributes,
    droppedAttributesCount: uint32,
    flags: uint32,
    traceId: id(16),
    spanId: id(8),
    eventName: word,
  },
  { requiredKeys: [] },
)

export const spans: fc.Arbitrary<Span> = fc.record(
  {
    traceId: validId(16),
    spanId: validId(8),
    traceState: word,
    parentSpanId: id(8),
    flags: uint32,
    name: word,
    kind: fc.nat({ max: 5 }),
    startTimeUnixNano: nanoseconds,
    endTimeUnixNano: nanoseconds,
    attributes,
    events: fc.array(fc.record({ timeUnixNano: nanoseconds, name: word, attributes }), { maxLength: 2 }),
    links: fc.array(fc.record({ traceId: id(16), spanId: id(8), traceState: word, attributes, flags: uint32 }), {
      maxLength: 2,
    }),
    status: fc.record({ message: word, code: fc.nat({ max: 2 }) }),
    droppedLinksCount: uint32,
  },
  { requiredKeys: ['traceId', 'spanId'] },
)

const resources = fc.record({ attributes: resourceAttributes, droppedAttributesCount: uint32 }, { requiredKeys: [] })
const scopes = fc.record({ name: word, version: word, attributes }, { requiredKeys: [] })

export const logsRequests: fc.Arbitrary<LogsRequest> = fc.record({
  resourceLogs: fc.array(
    fc.record(
      {
        resource: resources,
        schemaUrl: word,
        scopeLogs: fc.array(
          fc.record(
            { scope: scopes, schemaUrl: word, logRecords: fc.array(logRecords, { maxLength: 3 }) },
            { requiredKeys: ['logRecords'] },
          ),
          { maxLength: 2 },
        ),
      },
      { requiredKeys: ['scopeLogs'] },
    ),
    { maxLength: 3 },
  ),
})

export const tracesRequests: fc.Arbitrary<TracesRequest> = fc.record({
  resourceSpans: fc.array(
    fc.record(
      {
        resource: resources,
        scopeSpans: fc.array(
          fc.record({ scope: scopes, spans: fc.array(spans, { maxLength: 3 }) }, { requiredKeys: ['spans'] }),
          { maxLength: 2 },
        ),
      },
      { requiredKeys: ['scopeSpans'] },
    ),
    { maxLength: 2 },
  ),
})
