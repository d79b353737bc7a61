/** Load for the log store: OTLP batches of logs or spans, over HTTP as protobuf or JSON, or over gRPC. */
import { randomInt } from 'node:crypto'
import { GrpcConnection, headerBlock } from '../grpc-connection.ts'
import { headersBeforeLength } from '../headers.ts'
import type { Target } from '../http-connection.ts'
import { parseTarget, UsageError } from '../options.ts'
import type { OptionTable, OptionValues } from '../options.ts'
import { mix32, Random } from '../random.ts'
import type { LoadService, Workload } from '../workload.ts'
import { AcknowledgedBatches } from './acknowledged-batches.ts'
import { BatchNumbers, BatchSource, datasetName } from './batch-source.ts'
import type { Encoding, Format } from './batch-source.ts'
import { Ids } from './ids.ts'
import { jsonBatch, jsonRecord } from './json-template.ts'
import { copyTemplate, toTemplate } from './pieces.ts'
import type { Template } from './pieces.ts'
import { protobufBatch, protobufRecord } from './protobuf-template.ts'
import { recordModel, resourceModel } from './record-model.ts'
import type { Signal } from './record-model.ts'
import { refusalKind } from './refusal.ts'
import { verify } from './verify.ts'

const PATHS: Record<Format, Record<Signal, string>> = {
  protobuf: { logs: '/v1/logs', traces: '/v1/traces' },
  json: { logs: '/v1/otlp/logs', traces: '/v1/otlp/traces' },
}
const CONTENT_TYPES: Record<Format, string> = { protobuf: 'application/x-protobuf', json: 'application/json' }
const GRPC_PATHS: Record<Signal, string> = {
  logs: '/opentelemetry.proto.collector.logs.v1.LogsService/Export',
  traces: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
}
/** Different batches prepared; connections beyond share their contents, never their ids and times. */
const TEMPLATES_MAX = 4
const VERIFY_SAMPLE_MAX = 200
const DAY_US = 86_400e6
const BODY_BYTES_MAX = 64 * 1024 * 1024

const options: OptionTable = {
  url: { type: 'string', value: 'URL', default: 'http://127.0.0.1:4318', help: 'the server: http://host:port' },
  grpc: { type: 'string', value: 'HOST:PORT', help: 'sends over gRPC to this address; --url is asked by --verify' },
  tenant: { type: 'string', value: 'ID', default: 'local', help: 'header and resource attribute' },
  token: { type: 'string', value: 'TOKEN', default: 'local-dev-token', help: 'bearer token' },
  signal: { type: 'string', value: 'SIGNAL', default: 'logs', help: 'logs or traces' },
  format: { type: 'string', value: 'FORMAT', default: 'protobuf', help: 'protobuf or json' },
  encoding: {
    type: 'string',
    value: 'CODING',
    default: 'identity',
    help: 'identity, gzip or zstd; compressing takes CPU from the server, if that runs on the same machine',
  },
  batch: { type: 'string', value: 'N', default: '512', help: 'records in a request; over 512 the log store refuses' },
  'record-bytes': {
    type: 'string',
    value: 'N',
    default: '380',
    help: 'mean size of a record in protobuf; the same record in JSON is about twice as large',
  },
  'trace-records': {
    type: 'string',
    value: 'N',
    default: '8',
    help: 'neighbouring records that share a trace id; a trace never spans batches',
  },
  times: {
    type: 'string',
    value: 'ORDER',
    default: 'ordered',
    help: 'ordered: each batch is later than the one before; random: any time of the last day, as a backlog of many senders',
  },
  dataset: { type: 'string', value: 'NAME', default: 'load', help: 'service.name' },
  datasets: { type: 'string', value: 'N', default: '1', help: 'batches go round NAME-0000, NAME-0001, …' },
  'acked-file': {
    type: 'string',
    value: 'FILE',
    help: 'append a line per acknowledged batch: number, first trace id, records, dataset, first and last time in ns',
  },
}

