/**
 * Records and bytes that were accepted since the start, by tenant and dataset, in one SharedArrayBuffer: the decode lane counts, main reads.
 *
 *   u32   slotsMax, slots in use, then where the name of each slot ends in the text
 *   f64   records and bytes of each slot; slot 0 is for all datasets that have none of their own
 *   text  names one after the other, [tenant, dataset] as JSON in UTF-8
 *
 * D1  one thread writes at a time: a lane that replaces another continues with the same slots
 * D2  a name is written before its slot is in use, and never changes
 */
import assert from 'node:assert/strict'

const NAME_BYTES_MEAN = 256
const SLOTS_MAX = 0
const IN_USE = 1
const NAME_ENDS = 2

export interface DatasetCount {
  /** Null: all datasets that have no slot of their own. */
  readonly name: readonly [tenant: string, dataset: string] | null
  readonly records: number
  readonly bytes: number
}

export class DatasetCounts {
  readonly shared: SharedArrayBuffer
  readonly #words: Uint32Array
  readonly #cells: Float64Array
  readonly #text: Buffer
  /** Slots by tenant, then by dataset, as far as this thread has read them. */
  readonly #slots = new Map<string, Map<string, number>>()
  #known = 0

  /** @param datasetsMax how many datasets get slots of their own */
  static create(datasetsMax: number): DatasetCounts {
    const { cellsAt, textAt } = layoutOf(datasetsMax)
    assert(cellsAt % 8 === 0)
    const shared = new SharedArrayBuffer(textAt + datasetsMax * NAME_BYTES_MEAN)
    new Uint32Array(shared)[SLOTS_MAX] = datasetsMax
    return new DatasetCounts(shared)
  }

  static attach(shared: SharedArrayBuffer): DatasetCounts {
    return new DatasetCounts(shared)
  }

  private constructor(shared: SharedArrayBuffer) {
    const slotsMax = new Uint32Array(shared)[SLOTS_MAX]!
    const { cellsAt, textAt } = layoutOf(slotsMax)
    this.shared = shared
    this.#words = new Uint32Array(shared, 0, NAME_ENDS + slotsMax)
    this.#cells = new Float64Array(shared, cellsAt, 2 * (1 + slotsMax))
    this.#text = Buffer.from(shared, textAt)
  }

  /** D1 */
  add(tenant: string, dataset: string, records: number, bytes: number): void {
    if (this.#known < this.#words[IN_USE]!) this.#learn()
    const slot = this.#slots.get(tenant)?.get(dataset) ?? this.#begin(tenant, dataset)
    this.#cells[2 * slot]! += records
    this.#cells[2 * slot + 1]! += bytes
  }

  /** In the order in which the datasets first came. The sum of those without a slot is last, if there are any. */
  all(): DatasetCount[] {
    const inUse = Atomics.load(this.#words, IN_USE)
    const counts = Array.from({ length: inUse }, (_, i) => this.#countOf(i + 1))
    const rest = this.#countOf(0)
    return rest.records > 0 ? [...counts, rest] : counts
  }

  #countOf(slot: number): DatasetCount {
    const name = slot === 0 ? null : this.#nameOf(slot)
    return { name, records: this.#cells[2 * slot]!, bytes: this.#cells[2 * slot + 1]! }
  }

  #nameOf(slot: number): readonly [tenant: string, dataset: string] {
    const text = this.#text.toString('utf8', this.#nameEnd(slot - 1), this.#nameEnd(slot))
    return JSON.parse(text) as [string, string] // as `begin` wrote it
  }

  #nameEnd(slot: number): number {
    return slot === 0 ? 0 : this.#words[NAME_ENDS + slot - 1]!
  }

  /** D2. 0: there is no slot left. */
  #begin(tenant: string, dataset: string): number {
    const slot = this.#words[IN_USE]! + 1
    const from = this.#nameEnd(slot - 1)
    const name = Buffer.from(JSON.stringify([tenant, dataset]))
    if (slot > this.#words[SLOTS_MAX]! || from + name.byteLength > this.#text.byteLength) return 0
    name.copy(this.#text, from)
    this.#words[NAME_ENDS + slot - 1] = from + name.byteLength
    Atomics.store(this.#words, IN_USE, slot)
    this.#learn()
    return slot
  }

  /** Reads the slots that were begun since the last call, by this lane or by the one before it. */
  #learn(): void {
    for (; this.#known < this.#words[IN_USE]!; this.#known++) {
      const slot = this.#known + 1
      const [tenant, dataset] = this.#nameOf(slot)
      const ofTenant = this.#slots.get(tenant) ?? new Map<string, number>()
      this.#slots.set(tenant, ofTenant.set(dataset, slot))
    }
  }
}

function layoutOf(slotsMax: number): { readonly cellsAt: number; readonly textAt: number } {
  const cellsAt = 8 * Math.ceil((4 * (NAME_ENDS + slotsMax)) / 8)
  return { cellsAt, textAt: cellsAt + 16 * (1 + slotsMax) }
}
