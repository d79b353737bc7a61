/**
 * What does it cost to take in one OTLP batch of 512 log records (about 380 B a record in protobuf), before it is logged?
 * Scan against decode for both formats, then the record ids, then what a query pays to show one record. `--smoke` runs each
 * case once, so that CI catches rot.
 */
import { crc32 } from 'node:zlib'
import { Bench } from 'tinybench'
import { addKey, filterBytes, mayContain } from '../native-free-codecs/membership-filter.ts'
import { OtlpBatch, RECORDS_PER_BATCH_MAX } from '../native-free-codecs/otlp-batch.ts'
import { scanLogsJson } from '../native-free-codecs/otlp-json-scan.ts'
import { scanLogsProtobuf } from '../native-free-codecs/otlp-protobuf-scan.ts'
import { groupPrefix, writeRecordHead } from '../native-free-codecs/record-id.ts'
import { BatchHasher, HEAD_BYTES } from '../native-free-codecs/blake2s.ts'
import { FORMAT_PROTOBUF, SIGNAL_LOG, SOURCE_OTLP_HTTP_PROTOBUF } from '../src/logstore/batch-frame.ts'
import { messageType } from '../src/logstore/query/render/otlp-types.ts'
import { PartTexts, renderRecord } from '../src/logstore/query/render/record.ts'

const smoke = process.argv.includes('--smoke')
const bench = new Bench({
  name: 'one batch of 512 log records',
  ...(smoke && { time: 0, iterations: 1, warmup: false }),
})

const text = (key: string, value: string) => ({ key, value: { stringValue: value } })
const integer = (key: string, value: number) => ({ key, value: { intValue: String(value) } })

/** `id` writes the bytes of an id the way the format wants them. */
function request(id: (hex: string) => string): object {
  const logRecords = Array.from({ length: RECORDS_PER_BATCH_MAX }, (_, i) => {
    const time = String(1_732_181_000_000_000_000n + BigInt(i) * 1_234_567n)
    return {
      timeUnixNano: time,
      observedTimeUnixNano: time,
      severityNumber: 9,
      severityText: 'INFO',
      body: { stringValue: `GET /api/v1/orders/${i * 7919} completed in ${i % 200} ms for customer ${i * 31}` },
      attributes: [
        text('http.request.method', 'GET'),
        text('http.route', '/api/v1/orders/:id'),
        integer('http.response.status_code', 200),
        { key: 'duration_ms', value: { doubleValue: i / 8 } },
        { key: 'cache.hit', value: { boolValue: i % 2 === 0 } },
        text('user.id', `user-${i * 31}`),
        text('code.function.name', 'OrderController.show'),
        integer('thread.id', i % 64),
        text('client.address', `10.0.${i % 256}.17`),
      ],
      flags: 1,
      traceId: id(
        Math.imul(i + 1, 0x9e37_79b1)
          .toString(16)
          .replace('-', '')
          .padEnd(32, '7'),
      ),
      spanId: id((i + 1).toString(16).padStart(16, 'a')),
    }
  })
  const attributes = [
    text('service.name', 'checkout'),
    text('tenant_id', 'local'),
    text('host.name', 'node-1.example.internal'),
  ]
  return {
    resourceLogs: [
      { resource: { attributes }, scopeLogs: [{ scope: { name: 'orders', version: '1.0.0' }, logRecords }] },
    ],
  }
}

const requestType = messageType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest')
const asBase64 = (hex: string) => Buffer.from(hex, 'hex').toString('base64') // what fromObject takes for bytes
const protobuf = Buffer.from(requestType.encode(requestType.fromObject(request(asBase64))).finish())
const json = Buffer.from(JSON.stringify(request((hex) => hex)))

const shared = Buffer.from(new SharedArrayBuffer(protobuf.length))
protobuf.copy(shared)

const batch = new OtlpBatch()
const ids = new Uint32Array(4 * RECORDS_PER_BATCH_MAX)
const NOTHING = Buffer.alloc(0)
const prefix = groupPrefix('local', 'checkout', 1, Buffer.alloc(100), Buffer.alloc(20), NOTHING, NOTHING)

