/**
 * The records of neighbouring bundles in the order of the one that they become: by partition, then by time, then by entry. Of each bundle one block is
 * decoded at a time.
 *
 * M1  entries are numbered through the run, and frame offsets count from its base: what a place in one of the bundles meant, it means in the merged one
 */
import type { BlockRecords } from './block-records.ts'
import type { BlockKeys } from './block-reader.ts'
import type { Group } from './block-writer.ts'
import { CHUNK_ENTRIES } from './compact-format.ts'
import type { CompactBlock } from './compact-directory.ts'
import type { CompactIndex } from './compact-index.ts'
import { GroupTable } from './group-table.ts'

/** Groups that are remembered to be told apart; a block has fewer. */
const GROUPS_KEPT = 16_384

/** A partition of the run: where its records are. */
export interface MergedPartition {
  readonly tenant: string
  readonly dataset: string
  /** By bundle, in their order: number of the partition there; those without it are left out. */
  readonly of: readonly { readonly bundle: number; readonly partition: number }[]
}

/** Rows in the order of a bundle, and where their records stood. */
export interface RowRun {
  readonly entries: number
  partitions(): readonly MergedPartition[]
  /** The rows of a partition, one after the other. What is given stays the same object, and is the next row after the next call. */
  rowsOf(partition: MergedPartition): Iterable<MergeCursor>
  /** Of entries [from, to), see `PlacesOf`. */
  placesOf(from: number, to: number): { readonly frameOffset: Float64Array; readonly recordNumber: Float64Array }
}

export class MergeRun implements RowRun {
  readonly #bundles: readonly CompactIndex[]
  /** By bundle: the number of its first entry in the run, and where it begins in the log. */
  readonly #firstEntry: readonly number[]
  readonly base: number
  readonly entries: number
  readonly #hasRows: (block: CompactBlock) => boolean
  #groups = new GroupTable()

  /** @param bundles neighbours, ascending @param hasRows false: no row of the block is asked for */
  constructor(bundles: readonly CompactIndex[], hasRows: (block: CompactBlock) => boolean = () => true) {
    this.#bundles = bundles
    this.#hasRows = hasRows
    this.base = bundles[0]!.header.base
    let entries = 0
    this.#firstEntry = bundles.map(({ entryCount }) => {
      entries += entryCount
      return entries - entryCount
    })
    this.entries = entries
  }

  /** In the order in which they first appear. */
  partitions(): readonly MergedPartition[] {
    const byName = new Map<string, MergedPartition & { of: { bundle: number; partition: number }[] }>()
    for (const [bundle, index] of this.#bundles.entries()) {
      for (const { tenant, dataset, partition } of index.partitions()) {
        const name = JSON.stringify([tenant, dataset])
        let merged = byName.get(name)
        if (merged === undefined) byName.set(name, (merged = { tenant, dataset, of: [] }))
        merged.of.push({ bundle, partition: partition.number })
      }
    }
    return [...byName.values()]
  }

  *rowsOf({ of }: MergedPartition): Iterable<MergeCursor> {
    const cursors = of
      .map(({ bundle, partition }) => this.#cursor(bundle, partition))
      .filter((cursor) => cursor.isAtRow)
    while (cursors.length > 0) {
      let least = cursors[0]!
      for (let i = 1; i < cursors.length; i++) if (cursors[i]!.isBefore(least)) least = cursors[i]!
      yield least
      least.advance()
      if (!least.isAtRow) cursors.splice(cursors.indexOf(least), 1)
    }
  }

  #cursor(bundle: number, partition: number): MergeCursor {
    const index = this.#bundles[bundle]!
    const blocks = index.blocksOf(partition).filter(this.#hasRows)
    return new MergeCursor(index, blocks, this.#firstEntry[bundle]!, (group) => this.#sameGroup(group))
  }

  #sameGroup(group: Group): Group {
    if (this.#groups.groups.length >= GROUPS_KEPT) this.#groups = new GroupTable()
    return this.#groups.groups[this.#groups.numberOf(group)]!
  }

  /** M1 */
  placesOf(from: number, to: number): { readonly frameOffset: Float64Array; readonly recordNumber: Float64Array } {
    const frameOffset = new Float64Array(to - from)
    const recordNumber = new Float64Array(to - from)
    let bundle = this.#firstEntry.findLastIndex((first) => first <= from)
    for (let entry = from; entry < to; entry++) {
      while (entry >= this.#firstEntry[bundle]! + this.#bundles[bundle]!.entryCount) bundle++
      const index = this.#bundles[bundle]!
      const local = entry - this.#firstEntry[bundle]!
      const chunk = index.chunkAt(Math.floor(local / CHUNK_ENTRIES))
      frameOffset[entry - from] = chunk.frameOffset[local % CHUNK_ENTRIES]! + index.header.base - this.base
      recordNumber[entry - from] = chunk.recordNumber[local % CHUNK_ENTRIES]!
    }
    return { frameOffset, recordNumber }
  }
}

/** Goes through the rows of one partition of one bundle. */
export class MergeCursor {
  readonly #index: CompactIndex
  readonly #blocks: readonly CompactBlock[]
  readonly #firstEntry: number
  readonly #sameGroup: (group: Group) => Group
  #next = 0
  #keys: BlockKeys | null = null
  #rows = 0
  #groups: readonly Group[] = []
  #ids: Uint32Array = new Uint32Array(0)
  /** All records of the block are made. */
  records!: BlockRecords
  /** In the block. */
  row = 0
  isAtRow = false
  timeHigh = 0
  timeLow = 0
  /** In the run. */
  entry = 0

  constructor(
    index: CompactIndex,
    blocks: readonly CompactBlock[],
    firstEntry: number,
    sameGroup: (group: Group) => Group,
  ) {
    this.#index = index
    this.#blocks = blocks
    this.#firstEntry = firstEntry
    this.#sameGroup = sameGroup
    this.#beginBlock()
  }

  get group(): Group {
    return this.#groups[this.records.rowGroup[this.row]!]!
  }

  /** Four words of each row of the block. */
  get ids(): Uint32Array {
    return this.#ids
  }

  isBefore(other: MergeCursor): boolean {
    if (this.timeHigh !== other.timeHigh) return this.timeHigh < other.timeHigh
    if (this.timeLow !== other.timeLow) return this.timeLow < other.timeLow
    return this.entry < other.entry
  }

  advance(): void {
    this.row++
    if (this.row < this.#rows) this.#takeKeys()
    else this.#beginBlock()
  }

  #beginBlock(): void {
    const block = this.#blocks[this.#next++]
    this.isAtRow = block !== undefined
    if (block === undefined) return
    this.#keys = this.#index.keys(block)
    this.records = this.#index.readRecords(block)
    this.#ids = this.records.ids.all() // makes all records, too
    this.#groups = this.records.groups.map(this.#sameGroup)
    this.#rows = block.rows
    this.row = 0
    this.#takeKeys()
  }

  #takeKeys(): void {
    const keys = this.#keys!
    this.timeHigh = keys.timeHigh[this.row]!
    this.timeLow = keys.timeLow[this.row]!
    this.entry = keys.entry[this.row]! + this.#firstEntry
  }
}
