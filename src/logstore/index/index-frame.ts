import { OtlpBatch, RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import type { ActiveIndex } from './active-index.ts'
import { FLAG_COLLAPSED, StoredBatch, earlierOf } from '../batch-frame.ts'
import { BatchIdentifier } from './identify.ts'
import { scanBatch } from './scan-batch.ts'

/** Takes the entries of a segment in their order. */
export type EntrySink = Pick<ActiveIndex, 'partitionOf' | 'append' | 'publish'>

/** Rebuilds index entries from stored frames, as ingest made them. */
export class FrameIndexer {
  readonly #batch = new OtlpBatch()
  readonly #identifier = new BatchIdentifier()
  readonly #flags = new Uint16Array(RECORDS_PER_BATCH_MAX)

  /** Numbers of the records of the last batch whose ids do not follow from record and group: those without a time, and repeated ones. */
  explicitRecords(): ReadonlySet<number> {
    const { recordCount, timeHigh, timeLow } = this.#batch
    const explicit = new Set<number>(this.#identifier.repeated)
    for (let record = 0; record < recordCount; record++) {
      if ((timeHigh[record]! | timeLow[record]!) === 0) explicit.add(record)
    }
    return explicit
  }

  /**
   * Appends the records of one batch frame to `active` and publishes them.
   *
   * @param frameOffset  of the frame's header in the segment's file, bytes
   */
  add(active: EntrySink, frameOffset: number, payload: Buffer): void {
    const stored = new StoredBatch(payload)
    const { signal, format, tenant, receivedAtHigh, receivedAtLow } = stored.envelope
    const batch = this.#batch
    scanBatch(batch, stored.body, signal, format)
    const datasets = Array.from({ length: batch.resourceCount }, (_, resource) => stored.datasetOfResource(resource))
    const flags = this.#flags
    let hasEarlier = false
    for (let record = 0; record < batch.recordCount; record++) {
      flags[record] = stored.flags(record)
      hasEarlier ||= earlierOf(flags[record]!) > 0
    }
    const earlier = hasEarlier ? { identicalTo: () => flags.map(earlierOf) } : null
    this.#identifier.identify(batch, stored.body, tenant, signal, datasets, earlier)
    const partitions = datasets.map((dataset) => active.partitionOf(tenant, dataset))
    appendRecords(
      active,
      batch,
      this.#identifier.ids,
      flags,
      partitions,
      frameOffset,
      signal,
      receivedAtHigh,
      receivedAtLow,
    )
  }
}

/**
 * Appends the records of a batch to the index and publishes them.
 *
 * @param flags        per record; those with FLAG_COLLAPSED are left out
 * @param partitions   per resource of the batch
 * @param frameOffset  of the batch's frame header in the segment's file, bytes
 * @param receivedAt…  of the batch; the time of records that have none of their own
 */
export function appendRecords(
  active: EntrySink,
  batch: OtlpBatch,
  ids: Uint32Array,
  flags: Uint16Array,
  partitions: readonly number[],
  frameOffset: number,
  signal: number,
  receivedAtHigh: number,
  receivedAtLow: number,
): void {
  for (let record = 0; record < batch.recordCount; record++) {
    if ((flags[record]! & FLAG_COLLAPSED) !== 0) continue
    const high = batch.timeHigh[record]!
    const low = batch.timeLow[record]!
    const timeless = (high | low) === 0
    active.append(
      ids,
      4 * record,
      batch.traceWords,
      4 * record,
      timeless ? receivedAtHigh : high,
      timeless ? receivedAtLow : low,
      frameOffset,
      record,
      partitions[batch.groupResource[batch.recordGroup[record]!]!]!,
      batch.recordEnd[record]! - batch.recordStart[record]!,
      signal,
    )
  }
  active.publish(receivedAtHigh, receivedAtLow)
}
