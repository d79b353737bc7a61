/**
 * Batches that can be sent again, byte for byte, until they are acknowledged, and asked for afterwards: which trace and span ids,
 * which times a batch has follows from its number, so nothing is remembered but the numbers.
 *
 * B1  no two records are equal, and no two batches of a dataset overlap in time: a query by time range finds exactly one batch
 * B2  every batch is acknowledged before its sender makes the next one: in the end everything sent is acknowledged
 */
import { BatchNumbers } from '../../../bench/load/logstore/batch-source.ts'
import type { Format } from '../../../bench/load/logstore/batch-source.ts'
import type { Batch } from '../../../bench/load/logstore/acknowledged-batches.ts'
import { Ids } from '../../../bench/load/logstore/ids.ts'
import type { Template } from '../../../bench/load/logstore/pieces.ts'
import type { Signal } from '../../../bench/load/logstore/record-model.ts'
import { RECORD_STEP_NS, stampJson, stampProtobuf } from '../../../bench/load/logstore/stamp.ts'
import { buildTemplate } from '../../../bench/load/logstore/service.ts'
import { Random } from '../../../bench/load/random.ts'

const RECORDS_PER_TRACE = 8

export interface Route {
  readonly signal: Signal
  readonly format: Format
  readonly path: string
  readonly contentType: string
}

export const ROUTES: readonly Route[] = [
  { signal: 'logs', format: 'protobuf', path: '/v1/logs', contentType: 'application/x-protobuf' },
  { signal: 'logs', format: 'json', path: '/v1/otlp/logs', contentType: 'application/json' },
  { signal: 'traces', format: 'protobuf', path: '/v1/traces', contentType: 'application/x-protobuf' },
  { signal: 'traces', format: 'json', path: '/v1/otlp/traces', contentType: 'application/json' },
]

export interface SentBatch extends Batch {
  readonly route: Route
  acknowledged: boolean
  /** From answers of the JSON routes; empty for the protobuf routes, whose answers have none. */
  recordIds: readonly string[]
}

/** One record as a query shows it, as far as it follows from its number. */
export interface ExpectedRecord {
  readonly traceId: string
  readonly spanId: string
  readonly timeNs: string
}

export interface BatchesOptions {
  readonly seed: number
  readonly dataset: string
  readonly recordsPerBatch: number
  /** Mean size of a record in protobuf; the same in JSON is about twice as large. */
  readonly recordBytes: number
}

export class Batches {
  readonly dataset: string
  /** In the order of their numbers. */
  readonly sent: SentBatch[] = []
  acknowledgedRecords = 0
  sentRecords = 0
  readonly #ids: Ids
  readonly #numbers: BatchNumbers
  readonly #templates: ReadonlyMap<Route, Template>

  constructor({ seed, dataset, recordsPerBatch, recordBytes }: BatchesOptions) {
    this.dataset = dataset
    this.#ids = new Ids(seed)
    const nowUs = (): number => (performance.timeOrigin + performance.now()) * 1000
    this.#numbers = new BatchNumbers(recordsPerBatch, RECORDS_PER_TRACE, () => dataset, nowUs)
    const random = new Random(seed)
    const template = ({ signal, format }: Route): Template =>
      buildTemplate({
        signal,
        format,
        tenant: 'local',
        dataset,
        numbered: false,
        batchRecords: recordsPerBatch,
        recordBytes,
        recordsPerTrace: RECORDS_PER_TRACE,
        random,
      })
    this.#templates = new Map(ROUTES.map((route) => [route, template(route)]))
  }

  make(route: Route): { readonly batch: SentBatch; readonly body: Buffer } {
    const { timeUs, ...batch } = this.#numbers.take()
    const template = this.#templates.get(route)!
    const { firstRecord, firstTrace } = batch
    const stamp = { firstRecord, firstTrace, recordsPerTrace: RECORDS_PER_TRACE, timeUs, datasetNumber: 0 }
    if (route.format === 'protobuf') stampProtobuf(template, this.#ids, stamp)
    else stampJson(template, this.#ids, stamp)
    const sent = { ...batch, route, acknowledged: false, recordIds: [] }
    this.sent.push(sent)
    this.sentRecords += batch.records
    return { batch: sent, body: Buffer.from(template.bytes) }
  }

  acknowledge(batch: SentBatch, recordIds: readonly string[]): void {
    batch.acknowledged = true
    batch.recordIds = recordIds
    this.acknowledgedRecords += batch.records
  }

  get acknowledged(): SentBatch[] {
    return this.sent.filter(({ acknowledged }) => acknowledged)
  }

  expected({ firstRecord, firstTrace, firstTimeNs, records }: SentBatch): ExpectedRecord[] {
    return Array.from({ length: records }, (_, record) => ({
      traceId: this.#ids.traceIdHex(firstTrace + Math.floor(record / RECORDS_PER_TRACE)),
      spanId: this.#ids.spanIdHex(firstRecord + record),
      timeNs: String(firstTimeNs + BigInt(record * RECORD_STEP_NS)),
    }))
  }
}
