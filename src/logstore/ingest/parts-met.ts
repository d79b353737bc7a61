/**
 * The records of a large batch that its earlier parts have: identical records of one batch are different records, whichever parts they are in.
 *
 * A record is known by the id that it has as the first of its kind. A part is counted once it was asked about.
 */
import { IdCounts } from '../index/id-counts.ts'
import type { EarlierParts } from '../index/identify.ts'
import { TENANT_BATCH_RECORDS_MAX } from '../limits.ts'

const WORDS = 4

export class PartsMet implements EarlierParts {
  /** By record of the part that was asked about last. */
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
  /** What the earlier parts have. */
  readonly met: PartsMet
  /** Null: its records are recognised one by one. */
  readonly isStored: boolean | null
  /** An earlier one got a frame. */
  readonly isBegun: boolean
}