export const logstore: LoadService = {
  name: 'logstore',
  summary: 'OTLP logs and traces over HTTP, as protobuf or JSON',
  options,
  examples: [
    'npm run load -- logstore --duration 60s --report out.html',
    'npm run load -- logstore --grpc 127.0.0.1:4317 --duration 30s',
    'npm run load -- logstore --signal traces --format json --encoding gzip --duration 30s',
    'npm run load -- logstore --rate 100000 --connections 64 --verify',
    'npm run load -- logstore --batches 1000 --seed 7 --acked-file acked.tsv --json > result.json',
  ],
  plan,
}

function plan(options: OptionValues): Workload {
  const { host, port, authority } = parseTarget(options)
  const tenant = options.headerText('tenant')
  const token = options.headerText('token')
  const signal = options.choice<Signal>('signal', ['logs', 'traces'])
  const format = options.choice<Format>('format', ['protobuf', 'json'])
  const encoding = options.choice<Encoding>('encoding', ['identity', 'gzip', 'zstd'])
  const batchRecords = options.integer('batch', 1, 100_000)
  const recordBytes = options.integer('record-bytes', 120, 1024 * 1024)
  if (batchRecords * recordBytes > BODY_BYTES_MAX) {
    throw new UsageError(`--batch times --record-bytes must not exceed ${BODY_BYTES_MAX} bytes`)
  }
  const recordsPerTrace = options.integer('trace-records', 1, 100_000)
  const datasetBase = options.text('dataset')
  const datasets = options.integer('datasets', 1, 10_000)
  const seed = options.has('seed') ? options.integer('seed', 0, 2 ** 32 - 1) : randomInt(2 ** 32)

  const ids = new Ids(seed)
  const dataset = (number: number): string => datasetName(datasetBase, datasets, number)
  const wallClockUs = (): number => (performance.timeOrigin + performance.now()) * 1000
  const isRandom = options.choice('times', ['ordered', 'random']) === 'random'
  if (isRandom && options.flag('verify')) throw new UsageError('--verify asks by time: it needs --times ordered')
  const timesRandom = new Random(mix32(seed) - 1)
  const agoUs = isRandom ? () => timesRandom.between(0, DAY_US) : null
  const numbers = new BatchNumbers(batchRecords, recordsPerTrace, dataset, wallClockUs, agoUs)
  const acknowledged = openAcknowledged(options, seed)
  const headers = { 'x-logstore-tenant': tenant, authorization: `Bearer ${token}` }
  const templates: Template[] = []
  const templateOf = (variant: number): Template =>
    (templates[variant] ??= buildTemplate({
      signal,
      format,
      tenant,
      dataset: datasetBase,
      numbered: datasets > 1,
      batchRecords,
      recordBytes,
      recordsPerTrace,
      random: new Random(mix32(seed) + variant),
    }))
  const grpc = options.has('grpc') ? parseAddress(options.text('grpc')) : null
  if (grpc !== null && format === 'json') throw new UsageError('--grpc: messages are protobuf')
  const headBeforeLength = `POST ${PATHS[format][signal]} HTTP/1.1\r\n${headersBeforeLength({
    host: authority,
    'user-agent': 'trilog-load',
    'content-type': CONTENT_TYPES[format],
    ...(encoding === 'identity' ? {} : { 'content-encoding': encoding }),
    ...headers,
  })}`
  const grpcHead = headerBlock({
    ':method': 'POST',
    ':scheme': 'http',
    ':path': GRPC_PATHS[signal],
    ':authority': authority,
    te: 'trailers',
    'content-type': 'application/grpc',
    'user-agent': 'trilog-load',
    ...(encoding === 'identity' ? {} : { 'grpc-encoding': encoding }),
    ...headers,
  })
  const headFor =
    grpc === null
      ? (bodyBytes: number) => Buffer.from(`${headBeforeLength}${bodyBytes}\r\n\r\n`, 'latin1')
      : () => grpcHead
  const sourceOptions = { format, encoding, recordsPerTrace, datasets, ids, numbers, acknowledged, headFor }
  const startedNs = BigInt(Math.floor(wallClockUs())) * 1000n

  return {
    target: grpc ?? { host, port },
    ...(grpc !== null && {
      connect: (connection) => new GrpcConnection({ ...connection, isCompressed: encoding !== 'identity' }),
    }),
    unit: signal === 'logs' ? 'records' : 'spans',
    task: 'requests',
    unitsPerTask: batchRecords,
    configuration: [
      ['target', grpc === null ? `http://${authority}${PATHS[format][signal]}` : `grpc://${grpc.host}:${grpc.port}`],
      ['tenant', tenant],
      ['dataset', datasets === 1 ? datasetBase : `${dataset(0)} to ${dataset(datasets - 1)}`],
      ['signal', signal],
      ['format', format],
      ['encoding', encoding],
      ['batch', `${batchRecords} ${signal === 'logs' ? 'records' : 'spans'}`],
      ['record size', `${recordBytes} bytes in protobuf`],
      ['records per trace', String(recordsPerTrace)],
      ['times', isRandom ? 'random' : 'ordered'],
      ['seed', String(seed)],
    ],
    prepare: () => Promise.resolve(),
    openSource: (connection) =>
      new BatchSource({
        ...sourceOptions,
        template: copyTemplate(templateOf(connection % TEMPLATES_MAX)),
      }),
    refusalKind,
    verify: () =>
      verify({
        baseUrl: `http://${authority}`,
        headers,
        ids,
        recordsPerTrace,
        sample: acknowledged.sample,
        datasets: acknowledged.datasets,
        timeRangeNs: [startedNs, BigInt(numbers.take().timeUs) * 1000n],
      }),
    close: () => acknowledged.close(),
  }
}

