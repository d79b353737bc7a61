/**
 * Logs as services write them, for the benchmarks: access lines, orders, cache, errors with stack traces; eight instances, trace ids on 60 %,
 * about 250 bytes of protobuf each, a millisecond apart.
 */
import { messageType } from '../../src/logstore/query/render/otlp-types.ts'

export const LOG_BATCH = 512
export const LOG_FIRST_TIME = 1_767_225_600_000_000_000n
const NS_PER_RECORD = 1_000_000n

const text = (key: string, stringValue: string) => ({ key, value: { stringValue } })
const hex = (number: number, bytes: number): Buffer =>
  Buffer.from(
    (number * 2_654_435_761)
      .toString(16)
      .padStart(2 * bytes, '7')
      .slice(-2 * bytes),
    'hex',
  )

/** "checkout" stands in 1 of 100, "request" in half, "rarely" in three records of all. */
function bodyOf(number: number, records: number): string {
  if (number % Math.ceil(records / 3) === 77) return `order ${number} was paid and rarely so`
  if (number % 100 === 13)
    return `checkout of order ${number} failed: Error: payment refused\n    at pay (/app/pay.js:17:9)`
  if (number % 2 === 0)
    return `GET /api/v1/orders/${number % 9973} request done 200 in ${number % 347} ms, ${number % 8191} bytes`
  return `cache entry user:${number % 7919} expired after ${number % 3600} s and was loaded again from the database`
}

const request = messageType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest')
/** The batch of which `first` is the first record, of `records` in all: OTLP protobuf. */
export function logBatch(first: number, records: number): Buffer {
  const logRecords = Array.from({ length: Math.min(LOG_BATCH, records - first) }, (_, i) => {
    const number = first + i
    return {
      timeUnixNano: String(LOG_FIRST_TIME + BigInt(number) * NS_PER_RECORD),
      severityNumber: number % 100 === 13 ? 17 : 9,
      severityText: number % 100 === 13 ? 'ERROR' : 'INFO',
      body: { stringValue: bodyOf(number, records) },
      attributes: [
        text('http.request.method', number % 3 === 0 ? 'POST' : 'GET'),
        text('k8s.pod.name', `shop-${number % 8}-7c9`),
        { key: 'duration_ms', value: { intValue: String(number % 347) } },
      ],
      ...(number % 10 < 6 && { traceId: hex(1 + (number >> 3), 16), spanId: hex(1 + number, 8) }),
    }
  })
  const attributes = [
    text('service.name', 'load'),
    text('tenant_id', 'local'),
    text('service.instance.id', `i-${(first / LOG_BATCH) % 8}`),
  ]
  const message = request.fromObject({
    resourceLogs: [{ resource: { attributes }, scopeLogs: [{ scope: { name: 'app' }, logRecords }] }],
  })
  return Buffer.from(request.encode(message).finish())
}
