/**
 * The records of a large batch that its earlier parts have: identical records of one batch are different records, whichever parts they are in.
 *
 * P1  records are told by the ids that they have as the first of their kind; a part is counted once it was asked about
 */
import type { EarlierParts } from '../index/identify.ts'
import { TENANT_BATCH_RECORDS_MAX } from '../limits.ts'

const SLOTS = 4 * TENANT_BATCH_RECORDS_MAX // a power of two: at most a quarter full
const WORDS = 4

export class PartsMet implements EarlierParts {
  /** Of the last part. */
  readonly identical = new Uint16Array(TENANT_BATCH_RECORDS_MAX)
  /** Of each kind of record. */
  readonly #ids = new Uint32Array(WORDS * TENANT_BATCH_RECORDS_MAX)
  readonly #met = new Uint16Array(TENANT_BATCH_RECORDS_MAX)
  /** Open addressing over kinds: number + 1. */
  readonly #slots = new Uint16Array(SLOTS)
  #kinds = 0

  begin(): void {
    this.#slots.fill(0)
    this.#kinds = 0
  }

  identicalTo(ids: Uint32Array, recordCount: number): Uint16Array {
    const kinds = new Uint16Array(recordCount)
    for (let record = 0; record < recordCount; record++) {
      const kind = this.#kindOf(ids, WORDS * record)
      kinds[record] = kind
      this.identical[record] = this.#met[kind]!
    }
    for (const kind of kinds) this.#met[kind]! += 1
    return this.identical
  }

  #kindOf(ids: Uint32Array, at: number): number {
    for (let slot = ids[at]! & (SLOTS - 1); ; slot = (slot + 1) & (SLOTS - 1)) {
      const known = this.#slots[slot]! - 1
      if (known < 0) return this.#add(ids, at, slot)
      if (this.#isOf(known, ids, at)) return known
    }
  }

  #add(ids: Uint32Array, at: number, slot: number): number {
    const kind = this.#kinds++
    this.#slots[slot] = kind + 1
    this.#met[kind] = 0
    for (let word = 0; word < WORDS; word++) this.#ids[WORDS * kind + word] = ids[at + word]!
    return kind
  }

  #isOf(kind: number, ids: Uint32Array, at: number): boolean {
    for (let word = 0; word < WORDS; word++) if (this.#ids[WORDS * kind + word] !== ids[at + word]) return false
    return true
  }
}
