/**
 * Record ids of a scanned batch. The same code runs at ingest and when an index is rebuilt from the log, so an id never depends
 * on when it was computed. What goes into an id, and why: `native-free-codecs/record-id.ts`.
 */
import { hash } from 'node:crypto'
import { BatchHasher, HEAD_BYTES } from '../../../native-free-codecs/blake2s.ts'
import { RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import type { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import { IdCounts } from './id-counts.ts'
import { groupPrefix, writeRecordHead, writeRecordOrdinal } from '../../../native-free-codecs/record-id.ts'

/** The earlier parts of a batch that is stored in parts: counts records in them that are identical to those of this part. */
export interface EarlierParts {
  /** @param ids of the records with ordinal 0 @returns per record how many identical ones there are; valid until the next call */
  identicalTo(ids: Uint32Array, recordCount: number): Uint16Array
}

export class BatchIdentifier {
  /** Four big-endian words a record, in batch order; valid until the next `identify`. */
  readonly ids = new Uint32Array(4 * RECORDS_PER_BATCH_MAX)
  readonly #hasher = new BatchHasher()
  readonly #heads = Buffer.alloc(HEAD_BYTES * RECORDS_PER_BATCH_MAX)
  readonly #recordHead = new Uint16Array(RECORDS_PER_BATCH_MAX)
  readonly #repeats = new Repeats()

  /** Numbers of the records of the last batch that repeat an earlier record, ascending. */
  get repeated(): Uint16Array {
    return this.#repeats.records.subarray(0, this.#repeats.count)
  }

  /**
   * @param body             the batch, as scanned
   * @param resourceDataset  per resource of the batch
   * @param earlier          the earlier parts of the batch that this is a part of; null: it is a whole batch, or the first part
   */
  identify(
    batch: OtlpBatch,
    body: Uint8Array,
    tenant: string,
    signal: number,
    resourceDataset: readonly string[],
    earlier: EarlierParts | null = null,
  ): void {
    const { recordStart, recordEnd, recordGroup, recordCount } = batch
    const heads = this.#heads
    let headCount = 0
    let headGroup = -1
    let headTimeless = false
    let prefix: Buffer = NO_PREFIX
    let batchDigest: Buffer | null = null
    for (let record = 0; record < recordCount; record++) {
      const timeless = (batch.timeHigh[record]! | batch.timeLow[record]!) === 0
      const group = recordGroup[record]!
      if (group !== headGroup || timeless !== headTimeless) {
        if (group !== headGroup) prefix = prefixOfGroup(batch, group, body, tenant, signal, resourceDataset)
        if (timeless) batchDigest ??= hash('sha256', body, 'buffer')
        writeRecordHead(heads, HEAD_BYTES * headCount++, prefix, 0, timeless ? batchDigest : null)
        headGroup = group
        headTimeless = timeless
      }
      this.#recordHead[record] = headCount - 1
    }
    this.#hasher.idsInto(this.ids, body, recordStart, recordEnd, this.#recordHead, heads, headCount, recordCount)
    const before = earlier?.identicalTo(this.ids, recordCount) ?? null
    this.#numberRepeats(batch, body, before)
  }

  /** Gives records that repeat an earlier one an ordinal, and with it an id of their own. Hardly any batch has such records. */
  #numberRepeats(
    { recordStart, recordEnd, recordCount }: OtlpBatch,
    body: Uint8Array,
    before: Uint16Array | null,
  ): void {
    const repeats = this.#repeats
    repeats.find(this.ids, recordCount, before)
    if (repeats.count === 0) return
    const starts = new Uint32Array(repeats.count)
    const ends = new Uint32Array(repeats.count)
    const heads = Buffer.alloc(HEAD_BYTES * repeats.count)
    for (let i = 0; i < repeats.count; i++) {
      const record = repeats.records[i]!
      const headAt = HEAD_BYTES * this.#recordHead[record]!
      starts[i] = recordStart[record]!
      ends[i] = recordEnd[record]!
      this.#heads.copy(heads, HEAD_BYTES * i, headAt, headAt + HEAD_BYTES)
      writeRecordOrdinal(heads, HEAD_BYTES * i, repeats.ordinals[i]!)
    }
    const ids = new Uint32Array(4 * repeats.count)
    const ownHead = Uint16Array.from(starts, (_, i) => i)
    this.#hasher.idsInto(ids, body, starts, ends, ownHead, heads, repeats.count, repeats.count)
    for (let i = 0; i < repeats.count; i++) this.ids.set(ids.subarray(4 * i, 4 * i + 4), 4 * repeats.records[i]!)
  }
}

/** The records of a batch that are identical to an earlier one: their ids with ordinal 0 are equal. */
class Repeats {
  count = 0
  /** In batch order. */
  readonly records = new Uint16Array(RECORDS_PER_BATCH_MAX)
  readonly ordinals = new Uint16Array(RECORDS_PER_BATCH_MAX)
  readonly #kinds = new IdCounts(RECORDS_PER_BATCH_MAX)

  find(ids: Uint32Array, recordCount: number, before: Uint16Array | null): void {
    this.count = 0
    this.#kinds.clear()
    const { counts } = this.#kinds
    for (let record = 0; record < recordCount; record++) {
      const ordinal = counts[this.#kinds.numberOf(ids, 4 * record)]!++ + (before === null ? 0 : before[record]!)
      if (ordinal === 0) continue
      this.records[this.count] = record
      this.ordinals[this.count++] = ordinal
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
    body.subarray(batch.resourceSchemaUrlStart[resource], batch.resourceSchemaUrlEnd[resource]),
    body.subarray(batch.groupSchemaUrlStart[group], batch.groupSchemaUrlEnd[group]),
  )
}

/** Whether a record of the batch takes the digest of the batch into its id. */
export function hasTimeless({ recordCount, timeHigh, timeLow }: OtlpBatch): boolean {
  for (let record = 0; record < recordCount; record++) if ((timeHigh[record]! | timeLow[record]!) === 0) return true
  return false
}
