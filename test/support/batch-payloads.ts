/** Batches of records as they stand in the log's frames. */
import { OtlpBatch } from '../../native-free-codecs/otlp-batch.ts'
import {
  FORMAT_JSON,
  SIGNAL_LOG,
  SOURCE_OTLP_HTTP,
  batchHeadBytes,
  encodeNames,
  writeBatchHead,
} from '../../src/logstore/batch-frame.ts'
import { scanBatch } from '../../src/logstore/index/scan-batch.ts'

/** One for all calls: a batch for each call would take memory outside the heap, which makes V8 collect garbage again and again. */
const batch = new OtlpBatch()

export interface TestRecord {
  readonly dataset: string
  readonly time: bigint
  readonly trace: string | null
  /** Text of the record's body, unique. */
  readonly text: string
  /** Severity number of the record. */
  readonly severity?: number
  /** Attributes of the record itself, not of its resource. */
  readonly attributes?: Readonly<Record<string, string>>
}

/** The record as an object of OTLP JSON. */
export const logRecordOf = ({ time, trace, text, severity, attributes }: TestRecord): object => ({
  timeUnixNano: time.toString(),
  body: { stringValue: text },
  ...(trace === null ? {} : { traceId: trace }),
  ...(severity !== undefined && { severityNumber: severity }),
  ...(attributes !== undefined && {
    attributes: Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } })),
  }),
})

/** A batch frame's payload: the records as an OTLP JSON export of one tenant. */
export function encodeBatch(tenant: string, records: readonly TestRecord[]): Buffer {
  const body = Buffer.from(
    JSON.stringify({
      resourceLogs: records.map((record) => ({
        resource: {
          attributes: [
            { key: 'tenant_id', value: { stringValue: tenant } },
            { key: 'service.name', value: { stringValue: record.dataset } },
          ],
        },
        scopeLogs: [{ logRecords: [logRecordOf(record)] }],
      })),
    }),
  )
  const datasets = [...new Set(records.map(({ dataset }) => dataset))]
  const resourceDataset = Uint16Array.from(records, ({ dataset }) => datasets.indexOf(dataset))
  return payloadOf(tenant, body, SIGNAL_LOG, FORMAT_JSON, datasets, resourceDataset)
}

/**
 * A batch frame's payload.
 *
 * @param resourceDataset by resource of the body, the number of its dataset in `datasets`; default: all are of the first one
 */
export function payloadOf(
  tenant: string,
  body: Buffer,
  signal: number,
  format: number,
  datasets: readonly string[],
  resourceDataset = new Uint16Array(512),
): Buffer {
  scanBatch(batch, body, signal, format)
  const names = encodeNames(tenant, datasets)
  const headBytes = batchHeadBytes(batch, names)
  const payload = Buffer.alloc(headBytes + body.byteLength)
  const envelope = { signal, format, source: SOURCE_OTLP_HTTP, tenant, receivedAtHigh: 1, receivedAtLow: 2 }
  writeBatchHead(
    payload,
    0,
    envelope,
    batch,
    body.byteLength,
    names,
    datasets.length,
    resourceDataset,
    new Uint16Array(512),
  )
  body.copy(payload, headBytes)
  return payload
}
