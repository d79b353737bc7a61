/**
 * The records of neighbouring bundles in the order of the one that they become: by partition, then by time, then by entry. Of each bundle one block is
 * decoded at a time, from its first row on: what comes later is told by the directory. So of bundles that follow each other in time, one has a block.
 *
 * M1  entries are numbered through the run, and frame offsets count from its base: what a place in one of the bundles meant, it means in the merged one
 */
import assert from 'node:assert/strict'
import { highWord, lowWord } from '../time-words.ts'
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

  /**
   * @param bundles neighbours, ascending
   * @param base    that frame offsets count from
   * @param hasRows false: no row of the block is asked for
   */
  constructor(
    bundles: readonly CompactIndex[],
    base = bundles[0]!.header.base,
    hasRows: (block: CompactBlock) => boolean = () => true,
  ) {
    this.#bundles = bundles
    this.#hasRows = hasRows
    this.base = base
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
      least.open()
      yield least
      least.advance()
      if (!least.isAtRow) cursors.splice(cursors.indexOf(least), 1)
    }
  }

  #cursor(bundle: number, partition: number): MergeCursor {
    const index = this.#bundles[bundle]!
    const blocks = index.blocksOf(partition).filter(this.#hasRows)
    const shift = index.header.base - this.base
    return new MergeCursor(index, blocks, this.#firstEntry[bundle]!, shift, (group) => this.#sameGroup(group))
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

/** A block in which all records are made; they are freed when the cursor leaves it. */
interface OpenBlock {
  readonly keys: BlockKeys
  readonly records: BlockRecords
  readonly body: Buffer
  /** Four words of each row. */
  readonly ids: Uint32Array
  readonly traces: Uint32Array
  readonly groups: readonly Group[]
}

/** Goes through the rows of one partition of one bundle. */
export class MergeCursor {
  readonly #index: CompactIndex
  readonly #blocks: readonly CompactBlock[]
  readonly #firstEntry: number
  readonly #shift: number
  readonly #sameGroup: (group: Group) => Group
  #next = 0
  #rows = 0
  #opened: OpenBlock | null = null
  /** In the block. */
  row = 0
  isAtRow = false
  timeHigh = 0
  timeLow = 0
  /** In the run. */
  entry = 0

  /** @param shift from frame offsets of the bundle to those of the run */
  constructor(
    index: CompactIndex,
    blocks: readonly CompactBlock[],
    firstEntry: number,
    shift: number,
    sameGroup: (group: Group) => Group,
  ) {
    this.#index = index
    this.#blocks = blocks
    this.#firstEntry = firstEntry
    this.#shift = shift
    this.#sameGroup = sameGroup
    this.#beginBlock()
  }

  /** The block of the row; it is there when the row is given. */
  get block(): OpenBlock {
    assert(this.#opened !== null)
    return this.#opened
  }

  get group(): Group {
    const { groups, records } = this.block
    return groups[records.rowGroup[this.row]!]!
  }

  /** Writes frame offset and number of the record there. @param into words */
  placeInto(into: Uint32Array, at: number): void {
    const local = this.block.keys.entry[this.row]!
    const { frameOffset, recordNumber } = this.#index.chunkAt(Math.floor(local / CHUNK_ENTRIES))
    into[at] = frameOffset[local % CHUNK_ENTRIES]! + this.#shift
    into[at + 1] = recordNumber[local % CHUNK_ENTRIES]!
  }

  isBefore(other: MergeCursor): boolean {
    if (this.timeHigh !== other.timeHigh) return this.timeHigh < other.timeHigh
    if (this.timeLow !== other.timeLow) return this.timeLow < other.timeLow
    return this.entry < other.entry
  }

  advance(): void {
    this.row++
    if (this.row < this.#rows) this.#takeKeys(this.block.keys)
    else this.#beginBlock()
  }

  /** The directory has the keys of the first row of a block. */
  #beginBlock(): void {
    this.#opened?.records.free()
    this.#opened = null
    const block = this.#blocks[this.#next]
    this.isAtRow = block !== undefined
    if (block === undefined) return
    this.timeHigh = highWord(block.minTime)
    this.timeLow = lowWord(block.minTime)
    this.entry = block.firstEntry + this.#firstEntry
    this.#rows = block.rows
    this.row = 0
  }

  /** Before a row is looked at. */
  open(): void {
    if (this.#opened !== null) return
    const block = this.#blocks[this.#next++]!
    const keys = this.#index.keys(block)
    const records = this.#index.readRecords(block)
    const ids = records.ids.all() // makes all records, too
    const traces = records.traces()
    const groups = records.groups.map(this.#sameGroup)
    this.#opened = { keys, records, body: records.body, ids, traces, groups }
    this.#takeKeys(keys)
  }

  #takeKeys(keys: BlockKeys): void {
    this.timeHigh = keys.timeHigh[this.row]!
    this.timeLow = keys.timeLow[this.row]!
    this.entry = keys.entry[this.row]! + this.#firstEntry
  }
}
