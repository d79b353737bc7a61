/**
 * The batches of one connection: a template stamped anew for each request. All connections of a run share a BatchNumbers,
 * which hands out batch numbers and times, so that nothing is ever sent twice.
 */
import assert from 'node:assert/strict'
import { constants, gzip, zstdCompress } from 'node:zlib'
import { promisify } from 'node:util'
import type { HttpResponse } from '../http-response-parser.ts'
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import type { AcknowledgedBatches, Batch } from './acknowledged-batches.ts'
import type { Ids } from './ids.ts'
import type { Template } from './pieces.ts'
import { DATASET_DIGITS } from './record-model.ts'
import { RECORD_STEP_NS, stampJson, stampProtobuf } from './stamp.ts'

const gzipAsync = promisify(gzip)
const zstdAsync = promisify(zstdCompress)

export type Format = 'protobuf' | 'json'
export type Encoding = 'identity' | 'gzip' | 'zstd'

/** Dataset of batch `number` when the batches go round `datasets` of them. */
export function datasetName(base: string, datasets: number, number: number): string {
  return datasets === 1 ? base : `${base}-${String(number % datasets).padStart(DATASET_DIGITS, '0')}`
}

export class BatchNumbers {
  readonly #recordsPerBatch: number
  readonly #tracesPerBatch: number
  readonly #dataset: (number: number) => string
  readonly #wallClockUs: () => number
  readonly #agoUs: (() => number) | null
  #next = 0
  #freeUs = 0

  /**
   * @param wallClockUs microseconds since 1970
   * @param agoUs how much earlier than now the records of a batch are; null: batches follow each other in time, and do not overlap
   */
  constructor(
    recordsPerBatch: number,
    recordsPerTrace: number,
    dataset: (number: number) => string,
    wallClockUs: () => number,
    agoUs: (() => number) | null = null,
  ) {
    this.#agoUs = agoUs
    this.#recordsPerBatch = recordsPerBatch
    this.#tracesPerBatch = Math.ceil(recordsPerBatch / recordsPerTrace)
    this.#dataset = dataset
    this.#wallClockUs = wallClockUs
  }

  take(): Batch & { readonly timeUs: number } {
    const number = this.#next++
    const records = this.#recordsPerBatch
    const nowUs = Math.floor(this.#wallClockUs())
    const timeUs = this.#agoUs === null ? Math.max(nowUs, this.#freeUs) : nowUs - this.#agoUs()
    this.#freeUs = timeUs + Math.ceil((records * RECORD_STEP_NS) / 1000)
    const firstTimeNs = BigInt(timeUs) * 1000n
    return {
      number,
      records,
      timeUs,
      firstRecord: number * records,
      firstTrace: number * this.#tracesPerBatch,
      dataset: this.#dataset(number),
      firstTimeNs,
      lastTimeNs: firstTimeNs + BigInt((records - 1) * RECORD_STEP_NS),
    }
  }
}

export interface BatchSourceOptions {
  readonly template: Template
  readonly format: Format
  readonly encoding: Encoding
  readonly recordsPerTrace: number
  readonly datasets: number
  readonly ids: Ids
  readonly numbers: BatchNumbers
  readonly acknowledged: AcknowledgedBatches
  /** The head of a request whose body has this length. */
  readonly headFor: (bodyBytes: number) => Buffer
}

export class BatchSource implements RequestSource {
  readonly #options: BatchSourceOptions
  readonly #identityHead: Buffer
  #batch: Batch | null = null
  #bodyBytes = 0

  constructor(options: BatchSourceOptions) {
    this.#options = options
    this.#identityHead = options.headFor(options.template.bytes.byteLength)
  }

  next(): LoadRequest | Promise<LoadRequest> {
    const { template, format, encoding, ids, numbers, recordsPerTrace, datasets } = this.#options
    const batch = numbers.take()
    this.#batch = batch
    const { firstRecord, firstTrace, timeUs } = batch
    const stamp = { firstRecord, firstTrace, recordsPerTrace, timeUs, datasetNumber: batch.number % datasets }
    if (format === 'protobuf') stampProtobuf(template, ids, stamp)
    else stampJson(template, ids, stamp)
    if (encoding !== 'identity') return this.#compressed(encoding)
    this.#bodyBytes = template.bytes.byteLength
    return { head: this.#identityHead, body: template.bytes }
  }

  succeeded(response: HttpResponse): TaskResult {
    const { acknowledged, ids, template } = this.#options
    const batch = this.#batch
    assert(batch !== null)
    acknowledged.acknowledged(
      batch,
      () => ids.traceIdHex(batch.firstTrace),
      () => recordIdsOf(response),
    )
    return {
      units: batch.records,
      payloadBytes: template.bytes.byteLength,
      bodyBytes: this.#bodyBytes,
      refused: [],
    }
  }

  unresolved(): void {
    if (this.#batch !== null) this.#options.acknowledged.unresolved(this.#batch)
  }

  async #compressed(encoding: 'gzip' | 'zstd'): Promise<LoadRequest> {
    const { bytes } = this.#options.template
    const body =
      encoding === 'gzip'
        ? await gzipAsync(bytes, { level: 1 })
        : await zstdAsync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: 1 } })
    this.#bodyBytes = body.byteLength
    return { head: this.#options.headFor(body.byteLength), body }
  }
}

/** From `{"record_ids":[…]}` of the JSON routes; empty elsewhere. */
function recordIdsOf({ contentType, body }: HttpResponse): readonly string[] {
  if (!contentType.startsWith('application/json')) return []
  const answer: unknown = JSON.parse(body.toString())
  const ids: unknown = Object(answer).record_ids
  return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : []
}
