/**
 * Record ids of a scanned batch. The same code runs at ingest and when an index is rebuilt from the log, so an id never depends
 * on when it was computed. What goes into an id, and why: `native-free-codecs/record-id.ts`.
 */
import { hash } from 'node:crypto'
import { RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import type { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import { groupPrefix, recordIdInto } from '../../../native-free-codecs/record-id.ts'

const SLOTS = 4 * RECORDS_PER_BATCH_MAX // a power of two: at most a quarter full

export class BatchIdentifier {
  /** Four big-endian words a record, in batch order; valid until the next `identify`. */
  readonly ids = new Uint32Array(4 * RECORDS_PER_BATCH_MAX)
  /** Open addressing over the ids with ordinal 0: record + 1. */
  readonly #slots = new Uint16Array(SLOTS)
  /** Per record that stands in a slot: how many identical ones came after it. */
  readonly #repeats = new Uint16Array(RECORDS_PER_BATCH_MAX)

  /**
   * @param body             the batch, as scanned
   * @param resourceDataset  per resource of the batch
   */
  identify(
    batch: OtlpBatch,
    body: Uint8Array,
    tenant: string,
    signal: number,
    resourceDataset: readonly string[],
  ): void {
    this.#slots.fill(0)
    let batchDigest: Buffer | null = null
    let group = -1
    let prefix: Buffer = NO_PREFIX
    for (let record = 0; record < batch.recordCount; record++) {
      if (batch.recordGroup[record] !== group) {
        group = batch.recordGroup[record]!
        prefix = prefixOfGroup(batch, group, body, tenant, signal, resourceDataset)
      }
      const timeless = (batch.timeHigh[record]! | batch.timeLow[record]!) === 0
      if (timeless) batchDigest ??= hash('sha256', body, 'buffer')
      const digest = timeless ? batchDigest : null
      const start = batch.recordStart[record]!
      const end = batch.recordEnd[record]!
      recordIdInto(this.ids, 4 * record, prefix, body, start, end, 0, digest)
      const ordinal = this.#countIdentical(record)
      if (ordinal > 0) recordIdInto(this.ids, 4 * record, prefix, body, start, end, ordinal, digest)
    }
  }

  /** How many records before this one have its id with ordinal 0, which is how many have its content. */
  #countIdentical(record: number): number {
    const ids = this.ids
    const at = 4 * record
    for (let slot = ids[at]! & (SLOTS - 1); ; slot = (slot + 1) & (SLOTS - 1)) {
      const first = this.#slots[slot]! - 1
      if (first < 0) {
        this.#slots[slot] = record + 1
        this.#repeats[record] = 0
        return 0
      }
      const other = 4 * first // the first of identical records has ordinal 0: its id is still the one to compare with
      if (
        ids[other] === ids[at] &&
        ids[other + 1] === ids[at + 1] &&
        ids[other + 2] === ids[at + 2] &&
        ids[other + 3] === ids[at + 3]
      ) {
        return ++this.#repeats[first]!
      }
    }
  }
}

const NO_PREFIX = Buffer.alloc(0)

function prefixOfGroup(
  batch: OtlpBatch,
  group: number,
  body: Uint8Array,
  tenant: string,
  signal: number,
  resourceDataset: readonly string[],
): Buffer {
  const resource = batch.groupResource[group]!
  return groupPrefix(
    tenant,
    resourceDataset[resource]!,
    signal,
    body.subarray(batch.resourceStart[resource], batch.resourceEnd[resource]),
    body.subarray(batch.groupScopeStart[group], batch.groupScopeEnd[group]),
  )
}