const hasher = new BatchHasher()
const head = Buffer.alloc(HEAD_BYTES)
writeRecordHead(head, 0, prefix, 0, null)
const headOfAll = new Uint16Array(RECORDS_PER_BATCH_MAX)

function identify(): void {
  hasher.idsInto(ids, protobuf, batch.recordStart, batch.recordEnd, headOfAll, head, 1, RECORDS_PER_BATCH_MAX)
}

const filter = new Uint32Array(filterBytes(100_000) / 4)
function probe(): number {
  let found = 0
  for (let i = 0; i < ids.length; i += 4)
    if (mayContain(filter, ids[i]!, ids[i + 1]!, ids[i + 2]!, ids[i + 3]!)) found++
  return found
}

const render = (record: number, parts: PartTexts): string => {
  const stored = {
    recordId: 'logstore_',
    signal: SIGNAL_LOG,
    format: FORMAT_PROTOBUF,
    source: SOURCE_OTLP_HTTP_PROTOBUF,
    tenant: 'local',
    dataset: 'checkout',
    timeHigh: batch.timeHigh[record]!,
    timeLow: batch.timeLow[record]!,
    body: protobuf,
    resourceStart: batch.resourceStart[0]!,
    resourceEnd: batch.resourceEnd[0]!,
    scopeStart: batch.groupScopeStart[0]!,
    scopeEnd: batch.groupScopeEnd[0]!,
    recordStart: batch.recordStart[record]!,
    recordEnd: batch.recordEnd[record]!,
    resourceSchemaUrl: NOTHING,
    scopeSchemaUrl: NOTHING,
  }
  return renderRecord(stored, parts)
}

/** Same batches, same number: an "optimisation" that changes what is found, or an id, shows here. */
function checksum(): number {
  let sum = 0
  const take = (array: Uint32Array | Uint16Array) => {
    sum = crc32(new Uint8Array(array.buffer), sum)
  }
  for (const scan of [
    () => scanLogsJson(json, 0, json.length, batch),
    () => scanLogsProtobuf(protobuf, 0, protobuf.length, batch),
  ]) {
    scan()
    for (const column of [batch.recordStart, batch.recordEnd, batch.timeHigh, batch.timeLow, batch.traceWords])
      take(column)
  }
  identify()
  take(ids)
  for (let i = 0; i < ids.length; i += 8) addKey(filter, ids[i]!, ids[i + 1]!, ids[i + 2]!, ids[i + 3]!)
  take(filter)
  return crc32(render(7, new PartTexts()), sum)
}

const expected = checksum()

bench.add('protobuf scan', () => scanLogsProtobuf(protobuf, 0, protobuf.length, batch))
bench.add('protobuf scan, SharedArrayBuffer', () => scanLogsProtobuf(shared, 0, shared.length, batch))
bench.add('protobufjs decode', () => {
  requestType.decode(protobuf)
})
bench.add('record ids', identify)
bench.add('membership filter, 512 look-ups', () => {
  probe()
})
bench.add('render 512 records', () => {
  const parts = new PartTexts()
  for (let i = 0; i < RECORDS_PER_BATCH_MAX; i++) render(i, parts)
})
bench.add('JSON scan', () => scanLogsJson(json, 0, json.length, batch))
bench.add('JSON.parse', () => {
  JSON.parse(json.toString())
})
await bench.run()

const medianMs = (name: string): number => {
  const result = bench.getTask(name)?.result
  return result && 'latency' in result ? result.latency.p50 : Number.NaN
}
const ratio = (slow: string, fast: string): string => (medianMs(slow) / medianMs(fast)).toFixed(1)

console.table(
  bench.tasks.map(({ name }) => ({
    case: name,
    'µs / batch': Math.round(medianMs(name) * 1000),
    'M records / s': Number((RECORDS_PER_BATCH_MAX / medianMs(name) / 1000).toFixed(2)),
  })),
)
console.log({
  node: process.version,
  checksum: expected,
  protobufBytesPerRecord: Math.round(protobuf.length / RECORDS_PER_BATCH_MAX),
  jsonBytesPerRecord: Math.round(json.length / RECORDS_PER_BATCH_MAX),
  protobufScanOverDecode: ratio('protobufjs decode', 'protobuf scan'),
  jsonScanOverParse: ratio('JSON.parse', 'JSON scan'),
})
