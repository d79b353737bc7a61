/**
 * The rows that a bundle keeps when it is written again without the records that have expired by the retention of datasets (src/logstore/expired.ts).
 *
 * E1  entries are numbered anew, without gaps, in the same order; frame offsets count from the base that the rows are written for. So places in the log,
 *     and cursors, keep their meaning
 */
import { NOTHING_EXPIRED, isKept, keptFrom } from '../expired.ts'
import type { Expired, KeptFrom } from '../expired.ts'
import { CHUNK_ENTRIES } from './compact-format.ts'
import type { CompactBlock } from './compact-directory.ts'
import type { CompactIndex } from './compact-index.ts'
import { MergeRun } from './merge-rows.ts'
import type { MergeCursor, MergedPartition, RowRun } from './merge-rows.ts'

/** In place of a new entry: the record is left out. */
const LEFT_OUT = 0xffffffff

/** By tenant: what has expired of its datasets. */
export type ExpiredByTenant = ReadonlyMap<string, Expired>

interface Range {
  readonly base: number
  readonly end: number
}

export class TrimmedRun implements RowRun {
  readonly entries: number
  readonly #index: CompactIndex
  readonly #base: number
  readonly #rows: MergeRun
  readonly #isKept: (tenant: string, dataset: string) => boolean
  /** By entry of the bundle: its new entry, or LEFT_OUT. */
  readonly #newEntry: Uint32Array
  /** By new entry: the entry of the bundle. */
  readonly #oldEntry: Uint32Array

  /** @param range positions whose rows may be kept: those of the whole bundle, or of one of its segments */
  constructor(index: CompactIndex, range: Range, expired: ExpiredByTenant) {
    this.#index = index
    this.#base = range.base
    const rowsKept = new Uint32Array(index.blocks.length)
    const partitions = new Set<string>()
    const newEntry = new Uint32Array(index.entryCount).fill(LEFT_OUT)
    const from = index.entriesBefore(range.base - index.header.base, 0)
    const to = index.entriesBefore(range.end - index.header.base, 0)
    for (const { tenant, dataset, partition } of index.partitions()) {
      const kept = keptFrom(expired.get(tenant) ?? NOTHING_EXPIRED, dataset)
      for (const block of index.blocksOf(partition.number)) {
        rowsKept[block.number] = markKept(index, block, kept, from, to, newEntry)
        if (rowsKept[block.number]! > 0) partitions.add(nameOf(tenant, dataset))
      }
    }
    let entries = 0
    const oldEntry = new Uint32Array(index.entryCount)
    for (let entry = 0; entry < newEntry.length; entry++) {
      if (newEntry[entry] === LEFT_OUT) continue
      oldEntry[entries] = entry
      newEntry[entry] = entries++
    }
    this.entries = entries
    this.#newEntry = newEntry
    this.#oldEntry = oldEntry.subarray(0, entries)
    this.#isKept = (tenant, dataset) => partitions.has(nameOf(tenant, dataset))
    this.#rows = new MergeRun([index], range.base, ({ number }) => rowsKept[number]! > 0)
  }

  partitions(): readonly MergedPartition[] {
    return this.#rows.partitions().filter(({ tenant, dataset }) => this.#isKept(tenant, dataset))
  }

  *rowsOf(partition: MergedPartition): Iterable<MergeCursor> {
    for (const cursor of this.#rows.rowsOf(partition)) {
      const entry = this.#newEntry[cursor.entry]!
      if (entry === LEFT_OUT) continue
      cursor.entry = entry
      yield cursor
    }
  }

  /** E1 */
  placesOf(from: number, to: number): { readonly frameOffset: Float64Array; readonly recordNumber: Float64Array } {
    const frameOffset = new Float64Array(to - from)
    const recordNumber = new Float64Array(to - from)
    const shift = this.#index.header.base - this.#base
    for (let entry = from; entry < to; entry++) {
      const old = this.#oldEntry[entry]!
      const chunk = this.#index.chunkAt(Math.floor(old / CHUNK_ENTRIES))
      frameOffset[entry - from] = chunk.frameOffset[old % CHUNK_ENTRIES]! + shift
      recordNumber[entry - from] = chunk.recordNumber[old % CHUNK_ENTRIES]!
    }
    return { frameOffset, recordNumber }
  }
}

/** Marks the rows of a block that are kept, in entries [from, to). @returns how many */
function markKept(
  index: CompactIndex,
  block: CompactBlock,
  kept: KeptFrom,
  from: number,
  to: number,
  newEntry: Uint32Array,
): number {
  const { timeHigh, timeLow, entry } = index.keys(block)
  let rows = 0
  for (let row = 0; row < block.rows; row++) {
    const its = entry[row]!
    if (its < from || its >= to || !isKept(kept, timeHigh[row]!, timeLow[row]!)) continue
    newEntry[its] = 0
    rows++
  }
  return rows
}

const nameOf = (tenant: string, dataset: string): string => JSON.stringify([tenant, dataset])
