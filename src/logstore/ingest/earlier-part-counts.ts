/**
 * Counts the records of the earlier parts of a large batch: identical records of one batch are different records, whichever parts they are in.
 *
 * Records are compared by the id that each has as the first of its kind. `identicalTo` answers for a part, and then counts it as an earlier one.
 */
import { IdCounts } from '../index/id-counts.ts'
import type { EarlierParts } from '../index/identify.ts'
import { TENANT_BATCH_RECORDS_MAX } from '../limits.ts'

const WORDS = 4

export class EarlierPartCounts implements EarlierParts {
  /** For each record of the part that was asked about last: how many identical records the earlier parts have. */
  readonly identical = new Uint16Array(TENANT_BATCH_RECORDS_MAX)
  readonly #kinds = new IdCounts(TENANT_BATCH_RECORDS_MAX)

  begin(): void {
    this.#kinds.clear()
  }

  identicalTo(ids: Uint32Array, recordCount: number): Uint16Array {
    const { counts } = this.#kinds
    const kinds = Uint16Array.from({ length: recordCount }, (_, record) => this.#kinds.numberOf(ids, WORDS * record))
    for (const [record, kind] of kinds.entries()) this.identical[record] = counts[kind]!
    for (const kind of kinds) counts[kind]! += 1
    return this.identical
  }
}

export interface PartOfBatch {
  /** The records of the earlier parts. */
  readonly earlier: EarlierPartCounts
  /** Null: its records are recognised one by one. */
  readonly isStored: boolean | null
  /** An earlier part got a frame. */
  readonly isBegun: boolean
}
