/**
 * Remembers what was acknowledged: counts per dataset, a bounded random sample, and on request every batch in a file.
 *
 * A1  the line of a batch is handed to the kernel before its connection sends again, so it survives the death of this
 *     process (not of the machine)
 * A2  every acknowledged batch has the same chance to be in the sample (reservoir sampling, Vitter's algorithm R)
 *
 * Line of the file, tab-separated:
 *   batch number, first trace id, records, dataset, time of the first record in ns, time of the last record in ns
 * No two batches overlap in time, so a query by time range counts exactly one batch.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import type { Random } from '../random.ts'

export interface Batch {
  readonly number: number
  readonly firstRecord: number
  readonly firstTrace: number
  readonly records: number
  readonly dataset: string
  readonly firstTimeNs: bigint
  readonly lastTimeNs: bigint
}

/** `recordIds` is empty on the protobuf routes, whose answer has none. */
export type SampledBatch = Batch & { readonly recordIds: readonly string[] }

export interface DatasetCount {
  acknowledged: number
  /** Batches without a clear answer: they may be stored or not. */
  unresolved: number
}

export class AcknowledgedBatches {
  readonly datasets = new Map<string, DatasetCount>()
  readonly sample: SampledBatch[] = []
  readonly #sampleMax: number
  readonly #random: Random
  readonly #file: number | null
  #seen = 0

  /** @throws the file system's error when `path` cannot be opened for appending */
  constructor(sampleMax: number, random: Random, path: string | null) {
    this.#sampleMax = sampleMax
    this.#random = random
    this.#file = path === null ? null : openSync(path, 'a')
  }

  /** @param recordIds called only when the batch is taken into the sample */
  acknowledged(batch: Batch, traceIdHex: () => string, recordIds: () => readonly string[]): void {
    this.#count(batch.dataset).acknowledged += batch.records
    if (this.#file !== null) {
      const { number, records, dataset, firstTimeNs, lastTimeNs } = batch
      writeSync(this.#file, `${[number, traceIdHex(), records, dataset, firstTimeNs, lastTimeNs].join('\t')}\n`) // A1
    }
    this.#seen++
    const slot = this.#seen <= this.#sampleMax ? this.#seen - 1 : this.#random.between(0, this.#seen - 1) // A2
    if (slot < this.#sampleMax) this.sample[slot] = { ...batch, recordIds: recordIds() }
  }

  unresolved(batch: Batch): void {
    this.#count(batch.dataset).unresolved += batch.records
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
  }

  #count(dataset: string): DatasetCount {
    let count = this.datasets.get(dataset)
    if (count === undefined) this.datasets.set(dataset, (count = { acknowledged: 0, unresolved: 0 }))
    return count
  }
}