function parseAddress(text: string): Target {
  const [, host, port] = /^(.+):(\d+)$/.exec(text) ?? []
  if (host === undefined) throw new UsageError('--grpc: host:port')
  return { host, port: Number(port) }
}

function openAcknowledged(options: OptionValues, seed: number): AcknowledgedBatches {
  const path = options.has('acked-file') ? options.text('acked-file') : null
  const sampleMax = options.flag('verify') ? VERIFY_SAMPLE_MAX : 0
  try {
    return new AcknowledgedBatches(sampleMax, new Random(seed), path)
  } catch (error) {
    if (error instanceof Error && 'code' in error) throw new UsageError(`--acked-file: ${error.message}`)
    throw error
  }
}

export interface TemplateOptions {
  readonly signal: Signal
  readonly format: Format
  readonly tenant: string
  readonly dataset: string
  readonly numbered: boolean
  readonly batchRecords: number
  readonly recordBytes: number
  readonly recordsPerTrace: number
  readonly random: Random
}

/** Records differ in size by up to a sixth around `recordBytes`, as real ones do. */
export function buildTemplate(options: TemplateOptions): Template {
  const { signal, format, random, recordBytes, batchRecords, recordsPerTrace } = options
  const spread = Math.floor(recordBytes / 6)
  const encode = format === 'protobuf' ? protobufRecord : jsonRecord
  const secondTimeDeltasNs: number[] = []
  const records = Array.from({ length: batchRecords }, (_, record) => {
    const hasParent = record % recordsPerTrace > 0
    const bytesTarget = recordBytes + random.between(-spread, spread)
    const encodedBytes = (model: Parameters<typeof encode>[1]): number =>
      protobufRecord(signal, model, record, hasParent).bytes.byteLength
    const model = recordModel(random, bytesTarget, encodedBytes)
    secondTimeDeltasNs.push(signal === 'logs' ? 0 : model.durationNs)
    return encode(signal, model, record, hasParent)
  })
  const resource = resourceModel(options.tenant, options.dataset, options.numbered, random)
  return toTemplate(
    format === 'protobuf' ? protobufBatch(resource, records) : jsonBatch(signal, resource, records),
    secondTimeDeltasNs,
  )
}
